//! A cluster that another controller has looked after, as it leaves it: MachineConfigs with its version, its rendered configs under
//! its names, nodes that run them. Contents are our own.
//!
//! The parts that the other controller plays are texts as pages have them, made here because they hold some sixty files.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// The other controller names rendered configs by a hash of its own.
const WORKER: &str = "rendered-worker-5d41402abc4b2a76b9719d911017c592";
const MASTER: &str = "rendered-master-7d793037a0760186574b0282f2f435e7";
/// The same as the workers have after our own rollout, as the other controller renders it when it is back.
const BACK: &str = "rendered-worker-9e107d9d372bb6826bd81d3542a419d6";
const VERSION: &str = "1f0e3dad99908345f7439f8ffabdffc49a5f2c7b";

/// Files of a node.
const FILES: usize = 60;

const NODES: [(&str, &str); 4] =
    [("control-plane-1", MASTER), ("worker-1", WORKER), ("worker-2", WORKER), ("worker-3", WORKER)];

/// Ours is switched off, and the other controller makes its configs and brings each node to them.
pub(super) fn theirs() -> String {
    let mut page = String::from(OFF);
    let _ = writeln!(
        page,
        "```yaml theirs.yaml\n{:#}\n```",
        list(fragments("worker").into_iter().chain(fragments("master")))
    );
    let rendered = [rendered("worker", WORKER, None), rendered("master", MASTER, None)];
    let _ = writeln!(page, "```yaml rendered.yaml\n{:#}\n```", list(rendered));
    page.push_str(
        "```console\n$ kubectl delete mc 00-worker 00-master -o name\n…\n$ kubectl create -f theirs.yaml -o name\n…\n\
         $ kubectl create -f rendered.yaml -o name\n…\n",
    );
    for (pool, name) in [("worker", WORKER), ("master", MASTER)] {
        page.push_str(&target(pool, name));
    }
    for (node, name) in NODES {
        page.push_str(&updated(node, name));
    }
    page.push_str("```\n");
    page
}

/// The other controller is back: it renders what the workers have under a name of its own, and a node takes the name without a drain.
pub(super) fn theirs_again() -> String {
    let motd = json!({"path": "/etc/motd", "mode": 420, "overwrite": true, "contents": {"source": "data:,ours"}});
    let mut page = format!("```yaml again.yaml\n{:#}\n```\n", rendered("worker", BACK, Some(motd)));
    let _ = writeln!(
        page,
        "```console\n$ kubectl create -f again.yaml -o name\n…\n{}{}\
         $ kubectl get node worker-1 -o jsonpath='{{.metadata.annotations.machineconfiguration\\.openshift\\.io/state}} \
         {{.metadata.annotations.machineconfiguration\\.openshift\\.io/currentConfig}} \
         {{.metadata.annotations.machineconfiguration\\.openshift\\.io/desiredDrain}}' > after\n\
         $ cat after\nDone {BACK} uncordon-rendered-worker-…\n```",
        target("worker", BACK),
        done("worker-1", BACK),
    );
    page
}

const OFF: &str = r#"
```console
$ kubectl get co machine-config --no-headers
machine-config   …   True   False   False   …
$ kubectl -n openshift-machine-config-operator scale deploy/machine-config-operator --replicas=0
deployment.apps/machine-config-operator scaled
…
$ kubectl -n openshift-machine-config-operator scale deploy/machine-config-controller --replicas=0
deployment.apps/machine-config-controller scaled
…
$ cat $DIR/machinist.log
…
… stopped component="machine-config-controller"
…
```
"#;

fn target(pool: &str, name: &str) -> String {
    let sources: Vec<Value> = fragments(pool)
        .iter()
        .map(|it| json!({"apiVersion": it["apiVersion"], "kind": it["kind"], "name": it["metadata"]["name"]}))
        .collect();
    let configuration = json!({"configuration": {"name": name, "source": sources}});
    let (spec, status) = (json!({"spec": configuration}), json!({"status": configuration}));
    let patched = format!("machineconfigpool.machineconfiguration.openshift.io/{pool} patched");
    format!(
        "$ kubectl patch mcp {pool} --type merge -p '{spec}'\n{patched}\n\
         $ kubectl patch mcp {pool} --subresource status --type merge -p '{status}'\n{patched}\n"
    )
}

/// The node is sent to a config, and every drain that its daemon asks for is confirmed.
fn updated(node: &str, name: &str) -> String {
    let annotation = |key: &str| format!("{{.metadata.annotations.machineconfiguration\\.openshift\\.io/{key}}}");
    let set = |key: &str, value: &str| {
        format!(
            "$ kubectl annotate node {node} --overwrite machineconfiguration.openshift.io/{key}={value}\nnode/{node} annotated\n"
        )
    };
    let mut text = set("desiredConfig", name);
    for verb in ["drain", "uncordon"] {
        let asked = format!("{verb}-{name}");
        let _ = writeln!(text, "$ kubectl get node {node} -o jsonpath='{}'\n{asked}", annotation("desiredDrain"));
        text.push_str(&set("lastAppliedDrain", &asked));
    }
    text.push_str(&is_done(node, name));
    text
}

/// The node is sent to a config that says what it has already.
fn done(node: &str, name: &str) -> String {
    let set = format!(
        "$ kubectl annotate node {node} --overwrite machineconfiguration.openshift.io/desiredConfig={name}\nnode/{node} annotated\n"
    );
    set + &is_done(node, name)
}

fn is_done(node: &str, name: &str) -> String {
    let annotation = |key: &str| format!("{{.metadata.annotations.machineconfiguration\\.openshift\\.io/{key}}}");
    format!(
        "$ kubectl get node {node} -o jsonpath='{} {}'\nDone {name}\n",
        annotation("state"),
        annotation("currentConfig")
    )
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items.into_iter().collect::<Vec<_>>()})
}

/// What the other controller makes for a role, with its names.
fn fragments(role: &str) -> Vec<Value> {
    let named = [
        (format!("00-{role}"), 0..36, Vec::new()),
        (format!("01-{role}-container-runtime"), 36..42, vec![unit("crio.service", true)]),
        (format!("01-{role}-kubelet"), 42..52, vec![unit("kubelet.service", false)]),
        (format!("97-{role}-generated-kubelet"), 52..53, Vec::new()),
        (format!("98-{role}-generated-kubelet"), 53..54, Vec::new()),
        (format!("99-{role}-generated-registries"), 54..FILES, Vec::new()),
    ];
    let fragment = |(name, files, units): (String, std::ops::Range<usize>, Vec<Value>)| {
        let mut config = machine_config(&name, ignition("3.4.0", files.map(file).collect(), units));
        config["metadata"]["labels"] = json!({"machineconfiguration.openshift.io/role": role});
        config
    };
    named.into_iter().map(fragment).collect()
}

/// All of them in one, as the other controller joins them.
fn rendered(role: &str, name: &str, more: Option<Value>) -> Value {
    let files = (0..FILES).map(file).chain(more).collect();
    let units = vec![unit("crio.service", true), unit("kubelet.service", false)];
    let mut config = machine_config(name, ignition("3.4.0", files, units));
    config["metadata"]["annotations"]["machineconfiguration.openshift.io/release-image-version"] = json!("4.17.1");
    let spec = config["spec"].as_object_mut().unwrap();
    spec.insert("baseOSExtensionsContainerImage".to_owned(), json!(""));
    spec.insert("osImageURL".to_owned(), json!(""));
    spec.insert("kernelType".to_owned(), json!("default"));
    assert!(role == "worker" || role == "master");
    config
}

fn machine_config(name: &str, ignition: Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {
            "name": name,
            "annotations": {"machineconfiguration.openshift.io/generated-by-controller-version": VERSION},
        },
        "spec": {"config": ignition, "extensions": [], "fips": false, "kernelArguments": []},
    })
}

fn ignition(version: &str, files: Vec<Value>, units: Vec<Value>) -> Value {
    json!({"ignition": {"version": version}, "storage": {"files": files}, "systemd": {"units": units}})
}

/// A unit that is replaced, or one that only gets a drop-in.
fn unit(name: &str, drop_in: bool) -> Value {
    if drop_in {
        let contents = "[Service]\nEnvironment=\"PROFILE=taken over\"\n";
        return json!({"name": name, "dropins": [{"name": "10-default-env.conf", "contents": contents}]});
    }
    let contents = "[Unit]\nDescription=Kubernetes Kubelet\n[Service]\nExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet.conf\n\
                    [Install]\nWantedBy=multi-user.target\n";
    json!({"name": name, "enabled": true, "contents": contents})
}

/// Files in each encoding that such configs have: percent-encoded, base64 with a media type and without, compressed.
fn file(number: usize) -> Value {
    let path = match number {
        52 => "/etc/kubernetes/kubelet.conf".to_owned(),
        54 => "/etc/containers/registries.conf".to_owned(),
        _ => format!("/etc/taken-over/{number:02}.conf"),
    };
    let text = format!("# {path}\nvalue = \"{number} %\"\n");
    let mut contents = match number % 4 {
        0 => json!({"source": format!("data:,{}", escaped(&text))}),
        1 => json!({"source": format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(&text))}),
        2 => json!({"source": format!("data:;base64,{}", STANDARD.encode(&text)), "compression": ""}),
        _ => json!({"source": format!("data:;base64,{}", STANDARD.encode(compressed(&text))), "compression": "gzip"}),
    };
    if number % 4 == 1 {
        contents["verification"] = json!({});
    }
    let mode = [420, 493, 384][number % 3];
    json!({"path": path, "mode": mode, "overwrite": true, "contents": contents})
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

fn compressed(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}
