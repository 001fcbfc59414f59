//! `served-ignition`: the files that a new machine of a pool is served.

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use serving::choose::Layered;

use super::judge::{Expected, Judge, Rule};
use super::same;

pub(crate) struct ServedIgnition;

const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";

impl Judge for ServedIgnition {
    fn file(&self) -> &'static str {
        "served-ignition"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let pool: MachineConfigPool = read(&input["pool"])?;
        if pool.metadata.name.as_deref() != Some("worker") {
            return Err("pool worker not found".to_owned());
        }
        let name = serving::choose::config(&pool).unwrap_or_default();
        let config = list(input, "machineConfigs").find(|config| config["metadata"]["name"] == name);
        let config: MachineConfig = read(config.ok_or_else(|| format!("could not fetch config {name}: not found"))?)?;
        let controller = &input["controllerConfig"];
        if controller.is_null() {
            return Err("ControllerConfig machine-config-controller not found".to_owned());
        }
        let token = input["token"].as_str().ok_or("the token: no such file or directory")?;
        let text = |field: &str| input[field].as_str().unwrap_or_default();
        let kubeconfig = serving::kubeconfig(text("apiServerURL"), text("rootCA").as_bytes(), token);
        let own: Vec<String> =
            list(input, "internalRegistryHosts").filter_map(Value::as_str).map(str::to_owned).collect();
        let parts = serving::Parts {
            machine_config: &config,
            image: serving::choose::image(&pool, name, layered(input).as_ref(), &own),
            kubelet_ca: &certificate(controller, "kubeAPIServerServingCAData"),
            cloud_ca: &certificate(controller, "cloudProviderCAData"),
            kubeconfig: &kubeconfig,
            server_ca: &[],
            registries: &[],
            daemon: None,
        };
        let version = match input["version"].as_str() {
            None => ignition::Version::NEWEST,
            Some(version) => ignition::Version::parse(version).map_err(|error| error.to_string())?,
        };
        let served = serving::compose(&parts, version).map_err(|error| error.to_string())?;
        let files: Vec<Value> = list(&served["storage"], "files").map(shown).collect();
        Ok(json!({"ignitionVersion": served["ignition"]["version"], "files": files}))
    }

    /// In addition to the general phrases: the unknown version, or the feature that an old version lacks.
    fn phrases(&self, error: &str) -> Vec<String> {
        let mut phrases = same::phrases(error);
        let words = [
            "unknown version",
            "invalid version",
            "LUKS",
            "ShouldNotExist populated",
            "duplicate entry defined",
            "could not fetch config",
        ];
        phrases.extend(words.into_iter().filter(|word| error.contains(word)).map(str::to_owned));
        phrases
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::object_difference(&with_kubeconfig(expected), &with_kubeconfig(ours))
    }
}

const RULES: &[Rule] =
    &[Rule { name: "a-replaced-certificate-is-not-compressed", covers: |_| true, answer: decodable }];

/// Upstream keeps the old `compression` beside the new bytes, so they cannot be decoded; ours can.
fn decodable(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    for file in output["files"].as_array_mut().into_iter().flatten() {
        let field = match file["path"].as_str() {
            Some("/etc/kubernetes/kubelet-ca.crt") => "kubeAPIServerServingCAData",
            Some(_) => "cloudProviderCAData",
            None => continue,
        };
        if file.as_object_mut().is_some_and(|file| file.remove("undecodable").is_some()) {
            let bytes = certificate(&input["controllerConfig"], field);
            file["contents"] = String::from_utf8_lossy(&bytes).into_owned().into();
        }
    }
    Expected::Output(output)
}

fn layered(input: &Value) -> Option<Layered<'_>> {
    let pool = &input["pool"]["metadata"]["name"];
    let config = list(input, "machineOSConfigs").find(|config| &config["spec"]["machineConfigPool"]["name"] == pool)?;
    let of_config = |build: &&Value| build["spec"]["machineOSConfig"]["name"] == config["metadata"]["name"];
    let build = list(input, "machineOSBuilds").find(of_config)?;
    let succeeded = list(&build["status"], "conditions")
        .any(|condition| condition["type"] == "Succeeded" && condition["status"] == "True");
    Some(Layered {
        image: config["status"]["currentImagePullSpec"].as_str()?,
        config: build["spec"]["machineConfig"]["name"].as_str()?,
        succeeded,
    })
}

/// Returns a served file in the format of the vectors: its bytes as text, or parsed if it is our JSON.
fn shown(file: &Value) -> Value {
    let mut shown = Map::new();
    for field in ["path", "mode", "overwrite"] {
        shown.insert(field.to_owned(), file[field].clone());
    }
    let resource: ignition::Resource = serde_json::from_value(file["contents"].clone()).unwrap_or_default();
    match ignition::decode(&resource) {
        Err(error) => shown.insert("undecodable".to_owned(), error.to_string().into()),
        Ok(bytes) => match serde_json::from_slice::<Value>(&bytes) {
            Ok(parsed) if parsed.is_object() && file["path"] != KUBECONFIG => shown.insert("json".to_owned(), parsed),
            _ => shown.insert("contents".to_owned(), String::from_utf8_lossy(&bytes).into_owned().into()),
        },
    };
    Value::Object(shown)
}

/// The kubeconfig is compared as a value: ours is JSON, upstream's is YAML.
fn with_kubeconfig(output: &Value) -> Value {
    let mut output = output.clone();
    for file in output["files"].as_array_mut().into_iter().flatten().filter(|file| file["path"] == KUBECONFIG) {
        if let Some(parsed) = file["contents"].as_str().and_then(|text| serde_saphyr::from_str::<Value>(text).ok()) {
            file["contents"] = parsed;
        }
    }
    output
}

fn certificate(controller: &Value, field: &str) -> Vec<u8> {
    STANDARD.decode(controller["spec"][field].as_str().unwrap_or_default()).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}
