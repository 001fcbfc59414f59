//! How one operator process is set up. Parsed once by the binary; only this type travels.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use operate::Installation;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Names, images and RBAC of what is kept.
    pub installation: Installation,
    /// Name of this process in the Lease and the logs.
    pub identity: String,
    /// How long a leader that vanished still counts; absent, there is no election.
    pub lease: Option<Duration>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served; absent, nowhere.
    pub listen: Option<SocketAddr>,
    /// Makes its own Deployment when it starts and there is none. In a pod that would bring back what somebody deleted.
    pub installs: bool,
    /// What clients of the API trust, in PEM, where no ConfigMap `kube-root-ca.crt` says so.
    pub api_ca: Option<String>,
    /// The clock; another one only in tests.
    pub now: fn() -> Timestamp,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            installation: Installation::default(),
            identity: "machinist".to_owned(),
            lease: None,
            listen: None,
            installs: false,
            api_ca: None,
            now: Timestamp::now,
        }
    }
}
