//! Kills the daemon or its whole node at every point recorded in the journal: the node ends up with the old or the new
//! config.

use std::fs;

use api::annotations;
use change::plan::plan;
use change::step::Step;
use change::target::Target;
use serde_json::{Value, json};
use testkit::objects::machine_config;
use testkit::wait_until;

use super::node::Node;
use super::world::{World, file, get};

/// A config with every kind of step, and `word` in everything that differs between two configs.
fn config(word: &str) -> Value {
    let unit =
        |text: &str| format!("[Service]\nExecStart=/bin/sleep infinity\n{text}[Install]\nWantedBy=multi-user.target\n");
    json!({
        "ignition": {"version": "3.4.0"},
        "storage": {
            "files": [
                file("/etc/quiet/a", word), file(&format!("/etc/quiet/{word}"), word), file("/etc/quiet/same", "same"),
            ],
            "directories": [{"path": format!("/etc/quiet/folder-{word}")}],
            "links": [{"path": "/etc/quiet/link", "target": format!("/etc/quiet/{word}"), "overwrite": true}],
        },
        "systemd": {"units": [
            {"name": "shared.service", "enabled": true, "contents": unit(&format!("Environment=WORD={word}\n")),
             "dropins": [{"name": "10-word.conf", "contents": format!("[Unit]\nDescription={word}\n")}]},
            {"name": format!("only-{word}.service"), "enabled": true, "contents": unit("")},
            {"name": "masked.service", "mask": word == "two"},
        ]},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [format!("ssh-ed25519 {word}")], "passwordHash": format!("$6${word}")}]},
    })
}

/// Sets policies under which these configs do not reboot the node.
fn quiet(world: &World) {
    let reload = json!([{"type": "DaemonReload"}]);
    let units = ["shared.service", "only-one.service", "only-two.service", "masked.service"];
    let units: Vec<Value> = units.iter().map(|unit| json!({"name": unit, "actions": reload})).collect();
    let restart = json!([{"type": "Restart", "restart": {"serviceName": "fragile.service"}}]);
    world.policies(&json!({
        "files": [
            {"path": "/etc/quiet", "actions": [{"type": "None"}]}, {"path": "/etc/fragile", "actions": restart},
        ],
        "units": units,
    }));
}

fn target(config: Value) -> Target {
    Target::read(&machine_config("any", "worker", config)).unwrap()
}

/// Checks that everything matches the config of `word`, and nothing of `other` is left.
fn check(node: &Node, word: &str, other: &str) {
    let shown = node.try_run(&["/usr/local/bin/machinistd", "diff"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stdout));
    assert_eq!(node.read("/etc/quiet/a").unwrap(), word);
    assert_eq!(fs::read_link(node.path("/etc/quiet/link")).unwrap().to_str().unwrap(), format!("/etc/quiet/{word}"));
    for gone in [
        format!("/etc/quiet/{other}"),
        format!("/etc/quiet/folder-{other}"),
        format!("/etc/systemd/system/only-{other}.service"),
    ] {
        assert!(!node.path(&gone).exists(), "{gone}");
    }
    let load = |unit: &str| node.run(&["systemctl", "show", "-P", "LoadState", unit]).trim().to_owned();
    assert_eq!(load(&format!("only-{other}.service")), "not-found");
    assert_eq!(node.run(&["systemctl", "is-enabled", &format!("only-{word}.service")]).trim(), "enabled");
    let journal = fs::read_dir(node.path("/etc/machine-config-daemon/journal")).unwrap().count();
    assert_eq!(journal, 0, "the journal is closed");
}

fn restarts(node: &Node) -> usize {
    node.run(&["systemctl", "show", "-P", "NRestarts", "machinistd"]).trim().parse().unwrap()
}

#[tokio::test]
async fn a_daemon_killed_at_each_journalled_step_ends_in_the_new_config() {
    let Some(world) = World::new().await else { return };
    quiet(&world);
    let steps = plan(&target(config("one")), &target(config("two"))).len();
    assert!(steps >= 20, "there is a step of every kind: {steps}");
    let base = world.config("rendered-worker-base", json!({})).await;
    let one = world.config("rendered-worker-one", config("one")).await;
    let two = world.config("rendered-worker-two", config("two")).await;
    let node = world.node("n1", 4, &base).await;
    world.want("n1", &one).await;
    world.done("n1", &one).await;
    check(&node, "one", "two");
    let before = restarts(&node);

    let mut points: Vec<String> = (0..=steps).map(|step| format!("on {step}")).collect();
    points
        .extend(["applying", "applied"].iter().flat_map(|phase| [format!("before {phase}"), format!("after {phase}")]));
    node.arm(&points);
    world.want("n1", &two).await;
    world.done("n1", &two).await;
    assert_eq!(node.armed(), "", "it died everywhere");
    assert_eq!(restarts(&node) - before, points.len());
    check(&node, "two", "one");
    assert_eq!(node.boots(), 1);
}

#[tokio::test]
async fn a_daemon_killed_at_each_step_of_the_way_back_ends_in_the_old_config() {
    let Some(world) = World::new().await else { return };
    quiet(&world);
    let base = world.config("rendered-worker-base", json!({})).await;
    let one = world.config("rendered-worker-one", config("one")).await;
    // The service that the change restarts fails with the new config.
    let mut bad = config("two");
    bad["storage"]["files"].as_array_mut().unwrap().push(file("/etc/fragile/break", "it"));
    let steps = plan(&target(bad.clone()), &target(config("one"))).len();
    let bad = world.config("rendered-worker-bad", bad).await;
    let node = world.node("n1", 12, &base).await;
    let fragile = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'test ! -e /etc/fragile/break'\n";
    fs::write(node.path("/etc/systemd/system/fragile.service"), fragile).unwrap();
    node.run(&["systemctl", "daemon-reload"]);
    world.want("n1", &one).await;
    world.done("n1", &one).await;

    let mut points: Vec<String> = (0..=steps).map(|step| format!("back {step}")).collect();
    points.extend(["undoing", "undone"].iter().flat_map(|phase| [format!("before {phase}"), format!("after {phase}")]));
    node.arm(&points);
    world.want("n1", &bad).await;
    let held = world.state("n1", "Degraded", |node| get(node, annotations::REVERTED) == bad).await;
    assert_eq!(node.armed(), "", "it died everywhere");
    assert_eq!(get(&held, annotations::CURRENT_CONFIG), one);
    assert!(get(&held, annotations::REASON).contains("fragile.service"), "{}", get(&held, annotations::REASON));
    check(&node, "one", "two");
    assert!(!node.path("/etc/fragile/break").exists());
    assert_eq!(node.run(&["systemctl", "is-active", "fragile.service"]).trim(), "active", "it runs as before");
    assert_eq!(node.boots(), 1);
}

#[tokio::test]
async fn a_node_that_loses_power_at_any_point_of_an_update_comes_back_and_finishes() {
    let Some(world) = World::new().await else { return };
    quiet(&world);
    let steps = plan(&target(config("one")), &target(config("two"))).len();
    let base = world.config("rendered-worker-base", json!({})).await;
    let one = world.config("rendered-worker-one", config("one")).await;
    let two = world.config("rendered-worker-two", config("two")).await;
    let node = world.node("n1", 5, &base).await;
    world.want("n1", &one).await;
    world.done("n1", &one).await;
    let mut points: Vec<String> = (0..=steps).step_by(6).map(|step| format!("hold on {step}")).collect();
    points.push("hold after applied".to_owned());
    node.arm(&points);
    world.want("n1", &two).await;
    let held = node.path("/var/lib/machinistd-held");
    for (deaths, point) in (1..).zip(&points) {
        wait_until("the daemon to reach a point", || async { fs::remove_file(&held).is_ok().then_some(()) }).await;
        if deaths == 1 {
            let locks = node.run(&["systemd-inhibit", "--list", "--no-pager"]);
            assert!(locks.contains("machinistd") && locks.contains("shutdown"), "nobody may shut it down: {locks}");
        }
        assert!(!node.armed().contains(point), "{point} comes next");
        node.kill();
        node.booted(1 + deaths).await;
    }
    world.done("n1", &two).await;
    check(&node, "two", "one");
    let locks = node.run(&["systemd-inhibit", "--list", "--no-pager"]);
    assert!(!locks.contains("machinistd"), "{locks}");
}

/// Enough files to be written concurrently, which no test of single steps covers.
fn many(word: &str) -> Value {
    let files: Vec<Value> = (0..60).map(|number| file(&format!("/etc/quiet/many/{number}"), word)).collect();
    json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}})
}

#[tokio::test]
async fn a_node_that_dies_while_it_writes_many_files_at_once_ends_with_all_of_them() {
    let Some(world) = World::new().await else { return };
    quiet(&world);
    let base = world.config("rendered-worker-base", json!({})).await;
    let one = world.config("rendered-worker-one", many("one")).await;
    let two = world.config("rendered-worker-two", many("two")).await;
    let node = world.node("n1", 13, &base).await;
    world.want("n1", &one).await;
    world.done("n1", &one).await;
    let before = restarts(&node);

    let steps = plan(&target(many("one")), &target(many("two")));
    let first = steps.iter().position(|step| matches!(step, Step::WriteFile { .. })).unwrap();
    node.arm(
        &[first + 20, first + 40]
            .map(|step| format!("on {step}"))
            .into_iter()
            .chain([format!("hold on {}", first + 59)])
            .collect::<Vec<_>>(),
    );
    world.want("n1", &two).await;
    let held = node.path("/var/lib/machinistd-held");
    wait_until("the daemon to reach the last file", || async { fs::remove_file(&held).is_ok().then_some(()) }).await;
    assert_eq!(restarts(&node) - before, 2, "it died twice on its way there");
    node.kill();
    node.booted(2).await;
    world.done("n1", &two).await;
    for number in 0..60 {
        assert_eq!(node.read(&format!("/etc/quiet/many/{number}")).as_deref(), Some("two"), "{number}");
    }
    let shown = node.try_run(&["/usr/local/bin/machinistd", "diff"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stdout));
}
