//! What a host knows of its containers, also after the process has ended.

use std::sync::Arc;

use container::{Adopted, Container, Host};
use machine::provider::{Deletion, ErrorKind, Provider, State};
use serde_json::json;

use crate::world::{Machines, create, look, request};

#[tokio::test]
async fn containers_go_on_after_a_restart_and_tokens_stay_spent() {
    let folder = tempfile::tempdir().unwrap();
    let [kept, removed] = ["kept", "removed"].map(|name| request(name, json!({"zone": "zone-c"})));
    let machines = Machines::default();
    let provider = Container::new(Host::open(folder.path(), Arc::new(machines.clone())).unwrap());
    create(&provider, &removed).await.unwrap();
    assert_eq!(provider.delete(&removed).await.unwrap(), Deletion::Gone);
    let first = create(&provider, &kept).await.unwrap();
    machines.wait(&["kept"]).await;

    let machines = Machines::default();
    let host = Host::open(folder.path(), Arc::new(machines.clone())).unwrap();
    let provider = Container::new(host.clone());
    host.resume();
    machines.wait(&["kept"]).await;
    assert_eq!(look(&provider, &kept).await, [first]);
    assert!(matches!(create(&provider, &removed).await.unwrap().state, State::Failed(_)));
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = entry.unwrap().path();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "it holds a token");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!(text.contains("gone") && text.contains("user data")), "its token is of no use any more: {text}");
    }
}

#[tokio::test]
async fn a_container_that_cannot_be_removed_is_an_error_and_still_there() {
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::default();
    let host = Host::open(folder.path(), Arc::new(machines.clone())).unwrap();
    let (provider, request) = (Container::new(host), request("stuck", json!({})));
    create(&provider, &request).await.unwrap();
    machines.wait(&["stuck"]).await;
    machines.set_busy(true);
    let error = provider.delete(&request).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Other, "the root of stuck is busy"));
    assert_eq!(look(&provider, &request).await[0].state, State::Deleting);
    machines.set_busy(false);
    // Another process finishes what was begun.
    let host = Host::open(folder.path(), Arc::new(machines.clone())).unwrap();
    host.resume();
    machines.wait(&[]).await;
    assert_eq!(Container::new(host).delete(&request).await.unwrap(), Deletion::Gone);
}

#[tokio::test]
async fn an_adopted_container_is_never_started_and_once_deleted_stays_away() {
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::default();
    let mut first = request("worker-1", json!({}));
    first.intent = None;
    let id = "container:///zone-a/worker-1";
    let adopted = || Adopted { mark: first.mark.clone(), provider_id: id.to_owned(), zone: "zone-a".to_owned() };
    let open = || {
        let host = Host::open(folder.path(), Arc::new(machines.clone())).unwrap();
        host.adopt([adopted()]).unwrap();
        host.resume();
        host
    };
    open();
    let host = open();
    assert_eq!((host.count(), machines.running()), (1, Vec::new()));
    assert_eq!(Container::new(host.clone()).delete(&first).await.unwrap(), Deletion::Gone);
    assert!(host.is_gone(id) && open().is_gone(id));
    assert_eq!(open().count(), 0, "it came back");
}

#[tokio::test]
async fn a_name_belongs_to_one_machine_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::default();
    let provider = Container::new(Host::open(folder.path(), Arc::new(machines.clone())).unwrap());
    let first = request("same", json!({}));
    create(&provider, &first).await.unwrap();
    let mut second = request("same", json!({}));
    second.mark.uid = "another".to_owned();
    second.intent.as_mut().unwrap().token = "another".to_owned();
    let error = create(&provider, &second).await.unwrap_err();
    assert!(error.message.contains("belongs to another Machine") && !error.is_final(), "{error}");
    assert!(look(&provider, &second).await.is_empty());
    machines.wait(&["same"]).await;
    assert_eq!(provider.delete(&first).await.unwrap(), Deletion::Gone);
    create(&provider, &second).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_record_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c-00001.new"), "{\"id").unwrap();
    Host::open(folder.path(), Arc::new(Machines::default())).unwrap();
    std::fs::write(folder.path().join("c-00002.json"), "{\"id").unwrap();
    let error = Host::open(folder.path(), Arc::new(Machines::default())).err().unwrap().to_string();
    assert!(error.contains("c-00002.json") && error.contains("remove it"), "{error}");
}
