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
            // Go explains what a quantity is without naming the field or the value.
            false if error.contains("quantit") => vec!["must be a quantity".to_owned()],
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
        covers: |input| {
            let size = size(&field(input, "logSizeMax")).unwrap_or_default();
            size < -1 || size < 0 && !is_whole(input)
        },
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
    // Upstream writes the canonical text, of which storage.conf takes the `m` for a million and does not know the others.
    Rule {
        name: "sizes-that-storage-conf-misreads-are-written-in-bytes",
        covers: |input| overlay(input).is_some_and(|size| size.value() > 0 && is_misread(&size)),
        answer: |input, mut expected| {
            if let Expected::Output(output) = &mut expected {
                for file in output["files"].as_array_mut().into_iter().flatten() {
                    if file["path"] == runtime::STORAGE {
                        let bytes = overlay(input).map(|size| size.value().to_string());
                        file["toml"]["storage"]["options"]["size"] = json!(bytes);
                    }
                }
            }
            expected
        },
    },
    Rule {
        name: "less-than-a-byte-is-refused",
        covers: |input| overlay(input).is_some_and(|size| size.value() == 1 && !size.is_whole()),
        answer: |_, expected| match expected {
            Expected::Refusal(mut phrases) => {
                phrases.push("less than one byte".to_owned());
                Expected::Refusal(phrases)
            }
            Expected::Output(_) | Expected::Checked(_) => Expected::Refusal(vec!["less than one byte".to_owned()]),
        },
    },
    Rule {
        name: "unknown-settings-of-storage-conf-are-kept",
        covers: |_| true,
        answer: |input, mut expected| {
            if let Expected::Output(output) = &mut expected {
                let default = input["defaultStorageConf"].as_str().unwrap_or_default();
                let default: Value = toml::from_str(default).unwrap_or_default();
                for file in output["files"].as_array_mut().into_iter().flatten() {
                    if file["path"] == runtime::STORAGE {
                        add_missing(&mut file["toml"], &default);
                    }
                }
            }
            expected
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

fn overlay(input: &Value) -> Option<Quantity> {
    Quantity::read(&field(input, "overlaySize"))
}

fn is_misread(size: &Quantity) -> bool {
    let unit: String = size.as_str().chars().skip_while(|c| c.is_ascii_digit() || *c == '.').collect();
    !size.is_whole() || unit.starts_with(['m', 'u', 'n', 'e', 'E'])
}

fn is_whole(input: &Value) -> bool {
    Quantity::read(&field(input, "logSizeMax")).is_none_or(|size| size.is_whole())
}

/// Adds the members that only `from` has.
fn add_missing(to: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        match to.get_mut(key) {
            Some(known) => add_missing(known, value),
            None => to[key.as_str()] = value.clone(),
        }
    }
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
        ("LogSizeMax", log_size < -1 || log_size < 0 && !is_whole(input) || (1..8192).contains(&log_size)),
        ("overlaySize", self::overlay(input).is_some_and(|size| overlay < 0 || !size.is_zero() && size.is_below_one())),
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

#[cfg(test)]
mod tests {
    use super::super::judge::assert_agrees;
    use super::*;

    const STORAGE: &str = "[storage]\ndriver = \"overlay\"\n[storage.options.overlay]\nskip_mount_home = \"true\"\n";

    #[allow(clippy::needless_pass_by_value)]
    fn input(settings: Value, storage: &str) -> Value {
        let config = json!({"metadata": {"name": "x"}, "spec": {"containerRuntimeConfig": settings}});
        json!({"containerRuntimeConfig": config, "defaultStorageConf": storage, "additionalStorageConfig": true})
    }

    #[track_caller]
    fn check_overlay(size: &str, written: &str) {
        let toml = json!({"storage": {
            "driver": "overlay", "runroot": "", "graphroot": "",
            "options": {"size": written, "overlay": {"skip_mount_home": "true"}, "thinpool": {}},
        }});
        let file = json!({"path": runtime::STORAGE, "mode": 420, "overwrite": true, "toml": toml});
        let upstream = json!({"files": [file]});
        assert_agrees(&ContainerRuntime, input(json!({"overlaySize": size}), STORAGE), Ok(upstream));
    }

    #[test]
    fn log_sizes_are_rounded_up_to_bytes() {
        for (size, bytes) in [("0.1Mi", 104_858), ("1.1Mi", 1_153_434), ("2.3Mi", 2_411_725), ("8192.5", 8193)] {
            let toml = json!({"crio": {"runtime": {"log_size_max": bytes}}});
            let file = json!({"path": runtime::path("logSizeMax"), "mode": 420, "overwrite": true, "toml": toml});
            let upstream = json!({"files": [file]});
            assert_agrees(&ContainerRuntime, input(json!({"logSizeMax": size}), STORAGE), Ok(upstream));
        }
    }

    #[test]
    fn overlay_sizes_of_any_form_are_applied() {
        for (size, upstreams) in [
            ("10Gi", "10Gi"),
            ("1.5Gi", "1536Mi"),
            ("1.1Gi", "1181116006400m"),
            ("1E", "1E"),
            ("1Ei", "1Ei"),
            ("1e9", "1e9"),
        ] {
            check_overlay(size, upstreams);
        }
        check_overlay("500m", "500m");
    }

    #[test]
    fn a_text_that_is_no_quantity_is_refused() {
        let suffix = "unable to parse quantity's suffix";
        let form = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        for (size, error) in [("10Q", suffix), ("big", form), ("", form)] {
            assert_agrees(&ContainerRuntime, input(json!({"logSizeMax": size}), STORAGE), Err(error));
            assert_agrees(&ContainerRuntime, input(json!({"overlaySize": size}), STORAGE), Err(error));
        }
    }

    #[test]
    fn settings_of_storage_conf_that_nobody_knows_are_kept_and_wrong_types_refused() {
        let upstream = |options: Value| {
            let toml = json!({"storage": {"driver": "overlay", "runroot": "", "graphroot": "", "options": options}});
            json!({"files": [{"path": runtime::STORAGE, "mode": 420, "overwrite": true, "toml": toml}]})
        };
        let newer = "[storage]\ndriver = \"overlay\"\nnewer = 1\n[storage.options]\nother = true\n";
        let settings = json!({"overlaySize": "1G"});
        assert_agrees(&ContainerRuntime, input(settings.clone(), newer), Ok(upstream(json!({"size": "1G"}))));
        for wrong in ["size = 5", "additionalimagestores = \"/a\"", "pull_options = {x = 1}", "force_mask = \"0700\""] {
            let storage = format!("[storage.options]\n{wrong}\n");
            let upstream = json!({"files": [], "storageError": "error decoding crio config: incompatible types"});
            assert_agrees(&ContainerRuntime, input(settings.clone(), &storage), Ok(upstream));
        }
    }
}
