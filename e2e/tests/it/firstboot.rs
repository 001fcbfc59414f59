//! A machine's first boot with real parts: Ignition downloads from `machinist server` through a pointer config and
//! writes a root, systemd boots it, the first boot completes, the machine joins, and its pool counts it.
//!
//! Only the kubelet is simulated: it requests its certificate with the kubeconfig that was served.

mod machine;
mod scene;

use api::annotations;
use api::machineconfiguration::MachineConfigPool;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use testkit::{wait_for, wait_until};

use crate::watching::annotation;
use machine::Machine;
use scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_boots_from_its_pointer_config_and_joins_its_pool_and_one_that_fails_says_where() {
    let Some(scene) = Scene::start().await else { return };

    let user_data = scene.pointer(&["--uses", "1"]);
    assert!(user_data.len() < 2048, "{} bytes", user_data.len());
    let machine = Machine::new("first", &user_data);
    assert_eq!(machine.mode("usr/local/bin/machinistd"), None, "the image lacks the daemon");
    machine.ignite().unwrap();
    assert!(machine.ignite().is_err(), "a token for one use works once");
    assert_eq!(machine.read("etc/greeting"), "hello");
    assert_eq!(machine.mode("usr/local/bin/machinistd"), Some(0o755), "Ignition fetched it and found its hash right");
    let first_boot = machine.mode("etc/machinist/firstboot.json");
    assert_eq!(first_boot, Some(0o600), "the credential is root's");

    machine.boot();
    scene.event("ConfigServed", &[&scene.config, "127.0.0.1"]).await;
    scene.event("FirstBootCompleted", &["first", &scene.config]).await;
    wait_until("the credential to be gone", || async {
        machine.mode("etc/machinist/firstboot.json").is_none().then_some(())
    })
    .await;
    assert!(machine.mode("etc/ignition-machine-config-encapsulated.json").is_none());

    scene.play_kubelet("first", &machine).await;
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let node = wait_for(&nodes, "first", "the daemon to join with the config it was born with", |node| {
        node.is_some_and(|node| {
            annotation(node, annotations::STATE) == "Done"
                && annotation(node, annotations::CURRENT_CONFIG) == scene.config
                && annotation(node, annotations::DESIRED_CONFIG) == scene.config
        })
    });
    let node = node.await.unwrap();
    assert_eq!(annotation(&node, annotations::FIRST_PIVOT_CONFIG), scene.config);
    let pools: Api<MachineConfigPool> = Api::all(scene.client.clone());
    wait_for(&pools, "worker", "the pool to count the machine", |pool| {
        let Some(status) = pool.and_then(|pool| pool.status.as_ref()) else { return false };
        let is_updated = status.conditions.iter().any(|it| it.type_ == "Updated" && it.status == "True");
        status.machine_count == Some(1) && status.updated_machine_count == Some(1) && is_updated
    })
    .await;
    assert_eq!(
        machine.run(&["/usr/local/bin/machinistd", "diff"]),
        (0, format!("this host is as {} says\n", scene.config))
    );
    assert_eq!(
        machine.mode("etc/mcs-machine-config-content.json"),
        Some(0o600),
        "secrets are root's once it has joined"
    );

    an_open_pool_says_so_and_serves_machines_without_a_token(&scene).await;
    a_machine_that_ignition_cannot_write_says_so(&scene).await;
    a_first_boot_that_fails_says_at_which_step(&scene).await;
}

async fn an_open_pool_says_so_and_serves_machines_without_a_token(scene: &Scene) {
    let machine = Machine::new("guest", &scene.pointer(&["--open"]));
    scene.open_pool(true).await;
    let pools: Api<MachineConfigPool> = Api::all(scene.client.clone());
    let is_open = |pool: Option<&MachineConfigPool>, word: &str| {
        let conditions = pool.and_then(|pool| pool.status.as_ref()).map(|status| &status.conditions);
        conditions.into_iter().flatten().any(|it| it.type_ == "ConfigServerOpen" && it.status == word)
    };
    wait_for(&pools, "worker", "the pool to say that it is open", |pool| is_open(pool, "True")).await;
    scene.event("ConfigServerOpened", &["PoolPolicy worker"]).await;
    machine.ignite().unwrap();
    assert_eq!(machine.read("etc/greeting"), "hello");
    scene.open_pool(false).await;
    wait_for(&pools, "worker", "the pool to say that it is closed", |pool| is_open(pool, "False")).await;
}

async fn a_machine_that_ignition_cannot_write_says_so(scene: &Scene) {
    let machine = Machine::new("second", &scene.pointer(&[]));
    // A file is in the place of a folder that the config needs.
    std::fs::write(machine.path("etc/kubernetes"), "in the way").unwrap();
    let log = machine.ignite().unwrap_err();
    machine.report_ignition(&log);
    scene.event("IgnitionFailed", &["etc/kubernetes"]).await;
}

async fn a_first_boot_that_fails_says_at_which_step(scene: &Scene) {
    let machine = Machine::new("third", &scene.pointer(&[]));
    machine.ignite().unwrap();
    std::fs::write(machine.path("etc/ignition-machine-config-encapsulated.json"), "{").unwrap();
    machine.boot();
    scene.event("FirstBootFailed", &["third", "is not a MachineConfig"]).await;
    assert_eq!(machine.mode("etc/machinist/firstboot.json"), Some(0o600), "it is needed for the next try");
}
