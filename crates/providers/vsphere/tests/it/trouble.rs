//! Bad input, a vCenter that refuses, and sessions that end.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::provider::{ErrorKind, Provider, Request, SecretData, Secrets, State};
use serde_json::{Value, json};
use testkit::vcsim::{PASSWORD, USER};
use vsphere::{Settings, Vsphere};

use crate::edge::fault;
use crate::world::{NoPools, SERVER, World, secrets};

#[tokio::test]
async fn what_the_spec_names_and_vcenter_lacks_is_told_by_its_field_and_nothing_is_made() {
    let Some(world) = World::start("lacking").await else { return };
    let cases: Vec<(Value, ErrorKind, &str)> = vec![
        (world.spec_with("template", json!("nothing")), ErrorKind::NotFound, "providerSpec.template"),
        (world.spec_in("folder", "/DC0/vm/nothing"), ErrorKind::NotFound, "providerSpec.workspace.folder"),
        (world.spec_in("datastore", "nothing"), ErrorKind::NotFound, "providerSpec.workspace.datastore"),
        (
            world.spec_in("resourcePool", "/DC0/host/nothing"),
            ErrorKind::NotFound,
            "providerSpec.workspace.resourcePool",
        ),
        (world.spec_in("resourcePool", "Resources"), ErrorKind::InvalidSpec, "/DC0/host/DC0_C1/Resources"),
        (world.spec_in("datastore", ""), ErrorKind::InvalidSpec, "LocalDS_1"),
        (
            world.spec_with("network", json!({"devices": [{"networkName": "nothing"}]})),
            ErrorKind::NotFound,
            "providerSpec.network.devices[0].networkName",
        ),
        (world.spec_with("diskGiB", json!(1)), ErrorKind::InvalidSpec, "providerSpec.diskGiB"),
        (world.spec_with("template", json!("DC0_H0_VM0")), ErrorKind::InvalidSpec, "hardware version"),
        (
            world.spec_with("network", json!({"devices": [{"networkName": "VM Network", "ipAddrs": ["192.0.2.1"]}]})),
            ErrorKind::InvalidSpec,
            "providerSpec.network.devices[0].ipAddrs",
        ),
    ];
    for (number, (spec, kind, words)) in cases.into_iter().enumerate() {
        let error = world.create(&world.machine(&number.to_string(), &spec)).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(words), "{words}: {error}");
    }
    let request = world.machine("secretless", &world.spec());
    let bare = Secrets { user_data: None, ..secrets() };
    let error = world.create(&Request { secrets: Arc::new(bare), ..request }).await.unwrap_err();
    assert!(error.kind == ErrorKind::NotFound && error.message.contains("userDataSecret"), "{error}");
    assert!(world.marked().await.is_empty());
    assert_eq!(world.edge.count("CloneVM_Task"), 0);
}

#[tokio::test]
async fn a_session_that_vcenter_ended_is_begun_anew() {
    let Some(world) = World::start("session").await else { return };
    let request = world.machine("m", &world.spec());
    world.create(&request).await.unwrap();
    let logins = world.edge.count("Login");
    world.edge.plan("CreateContainerView", 500, &fault("NotAuthenticated", "The session is not authenticated."));
    assert_eq!(world.look(&request).await.len(), 1);
    assert_eq!(world.edge.count("Login"), logins + 1);
}

#[tokio::test]
async fn faults_keep_their_names_and_nothing_is_lost_by_them() {
    let Some(world) = World::start("faults").await else { return };
    for (number, (method, name, kind)) in [
        ("CloneVM_Task", "NoPermission", ErrorKind::Credentials),
        ("CloneVM_Task", "InsufficientResourcesFault", ErrorKind::NoCapacity),
        ("PowerOnVM_Task", "InsufficientFailoverResourcesFault", ErrorKind::NoCapacity),
        ("PowerOnVM_Task", "NotEnoughLicenses", ErrorKind::Quota),
        ("RetrievePropertiesEx", "HostCommunication", ErrorKind::Unreachable),
    ]
    .into_iter()
    .enumerate()
    {
        let request = world.machine(&number.to_string(), &world.spec());
        world.edge.plan(method, 500, &fault(name, "words of vCenter"));
        let error = world.create(&request).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(&format!("{name}: words of vCenter")), "{error}");
        assert!(error.request_id.is_some_and(|id| id.starts_with("machinist-")));
        assert_eq!(world.until_made(&request).await.state, State::Running, "{name}");
    }
    assert_eq!(world.marked().await.len(), 5);
}

#[tokio::test]
async fn garbage_and_silence_are_errors_and_never_an_empty_answer() {
    let Some(world) = World::start("garbage").await else { return };
    let request = world.machine("m", &world.spec());
    for (status, answer, kind) in [
        (502, "<html>Bad Gateway</html>", ErrorKind::Unreachable),
        (200, "not xml", ErrorKind::Other),
        (200, "<Envelope><Body/></Envelope>", ErrorKind::Other),
    ] {
        world.edge.plan("RetrievePropertiesEx", status, answer);
        let answer = world.provider.instances(std::slice::from_ref(&request)).await.pop().unwrap();
        assert_eq!(answer.unwrap_err().kind, kind);
    }
}

/// vcsim's own certificate, which nobody signed.
#[tokio::test]
async fn a_certificate_is_believed_by_its_thumbprint_and_not_otherwise() {
    let Some(world) = World::start("tls").await else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoints = BTreeMap::from([(SERVER.to_owned(), format!("https://{}", world.vcsim.address))]);
    let provider = Vsphere::new(Settings { endpoints, ..Settings::default() }, Arc::new(NoPools));
    let looked = async |thumbprint: Option<&str>| {
        let entries =
            [("username", USER), ("password", PASSWORD)].into_iter().chain(thumbprint.map(|it| ("thumbprint", it)));
        let data = entries.map(|(key, value)| (format!("{SERVER}.{key}"), value.as_bytes().to_vec()));
        let secrets = Secrets { credentials: Some(SecretData(data.collect())), user_data: None };
        let request = Request { secrets: Arc::new(secrets), ..world.machine("m", &world.spec()) };
        provider.instances(std::slice::from_ref(&request)).await.pop().unwrap()
    };
    let error = looked(None).await.unwrap_err();
    assert!(error.kind == ErrorKind::Unreachable && error.message.contains("certificate"), "{error}");
    let error = looked(Some(&"ab".repeat(32))).await.unwrap_err();
    assert!(error.message.contains("certificate"), "{error}");
    let thumbprint = world.thumbprint().await;
    assert_eq!(looked(Some(&thumbprint)).await, Ok(Vec::new()));
}
