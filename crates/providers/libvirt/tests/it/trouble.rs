//! What goes wrong, and what a condition says of it.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use libvirt::{Libvirt, Settings};
use machine::provider::{Provider, Request, Secrets};
use serde_json::{Value, json};

use crate::world::World;

#[track_caller]
fn check(error: machine::provider::Error, kind: &str, words: &str) {
    assert!(error.kind.to_string() == kind && error.message.contains(words), "{}: {error}", error.kind);
}

async fn refused(world: &World, spec: &Value, kind: &str, words: &str) {
    let request = world.machine("refused", spec);
    check(world.create(&request).await.unwrap_err(), kind, words);
    world.provider.delete(&request).await.unwrap();
    world.assert_empty(words);
}

#[tokio::test]
async fn what_the_spec_names_and_the_host_lacks_is_named() {
    let Some(world) = World::start("lacks").await else { return };
    let volume = |pool: &str, base: &str| json!({"poolName": pool, "baseVolumeID": base});
    let base = world.spec_with("volume", volume("lacks", "gone"));
    refused(&world, &base, "NotFound", "providerSpec.volume.baseVolumeID: failed to get vol 'gone'").await;
    let network = world.spec_with("networkInterfaceName", json!("gone"));
    refused(&world, &network, "NotFound", "providerSpec.networkInterfaceName: failed to get network 'gone'").await;
    let pool = world.machine("pool", &world.spec_with("volume", volume("gone", "base")));
    check(world.create(&pool).await.unwrap_err(), "NotFound", "failed to get pool 'gone'");
    world.provider.delete(&pool).await.unwrap();
}

#[tokio::test]
async fn user_data_that_is_missing_is_named_and_nothing_is_made() {
    let Some(world) = World::start("secretless").await else { return };
    let request = Request { secrets: Arc::new(Secrets::default()), ..world.machine("m", &world.spec()) };
    check(world.create(&request).await.unwrap_err(), "NotFound", "providerSpec.ignition.userDataSecret");
    world.assert_empty("without a secret");
}

#[tokio::test]
async fn a_pool_that_is_full_is_no_capacity() {
    let Some(world) = World::start_without_storage("full").await else { return };
    // The test driver's pools have room for 100 GiB, and the base takes one.
    world.store(&["vol-create-as", "full", "filler", "99G"]);
    let request = world.machine("m", &world.spec());
    check(world.create(&request).await.unwrap_err(), "NoCapacity", "storage pool full is full: 0 bytes are left");
    world.provider.delete(&request).await.unwrap();
    assert!(world.domains().is_empty());
}

#[tokio::test]
async fn a_network_without_free_addresses_says_so() {
    let Some(world) = World::start("addressless").await else { return };
    let lease = |number: u32| format!("2026-01-01 10:00:00 52:54:00:00:00:{number:02x} ipv4 10.7.0.{number}/24 h -");
    world.edge.set_leases(&(1..=254).map(|number| lease(number) + "\n").collect::<String>());
    let words =
        "network addressless has no free address from the 51st on in providerSpec.networkInterfaceAddress 10.7.0.0/24";
    refused(&world, &world.spec(), "NoCapacity", words).await;
    let by_dhcp = world.spec_with("networkInterfaceAddress", json!(""));
    refused(&world, &by_dhcp, "NoCapacity", "DHCP has given out or reserved all 253").await;
}

#[tokio::test]
async fn libvirt_that_cannot_be_reached_is_unreachable_and_nothing_is_forgotten() {
    let Some(world) = World::start("reach").await else { return };
    for (uri, words) in [
        ("test+unix:///default?socket=/nowhere", "failed to connect to the hypervisor"),
        ("qemu+tcp://127.0.0.1:1/system", "Connection refused"),
    ] {
        let request = world.machine("m", &world.spec_with("uri", json!(uri)));
        check(world.create(&request).await.unwrap_err(), "Unreachable", words);
        check(world.provider.delete(&request).await.unwrap_err(), "Unreachable", words);
        let looked = world.provider.instances(std::slice::from_ref(&request)).await.remove(0);
        check(looked.unwrap_err(), "Unreachable", words);
    }
}

#[tokio::test]
async fn a_uri_that_runs_a_program_is_not_opened() {
    let Some(world) = World::start("shell").await else { return };
    let request = world.machine("m", &world.spec_with("uri", json!("qemu+ext:///system?command=/bin/touch")));
    check(world.create(&request).await.unwrap_err(), "InvalidSpec", "providerSpec.uri");
    check(world.provider.delete(&request).await.unwrap_err(), "InvalidSpec", "providerSpec.uri");
    assert_eq!(world.edge.calls(), []);
}

/// A provider whose `virsh` is this script.
fn with_script(script: &str) -> (tempfile::TempDir, Libvirt) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("virsh");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = Settings { patience: Duration::from_millis(300), ..Settings::default() };
    let provider = Libvirt::new(&path, settings);
    (folder, provider)
}

#[tokio::test]
async fn a_program_that_is_missing_hangs_or_prints_garbage_is_an_error() {
    let Some(world) = World::start("program").await else { return };
    let request = world.machine("m", &world.spec());
    let missing = Libvirt::new("/nowhere/virsh".as_ref(), Settings::default());
    let error = missing.instances(std::slice::from_ref(&request)).await.remove(0).unwrap_err();
    check(error, "Unreachable", "cannot run /nowhere/virsh");
    for (script, kind, words) in [
        ("#!/bin/sh\nexec sleep 60\n", "Unreachable", "did not answer"),
        ("#!/bin/sh\necho garbage\n", "Other", "cannot be read"),
        ("#!/bin/sh\nexit 3\n", "Other", "said nothing"),
    ] {
        let (_folder, provider) = with_script(script);
        let error = provider.instances(std::slice::from_ref(&request)).await.remove(0).unwrap_err();
        check(error, kind, words);
    }
}
