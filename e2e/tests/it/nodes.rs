//! Stories on real systemd nodes: machinistd as a service of a booted system, against a real API.

mod base;
mod node;
mod world;

use serde_json::json;

use world::{World, file};

const UNIT: &str = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

#[tokio::test]
async fn files_units_dropins_and_keys_arrive_and_an_old_unit_goes() {
    let Some(world) = World::new().await else { return };
    let old = json!({
        "storage": {"files": [file("/etc/motd", "from the old config\n"), file("/etc/only-old", "old\n")]},
        "systemd": {"units": [{"name": "old.service", "enabled": true, "contents": UNIT}]},
    });
    let base = world.config("rendered-worker-base", json!({})).await;
    let old = world.config("rendered-worker-old", old).await;
    let new = json!({
        "storage": {"files": [file("/etc/motd", "from the new config\n"), file("/etc/deep/er/file", "new\n")]},
        "systemd": {"units": [
            {"name": "new.service", "enabled": true, "contents": UNIT,
             "dropins": [{"name": "10-nice.conf", "contents": "[Service]\nNice=7\n"}]},
            {"name": "ssh.service", "dropins": [{"name": "10-nice.conf", "contents": "[Service]\nNice=3\n"}]},
        ]},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA test"]}]},
    });
    let new = world.config("rendered-worker-new", new).await;
    let node = world.node("n1", 1, &base).await;
    world.answer_drains("n1");
    let shipped = node.read("/etc/motd").expect("the distribution ships one");

    world.want("n1", &old).await;
    world.done("n1", &old).await;
    assert_eq!(node.run(&["systemctl", "is-active", "old.service"]).trim(), "active");

    world.want("n1", &new).await;
    world.done("n1", &new).await;
    assert_eq!(node.boots(), 3, "each of the two changes reboots once");
    assert_eq!(node.read("/etc/motd").unwrap(), "from the new config\n");
    assert_eq!(node.read("/etc/deep/er/file").unwrap(), "new\n");
    assert_eq!(node.read("/etc/only-old"), None);
    assert_eq!(node.run(&["systemctl", "is-active", "new.service"]).trim(), "active");
    assert_eq!(node.run(&["systemctl", "show", "-P", "Nice", "new.service"]).trim(), "7");
    assert_eq!(node.run(&["systemctl", "show", "-P", "Nice", "ssh.service"]).trim(), "3");
    let gone = node.run(&["systemctl", "show", "-P", "LoadState", "old.service"]);
    assert_eq!(gone.trim(), "not-found");
    assert_eq!(node.read("/home/core/.ssh/authorized_keys.d/ignition").unwrap(), "ssh-ed25519 AAAA test\n");

    world.want("n1", &base).await;
    world.done("n1", &base).await;
    assert_eq!(node.read("/etc/motd").unwrap(), shipped, "what the distribution shipped is back");
}
