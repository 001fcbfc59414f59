//! What the cluster shows around the Machines that are admitted: its name and platform, the architecture of its control
//! plane, its gates, its DNS zones, and which of the Secrets that a spec names exist.
//!
//! What cannot be read is what it was before, or unknown: nothing is refused and nothing is warned of because of it. The API
//! server waits for an answer, and admits without one what is not answered in time, so no read may take long.

use std::collections::BTreeSet;
use std::time::Duration;

use api::known::Reading;
use api::labels::{NODE_ROLE_CONTROL_PLANE, NODE_ROLE_MASTER};
use cluster::read;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use machine::operator_config::enabled_features;
use machine::provider::{Architecture, SecretNeed, Surroundings};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

/// More nodes of a control plane would say the same.
const NODES: u32 = 20;
/// How long the surroundings are believed. They change at an installation and hardly ever afterwards.
const BELIEVED: Duration = Duration::from_secs(60);
/// How long they are not asked for again after a look that could not read all of them.
const RETRY: Duration = Duration::from_secs(5);
/// How long anything is read. The API server waits ten seconds for the whole answer.
const READ: Duration = Duration::from_secs(2);

/// What the cluster showed last.
pub(super) struct Outlook {
    client: Client,
    /// With the time of the next look.
    last: Mutex<Option<(Instant, Surroundings)>>,
}

impl Outlook {
    pub(super) fn new(client: Client) -> Self {
        Self { client, last: Mutex::default() }
    }

    /// What the cluster shows. While one request looks, others go by what was known before, if anything was.
    pub(super) async fn now(&self) -> Surroundings {
        let before = match &mut *self.last.lock() {
            Some((next, known)) if Instant::now() < *next => return known.clone(),
            Some((next, known)) => {
                *next = Instant::now() + RETRY;
                Some(known.clone())
            }
            None => None,
        };
        let (known, is_whole) = read(&self.client, before.as_ref()).await;
        let next = Instant::now() + if is_whole { BELIEVED } else { RETRY };
        *self.last.lock() = Some((next, known.clone()));
        known
    }

    /// Which of these Secrets exist; `None` if that cannot be told of one of them in time.
    pub(super) async fn secrets(&self, namespace: &str, needs: &[SecretNeed]) -> Option<BTreeSet<String>> {
        let read = tokio::time::timeout(READ, secrets(&self.client, namespace, needs));
        read.await.unwrap_or_else(|_| told("secrets", late()))
    }
}

fn late<T>() -> Reading<T> {
    Reading::Unknown(format!("no answer within {READ:?}"))
}

/// One reading, cut off.
async fn in_time<T>(reading: impl Future<Output = Reading<T>>) -> Reading<T> {
    tokio::time::timeout(READ, reading).await.unwrap_or_else(|_| late())
}

/// What can be read now, and whether that is all of it. `before` stands in for what cannot be read.
async fn read(client: &Client, before: Option<&Surroundings>) -> (Surroundings, bool) {
    let (infrastructure, gates, dns, nodes) = tokio::join!(
        openshift(client, "Infrastructure"),
        openshift(client, "FeatureGate"),
        openshift(client, "DNS"),
        masters(client),
    );
    let unknown = Surroundings { public_dns: true, architecture: own_architecture(), ..Surroundings::default() };
    let mut known = before.cloned().unwrap_or(unknown);
    let is_whole = infrastructure.is_some() && gates.is_some() && dns.is_some() && nodes.is_some();
    if let Some(found) = infrastructure {
        let status = found.map(|object| object["status"].clone()).unwrap_or_default();
        known.cluster = status["infrastructureName"].as_str().unwrap_or_default().to_owned();
        known.platform_status = status["platformStatus"].clone();
    }
    if let Some(found) = gates {
        known.features = found.as_ref().map(enabled_features).unwrap_or_default();
    }
    if let Some(found) = dns {
        // A cluster that says nothing of its DNS has no zone that could be private.
        known.public_dns = found.is_none_or(|dns| has_public_zone(&dns));
    }
    known.architecture = nodes.and_then(|nodes| architecture(&nodes)).unwrap_or(known.architecture);
    (known, is_whole)
}

async fn secrets(client: &Client, namespace: &str, needs: &[SecretNeed]) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for need in needs.iter().filter(|need| need.namespace.as_deref().is_none_or(|named| named == namespace)) {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        if told("secrets", read::get(&api, &need.name).await)?.is_some() {
            names.insert(need.name.clone());
        }
    }
    Some(names)
}

async fn openshift(client: &Client, kind: &str) -> Option<Option<Value>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", kind));
    // The plural that is guessed for DNS is another one.
    let plural = if kind == "DNS" { "dnses".to_owned() } else { resource.plural.clone() };
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource { plural, ..resource });
    let found = told(kind, in_time(read::get(&objects, api::names::CLUSTER)).await)?;
    Some(found.map(|object| object.data))
}

async fn masters(client: &Client) -> Option<Vec<Node>> {
    let api: Api<Node> = Api::all(client.clone());
    let labelled = async |label: &str| {
        let parameters = ListParams::default().labels(label).limit(NODES);
        told("nodes", in_time(read::list(&api, parameters)).await)
    };
    let nodes = labelled(NODE_ROLE_CONTROL_PLANE).await?;
    if nodes.is_empty() { labelled(NODE_ROLE_MASTER).await } else { Some(nodes) }
}

/// What was read just now, unless nothing could be. Of a kind that the cluster does not have there is nothing.
fn told<T: Default>(what: &str, reading: Reading<T>) -> Option<T> {
    match reading {
        Reading::Known { value, as_of: _ } => Some(value),
        Reading::NotInstalled => Some(T::default()),
        Reading::Unknown(why) => {
            tracing::warn!(what, why, "admission goes by what was known before");
            None
        }
    }
}

fn has_public_zone(dns: &Value) -> bool {
    dns["spec"]["publicZone"].as_object().is_some_and(|zone| !zone.is_empty())
}

/// What all nodes of the control plane have in common.
fn architecture(nodes: &[Node]) -> Option<Architecture> {
    let of = |node: &Node| parse(&node.status.as_ref()?.node_info.as_ref()?.architecture);
    let mut all = nodes.iter().filter_map(of);
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

fn parse(word: &str) -> Option<Architecture> {
    use Architecture::{Amd64, Arm64, Ppc64le, S390x};
    [Amd64, Arm64, Ppc64le, S390x].into_iter().find(|known| known.to_string() == word)
}

/// That of this process, which most often runs on the control plane.
fn own_architecture() -> Architecture {
    match std::env::consts::ARCH {
        "aarch64" => Architecture::Arm64,
        "powerpc64" => Architecture::Ppc64le,
        "s390x" => Architecture::S390x,
        _ => Architecture::Amd64,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::client::Body;
    use machine::provider::SecretPurpose;
    use serde_json::json;

    use super::*;

    /// An API server that knows nobody, never answers about what has one of these words in its path, and keeps what it is
    /// asked.
    fn client(silent: &'static [&'static str]) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path().to_owned();
            log.lock().push(path.clone());
            async move {
                if silent.iter().any(|word| path.contains(word)) {
                    std::future::pending::<()>().await;
                }
                let body =
                    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "", "code": 404});
                http::Response::builder().status(404).body(Body::from(body.to_string().into_bytes()))
            }
        });
        (Client::new(service, "ns"), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_never_answered_is_given_up_before_the_deadline_and_not_asked_for_at_every_request() {
        let (client, asked) = client(&["infrastructures", "secrets"]);
        let outlook = Outlook::new(client);
        let begin = Instant::now();
        outlook.now().await;
        assert!(begin.elapsed() < READ * 2, "{:?}", begin.elapsed());
        let need = SecretNeed {
            purpose: SecretPurpose::Credentials,
            namespace: None,
            name: "keys".to_owned(),
            field: String::new(),
        };
        assert_eq!(outlook.secrets("ns", &[need.clone(), need]).await, None);
        assert!(begin.elapsed() < READ * 3, "{:?}", begin.elapsed());
        let before = asked.lock().len();
        let settled = Instant::now();
        for _ in 0..10 {
            outlook.now().await;
        }
        assert_eq!((asked.lock().len(), settled.elapsed()), (before, Duration::ZERO), "the failure is remembered");
        tokio::time::advance(RETRY).await;
        let (_, quick) = tokio::join!(outlook.now(), async {
            let begin = Instant::now();
            outlook.now().await;
            begin.elapsed()
        });
        assert_eq!(quick, Duration::ZERO, "nobody waits for another one's look");
        assert!(asked.lock().len() > before, "it is asked for again");
    }

    #[tokio::test]
    async fn what_was_read_is_believed_for_a_while() {
        let (client, asked) = client(&[]);
        let outlook = Outlook::new(client);
        outlook.now().await;
        let before = asked.lock().len();
        outlook.now().await;
        assert_eq!(asked.lock().len(), before);
    }

    #[test]
    fn gates_are_on_if_every_listed_version_says_so() {
        let version = |names: &[&str]| {
            let enabled: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"version": "4", "enabled": enabled, "disabled": [{"name": "C"}]})
        };
        let on = |gates: Value| enabled_features(&gates).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(on(json!({"status": {"featureGates": [version(&["A", "B"])]}})), "A B");
        assert_eq!(on(json!({"status": {"featureGates": [version(&["A", "B"]), version(&["B"])]}})), "B");
        assert_eq!(on(json!({"spec": {"customNoUpgrade": {"enabled": ["A"]}}})), "A");
        assert_eq!(on(json!({})), "");
    }

    #[test]
    fn a_zone_is_public_if_it_is_named() {
        assert!(has_public_zone(&json!({"spec": {"publicZone": {"id": "z"}}})));
        assert!(!has_public_zone(&json!({"spec": {"privateZone": {"id": "z"}, "publicZone": {}}})));
    }

    #[test]
    fn machines_are_made_for_the_architecture_of_the_control_plane_if_it_has_one() {
        let node = |word: &str| -> Node {
            let info = json!({"architecture": word, "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": ""});
            serde_json::from_value(json!({"metadata": {}, "status": {"nodeInfo": info}})).expect("a node")
        };
        assert_eq!(architecture(&[node("arm64"), node("arm64")]), Some(Architecture::Arm64));
        assert_eq!(architecture(&[node("arm64"), node("amd64")]), None, "nobody knows which is meant");
        assert_eq!(architecture(&[node("riscv64")]), None);
        assert_eq!(architecture(&[]), None);
    }
}
