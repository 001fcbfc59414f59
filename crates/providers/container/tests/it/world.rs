//! A host whose containers are names in a list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use container::{Boot, Start};
use futures::future::{BoxFuture, ready};
use jiff::Timestamp;
use machine::provider::{Instance, Intent, Mark, Provider, Request, SecretData, Secrets};
use serde_json::Value;
use tokio::sync::watch;

/// Remembers which machines run.
#[derive(Clone)]
pub(crate) struct Machines(Arc<watch::Sender<Vec<String>>>, Arc<AtomicBool>);

impl Default for Machines {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::default()), Arc::default())
    }
}

impl Machines {
    pub(crate) fn running(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Whether nothing can be removed.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.1.store(is_busy, Ordering::Relaxed);
    }

    /// Waits until exactly these run.
    pub(crate) async fn wait(&self, names: &[&str]) {
        let wanted = |running: &Vec<String>| running.iter().map(String::as_str).eq(names.iter().copied());
        let waiting = async { self.0.subscribe().wait_for(wanted).await.map(drop) };
        let ended = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await;
        assert!(ended.is_ok(), "{:?} run instead of {names:?}", self.running());
    }
}

impl Boot for Machines {
    fn start(&self, start: Start) -> BoxFuture<'_, ()> {
        assert_eq!(start.user_data, b"user data of this machine");
        self.0.send_modify(|running| running.push(start.name));
        Box::pin(ready(()))
    }

    fn stop<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        if self.1.load(Ordering::Relaxed) {
            return Box::pin(ready(Err(format!("the root of {name} is busy"))));
        }
        self.0.send_modify(|running| running.retain(|other| other != name));
        Box::pin(ready(Ok(())))
    }
}

pub(crate) fn secrets() -> Secrets {
    let data = SecretData(BTreeMap::from([("userData".to_owned(), b"user data of this machine".to_vec())]));
    Secrets { credentials: None, user_data: Some(data) }
}

/// A Machine whose intent is recorded, with a spec.
pub(crate) fn request(name: &str, spec: Value) -> Request {
    let mark = Mark {
        cluster: "c".to_owned(),
        namespace: "openshift-machine-api".to_owned(),
        machine: name.to_owned(),
        uid: format!("uid-of-{name}"),
    };
    let intent = Intent {
        token: format!("token-of-{name}"),
        attempt: 1,
        children: BTreeMap::new(),
        place: Value::Null,
        recorded: Timestamp::UNIX_EPOCH,
    };
    Request {
        mark,
        labels: BTreeMap::new(),
        control_plane: false,
        spec: Arc::new(spec),
        provider_id: None,
        provider_status: None,
        intent: Some(intent),
        secrets: Arc::new(secrets()),
    }
}

pub(crate) async fn create(provider: &dyn Provider, request: &Request) -> Result<Instance, machine::provider::Error> {
    provider.create(request, request.intent.as_ref().unwrap()).await
}

pub(crate) async fn look(provider: &dyn Provider, request: &Request) -> Vec<Instance> {
    provider.instances(std::slice::from_ref(request)).await.remove(0).unwrap()
}
