//! The `Boot` port: what the provider asks of whoever makes its containers.

use futures::future::BoxFuture;

/// Starts containers and takes them away.
///
/// The provider never calls `start` and `stop` for one container at the same time, never starts one that it has stopped, and
/// never has two of the same name.
pub trait Boot: Send + Sync {
    /// Makes a container and switches it on. It returns once the container is on its way; whether its first boot succeeds is
    /// the machine's own affair, as in any cloud. After a restart of the process it is called again for every container that
    /// had been started: one that booted before goes on where it was.
    fn start(&self, start: Start) -> BoxFuture<'_, ()>;

    /// Switches a container off and removes everything it was made of. Idempotent. An error says in one sentence what is
    /// still there; the call is repeated then.
    fn stop<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// A container to be started.
#[derive(Clone, PartialEq, Eq)]
pub struct Start {
    /// The Machine's name, which the node gets too.
    pub name: String,
    pub provider_id: String,
    pub zone: String,
    /// What the machine reads at its first boot. Holds a token: never printed.
    pub user_data: Vec<u8>,
}
