//! Compares with the real Ignition: it accepts what we render and refuses what we refuse.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use serde_json::{Value, json};

#[allow(dead_code, reason = "shared with the fuzz tests, which use more of it")]
#[path = "../../../crates/vocabulary/ignition/tests/it/mutate.rs"]
mod mutate;

const MODULE: &str = "github.com/coreos/ignition/v2";
const VERSION: &str = "v2.24.0";

fn validator() -> Option<PathBuf> {
    testkit::needs::go().then(|| testkit::cache::go_tool(MODULE, VERSION, &format!("{MODULE}/validate")).unwrap())
}

fn ask(validator: &PathBuf, config: &Value) -> Output {
    let mut command = Command::new(validator);
    let command = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn report(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn pool_of_all() -> MachineConfigPool {
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "worker"},
        "spec": {"machineConfigSelector": {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}},
    }))
    .unwrap()
}

/// Returns the sets of fragments to render: every input of the vectors, and the corpus.
fn sets() -> Vec<Vec<MachineConfig>> {
    let read = |fragments: &Value| -> Vec<MachineConfig> {
        let fragments = fragments.as_array().unwrap().iter().cloned().map(|mut fragment| {
            fragment["apiVersion"] = json!("machineconfiguration.openshift.io/v1");
            fragment["kind"] = json!("MachineConfig");
            if fragment["spec"]["extensions"].is_null() {
                fragment["spec"]["extensions"] = json!([]);
            }
            serde_json::from_value(fragment).unwrap()
        });
        fragments.collect()
    };
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/worker-pool.json");
    let corpus: Value = serde_json::from_str(&std::fs::read_to_string(corpus).unwrap()).unwrap();
    let mut sets = vec![read(&corpus)];
    sets.extend(mutate::inputs("merge").iter().map(|input| read(&input["machineConfigs"])));
    sets
}

#[test]
fn the_real_ignition_accepts_every_config_we_render() {
    let Some(validator) = validator() else { return };
    let mut taken = 0;
    for (index, fragments) in sets().iter().enumerate() {
        let rendered =
            render::render(&pool_of_all(), fragments, &render::Settings::default(), &render::Fetched::default());
        let Ok(rendered) = rendered else { continue };
        let config = rendered.machine_config.spec.config.unwrap();
        let output = ask(&validator, &config);
        assert!(output.status.success(), "set {index}: {}\n{config}", report(&output));
        taken += 1;
    }
    assert!(taken > 150, "only {taken} sets could be rendered");
}

#[test]
fn the_real_ignition_accepts_every_config_we_serve_to_older_clients() {
    let Some(validator) = validator() else { return };
    for input in mutate::inputs("ignition-down") {
        let Ok(config) = ignition::parse(&input["config"]) else { continue };
        for version in ignition::Version::SERVED.into_iter().filter(|version| *version >= ignition::Version::V3_1) {
            if let Ok(lowered) = ignition::down::lower(config.clone(), version, Vec::new()) {
                let output = ask(&validator, &lowered.config);
                assert!(output.status.success(), "{version}: {}\n{}", report(&output), lowered.config);
            }
        }
    }
}

/// Checks complete responses of the config server, for the corpus and for every set of fragments in the vectors, in
/// every version that this Ignition supports. There is no validator for spec 2.2 any more, so our own parser checks it.
#[test]
fn the_real_ignition_accepts_everything_the_config_server_serves() {
    let Some(validator) = validator() else { return };
    let kubeconfig = serving::kubeconfig("https://api-int.example.com:6443", b"CA\n", "token");
    let daemon = serving::daemon::Fetched {
        source: serving::daemon::source("api-int.example.com:22623", &"a".repeat(64)),
        verification: format!("sha512-{}", "b".repeat(128)),
    };
    let mut taken = 0;
    for (index, fragments) in sets().iter().enumerate() {
        let rendered =
            render::render(&pool_of_all(), fragments, &render::Settings::default(), &render::Fetched::default());
        let Ok(rendered) = rendered else { continue };
        let parts = serving::Parts {
            machine_config: &rendered.machine_config,
            image: None,
            kubelet_ca: b"CA\n",
            cloud_ca: b"cloud CA\n",
            kubeconfig: &kubeconfig,
            server_ca: b"server CA\n",
            registries: &[("registry.example.com:5000".to_owned(), b"registry CA\n".to_vec())],
            daemon: Some(&daemon),
        };
        for version in ignition::Version::SERVED {
            let Ok(served) = serving::compose(&parts, version) else { continue };
            taken += 1;
            if version < ignition::Version::V3_1 {
                // This is a rule about MachineConfigs, not about Ignition.
                let is_ours = |text: &str| text.contains("Only core user is supported");
                let problem = ignition::read(&served).err().map(|error| error.to_string());
                assert!(problem.as_deref().is_none_or(is_ours), "set {index}, {version}: {problem:?}");
                continue;
            }
            let output = ask(&validator, &served);
            assert!(output.status.success(), "set {index}, {version}: {}\n{served}", report(&output));
        }
    }
    assert!(taken > 600, "only {taken} configs could be served");
}

#[test]
fn we_and_the_real_ignition_refuse_the_same_configs() {
    let Some(validator) = validator() else { return };
    let inputs = mutate::inputs("ignition-convert").into_iter();
    let inputs = inputs.chain(mutate::inputs("ignition-down").into_iter().map(|mut input| input["config"].take()));
    let spec3 = |config: &Value| {
        let version = config["ignition"]["version"].as_str().unwrap_or_default();
        version.starts_with("3.") && version != "3.6.0"
    };
    let configs: Vec<Value> = inputs.filter(spec3).collect();
    let mut disagreements = Vec::new();
    for seed in 0..mutate::rounds() / 4 {
        let mut random = mutate::Random::new(seed);
        let mut config = configs[random.below(configs.len())].clone();
        mutate::mutate(&mut config, &mut random);
        let ours = ignition::read(&config);
        let output = ask(&validator, &config);
        if ours.is_ok() != output.status.success() && !on_purpose(&ours) {
            disagreements.push(format!("seed {seed}: ours {ours:?}, Ignition says {}\n{config}", report(&output)));
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

/// Configs that we refuse although older specs allow them: see `docs/differences.md`.
fn on_purpose(ours: &Result<ignition::Parsed, ignition::Error>) -> bool {
    let text = ours.as_ref().map_or_else(ToString::to_string, |_| String::new());
    ["link target is required", "in other letters"].iter().any(|reason| text.contains(reason))
}
