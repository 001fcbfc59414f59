//! What whoever installs has decided about the machine controllers.

/// Given to `machinist install`, repeated by the Deployment of the Machine API's operator, and passed on by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// The socket of a provider that is a process of its own, instead of the platform's.
    pub socket: Option<String>,
    /// Etcd does not run as pods of this cluster, and somebody else keeps its quorum.
    pub external_etcd: bool,
    /// The cluster's id; what carries it in the cloud and belongs to no Machine is removed.
    pub remove_orphans: Option<String>,
}

impl Choices {
    /// The flags by which an operator is told.
    pub fn of_operator(&self) -> Vec<String> {
        let provider = self.provider().map(|provider| format!("--provider={provider}"));
        provider.into_iter().chain(self.of_controllers()).collect()
    }

    /// The flags of the controllers beside their provider.
    pub fn of_controllers(&self) -> Vec<String> {
        let Self { socket: _, external_etcd, remove_orphans } = self;
        let etcd = external_etcd.then(|| "--external-etcd".to_owned());
        let orphans = remove_orphans.as_ref().map(|cluster| format!("--remove-orphans={cluster}"));
        etcd.into_iter().chain(orphans).collect()
    }

    /// The provider as the controllers name it.
    pub fn provider(&self) -> Option<String> {
        self.socket.as_ref().map(|socket| format!("unix:{socket}"))
    }
}
