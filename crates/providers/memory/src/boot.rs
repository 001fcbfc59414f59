//! The `Boot` port: what the simulated cloud asks of whoever plays its machines.

use futures::future::{BoxFuture, ready};

/// Starts and stops the machines that instances stand for.
///
/// The cloud never calls `start` and `stop` for one instance at the same time, and never starts one that it has stopped.
pub trait Boot: Send + Sync {
    /// Switches a machine on. It returns once the machine is on its way; whether its first boot succeeds is the machine's own
    /// affair, as in any cloud. After a restart of the process it is called again for every machine that had been started:
    /// one that booted before goes on where it was.
    fn start(&self, start: Start) -> BoxFuture<'_, ()>;

    /// Switches a machine off and removes everything it was made of. Idempotent.
    fn stop<'a>(&'a self, name: &'a str, provider_id: &'a str) -> BoxFuture<'a, ()>;
}

/// A machine to be started.
#[derive(Clone, PartialEq, Eq)]
pub struct Start {
    /// The Machine's name, which the node gets too.
    pub name: String,
    pub provider_id: String,
    pub region: String,
    pub zone: String,
    pub instance_type: String,
    /// What the machine reads at its first boot. Holds a token: never printed.
    pub user_data: Vec<u8>,
}

/// Plays no machines: instances exist in the account alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Boot for Nothing {
    fn start(&self, _: Start) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    fn stop<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }
}
