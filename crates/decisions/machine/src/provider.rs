//! The `Provider` port: everything the machine controllers may ask of a cloud.
//!
//! A provider has two halves. [`SpecRules`] is pure: it reads, defaults and validates the provider's part of a Machine. The
//! calls of [`Provider`] reach the cloud. Providers translate; they decide nothing. When to create, how often to retry and
//! what a Machine's phase becomes is planned in `lifecycle`, the same for every cloud.
//!
//! Three promises carry the rest:
//!
//! - **Intent comes first.** The controller writes an [`Intent`] on the Machine before it calls [`Provider::create`]. A
//!   process that dies at any point afterwards finds the intent and repeats the call, which must not make a second instance.
//! - **An instance is found by its mark.** Everything a provider makes carries the [`Mark`] of its Machine in the cloud
//!   (tags, metadata, or a name derived from it), so that an instance whose id was never written down can still be found.
//! - **Not knowing is an error.** An empty answer means that there is no instance. A provider that could not look
//!   (throttled, unreachable, credentials refused) returns an error, and nothing is created or forgotten on it.
//!
//! The suite in [`conformance`] holds every provider to these words.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod instance;
mod request;
mod spec;

use futures::future::BoxFuture;
use jiff::SignedDuration;

pub use error::{Error, ErrorKind};
pub use instance::{Instance, Power, State};
pub use request::{Intent, Mark, Marked, Request, Search, SecretData, SecretNeed, SecretPurpose, Secrets};
pub use spec::{Architecture, Capacity, Problem, SpecRules, Surroundings, Verdict};

/// A cloud, or something that behaves like one.
///
/// Calls may run concurrently, also for the same Machine when two controllers believe that they lead. None of them waits
/// for an instance to boot or to disappear: a call starts the work and returns, and [`Provider::instances`] shows progress.
pub trait Provider: Send + Sync {
    /// The platform's name as `Infrastructure` spells it, in lower case: `aws`, `openstack`, `memory`.
    fn name(&self) -> &'static str;

    /// The pure half.
    fn rules(&self) -> &dyn SpecRules;

    /// How long after [`Provider::create`] an instance may still be invisible to [`Provider::instances`].
    ///
    /// Within this time the controllers take an empty answer for "not yet" and not for "gone".
    fn settling_time(&self) -> SignedDuration {
        SignedDuration::ZERO
    }

    /// Looks for the instances of many Machines at once: one answer for each request, in the same order.
    ///
    /// The number of calls to the cloud must grow with pages, regions and credentials, never with the number of requests, so
    /// that a thousand Machines cost a handful of calls. Each answer holds every instance that belongs to the request's
    /// Machine, found by provider id, by recorded intent or by mark, in whatever state; instances that are terminated and
    /// only still listed are left out. More than one means that something went wrong earlier, and the controller reports it.
    /// An error of one region or credential fails only the requests that need it.
    fn instances<'a>(&'a self, requests: &'a [Request]) -> BoxFuture<'a, Vec<Result<Vec<Instance>, Error>>>;

    /// Makes the instance, with its child resources, under the recorded intent.
    ///
    /// Idempotent: called again with the same intent, it returns the instance that the first call made (or finishes making
    /// it) and never makes another, even when the first call's answer was lost. It uses [`Intent::token`] where the cloud
    /// accepts a client token, and only the names in [`Intent::children`] for child resources. When it fails, whatever it
    /// already made is either removed again or left under those names, where [`Provider::delete`] finds it. A token whose
    /// instance is gone already is answered with an instance in [`State::Failed`]: the controller then takes another token.
    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>>;

    /// Brings what may change on a living instance (tags, load balancer membership) in line with the spec, and returns the
    /// instance as it is afterwards. It never resizes, rebuilds, restarts or stops it, and it calls the cloud only when
    /// something differs: a fleet at rest costs nothing but the batched lookups.
    fn update<'a>(&'a self, request: &'a Request, instance: &'a Instance) -> BoxFuture<'a, Result<Instance, Error>>;

    /// Asks for the removal of the instance and of every child resource of this Machine, found by provider id, intent and mark.
    ///
    /// Idempotent, and successful when nothing is there. It works with a request whose spec is only what
    /// [`SpecRules::place`] kept. It never touches anything that carries another Machine's mark.
    fn delete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Deletion, Error>>;

    /// Switches the instance on or off, or restarts it. Only where [`Provider::can_switch_power`] says so.
    fn switch_power<'a>(&'a self, request: &'a Request, wish: PowerWish) -> BoxFuture<'a, Result<(), Error>> {
        let _ = (request, wish);
        let refusal = Error::new(ErrorKind::Other, format!("provider {} cannot switch power", self.name()));
        Box::pin(std::future::ready(Err(refusal)))
    }

    /// Whether [`Provider::switch_power`] does something.
    fn can_switch_power(&self) -> bool {
        false
    }

    /// Lists everything in the cloud that carries the mark of the searched cluster: instances and child resources.
    ///
    /// The controllers compare the list with the Machines that exist. What is left over after a grace period is an orphan.
    fn marked<'a>(&'a self, search: &'a Search) -> BoxFuture<'a, Result<Vec<Marked>, Error>>;

    /// Removes one thing that [`Provider::marked`] listed. Idempotent.
    fn remove<'a>(&'a self, search: &'a Search, orphan: &'a Marked) -> BoxFuture<'a, Result<Deletion, Error>>;

    /// What a machine of this spec offers, when that needs a question to the cloud (a catalogue of instance types).
    ///
    /// `None` means that the cloud does not know the instance type. The default answers from [`SpecRules::capacity`].
    fn capacity<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Option<Capacity>, Error>> {
        Box::pin(std::future::ready(Ok(self.rules().capacity(&request.spec))))
    }
}

/// How far a removal has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The cloud has accepted the request; the instance or a child resource is still there.
    Requested,
    /// The instance and all its child resources are verified to be gone.
    Gone,
}

/// What to do to an instance's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerWish {
    On,
    Off,
    /// Off and on again, without asking the operating system.
    Cycle,
}
