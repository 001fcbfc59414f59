//! Problems of an installation: each leads to a condition that names the object and the fix.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use operator::Settings;
use serde_json::json;
use testkit::{Kind, wait_for};

use super::stage::{CONTROLLER, NAMESPACE, Stage, settings};

#[tokio::test]
async fn a_changed_definition_and_a_missing_image_are_named_in_degraded() {
    let Some(stage) = Stage::start(Kind::Embedded).await else { return };
    let _operator = stage.operate(settings());
    stage.available().await;

    // Healing does not remove a change that we do not own, so it is reported instead.
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let name = "poolledgers.machinist.dev";
    let webhook =
        json!({"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://nowhere.example/convert"}});
    let convert = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}});
    definitions.patch(name, &PatchParams::default(), &Patch::Merge(convert)).await.unwrap();
    stage.condition("Degraded", "True", &[name, "spec.conversion was added", "machinist crds"]).await;
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    definitions.patch(name, &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    stage.condition("Degraded", "False", &[]).await;

    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "machine-config-controller-1", "labels": {"k8s-app": CONTROLLER}},
        "spec": {"containers": [{"name": CONTROLLER, "image": "nowhere/nothing:1"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let waiting = json!({"status": {"containerStatuses": [{
        "name": CONTROLLER, "image": "nowhere/nothing:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
    }]}});
    pods.patch_status("machine-config-controller-1", &PatchParams::default(), &Patch::Merge(waiting)).await.unwrap();
    let words = ["machine-config-controller-1", "nowhere/nothing:1", "machine-config-operator-images"];
    stage.condition("Degraded", "True", &words).await;
    pods.delete("machine-config-controller-1", &DeleteParams::default().grace_period(0)).await.unwrap();
    stage.condition("Degraded", "False", &[]).await;

    // Images come from one ConfigMap. One of another release is refused, and the last valid images stay in use.
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let other = json!({"data": {"images.json": r#"{"releaseVersion": "9", "machineConfigOperator": "x:9"}"#}});
    maps.patch("machine-config-operator-images", &PatchParams::default(), &Patch::Merge(other)).await.unwrap();
    stage.condition("Degraded", "True", &["refusing to read images.json version \"9\""]).await;
    let version = env!("CARGO_PKG_VERSION");
    let new = json!({"data": {"images.json": format!(r#"{{"releaseVersion": "{version}", "machineConfigOperator": "x:2"}}"#)}});
    maps.patch("machine-config-operator-images", &PatchParams::default(), &Patch::Merge(new)).await.unwrap();
    wait_for(&stage.deployments, CONTROLLER, "the new image", |deployment| {
        let pod = deployment.and_then(|one| one.spec.as_ref()?.template.spec.as_ref());
        pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some("x:2"))
    })
    .await;
}

#[tokio::test]
async fn a_wrong_clock_is_reported_and_no_certificates_are_created() {
    let Some(stage) = Stage::start(Kind::Embedded).await else { return };
    let fast = || Timestamp::now() + SignedDuration::from_hours(24 * 400);
    let operator = stage.operate(Settings { now: fast, ..settings() });
    stage.condition("Degraded", "True", &["clock of the operator's host", "ahead of", "NTP"]).await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    assert!(secrets.get_opt("machine-config-server-ca").await.unwrap().is_none());
    no_token_is_taken_away(&stage).await;
    operator.abort();
    let _ = operator.await;
    let _operator = stage.operate(settings());
    stage.condition("Degraded", "False", &[]).await;
    wait_for(&secrets, "machine-config-server-ca", "the authority, once the clock is right", |one| one.is_some()).await;
}

/// For a clock that is ahead, a valid token seems to have expired long ago.
async fn no_token_is_taken_away(stage: &Stage) {
    let expires = Some(Timestamp::now() + SignedDuration::from_hours(24));
    let grant = serving::token::Grant { pool: "worker".into(), expires, ..Default::default() };
    let secret = cluster::tokens::issue(&stage.client, &grant).await.unwrap();
    // There is one worker: once it has merged this configuration, it has also handled the token.
    let configurations: Api<api::operator::MachineConfiguration> = Api::all(stage.client.clone());
    wait_for(&configurations, "cluster", "the MachineConfiguration to be made", |one| one.is_some()).await;
    for path in ["/etc/a", "/etc/b"] {
        let policy = json!({"files": [{"path": path, "actions": [{"type": "None"}]}]});
        let patch = Patch::Merge(json!({"spec": {"nodeDisruptionPolicy": policy}}));
        configurations.patch("cluster", &PatchParams::default(), &patch).await.unwrap();
        wait_for(&configurations, "cluster", "the policies to be merged", |object| {
            let status = object.and_then(|object| object.status.clone()?.node_disruption_policy_status);
            let merged = status.and_then(|status| status.cluster_policies).unwrap_or_default();
            merged.files.iter().any(|file| file.path == path)
        })
        .await;
    }
    let tokens: Api<api::machinist::BootstrapToken> = Api::all(stage.client.clone());
    assert!(tokens.get_opt(&serving::token::name("worker", &secret)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_second_operator_stands_aside_and_says_which_to_stop() {
    let Some(stage) = Stage::start(Kind::Embedded).await else { return };
    let _first = stage.operate(settings());
    stage.available().await;
    let mut second = settings();
    second.installation.namespace = "second".into();
    second.installation.source_namespace = "second".into();
    let _second = stage.operate(second);
    let words = ["openshift-machine-config-operator and second", "kubectl -n second scale"];
    stage.condition("TwoOperators", "True", &words).await;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    assert!(namespaces.get_opt("second").await.unwrap().is_none(), "it writes nothing");
    // After the first operator is scaled down, the second takes over.
    stage.scale_operator(0).await;
    wait_for(&namespaces, "second", "the second operator to begin", |one| one.is_some()).await;
    wait_for(&stage.operators, "machine-config", "the condition to go", |object| {
        let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
        conditions.is_some_and(|all| !all.iter().any(|one| one.type_ == "TwoOperators"))
    })
    .await;
}

#[tokio::test]
async fn missing_rights_and_a_terminating_namespace_are_named_with_the_fix() {
    let Some(stage) = Stage::start(Kind::Real).await else { return };
    let admin = stage.operate(settings());
    stage.available().await;
    admin.abort();
    let _ = admin.await;

    // The operator with exactly its own role, from which the permission for DaemonSets was removed.
    let user = format!("system:serviceaccount:{NAMESPACE}:machine-config-operator");
    let kubeconfig = stage.control_plane.user_kubeconfig(&user, Some("system:serviceaccounts"));
    let client = cluster::connect(Some(&kubeconfig)).await.unwrap();
    let own = tokio::spawn(operator::run(client, settings(), std::future::pending()));
    let operators = stage.operators.clone();
    wait_for(&operators, "machine-config", "an operator that is well under its own role", |object| {
        let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
        conditions.into_iter().flatten().any(|one| one.type_ == "Degraded" && one.status == "False")
    })
    .await;
    own.abort();
    let _ = own.await;
    let roles: Api<Role> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let mut role = roles.get("machine-config-operator").await.unwrap();
    let everywhere: Api<ClusterRole> = Api::all(stage.client.clone());
    let mut wide = everywhere.get("machine-config-operator").await.unwrap();
    let has = |rule: &k8s_openapi::api::rbac::v1::PolicyRule, resource: &str| {
        rule.resources.as_ref().is_some_and(|resources| resources.iter().any(|one| one == resource))
    };
    role.rules.as_mut().unwrap().retain(|rule| !has(rule, "daemonsets"));
    roles.replace("machine-config-operator", &PostParams::default(), &role).await.unwrap();
    wide.rules.as_mut().unwrap().retain(|rule| !has(rule, "roles") && !has(rule, "clusterroles"));
    everywhere.replace("machine-config-operator", &PostParams::default(), &wide).await.unwrap();
    let client = cluster::connect(Some(&kubeconfig)).await.unwrap();
    let own = tokio::spawn(operator::run(client, settings(), std::future::pending()));
    stage
        .condition(
            "Degraded",
            "True",
            &["DaemonSet", "machine-config-daemon", "forbidden", "machinist install | kubectl apply -f -"],
        )
        .await;
    own.abort();
    let _ = own.await;

    let bindings: Api<ClusterRoleBinding> = Api::all(stage.client.clone());
    assert!(bindings.get("machine-config-operator").await.is_ok());
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/held"]}});
    maps.create(&PostParams::default(), &serde_json::from_value(held).unwrap()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    namespaces.delete(NAMESPACE, &DeleteParams::default()).await.unwrap();
    let _operator = stage.operate(settings());
    stage.condition("Degraded", "True", &[&format!("namespace {NAMESPACE} is terminating"), "machinist install"]).await;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), stage.condition("Degraded", "False", &[])).await.unwrap();
}

#[tokio::test]
async fn a_disruption_policy_that_cannot_be_followed_is_named_on_its_object_and_the_others_hold() {
    let Some(stage) = Stage::start(Kind::Embedded).await else { return };
    let _operator = stage.operate(settings());
    stage.available().await;
    let configurations: Api<api::operator::MachineConfiguration> = Api::all(stage.client.clone());
    let policy = json!({"files": [
        {"path": "etc/relative", "actions": [{"type": "None"}]},
        {"path": "/etc/good", "actions": [{"type": "None"}]},
    ]});
    let patch = Patch::Merge(json!({"spec": {"nodeDisruptionPolicy": policy}}));
    configurations.patch("cluster", &PatchParams::default(), &patch).await.unwrap();
    let says = |object: Option<&api::operator::MachineConfiguration>, status: &str, word: &str| {
        let found = object.and_then(|object| object.status.as_ref());
        found.into_iter().flat_map(|found| &found.conditions).any(|one| {
            one.type_ == "NodeDisruptionPolicyAccepted" && one.status == status && one.message.contains(word)
        })
    };
    let bad = "spec.nodeDisruptionPolicy.files[0].path: path \"etc/relative\" is not absolute";
    let object = wait_for(&configurations, "cluster", "the condition", |object| says(object, "False", bad)).await;
    let status = object.unwrap().status.unwrap().node_disruption_policy_status.unwrap();
    assert!(status.cluster_policies.unwrap().files.iter().any(|file| file.path == "/etc/good"));
    stage.condition("Degraded", "True", &["etc/relative"]).await;
    let policy = json!({"files": [{"path": "/etc/good", "actions": [{"type": "None"}]}]});
    let patch = Patch::Merge(json!({"spec": {"nodeDisruptionPolicy": policy}}));
    configurations.patch("cluster", &PatchParams::default(), &patch).await.unwrap();
    wait_for(&configurations, "cluster", "the condition to tell that it is over", |object| says(object, "True", ""))
        .await;
    stage.condition("Degraded", "False", &[]).await;
}
