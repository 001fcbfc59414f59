//! How one controller process is set up. Parsed once by the binary; only this type travels.

use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease and of events about cluster-scoped objects.
    pub namespace: String,
    /// Name of this process in the Lease, the ledger and the logs.
    pub identity: String,
    /// How long a leader that vanished still counts; absent, there is no election.
    pub lease: Option<Duration>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served; absent, nowhere.
    pub listen: Option<SocketAddr>,
    /// How long a pool's target must stay the same before a node gets it, unless the pool's policy says otherwise.
    pub settle: Duration,
    /// How long remote content of one file may take.
    pub fetch_timeout: Duration,
    /// The node this process runs on, which is updated last.
    pub node: Option<String>,
    /// Value of the annotation `generated-by-controller-version` on what this process generates.
    pub version: String,
    /// How rendered configs are written down and named; another one only where releases are compared.
    pub form: render::Form,
    /// What hosts start from, instead of the templates that come with a profile.
    pub templates: Option<typed::templates::Templates>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: api::names::NAMESPACE.to_owned(),
            identity: "machinist".to_owned(),
            lease: None,
            listen: None,
            settle: Duration::from_secs(5),
            // A rendered config has to fit into one object, so a single file never needs longer on a line that works.
            fetch_timeout: Duration::from_secs(30),
            node: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            form: render::Settings::default().form,
            templates: None,
        }
    }
}
