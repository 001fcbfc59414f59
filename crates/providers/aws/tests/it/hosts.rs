//! Dedicated hosts that are allocated for one machine.

use machine::provider::{Deletion, Provider, Request, Search};
use serde_json::{Value, json};

use crate::edge::refusal;
use crate::world::World;

fn on_own_host(world: &World) -> Value {
    let allocation = json!({"tags": [{"name": "cost", "value": "centre"}]});
    world.spec_with(
        "placement",
        json!({
            "region": "us-east-1",
            "availabilityZone": "us-east-1a",
            "tenancy": "host",
            "host": {
                "affinity": "DedicatedHost",
                "dedicatedHost": {"allocationStrategy": "Dynamic", "dynamicHostAllocation": allocation},
            },
        }),
    )
}

#[tokio::test]
async fn a_host_is_allocated_once_for_a_machine_and_given_back_after_it() {
    let Some(world) = World::start("hosts").await else { return };
    let request = world.machine("one", &on_own_host(&world));
    world.edge.plan("RunInstances", refusal(500, "InsufficientInstanceCapacity", "None left."));
    world.create(&request).await.unwrap_err();
    let made = world.create(&request).await.unwrap();
    assert_eq!(world.edge.arrived("AllocateHosts").len(), 1, "the second try uses the host of the first");
    let host = world.edge.arrived("RunInstances").pop().unwrap().field("Placement.HostId").unwrap().to_owned();
    assert!(host.starts_with("h-"), "{host}");
    let described = world.ask("DescribeHosts", &[("HostId.1", &host)]).await;
    assert!(described.contains("<key>cost</key>") && described.contains("<key>machinist.dev/uid</key>"), "{described}");
    let search = Search {
        cluster: request.mark.cluster.clone(),
        place: request.intent.as_ref().unwrap().place.clone().into(),
        secrets: request.secrets.clone(),
    };
    let kinds: Vec<_> = world.provider.marked(&search).await.unwrap().into_iter().map(|marked| marked.kind).collect();
    assert_eq!(kinds, ["instance", "dedicated-host"]);
    let bare = Request { spec: search.place.clone(), provider_id: made.provider_id, ..request };
    assert_eq!(world.provider.delete(&bare).await.unwrap(), Deletion::Requested, "the instance first");
    assert!(world.edge.arrived("ReleaseHosts").is_empty());
    assert_eq!(world.provider.delete(&bare).await.unwrap(), Deletion::Requested, "then the host");
    assert_eq!(world.edge.arrived("ReleaseHosts").len(), 1);
    assert_eq!(world.provider.delete(&bare).await.unwrap(), Deletion::Gone);
}

#[tokio::test]
async fn a_host_for_a_launch_that_can_never_succeed_is_given_back_at_once() {
    let Some(world) = World::start("hopeless").await else { return };
    let request = world.machine("one", &on_own_host(&world));
    world.edge.plan("RunInstances", refusal(400, "InvalidParameterCombination", "It does not fit."));
    assert!(world.create(&request).await.unwrap_err().is_final());
    assert_eq!(world.edge.arrived("ReleaseHosts").len(), 1);
}
