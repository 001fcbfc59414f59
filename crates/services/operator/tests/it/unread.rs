//! What cannot be read is not taken for missing: nothing is signed anew, rewritten or deleted because of it.

use api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use api::machinist::BootstrapToken;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::{wait_for, wait_for_all};

use crate::stage::{NAMESPACE, Stage, settings, text};

const CA: &str = "machine-config-server-ca";

async fn authority(stage: &Stage) -> Secret {
    let has = |secret: Option<&Secret>| {
        secret.is_some_and(|one| one.data.as_ref().is_some_and(|data| data.contains_key("tls.crt")))
    };
    wait_for(&stage.secrets, CA, "the authority to be made", has).await.unwrap()
}

#[tokio::test]
async fn an_operator_that_cannot_list_secrets_at_its_start_makes_no_new_authority() {
    let stage = Stage::start().await;
    let first = stage.operate(settings());
    stage.well().await;
    let before = authority(&stage).await;
    first.abort();
    let _ = first.await;

    stage.faults.fail("secrets", 503);
    let _second = stage.operate(settings());
    stage.degraded(&["cannot read secrets"]).await;
    stage.faults.mend("secrets");
    stage.well().await;
    let after = authority(&stage).await;
    assert_eq!(text(&after, "tls.crt"), text(&before, "tls.crt"), "every pointer that was handed out still works");
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()));
}

#[tokio::test]
async fn the_config_server_stays_while_endpoint_slices_cannot_be_listed() {
    let stage = Stage::start().await;
    stage.publish_endpoints().await;
    let mut found = settings();
    found.installation.api_url = None;
    let _operator = stage.operate(found);
    let sets: Api<DaemonSet> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let server = wait_for(&sets, "machine-config-server", "the server", |set| set.is_some()).await.unwrap();
    stage.well().await;

    stage.faults.fail("endpointslices", 503);
    stage.make_it_look("one").await;
    stage.degraded(&["cannot read endpointslices"]).await;
    let still = sets.get_opt("machine-config-server").await.unwrap().expect("it was not deleted");
    assert_eq!(still.uid(), server.uid());
    stage.faults.mend("endpointslices");
    stage.well().await;
    assert_eq!(sets.get("machine-config-server").await.unwrap().uid(), server.uid());
}

#[tokio::test]
async fn openshifts_settings_that_cannot_be_read_change_nothing() {
    let stage = Stage::start().await;
    stage.install_infrastructure().await;
    let _operator = stage.operate(settings());
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    let arbiter = wait_for(&pools, "arbiter", "the arbiters' pool", |pool| pool.is_some()).await.unwrap();
    stage.well().await;
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    let before = configs.get("machine-config-controller").await.unwrap();

    stage.faults.fail("infrastructures", 503);
    stage.make_it_look("one").await;
    stage.degraded(&["cannot read infrastructures"]).await;
    let after = configs.get("machine-config-controller").await.unwrap();
    assert_eq!(after.spec, before.spec, "nodes keep what they know of the cluster");
    assert_eq!(pools.get_opt("arbiter").await.unwrap().expect("it was not deleted").uid(), arbiter.uid());
    stage.faults.mend("infrastructures");
    wait_for(&configs, "machine-config-controller", "the new bundle", |config| {
        config.is_some_and(|config| !config.spec.image_registry_bundle_user_data.is_empty())
    })
    .await;
}

#[tokio::test]
async fn a_pull_secret_that_cannot_be_read_stays_on_the_nodes_and_user_data_stays_as_it_is() {
    let stage = Stage::start().await;
    stage.make_pull_secret().await;
    let _operator = stage.operate(settings());
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    wait_for(&configs, "machine-config-controller", "the pull secret", |config| {
        config.is_some_and(|config| config.spec.internal_registry_pull_secret.is_some())
    })
    .await;
    stage.well().await;
    let user_data: Api<Secret> = Api::namespaced(stage.client.clone(), api::names::MACHINE_API_NAMESPACE);
    let listed = |list: kube::api::ObjectList<Secret>| -> Vec<_> {
        list.into_iter().map(|secret| (secret.name_any(), secret.resource_version())).collect()
    };
    wait_for_all(&user_data, "user data of both pools", |all| all.len() == 2).await;
    let before = listed(user_data.list(&ListParams::default()).await.unwrap());

    stage.faults.fail("machineconfigpools", 503);
    stage.degraded(&["cannot read machineconfigpools"]).await;
    stage.faults.fail("secrets", 403);
    stage.make_it_look("one").await;
    stage.degraded(&["cannot read secrets"]).await;
    stage.faults.mend("machineconfigpools");
    let config = configs.get("machine-config-controller").await.unwrap();
    assert!(config.spec.internal_registry_pull_secret.is_some(), "images can still be pulled");
    stage.faults.mend("secrets");
    stage.well().await;
    assert_eq!(listed(user_data.list(&ListParams::default()).await.unwrap()), before);
}

#[tokio::test]
async fn an_operator_that_cannot_tell_whether_it_is_switched_off_writes_nothing() {
    let stage = Stage::start().await;
    cluster::ensure_namespace(&stage.client, NAMESPACE).await.unwrap();
    stage.faults.fail("deployments", 503);
    let operator = stage.operate(settings());
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    stage.event("CannotRead", "cannot read deployments").await;
    assert_eq!(definitions.list(&ListParams::default()).await.unwrap().items.len(), 0, "nothing was installed");
    stage.faults.mend("deployments");
    stage.well().await;
    operator.abort();
}

/// The request of a new machine for its first certificate, as the kubelet makes it.
fn request(name: &str, node: &str) -> CertificateSigningRequest {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    parameters.distinguished_name.push(rcgen::DnType::CommonName, format!("system:node:{node}"));
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": ByteString(pem.into_bytes()), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    });
    serde_json::from_value(request).unwrap()
}

#[tokio::test]
async fn a_request_is_left_to_a_person_with_an_event_and_never_approved_while_nodes_cannot_be_read() {
    let stage = Stage::start().await;
    let first = stage.operate(settings());
    stage.well().await;
    first.abort();
    let _ = first.await;
    // The name of a node that exists, with a token that would make it known.
    let grant = serving::token::Grant {
        pool: "worker".to_owned(),
        machine: Some("worker-1".to_owned()),
        ..serving::token::Grant::default()
    };
    let secret = cluster::tokens::issue(&stage.client, &grant).await.unwrap();
    let tokens: Api<BootstrapToken> = Api::all(stage.client.clone());
    let used = json!({"status": {"uses": 1, "lastUsed": jiff::Timestamp::now().to_string()}});
    let name = serving::token::name("worker", &secret);
    tokens.patch_status(&name, &PatchParams::default(), &Patch::Merge(used)).await.unwrap();

    stage.faults.fail("nodes", 503);
    let _second = stage.operate(settings());
    stage.degraded(&["cannot read nodes"]).await;
    let requests: Api<CertificateSigningRequest> = Api::all(stage.bootstrapper().await);
    requests.create(&PostParams::default(), &request("taken", "worker-1")).await.unwrap();
    stage.faults.mend("nodes");
    stage.event("RequestNotApproved", "node worker-1 exists already").await;
    let seen: Api<CertificateSigningRequest> = Api::all(stage.client.clone());
    let status = seen.get("taken").await.unwrap().status.unwrap_or_default();
    assert_eq!(status.conditions.unwrap_or_default(), []);
}

#[tokio::test]
async fn an_operator_whose_clock_is_wrong_makes_new_user_data_and_takes_no_token_away() {
    let stage = Stage::start().await;
    let first = stage.operate(settings());
    stage.well().await;
    let tokens: Api<BootstrapToken> = Api::all(stage.client.clone());
    wait_for_all(&tokens, "tokens of both pools", |all| all.len() == 2).await;
    let issued = tokens.list(&ListParams::default()).await.unwrap();
    first.abort();
    let _ = first.await;

    // By this clock every token ended more than a week ago.
    let now = || jiff::Timestamp::now() + jiff::SignedDuration::from_hours(60 * 24);
    let _second = stage.operate(operator::Settings { now, ..settings() });
    wait_for_all(&tokens, "tokens after these", |all| all.len() >= 4).await;
    stage.degraded(&["clock"]).await;
    let left = tokens.list(&ListParams::default()).await.unwrap();
    for token in issued {
        assert!(left.iter().any(|one| one.uid() == token.uid()), "{} still opens its pool", token.name_any());
    }
}
