//! The verbs that talk to a cluster, on the fleet of `machinist up`. Nothing but this binary is needed.

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::Command;

use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::fleet::Fleet;
use crate::{Folder, file};

#[test]
fn a_change_is_planned_applied_blamed_and_taken_back() {
    let fleet = Fleet::start(&["--nodes", "2"]);
    let first = fleet.updated("");
    assert_eq!(fleet.disturbances(), Vec::<String>::new(), "nodes are born with their config");
    assert!(fleet.on_node("worker-2", "etc/kubernetes/kubelet.conf").exists());
    // Pods of our own components come a moment after the pools.
    fleet.wait(&["doctor"], |doctor| doctor["findings"].as_array().is_some_and(Vec::is_empty));
    let healthy = fleet.run(&["doctor"]);
    assert_eq!((healthy.code, healthy.stdout.as_str()), (0, "Nothing is wrong: 2 pools and 3 nodes looked at.\n"));
    assert_eq!(fleet.run(&["plan"]).code, 0, "nothing is under way");

    fleet.folder.write("motd.yaml", file("50-worker-motd", "worker", "/etc/motd", "hello").as_bytes());
    let planned = fleet.run(&["plan", "-f", "motd.yaml", "--save", "plan.json"]);
    assert_eq!(planned.code, 3, "{}{}", planned.stdout, planned.stderr);
    let plan = fleet.json(&["plan", "-f", "motd.yaml"]);
    assert_eq!(plan["pools"][0]["waves"], serde_json::json!([["worker-1"], ["worker-2"]]));
    assert_eq!(plan["pools"][0]["nodes"][0]["files"], serde_json::json!(["added /etc/motd"]));
    assert_eq!(plan["pools"][0]["nodes"][0]["disruption"], "reboot");

    let applied = fleet.run(&["apply", "plan.json"]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    let refused = fleet.run(&["apply", "plan.json"]);
    assert_eq!(refused.code, 1, "the world is another one now");
    assert!(refused.stderr.contains("MachineConfig 50-worker-motd is new"), "{}", refused.stderr);

    let second = fleet.updated(&first);
    assert_eq!(plan["pools"][0]["to"], *second, "the plan named the config");
    assert_eq!(std::fs::read_to_string(fleet.on_node("worker-2", "etc/motd")).unwrap(), "hello");
    let blamed = fleet.json(&["blame", "worker-1", "/etc/motd"]);
    assert_eq!(blamed["fragment"]["name"], "50-worker-motd");
    assert_eq!(blamed["fragment"]["writtenBy"][0]["manager"], "machinist-apply");
    let compared = fleet.run(&["diff", &first, "node/worker-1"]);
    assert!(
        compared.code == 3 && compared.stdout.contains("added file /etc/motd"),
        "{}{}",
        compared.stdout,
        compared.stderr
    );

    let back = fleet.run(&["rollback", "worker", "--to", &first, "--yes"]);
    assert_eq!(back.code, 0, "{}{}", back.stdout, back.stderr);
    assert!(back.stdout.contains("delete   MachineConfig 50-worker-motd"), "{}", back.stdout);
    assert_eq!(fleet.updated(&second), first, "the same config to the letter");
    assert!(!fleet.on_node("worker-2", "etc/motd").exists());
}

#[test]
fn a_machine_that_is_off_is_named_and_a_drift_is_repaired() {
    let fleet = Fleet::start(&["--nodes", "1"]);
    fleet.folder.write("motd.yaml", file("50-worker-motd", "worker", "/etc/motd", "hello").as_bytes());
    let first = fleet.updated("");
    assert_eq!(fleet.run(&["plan", "-f", "motd.yaml", "--save", "plan.json"]).code, 3);
    assert_eq!(fleet.run(&["apply", "plan.json"]).code, 0);
    fleet.updated(&first);

    std::fs::write(fleet.on_node("worker-1", "etc/motd"), "by hand").unwrap();
    fleet.wait(&["why", "node", "worker-1"], |why| why["state"] == "Degraded");
    fleet.wait(&["doctor"], |doctor| {
        let findings = doctor["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
        matches!(findings, [only] if only["id"] == "content-mismatch")
    });
    assert_eq!(fleet.run(&["doctor", "--fix"]).code, 3, "nobody can be asked here, so nothing is done");
    assert_eq!(fleet.run(&["doctor", "--fix", "--yes"]).code, 0);
    fleet.wait(&["why", "node", "worker-1"], |why| why["state"] == "Updated");
    assert_eq!(std::fs::read_to_string(fleet.on_node("worker-1", "etc/motd")).unwrap(), "hello");

    let switch = fleet.folder.path().join("fleet/nodes/worker-1/off");
    std::fs::write(&switch, "").unwrap();
    let off = fleet.wait(&["why", "node", "worker-1"], |why| why["state"] == "Blocked");
    assert!(off["summary"].as_str().unwrap().contains("NotReady"), "{off:#}");
    std::fs::remove_file(&switch).unwrap();
    fleet.wait(&["why", "node", "worker-1"], |why| why["state"] == "Updated");
}

#[test]
fn a_fleet_survives_the_end_of_its_process_and_refuses_a_second_one() {
    let mut fleet = Fleet::start(&["--nodes", "1", "--control-plane", "0"]);
    let first = fleet.updated("");
    let second = fleet.folder.run(&["up", "--data", "fleet"]);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains("is running in") && second.stderr.contains("--data"), "{}", second.stderr);

    fleet.end("KILL");
    let folder = std::mem::replace(&mut fleet.folder, Folder::new(&[]));
    let mut fleet = Fleet::try_start(folder, &["--nodes", "1", "--control-plane", "0"]).unwrap();
    assert_eq!(fleet.updated(""), first);
    fleet.wait(&["doctor"], |doctor| doctor["findings"].as_array().is_some_and(Vec::is_empty));
    assert_eq!(fleet.disturbances(), Vec::<String>::new(), "neither start takes a node out of service");
    fleet.end("INT");
}

#[test]
fn what_stands_in_the_way_of_a_fleet_is_said_in_one_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = Folder::new(&[("file", "")]);
    let run = folder.run(&["up", "--port", &port]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains(&format!("port {port} is in use")) && run.stderr.contains("--port"), "{}", run.stderr);
    let run = folder.run(&["up", "--data", "file/below"]);
    assert!(run.code == 1 && run.stderr.contains("cannot be made") && run.stderr.contains("--data"), "{}", run.stderr);
    // Not even root may write there.
    let run = folder.run(&["up", "--data", "/proc"]);
    assert!(run.code == 1 && run.stderr.contains("/proc cannot be written"), "{}", run.stderr);
    let limited = Command::new("sh")
        .current_dir(folder.path())
        .args(["-c", "ulimit -n 150; exec \"$0\" up --nodes 3", env!("CARGO_BIN_EXE_machinist")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stderr).into_owned();
    assert!(said.contains("open files") && said.contains("ulimit -n"), "{said}");
}

#[test]
fn a_missing_right_is_named_with_the_command_that_grants_it() {
    let fleet = Fleet::start(&["--nodes", "1", "--control-plane", "0"]);
    let text = std::fs::read_to_string(fleet.folder.path().join("fleet/kubeconfig")).unwrap();
    let nobody: Vec<&str> = text.lines().filter(|line| !line.contains("client-")).collect();
    fleet.folder.write("nobody", nobody.join("\n").as_bytes());
    fleet.folder.write("motd.yaml", file("50-worker-motd", "worker", "/etc/motd", "hello").as_bytes());
    assert_eq!(fleet.run(&["plan", "-f", "motd.yaml", "--save", "plan.json"]).code, 3);
    for verb in [
        &["status"][..],
        &["why", "pool", "worker"],
        &["doctor"],
        &["plan"],
        &["rollback", "worker"],
        &["blame", "worker-1", "/x"],
        &["apply", "plan.json"],
        &["diff", "rendered-worker-x", "node/worker-1"],
    ] {
        let run = fleet.folder.run(&[verb, &["--kubeconfig", "nobody"]].concat());
        assert_eq!(run.code, 1, "{verb:?}");
        assert!(
            run.stderr.contains("you may not") && run.stderr.contains("kubectl create clusterrole"),
            "{verb:?}: {}",
            run.stderr
        );
    }
    let gone = fleet.folder.run(&["status", "--kubeconfig", "nowhere"]);
    assert!(gone.code == 1 && gone.stderr.contains("nowhere"), "{}", gone.stderr);
}

#[test]
fn a_kind_that_no_config_is_made_from_is_not_planned() {
    let folder = Folder::new(&[("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")]);
    let run = folder.run(&["plan", "-f", "map.yaml", "--kubeconfig", "nowhere"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("ConfigMap \"a\" cannot be planned; plan takes MachineConfig"), "{}", run.stderr);
    assert!(run.stderr.contains("KubeletConfig"), "{}", run.stderr);
}

#[test]
fn the_pointer_of_a_fleet_leads_to_its_config_server() {
    let fleet = Fleet::start(&["--nodes", "1", "--control-plane", "0"]);
    // The operator publishes where it is a moment after the pools are there.
    let pointer = fleet.until(|| Some(fleet.run(&["pointer", "--pool", "worker"])).filter(|run| run.code == 0));
    let pointer: serde_json::Value = serde_json::from_str(&pointer.stdout).unwrap();
    let source = pointer["ignition"]["config"]["merge"][0]["source"].as_str().unwrap();
    let address = source.strip_prefix("https://").and_then(|rest| rest.strip_suffix("/config/worker")).unwrap();
    // The port was there before its certificate, so who comes early waits; who does not speak TLS is told so in TLS.
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /config/worker HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x15], "an alert of TLS");
}

#[tokio::test]
async fn a_fleet_keeps_away_from_clusters_with_nodes_of_their_own() {
    let fleet = Fleet::start(&["--nodes", "1", "--control-plane", "0"]);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "somebodys"}})).unwrap();
    Api::all(fleet.client().await).create(&PostParams::default(), &node).await.unwrap();
    let run = fleet.run(&["up"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("has a node of its own, somebodys"), "{}", run.stderr);
}

#[tokio::test]
async fn status_needs_no_other_rights_than_to_list_pools_and_nodes() {
    let fleet = Fleet::start(&["--nodes", "1", "--control-plane", "0"]);
    let client = fleet.client().await;
    let post = PostParams::default();
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "looker"}})).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    accounts.create(&post, &account).await.unwrap();
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": "looker"}, "rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
        {"apiGroups": ["machineconfiguration.openshift.io"], "resources": ["machineconfigpools"], "verbs": ["list"]},
    ]}))
    .unwrap();
    Api::all(client.clone()).create(&post, &role).await.unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "looker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looker"},
        "subjects": [{"kind": "ServiceAccount", "name": "looker", "namespace": "default"}],
    }))
    .unwrap();
    Api::all(client).create(&post, &binding).await.unwrap();
    let asked = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let token = accounts.create_token_request("looker", &post, &asked).await.unwrap().status.unwrap().token;
    let text = std::fs::read_to_string(fleet.folder.path().join("fleet/kubeconfig")).unwrap();
    let lines = text.lines().filter(|line| !line.contains("client-key-data")).map(|line| {
        if line.contains("client-certificate-data") { format!("    token: {token}") } else { line.to_owned() }
    });
    fleet.folder.write("looker", lines.collect::<Vec<_>>().join("\n").as_bytes());
    let run = fleet.folder.run(&["status", "--kubeconfig", "looker"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("worker  Updated  1/1"), "{}", run.stdout);
    assert!(run.stderr.contains("you may not list poolledgers"), "what it leaves out, it names: {}", run.stderr);
}

#[test]
fn a_live_table_is_drawn_anew_while_the_fleet_changes() {
    let fleet = Fleet::start(&["--nodes", "1", "--control-plane", "0"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
    command.args(["status", "--watch", "--kubeconfig"]).arg(fleet.folder.path().join("fleet/kubeconfig"));
    let mut live = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(live.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("worker  Updated  1/1")));
    let switch = fleet.folder.path().join("fleet/nodes/worker-1/off");
    std::fs::write(switch, "").unwrap();
    assert!(lines.any(|line| line.starts_with("worker-1") && line.contains("Blocked")));
    assert!(Command::new("kill").args(["-s", "INT", &live.id().to_string()]).status().unwrap().success());
    lines.for_each(drop);
    assert!(live.wait().unwrap().success(), "Ctrl-C is how it ends");
}

#[test]
fn many_nodes_live_in_memory() {
    let fleet = Fleet::start(&["--nodes", "300", "--in-memory"]);
    let status = fleet.json(&["status"]);
    assert_eq!(status["nodes"].as_array().unwrap().len(), 301);
    let table = fleet.run(&["status"]).stdout;
    assert!(table.contains("worker  Updated  300/300") && table.contains("301 of 301 updated"), "{table}");
}

#[test]
fn templates_are_filled_in_from_a_controller_config() {
    let config = "apiVersion: machineconfiguration.openshift.io/v1\nkind: ControllerConfig\nmetadata: {name: machine-config-controller}\n\
        spec:\n  additionalTrustBundle: null\n  baseOSContainerImage: ''\n  cloudProviderCAData: null\n  cloudProviderConfig: ''\n  \
        clusterDNSIP: 10.96.0.10\n  dns: null\n  images: {}\n  infra: {spec: {}, status: {platformStatus: {type: None}}}\n  \
        ipFamilies: IPv4\n  kubeAPIServerServingCAData: Y2E=\n  network: null\n  proxy: null\n  releaseImage: ''\n  rootCAData: Y2E=\n";
    let template = "---\npath: /etc/dns\n---\n{{ cluster_dns }} for {{ role }}\n";
    let folder =
        Folder::new(&[("config.yaml", config), ("mine/common/00/dns", template), ("bad/nowhere/dns", template)]);
    let run = folder.run(&["render", "-f", "config.yaml", "--templates"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for name in ["name: 00-worker", "name: 01-worker-kubelet", "name: 01-master-container-runtime"] {
        assert!(run.stdout.contains(name), "{name} is missing");
    }
    let run = folder.run(&["render", "-f", "config.yaml", "--templates=mine"]);
    assert!(run.stdout.contains("/etc/dns") && !run.stdout.contains("01-worker-kubelet"), "{}", run.stdout);
    let run = folder.run(&["render", "-f", "config.yaml", "--templates=bad"]);
    assert!(run.code == 1 && run.stderr.contains("template nowhere/dns"), "{}", run.stderr);
}
