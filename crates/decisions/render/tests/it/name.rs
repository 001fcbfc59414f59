//! The name of a rendered config never changes for the same content.

use expect_test::expect;
use serde_json::json;

use crate::world::{file, fragment, render, worker};

/// If this fails, every node of every cluster would be touched by an upgrade. Do not update it: give the form a new version, and
/// keep accepting names of the old one.
#[test]
fn the_canonical_form_is_fixed() {
    let all = [
        file("50-a", "/etc/a", "text"),
        fragment("60-b", "worker", json!({"kernelArguments": ["quiet"], "fips": true})),
    ];
    let rendered = render(&worker(), &all).unwrap();
    expect!["rendered-worker-9fa376cb6ba5fac230f8a957c9beb0f2"]
        .assert_eq(rendered.machine_config.metadata.name.as_deref().unwrap());
}

#[test]
fn other_content_has_another_name_and_the_same_content_the_same() {
    let name = |text: &str| render(&worker(), &[file("50-a", "/etc/a", text)]).unwrap().machine_config.metadata.name;
    assert_eq!(name("x"), name("x"));
    assert_ne!(name("x"), name("y"));
    let renamed = render(&worker(), &[file("51-b", "/etc/a", "x")]).unwrap().machine_config.metadata.name;
    assert_eq!(renamed, name("x"), "names of fragments are not content");
}

#[test]
fn a_present_config_of_upstreams_with_the_same_content_keeps_its_name() {
    let mut rendered = render(&worker(), &[file("50-a", "/etc/a", "x")]).unwrap();
    let mut present = rendered.machine_config.clone();
    present.metadata.name = Some("rendered-worker-0123456789abcdef0123456789abcdef".to_owned());
    present.spec.kernel_type = None;
    present.spec.fips = None;
    present.spec.config = Some(json!({
        "ignition": {"version": "3.5.0", "config": {"replace": {"verification": {}}}, "proxy": {}, "timeouts": {}},
        "passwd": {},
        "systemd": {},
        "storage": {"files": [{"path": "/etc/a", "overwrite": true, "group": {}, "user": {}, "contents": {"source": "data:,x", "verification": {}}}]},
    }));
    assert!(render::keep_name(&mut rendered, &present));
    assert_eq!(rendered.machine_config.metadata.name, present.metadata.name);

    present.spec.kernel_arguments = vec!["quiet".to_owned()];
    assert!(!render::keep_name(&mut rendered, &present));
}

#[test]
fn an_archive_gives_the_config_back_and_no_other() {
    let rendered = render(&worker(), &[file("50-a", "/etc/a", "x")]).unwrap().machine_config;
    let name = rendered.metadata.name.clone().unwrap();
    let archive = render::archive(&rendered);
    assert_eq!(render::restore(&archive, "worker", &name).unwrap(), rendered);
    assert!(render::restore(&archive, "worker", "rendered-worker-other").is_err());
    let mut broken = archive;
    broken.data.0.truncate(20);
    assert!(render::restore(&broken, "worker", &name).is_err());
}
