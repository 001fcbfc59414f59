//! Ports, trunks and volumes do not leak, whatever happens in between.

use std::sync::Arc;

use axum::http::Method;
use machine::provider::{Deletion, ErrorKind, Provider, Request, State};
use serde_json::json;

use crate::fake::{Answer, refusal};
use crate::world::{World, spec};

fn full() -> serde_json::Value {
    spec(json!({"trunk": true, "rootVolume": {"diskSize": 10}}))
}

#[tokio::test]
async fn nothing_stays_when_the_server_cannot_be_made() {
    let world = World::start().await;
    let cases = [
        (refusal(403, "forbidden", "Quota exceeded for instances: Requested 1"), ErrorKind::Quota),
        (refusal(400, "badRequest", "Flavor's disk is too small for requested image."), ErrorKind::InvalidSpec),
        (refusal(400, "badRequest", "The requested availability zone is not available"), ErrorKind::NotFound),
        (refusal(403, "forbidden", "Policy doesn't allow os_compute_api:servers:create"), ErrorKind::Credentials),
    ];
    let request = world.machine("m-1", &full());
    for (answer, kind) in cases {
        // The volume is asked for, and being made.
        world.create(&request).await.unwrap();
        world.create(&request).await.unwrap();
        world.fake.plan(Method::POST, "/servers", answer);
        let error = world.create(&request).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert_eq!(error.request_id.as_deref(), Some("req-11111111-2222-3333-4444-555555555555"));
        // Cinder takes its time, and nobody waits for it.
        world.delete(&request).await;
        world.assert_empty("after the refusal");
    }
}

#[tokio::test]
async fn a_quota_of_ports_leaves_none_behind_and_none_more_with_every_try() {
    let world = World::start().await;
    world.fake.project.lock().quotas.insert("ports", 1);
    let network = world.fake.project.lock().networks[0]["id"].clone();
    let request = world.machine("m-1", &spec(json!({"ports": [{"networkID": network}]})));
    for _ in 0..3 {
        let error = world.create(&request).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Quota, "{error}");
        world.assert_empty("after the refusal");
    }
}

#[tokio::test]
async fn an_answer_that_got_lost_keeps_the_ports_and_the_next_try_uses_them() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({"trunk": true})));
    world.fake.plan(Method::POST, "/servers", Answer { status: 504, body: "<html>".to_owned(), headers: Vec::new() });
    let error = world.create(&request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert_eq!(world.fake.calls(&Method::POST, "/servers").len(), 1, "a creation is never repeated blindly");
    assert_eq!(world.fake.left(), "port m-1-0, trunk m-1-0");
    world.run(&request).await;
    assert_eq!(world.fake.left(), "server m-1, port m-1-0, trunk m-1-0");
    world.delete(&request).await;
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn a_process_may_die_after_any_request_and_the_next_one_finishes_or_removes_everything() {
    // As many requests as a creation takes; the one after that is cut off.
    for cut in 0..20 {
        for finish in [true, false] {
            let world = World::start().await;
            let request = world.machine("m-1", &spec(json!({"trunk": true})));
            let made = cut_off(&world, &request, cut).await;
            if finish {
                world.run(&request).await;
                assert_eq!(world.fake.left(), "server m-1, port m-1-0, trunk m-1-0", "cut after {cut}");
            }
            world.delete(&request).await;
            world.assert_empty(&format!("cut after {cut}, made {made}"));
        }
    }
}

/// Runs a creation until so many requests have arrived, and drops it then.
async fn cut_off(world: &World, request: &Request, requests: usize) -> bool {
    let creation = world.create(request);
    let limit = async {
        while world.fake.count() < requests {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        made = creation => made.is_ok(),
        () = limit => false,
    }
}

#[tokio::test]
async fn a_server_that_could_not_be_built_is_failed_and_leaves_nothing() {
    let world = World::start().await;
    world.fake.project.lock().fault = Some("No valid host was found. There are not enough hosts available.".to_owned());
    let request = world.machine("m-1", &spec(json!({"trunk": true})));
    world.create(&request).await.unwrap();
    let seen = world.look(&request).await;
    let State::Failed(error) = &seen[0].state else { panic!("{seen:?}") };
    assert_eq!(error.kind, ErrorKind::NoCapacity, "{error}");
    assert_eq!(world.provider.delete(&request).await.unwrap(), Deletion::Requested);
    world.delete(&request).await;
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn two_processes_at_one_machine_make_one_server() {
    for _ in 0..10 {
        let world = World::start().await;
        let request = world.machine("m-1", &spec(json!({})));
        let other = openstack::OpenStack::new(openstack::Settings::default());
        let intent = request.intent.as_ref().unwrap();
        let (one, two) = tokio::join!(world.create(&request), other.create(&request, intent));
        assert!(one.is_ok() || two.is_ok(), "{one:?} {two:?}");
        assert_eq!(world.fake.project.lock().servers.len(), 1, "{}", world.fake.left());
        world.delete(&request).await;
        world.assert_empty("after deletion");
    }
}

#[tokio::test]
async fn a_broken_volume_is_taken_away_and_made_again() {
    let world = World::start().await;
    let request = world.machine("m-1", &full());
    world.create(&request).await.unwrap();
    world.fake.project.lock().volumes[0]["status"] = json!("error");
    let error = world.create(&request).await.unwrap_err();
    assert!(error.message.contains("m-1-root"), "{error}");
    world.run(&request).await;
}

#[tokio::test]
async fn another_machine_s_port_of_the_same_name_is_left_alone() {
    let world = World::start().await;
    let old = world.machine("m-1", &spec(json!({})));
    world.run(&old).await;
    // The Machine was made anew under its old name, while the old server is still there.
    let mut new = world.machine("m-1", &spec(json!({})));
    new.mark.uid = "uid-new".to_owned();
    world.delete(&new).await;
    assert_eq!(world.fake.left(), "server m-1, port m-1-0");
    world.run(&new).await;
    assert_eq!(world.fake.left(), "server m-1, server m-1, port m-1-0, port m-1-0");
    world.delete(&old).await;
    assert_eq!(world.look(&new).await.len(), 1);
    world.delete(&new).await;
    world.assert_empty("after both deletions");
}

#[tokio::test]
async fn ports_that_upstream_made_go_with_their_server() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({})));
    let instance = world.run(&request).await;
    {
        // As OpenShift's controller would have left them.
        let mut project = world.fake.project.lock();
        project.servers[0]["metadata"] = json!({"Name": "m-1"});
        project.servers[0]["tags"] = json!(["cluster-api-provider-openstack"]);
        project.ports[0]["description"] = json!("");
        project.ports[0]["tags"] = json!([]);
    }
    let known = Request { provider_id: instance.provider_id.clone(), intent: None, ..request.clone() };
    let seen = world.look(&known).await;
    let updated = world.provider.update(&known, &seen[0]).await.unwrap();
    assert_eq!(updated.provider_id, instance.provider_id);
    assert_eq!(world.fake.project.lock().servers[0]["metadata"]["machinist.dev:uid"], "uid-m-1", "it is marked now");
    world.delete(&known).await;
    world.assert_empty("after deletion");
}

#[tokio::test]
async fn the_sweep_lists_everything_that_carries_the_mark_even_without_tags() {
    let world = World::start().await;
    let request = world.machine("m-1", &spec(json!({"trunk": true, "rootVolume": {"diskSize": 1}})));
    world.run(&request).await;
    for port in &mut world.fake.project.lock().ports {
        port["tags"] = json!([]);
    }
    let search = world.search();
    let listed = world.provider.marked(&search).await.unwrap();
    let kinds: Vec<_> = listed.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["instance"], "what the server uses goes with it");
    // The server is gone, and what was made for it is not.
    {
        let mut project = world.fake.project.lock();
        project.servers.clear();
        project.ports.iter_mut().for_each(|port| port["device_id"] = json!(""));
        project.volumes.iter_mut().for_each(|volume| volume["status"] = json!("available"));
    }
    let mut listed = world.provider.marked(&search).await.unwrap();
    listed.sort_by(|one, other| one.kind.cmp(&other.kind));
    let kinds: Vec<_> = listed.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["port", "trunk", "volume"]);
    assert!(listed.iter().all(|it| it.mark == request.mark && it.created.is_some()), "{listed:?}");
    let other = machine::provider::Search { cluster: "c2".to_owned(), ..search.clone() };
    assert!(world.provider.marked(&other).await.unwrap().is_empty());
    for _ in 0..10 {
        for orphan in world.provider.marked(&search).await.unwrap() {
            world.provider.remove(&search, &orphan).await.unwrap();
        }
    }
    world.assert_empty("after the sweep");
    let bare =
        Request { spec: Arc::new(json!({"cloudName": "openstack", "cloudsSecret": {"name": "keys"}})), ..request };
    world.delete(&bare).await;
}
