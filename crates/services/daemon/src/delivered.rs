//! Where the daemon hears which certificates and pull secrets belong on its host.
//!
//! Our controller puts them into a Secret that nodes may read. Under other controllers there is no such Secret, and the
//! ControllerConfig itself is read, if the node may. Nothing here touches the host.

use api::{annotations, names};
use cluster::{Patience, Problem, problem};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::mpsc::Sender;

/// The key of the Secret. Its value has fields of a ControllerConfig's spec.
const KEY: &str = "credentials.json";

/// The newest word, and the version of the ControllerConfig that it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delivered {
    pub(crate) version: String,
    pub(crate) spec: Value,
}

/// Which object is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Secret,
    ControllerConfig,
}

/// Tells what is delivered until nobody listens.
pub(crate) async fn follow(client: Client, namespace: String, tell: Sender<Delivered>) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let kind = GroupVersionKind::gvk("machineconfiguration.openshift.io", "v1", "ControllerConfig");
    let configs: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk(&kind));
    let mut patience = Patience::up_to(crate::LONGEST_PAUSE);
    while !tell.is_closed() {
        let heard = match patience.then(find(&secrets, &configs)).await {
            Some(Source::Secret) => pass_on(named(secrets.clone(), names::NODE_CREDENTIALS), of_secret, &tell).await,
            Some(Source::ControllerConfig) => {
                pass_on(named(configs.clone(), names::CONTROLLER_CONFIG), |config| Some(of_config(config)), &tell).await
            }
            None => false,
        };
        if heard {
            patience.reset();
        }
        patience.lose();
    }
}

/// The Secret where it is there or may come; else the ControllerConfig, if it can be read.
async fn find(secrets: &Api<Secret>, configs: &Api<DynamicObject>) -> Option<Source> {
    let only = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    let is_allowed = match secrets.list(&only(names::NODE_CREDENTIALS)).await {
        Ok(list) if list.items.iter().any(|secret| of_secret(secret.clone()).is_some()) => return Some(Source::Secret),
        Ok(_) => true,
        Err(error) if problem(&error) == Problem::Forbidden => false,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "certificates cannot be followed");
            return None;
        }
    };
    match configs.list(&only(names::CONTROLLER_CONFIG)).await {
        Ok(list) if !list.items.is_empty() => Some(Source::ControllerConfig),
        // A cluster without an operator has neither, and hosts do without.
        Ok(_) => is_allowed.then_some(Source::Secret),
        Err(error) if [Problem::Forbidden, Problem::NotFound].contains(&problem(&error)) => {
            is_allowed.then_some(Source::Secret)
        }
        // Whether there is one is not known; a Secret that never comes would be followed for ever.
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "certificates cannot be followed");
            None
        }
    }
}

fn named<K>(api: Api<K>, name: &str) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + use<K>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    watcher(api, watcher::Config::default().fields(&format!("metadata.name={name}")))
}

/// Passes changes on until the watch fails; says whether it told anything before.
async fn pass_on<K>(
    watch: impl Stream<Item = Result<Event<K>, watcher::Error>>,
    read: impl Fn(K) -> Option<Delivered>,
    tell: &Sender<Delivered>,
) -> bool {
    let mut watch = std::pin::pin!(watch);
    let mut heard = false;
    while let Some(event) = watch.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                heard = true;
                if let Some(delivered) = read(object)
                    && tell.send(delivered).await.is_err()
                {
                    return heard;
                }
            }
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "certificates cannot be followed");
                return heard;
            }
        }
    }
    heard
}

/// `None` while nobody has filled it in.
fn of_secret(secret: Secret) -> Option<Delivered> {
    let version = secret.annotations().get(annotations::CONTROLLER_CONFIG_VERSION).cloned().unwrap_or_default();
    let spec = serde_json::from_slice(&secret.data?.get(KEY)?.0).ok()?;
    Some(Delivered { version, spec })
}

fn of_config(mut config: DynamicObject) -> Delivered {
    Delivered { version: config.resource_version().unwrap_or_default(), spec: config.data["spec"].take() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    /// What is followed where the Secret may be read and is not there, and this is said about ControllerConfigs.
    async fn found(code: u16, body: Value) -> Option<Source> {
        let line = tower::service_fn(move |request: Request<Body>| {
            let is_secret = request.uri().path().ends_with("/secrets");
            let nothing = json!({"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []});
            let (code, body) = if is_secret { (200, nothing) } else { (code, body.clone()) };
            let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap();
            async move { Ok::<_, kube::Error>(answer) }
        });
        let client = Client::new(line, "default");
        let kind = GroupVersionKind::gvk("machineconfiguration.openshift.io", "v1", "ControllerConfig");
        let configs = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        find(&Api::namespaced(client, "default"), &configs).await
    }

    fn failure(code: u16) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", "code": code})
    }

    #[tokio::test]
    async fn a_list_that_fails_is_no_word_that_there_is_no_controller_config() {
        for code in [429, 500, 504] {
            assert_eq!(found(code, failure(code)).await, None, "{code}");
        }
        for code in [403, 404] {
            assert_eq!(found(code, failure(code)).await, Some(Source::Secret), "{code}");
        }
        let (api, kind) = ("machineconfiguration.openshift.io/v1", "ControllerConfig");
        let config = json!({"apiVersion": api, "kind": kind, "metadata": {"name": names::CONTROLLER_CONFIG}});
        let list = |items: Value| json!({"apiVersion": api, "kind": "List", "metadata": {}, "items": items});
        assert_eq!(found(200, list(json!([config]))).await, Some(Source::ControllerConfig));
        assert_eq!(found(200, list(json!([]))).await, Some(Source::Secret));
    }
}
