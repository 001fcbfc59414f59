//! Decides which rendered config, and which image, a new machine of a pool is born with.

use api::machineconfiguration::MachineConfigPool;

/// An image built on the cluster for one rendered config.
#[derive(Clone, Copy, Debug)]
pub struct Layered<'a> {
    pub image: &'a str,
    /// The rendered config it was built for.
    pub config: &'a str,
    pub succeeded: bool,
}

/// The rendered config a new machine gets: the newest once a node runs it, else the last one that all of them ran.
///
/// `None` while the pool has none: the machine should ask again.
pub fn config(pool: &MachineConfigPool) -> Option<&str> {
    let name = if is_proven(pool) {
        pool.spec.configuration.as_ref().and_then(|reference| reference.name.as_deref())
    } else {
        let status = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
        status.and_then(|reference| reference.name.as_deref())
    };
    name.filter(|name| !name.is_empty())
}

/// The layered image to be born on. One in the cluster's own registry cannot be pulled before the cluster is joined.
pub fn image<'a>(
    pool: &MachineConfigPool,
    config: &str,
    layered: Option<&Layered<'a>>,
    own_registries: &[String],
) -> Option<&'a str> {
    let layered = layered?;
    let registry = layered.image.split('/').next().unwrap_or_default();
    let is_usable = is_proven(pool)
        && layered.succeeded
        && layered.config == config
        && !layered.image.is_empty()
        && !own_registries.iter().any(|own| own == registry);
    is_usable.then_some(layered.image)
}

/// A node of the pool runs the newest config already.
fn is_proven(pool: &MachineConfigPool) -> bool {
    pool.status.as_ref().is_some_and(|status| status.updated_machine_count > Some(0))
}
