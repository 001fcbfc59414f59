//! `machinist server bootstrap` and `machinist pointer`, without a cluster.

use serde_json::Value;

use crate::{Folder, file};

const CONTROLLER_CONFIG: &str = r#"
apiVersion: machineconfiguration.openshift.io/v1
kind: ControllerConfig
metadata: {name: machine-config-controller}
spec: {additionalTrustBundle: "", baseOSContainerImage: "", cloudProviderCAData: "", cloudProviderConfig: "",
  clusterDNSIP: "", images: {}, ipFamilies: IPv4, kubeAPIServerServingCAData: Q0EK, osImageURL: "", releaseImage: "",
  rootCAData: Q0EK}
"#;

fn rendered(folder: &Folder, path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.path().join(path)).unwrap()).unwrap()
}

#[test]
fn a_bootstrap_host_renders_what_the_controllers_would_and_keeps_it_private() {
    let folder = Folder::new(&[
        ("in/00-master.yaml", &file("00-master", "master", "/etc/motd", "hello")),
        ("in/controller-config.yaml", CONTROLLER_CONFIG),
    ]);
    let arguments = ["server", "bootstrap", "-f", "in", "--server-basedir", "out", "--render-only"];
    let run = folder.run(&arguments);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let pool = rendered(&folder, "out/machine-pools/master.yaml");
    let name = pool["status"]["configuration"]["name"].as_str().unwrap();
    let shown = folder.run(&["render", "-f", "in/00-master.yaml", "--pool", "master", "-o", "json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["metadata"]["name"], name, "the same content has the same name");
    let config = rendered(&folder, &format!("out/machine-configs/{name}.yaml"));
    assert_eq!(config["spec"]["config"]["storage"]["files"][0]["path"], "/etc/motd");
    assert!(folder.path().join("out/controller-config/machine-config-controller.yaml").is_file());
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(folder.path().join(format!("out/machine-configs/{name}.yaml"))).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_bootstrap_host_without_a_controller_config_says_what_is_missing() {
    let folder = Folder::new(&[("in/00-master.yaml", &file("00-master", "master", "/etc/motd", "hello"))]);
    let run = folder.run(&["server", "bootstrap", "-f", "in", "--server-basedir", "out", "--render-only"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("ControllerConfig"), "{}", run.stderr);
    assert!(!folder.path().join("out").exists(), "nothing is half written");
}

#[test]
fn a_pointer_without_a_cluster_writes_its_token_beside_it() {
    let folder = Folder::new(&[("ca.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")]);
    let arguments = ["pointer", "--pool", "master", "--server", "10.0.0.2:22623", "--ca", "ca.crt"];
    let with = |more: &[&str]| folder.run(&[&arguments[..], more].concat());
    let run = with(&["--token-manifest", "token.yaml", "--uses", "3"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let pointer: Value = serde_json::from_str(&run.stdout).unwrap();
    let secret = serving::pointer::token(&pointer).unwrap();
    let token = rendered(&folder, "token.yaml");
    assert_eq!(token["spec"]["sha256"], serving::token::hash(secret));
    assert_eq!((token["spec"]["pool"].as_str(), token["spec"]["maxUses"].as_i64()), (Some("master"), Some(3)));
    assert!(token["spec"]["expires"].is_string());
    for wrong in [&["--uses", "-1"][..], &["--expires", "soon"], &["--expires=-5m"]] {
        let run = with(&[wrong, &["--token-manifest", "other.yaml"]].concat());
        assert_ne!(run.code, 0, "{wrong:?}");
        assert!(!folder.path().join("other.yaml").exists());
    }
}
