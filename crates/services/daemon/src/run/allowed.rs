//! Reads a config that this node may be allowed to read in a moment: the controller names a new config in the pool's role
//! before any node is sent to it, but API servers learn of a role by a watch.

use std::time::Duration;

use api::machineconfiguration::MachineConfig;
use cluster::{Problem, problem};
use kube::Client;
use kube::api::Api;
use tokio::time::{Instant, timeout};

use super::REQUEST;

/// Longer than a watch takes that has to be opened anew.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(250);

/// The config, nothing if there is none, or why it cannot be read.
pub(super) async fn get(client: &Client, name: &str) -> Result<Option<MachineConfig>, String> {
    let api: Api<MachineConfig> = Api::all(client.clone());
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = timeout(REQUEST, api.get_opt(name)).await;
        match answer.map_err(|_| "the API did not answer".to_owned())? {
            Err(error) if problem(&error) == Problem::Forbidden && Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            other => return other.map_err(|error| error.to_string()),
        }
    }
}
