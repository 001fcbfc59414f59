//! A machine that never joins says where it stopped.

use std::time::Duration;

use api::machinist::BootstrapToken;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::Kind;

use crate::on_both;
use crate::stage::Stage;

on_both!(a_machine_that_does_not_join_says_where_it_stopped);

/// A request of the kubelet on node `slow`.
const REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----\n\
    MIHtMIGUAgEAMDIxFTATBgNVBAoMDHN5c3RlbTpub2RlczEZMBcGA1UEAwwQc3lz\n\
    dGVtOm5vZGU6c2xvdzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABE4E03I/tHHn\n\
    vnWHMHfh5ADBfK3Rng0mfiGRTPtezsRagdaI5ART6zPq+jvHJE3c8GCgBaYM7ehY\n\
    ec1LpU6pZ/SgADAKBggqhkjOPQQDAgNIADBFAiATePg9uPrqmY1Lk9KzOLJHivQt\n\
    VaBnEBDJH3aBVsFZuQIhAOmVrv2KNm7bnsL0y4QBEOsTLudjd7NoqtfjeEX0/CPb\n\
    -----END CERTIFICATE REQUEST-----\n";

async fn a_machine_that_does_not_join_says_where_it_stopped(kind: Kind) {
    let Some(mut stage) = Stage::start(kind).await else { return };
    stage.settings.joining_after = Duration::ZERO;
    let _controllers = stage.control();
    let spec = json!({"providerSpec": {"value": {"boots": false}}});
    let machine = stage.create_machine("slow", json!({"spec": spec})).await;
    let tokens: Api<BootstrapToken> = Api::all(stage.client.clone());
    let spec = json!({"pool": "worker", "sha256": "a".repeat(64), "machine": "slow", "machineUid": machine.uid()});
    let token = json!({"apiVersion": "machinist.dev/v1alpha1", "kind": "BootstrapToken", "metadata": {"name": "t"}, "spec": spec});
    tokens.create(&PostParams::default(), &serde_json::from_value(token).unwrap()).await.unwrap();
    stage.machine_is("slow", "provisioned", |machine| crate::stage::phase(machine) == Some("Provisioned")).await;
    look_again(&stage, "1").await;
    stage.says("slow", "NodeJoined", "False", "NotServed: the machine has not asked the config server").await;

    let used = Patch::Merge(json!({"status": {"uses": 1}}));
    tokens.patch_status("t", &PatchParams::default(), &used).await.unwrap();
    look_again(&stage, "2").await;
    stage.says("slow", "NodeJoined", "False", "Served: ").await;

    let requests: Api<CertificateSigningRequest> = Api::all(stage.client.clone());
    let mut request = CertificateSigningRequest::default();
    request.metadata.name = Some("csr-slow".to_owned());
    request.spec.signer_name = "kubernetes.io/kube-apiserver-client-kubelet".to_owned();
    request.spec.request = ByteString(REQUEST.as_bytes().to_vec());
    request.spec.usages = Some(vec!["digital signature".to_owned(), "client auth".to_owned()]);
    requests.create(&PostParams::default(), &request).await.unwrap();
    look_again(&stage, "3").await;
    // The embedded API approves kubelets' requests by itself.
    stage
        .machine_is("slow", "that it waits for its certificate or its kubelet", |machine| {
            let told = crate::stage::condition(machine, "NodeJoined").unwrap_or_default().1;
            let is_pending = told.starts_with("CertificatePending: certificate signing request csr-slow waits");
            is_pending || told.starts_with("KubeletSilent: ")
        })
        .await;
}

/// Machines that do not join are looked at every half a minute, and whenever they change.
async fn look_again(stage: &Stage, time: &str) {
    stage.patch_machine("slow", json!({"metadata": {"labels": {"looked": time}}})).await;
}
