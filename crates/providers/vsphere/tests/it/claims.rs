//! Addresses from pools, on an API server with the kinds of Cluster API's address management.

use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use machine::provider::{ErrorKind, Provider, State};
use serde_json::{Value, json};
use vsphere::Vsphere;
use vsphere::claims::{FINALIZER, InCluster};

use crate::world::{World, settings};

const GROUP: &str = "ipam.cluster.x-k8s.io";

fn definition(kind: &str, plural: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}]},
    })
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1beta1", kind));
    Api::namespaced_with(client.clone(), "openshift-machine-api", &resource)
}

async fn install(client: &Client) {
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    for (kind, plural) in [("IPAddressClaim", "ipaddressclaims"), ("IPAddress", "ipaddresses")] {
        let definition = serde_json::from_value(definition(kind, plural)).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
        testkit::wait_until("the kind is served", async || api(client, kind).list(&Default::default()).await.ok())
            .await;
    }
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "openshift-machine-api"}})).unwrap();
    // The control plane may have it already.
    let _ = namespaces.create(&PostParams::default(), &namespace).await;
}

#[tokio::test]
async fn a_claim_is_made_awaited_used_and_let_go_when_the_machine_is_gone() {
    let Some(world) = World::start("pools").await else { return };
    let Some(plane) = testkit::control_plane(testkit::Kind::Embedded).await else { return };
    let client = plane.client().await;
    install(&client).await;
    let provider = Vsphere::new(settings(&world.edge.url), Arc::new(InCluster::new(client.clone())));
    let pool = json!({"group": "ipam.example.org", "resource": "Pool", "name": "blue"});
    let device = json!({"networkName": "VM Network", "nameservers": ["192.0.2.53"], "addressesFromPools": [pool]});
    let request = world.machine("m", &world.spec_with("network", json!({"devices": [device]})));
    let intent = request.intent.as_ref().unwrap();

    let error = provider.create(&request, intent).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.message.contains("IPAddressClaim pools-m-claim-0-0"), "{error}");
    assert_eq!(world.edge.count("CloneVM_Task"), 0, "nothing is cloned without its address");
    let claims = api(&client, "IPAddressClaim");
    let claim = claims.get("pools-m-claim-0-0").await.unwrap();
    assert_eq!(claim.metadata.finalizers.as_deref(), Some([FINALIZER.to_owned()].as_slice()));
    assert_eq!(claim.metadata.owner_references.as_ref().unwrap()[0].uid, request.mark.uid);
    assert_eq!(claim.data["spec"]["poolRef"], json!({"apiGroup": "ipam.example.org", "kind": "Pool", "name": "blue"}));

    // Whoever runs the pool answers.
    let address = json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "IPAddress", "metadata": {"name": "a-1"},
        "spec": {"address": "192.0.2.77", "prefix": 24, "gateway": "192.0.2.1"}});
    api(&client, "IPAddress").create(&PostParams::default(), &serde_json::from_value(address).unwrap()).await.unwrap();
    let answer = json!({"status": {"addressRef": {"name": "a-1"}}});
    claims.patch_status("pools-m-claim-0-0", &PatchParams::default(), &Patch::Merge(&answer)).await.unwrap();
    assert_eq!(provider.create(&request, intent).await.unwrap().state, State::Running);
    let config = world.property(&world.vm("pools-m").await, "config.extraConfig").await;
    assert!(config.contains("ip=192.0.2.77::192.0.2.1:255.255.255.0:::none nameserver=192.0.2.53"), "{config}");

    world.delete_with(&provider, &request).await;
    assert!(!world.has_vm("pools-m").await);
    testkit::wait_until("the claim is gone", async || {
        claims.get_opt("pools-m-claim-0-0").await.unwrap().is_none().then_some(())
    })
    .await;
}
