//! Decides which rendered config and which OS image a new machine of a pool boots with.

use api::machineconfiguration::MachineConfigPool;

/// An image built on the cluster for one rendered config.
#[derive(Clone, Copy, Debug)]
pub struct Layered<'a> {
    pub image: &'a str,
    /// The rendered config it was built for.
    pub config: &'a str,
    pub succeeded: bool,
}

/// Returns the rendered config for a new machine: the newest one if a node of the pool already runs it, otherwise the
/// last one that all nodes ran.
///
/// `None` means that the pool has no rendered config yet; the machine should retry.
pub fn config(pool: &MachineConfigPool) -> Option<&str> {
    let name = if is_proven(pool) {
        pool.spec.configuration.as_ref().and_then(|reference| reference.name.as_deref())
    } else {
        let status = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
        status.and_then(|reference| reference.name.as_deref())
    };
    name.filter(|name| !name.is_empty())
}

/// Returns the layered image to boot with. An image in the cluster's own registry does not qualify: it cannot be pulled
/// before the machine has joined the cluster.
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

/// Whether a node of the pool already runs the newest config.
fn is_proven(pool: &MachineConfigPool) -> bool {
    pool.status.as_ref().is_some_and(|status| status.updated_machine_count > Some(0))
}
