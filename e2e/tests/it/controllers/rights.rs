//! Permissions of the controllers: the generated roles suffice, and a missing permission is reported and stops nothing
//! else.

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sandbox::fleet::{Behaviour, Fleet};
use testkit::objects::{file_config, pool};
use testkit::{Kind, control_plane, wait_for, wait_for_all, wait_until};

use super::on_both;
use crate::processes::{controller_as, listening};

on_both!(the_generated_roles_are_enough_and_what_is_missing_is_named);

const PROCESS: &str = "machine-config-controller";

/// Writes a fragment and waits until every node has it.
async fn roll_out(client: &Client, content: &str) {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let name = |pool: Option<&MachineConfigPool>| pool?.status.as_ref()?.configuration.as_ref()?.name.clone();
    let before = name(pools.get_opt("worker").await.unwrap().as_ref());
    let fragment = file_config("50-step", "worker", "/etc/step", content);
    let configs: Api<MachineConfig> = Api::all(client.clone());
    configs.patch("50-step", &PatchParams::apply("story").force(), &Patch::Apply(&fragment)).await.unwrap();
    wait_for(&pools, "worker", "both nodes to be updated", |pool| {
        let status = pool.and_then(|pool| pool.status.as_ref());
        status.is_some_and(|status| status.updated_machine_count == Some(2)) && name(pool) != before
    })
    .await;
}

async fn readyz(url: &str, words: &[&str]) -> String {
    wait_until(&format!("/readyz to say {words:?}"), || async {
        let text = reqwest::get(format!("{url}/readyz")).await.ok()?.text().await.ok()?;
        words.iter().all(|word| text.contains(word)).then_some(text)
    })
    .await
}

async fn the_generated_roles_are_enough_and_what_is_missing_is_named(kind: Kind) {
    let Some(control_plane) = control_plane(kind).await else { return };
    control_plane.install().await;
    let client = control_plane.client().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(api::names::NAMESPACE.to_owned()), ..ObjectMeta::default() };
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
    control_plane.apply(include_str!("../../../../manifests/rbac/machine-config-controller.yaml"));
    let account = format!("system:serviceaccount:{}:{PROCESS}", api::names::NAMESPACE);
    let kubeconfig = control_plane.user_kubeconfig(&account, None);

    let folder = tempfile::tempdir().unwrap();
    let mut first = controller_as(&kubeconfig, folder.path(), "first", &[]);
    let fleet = Fleet::new(client.clone(), "rights", Behaviour { drains: true, ..Behaviour::default() });
    tokio::spawn(fleet.clone().run());
    fleet.create(vec!["a".into(), "b".into()], &["worker"], None).await.unwrap();
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    pools.create(&PostParams::default(), &pool("worker")).await.unwrap();
    roll_out(&client, "one").await;
    roll_out(&client, "two").await;
    readyz(&listening(&first).await, &["ok: leading"]).await;
    let said = first.output();
    assert!(!said.to_lowercase().contains("forbidden"), "a right is missing in the table: {said}");
    first.kill();

    // A missing permission or kind is reported with its fix, and rollouts continue.
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let mut role = roles.get(PROCESS).await.unwrap();
    let guards = |resources: &Option<Vec<String>>| resources.iter().flatten().any(|it| it == "poddisruptionbudgets");
    role.rules.iter_mut().for_each(|rules| rules.retain(|rule| !guards(&rule.resources)));
    roles.replace(PROCESS, &PostParams::default(), &role).await.unwrap();
    remove_kind(&client, "poolpolicies.machinist.dev").await;
    let second = controller_as(&kubeconfig, folder.path(), "second", &[]);
    let url = listening(&second).await;
    let words = ["cannot watch poddisruptionbudgets", "ClusterRole", "cannot watch poolpolicies", "machinist crds"];
    readyz(&url, &words).await;
    let events: Api<Event> = Api::namespaced(client.clone(), api::names::NAMESPACE);
    wait_for_all(&events, "an event about each", |events| {
        let told = |kind: &str| {
            events.iter().any(|event| {
                event.reason.as_deref() == Some("CannotWatch")
                    && event.note.as_ref().is_some_and(|it| it.contains(kind))
            })
        };
        told("poddisruptionbudgets") && told("poolpolicies")
    })
    .await;
    roll_out(&client, "three").await;

    // A missing kind that is indispensable is reported, and the process continues by itself once it is installed.
    remove_kind(&client, "poolledgers.machinist.dev").await;
    readyz(&url, &["cannot watch poolledgers", "machinist crds"]).await;
    control_plane.install().await;
    roll_out(&client, "four").await;
}

async fn remove_kind(client: &Client, name: &str) {
    let kinds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let kind = kinds.get(name).await.unwrap();
    kinds.delete(&kind.name_any(), &DeleteParams::default()).await.unwrap();
    wait_for(&kinds, name, "the kind to be gone", |kind| kind.is_none()).await;
}
