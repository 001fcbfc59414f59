//! `container-runtime`: one ContainerRuntimeConfig as the files of the generated fragment.

use api::machineconfiguration::ContainerRuntimeConfig;
use serde_json::{Value, json};
use typed::Quantity;
use typed::runtime::{self, Settings};

use super::judge::{Check, Expected, Judge, Rule};
use super::same;

pub(crate) struct ContainerRuntime;

impl Judge for ContainerRuntime {
    fn file(&self) -> &'static str {
        "container-runtime"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let mut config = input["containerRuntimeConfig"].clone();
        config["apiVersion"] = "machineconfiguration.openshift.io/v1".into();
        config["kind"] = "ContainerRuntimeConfig".into();
        let config: ContainerRuntimeConfig = serde_json::from_value(config).map_err(|error| error.to_string())?;
        let settings = Settings::parse(&config).map_err(|error| error.to_string())?;
        let storage = input["defaultStorageConf"].as_str().unwrap_or_default();
        let files = runtime::files(&settings, storage, input["additionalStorageConfig"] == true);
        let files = files.map_err(|error| error.to_string())?.into_iter().map(|file| {
            let content: Value = toml::from_str(&file.contents).map_err(|error| error.to_string())?;
            Ok(json!({"path": file.path, "mode": file.mode, "overwrite": true, "toml": content}))
        });
        Ok(json!({"files": files.collect::<Result<Vec<_>, String>>()?}))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    /// In storage.conf a zero value equals a missing one; in a drop-in its only field is compared as it is.
    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let plain = |answer: &Value| {
            let mut answer = answer.clone();
            for file in answer["files"].as_array_mut().into_iter().flatten() {
                if file["path"] == runtime::STORAGE {
                    file["toml"] = same::without_zero(&file["toml"]);
                }
            }
            answer
        };
        same::difference(&plain(expected), &plain(ours))
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        match error.starts_with("panic:") {
            true => Vec::new(),
            // Several problems are on separate lines; the first has to be reported.
            false => vec![error.lines().next().unwrap_or(error).to_owned()],
        }
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "8192-bytes-of-log-are-enough",
        covers: |input| size(&field(input, "logSizeMax")) == Some(8192),
        answer: |input, expected| {
            accept_instead_of("LogSizeMax", input, expected, |_, ours| missing(ours, "logSizeMax", 8192))
        },
    },
    Rule {
        name: "only-minus-one-means-no-log-limit",
        covers: |input| size(&field(input, "logSizeMax")).is_some_and(|size| size < -1),
        answer: |_, expected| match expected {
            Expected::Output(_) => Expected::Refusal(vec!["LogSizeMax".to_owned()]),
            Expected::Refusal(mut phrases) => {
                phrases.push("LogSizeMax".to_owned());
                Expected::Refusal(phrases)
            }
            checked @ Expected::Checked(_) => checked,
        },
    },
    Rule {
        name: "minus-one-means-no-process-limit",
        covers: |input| field(input, "pidsLimit") == -1,
        answer: |input, expected| {
            accept_instead_of("PidsLimit -1", input, expected, |_, ours| missing(ours, "pidsLimit", -1))
        },
    },
    Rule {
        name: "a-storage-conf-that-cannot-be-edited-is-refused",
        covers: |_| true,
        answer: |_, expected| match expected {
            Expected::Output(output) if output["storageError"].is_string() => {
                Expected::Refusal(vec!["error decoding storage.conf".to_owned()])
            }
            other => other,
        },
    },
];

fn field(input: &Value, name: &str) -> Value {
    input["containerRuntimeConfig"]["spec"]["containerRuntimeConfig"][name].clone()
}

fn size(value: &Value) -> Option<i64> {
    Quantity::read(value).map(|quantity| quantity.value())
}

/// Upstream refuses for this reason; ours continues, and may still find another one.
fn accept_instead_of(
    reason: &str,
    input: &Value,
    expected: Expected,
    check: fn(&Value, &Value) -> Option<String>,
) -> Expected {
    match expected {
        Expected::Refusal(phrases) if phrases.iter().any(|phrase| phrase.contains(reason)) => match refused(input) {
            found if found.is_empty() => Expected::Checked(Check(check)),
            found => Expected::Refusal(found.into_iter().map(str::to_owned).collect()),
        },
        other => other,
    }
}

/// Returns the other errors in an input, in no particular order.
fn refused(input: &Value) -> Vec<&'static str> {
    let text = |name: &str| field(input, name).as_str().unwrap_or_default().to_owned();
    let levels = ["", "error", "fatal", "panic", "warn", "info", "debug", "trace"];
    let stores = ["additionalLayerStores", "additionalImageStores", "additionalArtifactStores"];
    let plain = |path: &str| {
        let mut letters = path.chars();
        path.len() > 1
            && path.starts_with('/')
            && !path.contains("//")
            && letters.all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
    };
    let bad_store = |store: &Value| !plain(store["path"].as_str().unwrap_or_default());
    let overlay = size(&field(input, "overlaySize")).unwrap_or_default();
    let log_size = size(&field(input, "logSizeMax")).unwrap_or_default();
    let storage = input["defaultStorageConf"].as_str().unwrap_or_default();
    let storage = toml::from_str::<Value>(storage).is_ok_and(|conf| !conf["storage"]["driver"].is_number());
    let found = [
        ("LogSizeMax", log_size < -1 || (1..8192).contains(&log_size)),
        ("overlaySize", overlay < 0),
        ("LogLevel", !levels.contains(&text("logLevel").as_str())),
        ("DefaultRuntime", !["", "crun", "runc"].contains(&text("defaultRuntime").as_str())),
        ("Stores", stores.iter().any(|name| field(input, name).as_array().into_iter().flatten().any(bad_store))),
        ("storage.conf", overlay > 0 && !storage),
    ];
    found.into_iter().filter(|(_, is_wrong)| *is_wrong).map(|(phrase, _)| phrase).collect()
}

fn missing(ours: &Value, name: &str, value: i64) -> Option<String> {
    let path = runtime::path(name);
    let files = ours["files"].as_array().into_iter().flatten();
    let file = files.into_iter().find(|file| file["path"] == path.as_str());
    let found = file.and_then(|file| file["toml"]["crio"]["runtime"].as_object()?.values().next().cloned());
    (found != Some(json!(value))).then(|| format!("{path} has {found:?}"))
}
