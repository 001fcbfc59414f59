//! Answers `machinist adopt`, which asks by an annotation of the Node what is in some places of this host.
//!
//! The answer is the node's own NodeSurvey, which nodes can write and not read. What is told and what is not is decided in
//! `change::survey`.

use std::sync::Arc;
use std::time::Duration;

use api::machinist::NodeSurvey;
use api::survey::Request;
use change::host::Host;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;

use crate::node::MANAGER;

/// Pauses before an answer that did not arrive is sent again; they double.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// Answers until the task is dropped. What is asked is the Node's uid and the request.
pub(crate) async fn follow(
    host: Arc<dyn Host>,
    client: Client,
    node: String,
    mut asked: watch::Receiver<(String, String)>,
) {
    let api: Api<NodeSurvey> = Api::all(client);
    while asked.changed().await.is_ok() {
        let mut pause = FIRST_PAUSE;
        loop {
            let (uid, text) = asked.borrow_and_update().clone();
            let Some(request) = Request::parse(&text) else { break };
            let Err(error) = answer(&host, &api, &node, &uid, request).await else { break };
            tracing::warn!(error, "the answer to a survey could not be written");
            // Another request in the meantime is answered at once.
            let _ = tokio::time::timeout(pause, asked.changed()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

async fn answer(
    host: &Arc<dyn Host>,
    api: &Api<NodeSurvey>,
    node: &str,
    uid: &str,
    request: Request,
) -> Result<(), String> {
    let (host, id) = (Arc::clone(host), request.id.clone());
    let looking = tokio::task::spawn_blocking(move || change::survey::answer(host.files(), &request));
    let files = looking.await.map_err(|error| format!("looking at files panicked: {error}"))?;
    let body = json!({
        "apiVersion": "machinist.dev/v1alpha1", "kind": "NodeSurvey",
        // It goes with its node.
        "metadata": {"name": node, "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]},
        "spec": {"request": id, "files": files},
    });
    let parameters = PatchParams::apply(MANAGER).force();
    let written = cluster::write::in_time(api.patch(node, &parameters, &Patch::Apply(&body))).await;
    written.map(drop).map_err(|error| cluster::error::chain(&error))
}
