//! What a cloud knows after its process has ended.

use std::path::Path;
use std::sync::Arc;

use machine::provider::{Deletion, Mark, Provider, State};
use memory::{Adopted, Cloud, Error, Memory};
use serde_json::json;

use crate::world::{Machines, create, look, request};

/// Opens an account once the tasks of those who had it before have ended.
async fn reopen(path: &Path, machines: Machines) -> Cloud {
    loop {
        match Cloud::open(path, Arc::new(machines.clone())) {
            Ok(cloud) => return cloud,
            Err(Error::Used { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn an_account_is_used_by_one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud");
    let first = Cloud::open(&path, Arc::new(Machines::default())).unwrap();
    let error = Cloud::open(&path, Arc::new(Machines::default())).err().unwrap().to_string();
    assert!(error.contains("another process uses the account"), "{error}");
    drop(first);
    Cloud::open(&path, Arc::new(Machines::default())).unwrap();
}

#[tokio::test]
async fn machines_go_on_after_a_restart_and_tokens_stay_spent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud");
    let [kept, removed] = ["kept", "removed"].map(|name| request(name, json!({"zone": "zone-c"})));
    let first = {
        let machines = Machines::default();
        let provider = Memory::new(reopen(&path, machines.clone()).await);
        create(&provider, &removed).await.unwrap();
        assert_eq!(provider.delete(&removed).await.unwrap(), Deletion::Gone);
        let first = create(&provider, &kept).await.unwrap();
        machines.wait(&["kept"]).await;
        first
    };
    // The second opening reads what the first one shortened.
    for _ in 0..2 {
        let machines = Machines::default();
        let cloud = reopen(&path, machines.clone()).await;
        let provider = Memory::new(cloud.clone());
        cloud.resume();
        machines.wait(&["kept"]).await;
        assert_eq!(look(&provider, &kept).await, std::slice::from_ref(&first));
        assert!(matches!(create(&provider, &removed).await.unwrap().state, State::Failed(_)));
    }
}

#[tokio::test]
async fn an_adopted_instance_is_never_started_and_once_deleted_stays_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud");
    let mut first = request("worker-1", json!({}));
    first.intent = None;
    first.provider_id = Some("memory:///zone-a/worker-1".to_owned());
    let adopted = || Adopted {
        mark: Mark { uid: "uid-of-worker-1".to_owned(), ..first.mark.clone() },
        provider_id: "memory:///zone-a/worker-1".to_owned(),
        spec: json!({"zone": "zone-a"}),
    };
    for _ in 0..2 {
        let machines = Machines::default();
        let cloud = reopen(&path, machines.clone()).await;
        cloud.adopt([adopted()]).unwrap();
        cloud.resume();
        let provider = Memory::new(cloud.clone());
        assert_eq!(look(&provider, &first).await[0].zone.as_deref(), Some("zone-a"));
        assert_eq!((cloud.count(), machines.running()), (1, Vec::new()));
    }
    let cloud = reopen(&path, Machines::default()).await;
    assert!(!cloud.is_gone("memory:///zone-a/worker-1"));
    assert_eq!(Memory::new(cloud.clone()).delete(&first).await.unwrap(), Deletion::Gone);
    let stays_away = |cloud: &Cloud| {
        cloud.adopt([adopted()]).unwrap();
        assert_eq!(cloud.count(), 0, "it came back");
        assert!(cloud.is_gone("memory:///zone-a/worker-1"));
    };
    stays_away(&cloud);
    drop(cloud);
    stays_away(&reopen(&path, Machines::default()).await);
}

#[tokio::test]
async fn a_line_that_was_cut_off_is_forgotten_and_a_broken_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud");
    std::fs::write(&path, "{\"gone\":{\"id\":\"i-000004\",\"token\":\"t\"}}\n{\"put\":{\"id\":\"i-0").unwrap();
    let provider = Memory::new(reopen(&path, Machines::default()).await);
    let made = create(&provider, &request("new", json!({}))).await.unwrap();
    assert_eq!(made.provider_id.as_deref(), Some("memory:///zone-a/i-000005"));
    drop(provider);
    drop(reopen(&path, Machines::default()).await);
    std::fs::write(&path, "nonsense\n{\"gone\":{\"id\":\"i-000004\"}}\n").unwrap();
    let error = Cloud::open(&path, Arc::new(Machines::default())).err().unwrap().to_string();
    assert!(error.contains("line 1 of") && error.contains("remove the file"), "{error}");
}
