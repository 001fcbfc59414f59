//! `kubelet-config`: one KubeletConfig merged over the template's kubelet.conf, as the files of the generated fragment.
//!
//! This judges parsing and merging. Whether a kubelet would accept the values ([`typed::kubelet::limits`]) is checked
//! later by the planner, and not at all by upstream.

use api::machineconfiguration::{KubeletConfig, MachineConfigPool, TlsSecurityProfile};
use serde_json::{Map, Value, json};
use typed::Quantity;
use typed::kubelet::tls::Tls;
use typed::kubelet::{self, Settings, fields};

use super::fleet::list;
use super::judge::{Check, Expected, Judge, Rule};
use super::same;

pub(crate) struct KubeletConfigs;

impl Judge for KubeletConfigs {
    fn file(&self) -> &'static str {
        "kubelet-config"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let config: KubeletConfig = object(&input["kubeletConfig"], "KubeletConfig")?;
        let pool: MachineConfigPool = object(&input["pool"], "MachineConfigPool")?;
        let settings = Settings::parse(&config).map_err(|error| error.to_string())?;
        settings.check_pool(&pool).map_err(|error| error.to_string())?;
        let mut base = kubelet::base(input["default"].as_object().ok_or("no default")?);
        if pool.metadata.name.as_deref() == Some("worker") {
            kubelet::apply_latency(&mut base, input["workerLatencyProfile"].as_str().unwrap_or_default());
        }
        let configured = kubelet::merge(&base, &[&settings]).map_err(|error| error.to_string())?;
        let files = configured.files().into_iter().map(|file| {
            let mut shown = json!({"path": file.path, "mode": file.mode, "overwrite": true});
            if file.path == kubelet::CONFIGURATION {
                shown["object"] = serde_saphyr::from_str(&file.contents).map_err(|error| error.to_string())?;
            } else {
                shown["contents"] = file.contents.into();
            }
            Ok(shown)
        });
        Ok(json!({"files": files.collect::<Result<Vec<_>, String>>()?}))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    /// Zero values in the configuration, including zero durations, equal missing ones.
    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let plain = |answer: &Value| {
            let mut answer = answer.clone();
            for file in answer["files"].as_array_mut().into_iter().flatten() {
                if let Some(object) = file.get_mut("object") {
                    without_no_time(object);
                    *object = same::without_zero(object);
                }
            }
            answer
        };
        same::difference(&plain(expected), &plain(ours))
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        if let Some((_, decoding)) = error.split_once("could not be unmarshalled") {
            let field = decoding.split_once("struct field KubeletConfiguration.").map(|(_, rest)| rest);
            let field = field.and_then(|rest| rest.split(' ').next()?.rsplit('.').next());
            let quoted = decoding.split('"').nth(1);
            return vec![field.or(quoted).unwrap_or("could not be unmarshalled").to_owned()];
        }
        let said = error.rsplit_once("onfiguration: ").map_or(error, |(_, said)| said);
        let words = if said.contains("must match") { said.len() } else { said.find(' ').unwrap_or(said.len()) };
        vec![said[..words].to_owned()]
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "unknown-fields-are-refused",
        covers: |input| unknown_field(input).is_some(),
        answer: |input, expected| {
            let field = unknown_field(input).unwrap_or_default();
            refused_as_well(&field, expected)
        },
    },
    Rule {
        name: "the-refusal-names-systemReserved",
        covers: |input| spec(input)["autoSizingReserved"] == true,
        answer: |_, expected| match expected {
            Expected::Refusal(phrases) if phrases == ["autoSizingReserved"] => {
                Expected::Refusal(vec!["autoSizingReserved and systemReserved cannot".to_owned()])
            }
            other => other,
        },
    },
    Rule {
        name: "nodes-labelled-control-plane-are-control-plane",
        covers: |input| selects_control_plane(input) && !user(input)["staticPodPath"].is_null(),
        answer: |_, expected| match expected {
            Expected::Output(_) => Expected::Refusal(vec!["staticPodPath".to_owned()]),
            other => other,
        },
    },
    // Upstream writes it to the node, whose kubelet then does not start.
    Rule {
        name: "reservations-that-no-kubelet-takes-are-refused",
        covers: |input| user(input)["systemReserved"].as_object().is_some_and(|it| it.iter().any(is_no_reservation)),
        answer: |_, expected| refused_as_well("systemReserved", expected),
    },
    // Upstream leaves the list empty, and an empty list allows more ciphers than the profile.
    Rule {
        name: "a-profile-of-unknown-ciphers-is-refused",
        covers: |input| {
            let profile: Option<TlsSecurityProfile> =
                serde_json::from_value(spec(input)["tlsSecurityProfile"].clone()).unwrap_or_default();
            let ciphers = profile.as_ref().and_then(|profile| profile.custom.as_ref()).map(|it| it.ciphers.len());
            ciphers.is_some_and(|count| count > 0) && Tls::from_profile(profile.as_ref()).cipher_suites.is_empty()
        },
        answer: |_, expected| refused_as_well("custom.ciphers", expected),
    },
    Rule { name: "what-is-written-stands", covers: |input| !zeros(input).is_empty(), answer: written_stands },
];

/// Ours refuses for this reason, or for the one that upstream has.
fn refused_as_well(phrase: &str, expected: Expected) -> Expected {
    let mut phrases = match expected {
        Expected::Refusal(phrases) => phrases,
        Expected::Output(_) | Expected::Checked(_) => Vec::new(),
    };
    phrases.push(phrase.to_owned());
    Expected::Refusal(phrases)
}

fn is_no_reservation((resource, amount): (&String, &Value)) -> bool {
    let is_known = ["cpu", "memory", "ephemeral-storage", "pid"].contains(&resource.as_str());
    match amount.as_str() {
        None | Some("") => false,
        Some(amount) => !is_known || Quantity::parse(amount).is_none_or(|amount| amount.value() < 0),
    }
}

fn object<T: serde::de::DeserializeOwned>(value: &Value, kind: &str) -> Result<T, String> {
    let mut value = value.clone();
    value["apiVersion"] = "machineconfiguration.openshift.io/v1".into();
    value["kind"] = kind.into();
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn without_no_time(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| member != "0s");
            members.values_mut().for_each(without_no_time);
        }
        Value::Array(items) => items.iter_mut().for_each(without_no_time),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn spec(input: &Value) -> &Value {
    &input["kubeletConfig"]["spec"]
}

fn user(input: &Value) -> &Value {
    &spec(input)["kubeletConfig"]
}

fn unknown_field(input: &Value) -> Option<String> {
    fn first(members: &Map<String, Value>, known: &'static [fields::Field]) -> Option<String> {
        members.iter().find_map(|(name, member)| match fields::find(known, name).map(|field| field.kind) {
            None => Some(name.clone()),
            Some(fields::Kind::Object(inner)) => first(member.as_object()?, inner),
            Some(fields::Kind::Objects(inner)) => list(member).find_map(|item| first(item.as_object()?, inner)),
            Some(_) => None,
        })
    }
    first(user(input).as_object()?, fields::CONFIGURATION)
}

fn selects_control_plane(input: &Value) -> bool {
    const LABEL: &str = "node-role.kubernetes.io/control-plane";
    let selector = &input["pool"]["spec"]["nodeSelector"];
    let mut expressions = list(&selector["matchExpressions"]);
    !selector["matchLabels"][LABEL].is_null()
        || expressions.any(|it| it["key"] == LABEL && (it["operator"] == "Exists" || it["operator"] == "In"))
}

/// Returns the user's values that upstream treats as unset, by path. The cluster's own fields may be empty in both.
fn zeros(input: &Value) -> Vec<(Vec<String>, Value)> {
    fn collect(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    path.push(name.clone());
                    collect(member, path, found);
                    path.pop();
                }
            }
            Value::Null => {}
            _ if same::without_zero(&json!({"it": value})) == json!({}) || value == "0s" => {
                found.push((path.clone(), value.clone()));
            }
            _ => {}
        }
    }
    const CLUSTERS: [&str; 7] =
        ["apiVersion", "kind", "cgroupDriver", "clusterDNS", "clusterDomain", "featureGates", "memorySwap"];
    let mut found = Vec::new();
    collect(user(input), &mut Vec::new(), &mut found);
    found.retain(|(path, _)| path.first().is_some_and(|first| !CLUSTERS.contains(&first.as_str())));
    found
}

fn written_stands(input: &Value, expected: Expected) -> Expected {
    let zeros = zeros(input);
    let has_zero = |name: &str| zeros.iter().any(|(path, _)| path == &[name]);
    match expected {
        Expected::Output(mut output) => {
            let files = output["files"].as_array_mut();
            let Some(object) = files.and_then(|files| files.last_mut()?.get_mut("object")) else {
                return Expected::Output(output);
            };
            let processors = user(input)["reservedSystemCPUs"].as_str().is_some_and(|set| !set.is_empty());
            for (path, zero) in &zeros {
                // Reservations are written to another file, and with reserved CPUs the enforcement is not the user's.
                let elsewhere = path[0] == "systemReserved" || processors && path[0] == "enforceNodeAllocatable";
                if !elsewhere {
                    *path.iter().fold(&mut *object, |value, step| &mut value[step.as_str()]) = zero.clone();
                }
            }
            if has_zero("enforceNodeAllocatable")
                && user(input)["systemReservedCgroup"].as_str().is_none_or(str::is_empty)
            {
                object["systemReservedCgroup"] = Value::Null;
            }
            Expected::Output(output)
        }
        // The user turned off one of the two cgroups in which upstream found a difference.
        Expected::Refusal(phrases) if phrases.iter().any(|phrase| phrase.contains("must match")) => {
            if !has_zero("systemCgroups") && !has_zero("systemReservedCgroup") {
                return Expected::Refusal(phrases);
            }
            Expected::Checked(Check(|input, ours| {
                let object = &list(&ours["files"]).last()?["object"];
                let names = ["systemCgroups", "systemReservedCgroup"];
                names.into_iter().find_map(|name| same::object_difference(&user(input)[name], &object[name]))
            }))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::assert_agrees;
    use super::*;

    #[allow(clippy::needless_pass_by_value)]
    fn input(spec: Value) -> Value {
        let pool = json!({"metadata": {"name": "worker"}, "spec": {}});
        let kubelet_config = json!({"metadata": {"name": "x"}, "spec": spec});
        json!({"kubeletConfig": kubelet_config, "pool": pool, "default": {"kind": "KubeletConfiguration"}})
    }

    fn kubelet_conf() -> Value {
        let object = json!({"kind": "KubeletConfiguration"});
        json!({"path": kubelet::CONFIGURATION, "mode": 420, "overwrite": true, "object": object})
    }

    fn sizing() -> Value {
        let text =
            "NODE_SIZING_ENABLED=false\nSYSTEM_RESERVED_MEMORY=1Gi\nSYSTEM_RESERVED_CPU=500m\nSYSTEM_RESERVED_ES=1Gi\n";
        json!({"path": kubelet::SIZING, "mode": 420, "overwrite": true, "contents": text})
    }

    #[test]
    fn reservations_that_no_kubelet_takes_are_refused() {
        for reserved in [json!({"memory": "abc"}), json!({"cpu": "-1"}), json!({"hugepages-2Mi": "1Gi"})] {
            let upstream = json!({"files": [sizing(), kubelet_conf()]});
            let spec = json!({"kubeletConfig": {"systemReserved": reserved}});
            assert_agrees(&KubeletConfigs, input(spec), Ok(upstream));
        }
    }

    #[test]
    fn a_reservation_of_null_is_one_of_the_default() {
        let reserved = json!({"systemReserved": {"memory": null}});
        let upstream = json!({"files": [sizing(), kubelet_conf()]});
        assert_agrees(&KubeletConfigs, input(json!({"kubeletConfig": reserved.clone()})), Ok(upstream));
        let twice = "KubeletConfiguration: autoSizingReserved and systemdReserved cannot be set together";
        let spec = json!({"kubeletConfig": reserved, "autoSizingReserved": true});
        assert_agrees(&KubeletConfigs, input(spec), Err(twice));
    }

    #[test]
    fn a_custom_profile_may_have_no_ciphers_but_not_only_unknown_ones() {
        let mut file = kubelet_conf();
        file["object"]["tlsMinVersion"] = "VersionTLS12".into();
        let profile = |ciphers: Value| {
            let custom = json!({"ciphers": ciphers, "minTLSVersion": "VersionTLS12"});
            input(json!({"tlsSecurityProfile": {"type": "Custom", "custom": custom}}))
        };
        for ciphers in [Value::Null, json!([]), json!(["NO-SUCH-CIPHER"])] {
            assert_agrees(&KubeletConfigs, profile(ciphers), Ok(json!({"files": [file]})));
        }
    }
}
