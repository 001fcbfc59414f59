//! What did not succeed is not called a success, and is tried again.

use std::sync::Arc;

use api::annotations;
use api::machineconfiguration::ControllerConfig;
use api::machinist::PoolPolicy;
use change::host::Host;
use daemon::run::Ended;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::configs::config;
use crate::stage::Stage;

const WITNESS: &str = "127.0.0.1:1";

#[tokio::test]
async fn certificates_that_could_not_be_written_are_written_when_they_can_be() {
    let stage = Stage::start(&config("rendered-worker-one", &[], &json!([]), &json!([]))).await;
    let in_the_way = stage.root().join("etc/kubernetes/kubelet-ca.crt/full");
    std::fs::create_dir_all(&in_the_way).unwrap();
    let mut object = testkit::objects::controller_config();
    object["spec"]["kubeAPIServerServingCAData"] = json!("T05F");
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    configs.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    stage.event("CertificateSyncFailed").await;
    std::fs::remove_dir_all(in_the_way.parent().unwrap()).unwrap();
    stage
        .node("the certificates to be synced", |get| !get(annotations::LAST_SYNCED_CONTROLLER_CONFIG).is_empty())
        .await;
    let written = std::fs::read_to_string(stage.root().join("etc/kubernetes/kubelet-ca.crt")).unwrap();
    assert_eq!(written, "ONE\n");
    daemon.abort();
}

#[tokio::test]
async fn drift_of_the_operating_system_is_not_called_repaired() {
    let mut one = config("rendered-worker-one", &[("/etc/a", "1")], &json!([]), &json!([]));
    one.spec.kernel_arguments = vec!["nosmt".into()];
    one.metadata.labels = Some([(api::labels::RENDERED_FOR.to_owned(), "worker".to_owned())].into());
    let stage = Stage::start(&one).await;
    // As if the arguments had been taken away by hand.
    stage.host.system().drop_staged().unwrap();
    std::fs::write(stage.root().join("etc/a"), "by hand").unwrap();
    let policy = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "PoolPolicy", "metadata": {"name": "worker"}, "spec": {"drift": "Repair"}});
    let policies: Api<PoolPolicy> = Api::all(stage.client.clone());
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    let node = stage.node("the node to be degraded", |get| get(annotations::STATE) == "Degraded").await;
    let reason = &node.metadata.annotations.unwrap()[annotations::REASON];
    let words =
        "unexpected on-disk state validating against rendered-worker-one: missing expected kernel arguments: [nosmt]";
    assert_eq!(reason, words);
    assert_eq!(std::fs::read_to_string(stage.root().join("etc/a")).unwrap(), "1", "what can be repaired is");
    daemon.abort();
}

#[tokio::test]
async fn a_reboot_that_did_not_happen_is_asked_for_again_and_told() {
    let stage = Stage::start(&config("rendered-worker-one", &[("/etc/a", "1")], &json!([]), &json!([]))).await;
    stage.create(&config("rendered-worker-two", &[("/etc/a", "2")], &json!([]), &json!([]))).await;
    stage.ask_for("rendered-worker-two").await;
    assert_eq!(stage.run(WITNESS, Arc::new(|_| false)).await.unwrap(), Ended::Rebooting);
    assert_eq!(stage.phase(), Some("rebooting"));
    stage.host.take_actions();
    assert_eq!(stage.run(WITNESS, Arc::new(|_| false)).await.unwrap(), Ended::Rebooting);
    let asked = stage.host.take_actions();
    assert!(asked.iter().any(|action| action.starts_with("ignored reboot: ")), "{asked:?}");
    stage.event("RebootNotHappened").await;
}
