//! `managed-names`: the name of the MachineConfig generated from a KubeletConfig or ContainerRuntimeConfig for a pool.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::{Value, json};
use typed::names::{Claimant, Kind, Pool, name_for};
use typed::selection::PoolSelector;

use super::fleet::list;
use super::judge::{Check, Expected, Judge, Rule};
use super::same;

pub(crate) struct ManagedNames;

impl Judge for ManagedNames {
    fn file(&self) -> &'static str {
        "managed-names"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let pool: ObjectMeta = read(&input["pool"]["metadata"])?;
        let labels = pool.labels.clone().unwrap_or_default();
        let pool = Pool {
            name: pool.name.as_deref().unwrap_or_default(),
            uid: pool.uid.as_deref().unwrap_or_default(),
            labels: &labels,
        };
        PoolSelector::parse(selector(&input["config"])?.as_ref())
            .map_err(|error| format!("invalid label selector: {error}"))?;
        let all: Vec<Claimant> = list(&input["configs"]).map(claimant).collect::<Result<_, _>>()?;
        let mut existing: BTreeSet<String> =
            list(&input["machineConfigs"]).filter_map(Value::as_str).map(str::to_owned).collect();
        let name = name_for(kind(input), pool, &claimant(&input["config"])?, &all, &existing)
            .map_err(|error| error.to_string())?;
        if let Some(old) = &name.replaces {
            existing.remove(old);
            existing.insert(name.name.clone());
        }
        Ok(json!({"name": name.name, "machineConfigsAfter": existing}))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let as_sets = |answer: &Value| {
            let mut answer = answer.clone();
            answer["machineConfigsAfter"] = same::as_set(&answer["machineConfigsAfter"]);
            answer
        };
        same::difference(&as_sets(expected), &as_sets(ours))
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        let key = ["max number", "converting", "invalid label selector"];
        key.iter().filter(|key| error.contains(**key)).map(|key| (*key).to_owned()).collect()
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "freed-suffixes-are-reused",
        covers: |input| highest_is_taken(input) && free_suffix(input).is_some(),
        answer: reuse,
    },
    // Upstream takes the last number of anything that begins like a name of the pool, also of another pool's.
    Rule {
        name: "only-whole-names-are-read-from-finalizers",
        covers: |input| list(&input["config"]["metadata"]["finalizers"]).any(|it| is_no_name(input, it)),
        answer: |input, expected| match expected {
            Expected::Output(output) if is_no_name(input, &output["name"]) => Expected::Checked(Check(is_free)),
            other => other,
        },
    },
    Rule {
        name: "a-bad-selector-stops-nobody-else",
        covers: |input| is_well_formed(&input["config"]) && list(&input["configs"]).any(|one| !is_well_formed(one)),
        answer: go_on,
    },
];

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

fn kind(input: &Value) -> Kind {
    if input["kind"] == "KubeletConfig" { Kind::Kubelet } else { Kind::Runtime }
}

fn selector(config: &Value) -> Result<Option<LabelSelector>, String> {
    read(&config["spec"]["machineConfigPoolSelector"])
}

fn claimant(config: &Value) -> Result<Claimant, String> {
    Ok(Claimant::new(&read(&config["metadata"])?, selector(config)?.as_ref()))
}

fn is_well_formed(config: &Value) -> bool {
    selector(config).is_ok_and(|selector| PoolSelector::parse(selector.as_ref()).is_ok())
}

/// Returns the suffixes of the pool's configurations as they are written.
fn suffixes(input: &Value) -> Vec<&str> {
    let labels: BTreeMap<String, String> = read(&input["pool"]["metadata"]["labels"]).unwrap_or_default();
    let is_on = |config: &&Value| {
        let selector = selector(config).ok().and_then(|selector| PoolSelector::parse(selector.as_ref()).ok());
        selector.is_some_and(|selector| selector.matches(&labels))
    };
    let on_pool = list(&input["configs"]).filter(is_on);
    on_pool.filter_map(suffix).collect()
}

fn suffix(config: &Value) -> Option<&str> {
    config["metadata"]["annotations"]["machineconfiguration.openshift.io/mc-name-suffix"].as_str()
}

fn highest_is_taken(input: &Value) -> bool {
    suffixes(input).iter().filter_map(|suffix| suffix.parse::<i64>().ok()).any(|suffix| suffix >= 9)
}

/// Returns the lowest of ten suffixes that is not taken. The empty suffix is tried last, because its owner may not be
/// annotated yet.
fn free_suffix(input: &Value) -> Option<&'static str> {
    let taken = suffixes(input);
    let is_taken = |suffix: &&str| {
        let number = suffix.parse::<i64>().ok();
        taken.iter().any(|taken| taken == suffix || number.is_some() && taken.parse().ok() == number)
    };
    ["1", "2", "3", "4", "5", "6", "7", "8", "9", ""].into_iter().find(|suffix| !is_taken(suffix))
}

fn reuse(input: &Value, expected: Expected) -> Expected {
    let refused =
        matches!(&expected, Expected::Refusal(phrases) if phrases.iter().any(|phrase| phrase == "max number"));
    match free_suffix(input).filter(|_| refused) {
        Some(suffix) => Expected::Output(json!({
            "name": kind(input).suffixed(pool_name(input), suffix),
            "machineConfigsAfter": input["machineConfigs"],
        })),
        None => expected,
    }
}

fn pool_name(input: &Value) -> &str {
    input["pool"]["metadata"]["name"].as_str().unwrap_or_default()
}

/// Upstream refuses, so there is no name to compare with: ours must be one that is not taken.
fn go_on(_: &Value, expected: Expected) -> Expected {
    match expected {
        Expected::Refusal(_) => Expected::Checked(Check(is_free)),
        other => other,
    }
}

fn is_free(input: &Value, ours: &Value) -> Option<String> {
    let others = list(&input["configs"]).filter(|one| one["metadata"]["name"] != input["config"]["metadata"]["name"]);
    let taken = others.filter_map(suffix).map(|suffix| kind(input).suffixed(pool_name(input), suffix));
    let name = ours["name"].as_str().unwrap_or_default();
    let plain = kind(input).plain(pool_name(input));
    let fits = name.starts_with(&plain) && !is_no_name(input, &ours["name"]) && !taken.into_iter().any(|it| it == name);
    (!fits).then(|| format!("{name} is not a name of its own on the pool"))
}

/// Whether a name begins like those of the pool and goes on with something else than a number.
fn is_no_name(input: &Value, name: &Value) -> bool {
    let plain = kind(input).plain(pool_name(input));
    let rest = name.as_str().and_then(|name| name.strip_prefix(&plain)).filter(|rest| !rest.is_empty());
    rest.is_some_and(|rest| rest.strip_prefix('-').and_then(|rest| rest.parse::<u64>().ok()).is_none())
}

#[cfg(test)]
mod tests {
    use super::super::judge::assert_agrees;
    use super::*;

    fn config(name: &str, suffix: Option<&str>, created: u32) -> Value {
        let annotations = suffix.map(|suffix| json!({"machineconfiguration.openshift.io/mc-name-suffix": suffix}));
        let created = format!("2026-01-01T00:00:{created:02}Z");
        let metadata = json!({"name": name, "annotations": annotations, "creationTimestamp": created});
        json!({"metadata": metadata, "spec": {"machineConfigPoolSelector": {"matchLabels": {"pools": "a"}}}})
    }

    #[allow(clippy::needless_pass_by_value)]
    fn input(config: Value, mut others: Vec<Value>, existing: &[&str]) -> Value {
        others.push(config.clone());
        let pool = json!({"metadata": {"name": "worker", "uid": "u", "labels": {"pools": "a"}}});
        json!({"kind": "KubeletConfig", "pool": pool, "config": config, "configs": others, "machineConfigs": existing})
    }

    #[test]
    fn finalizers_that_only_begin_like_a_name_are_passed_over() {
        let other = "99-worker-generated-kubelet-foo-3";
        let mut me = config("me", None, 1);
        me["metadata"]["finalizers"] = json!([other]);
        let input = input(me, vec![config("b", Some(""), 2)], &[other]);
        let upstream = json!({"name": other, "machineConfigsAfter": [other]});
        assert_agrees(&ManagedNames, input, Ok(upstream));
    }

    #[test]
    fn suffixes_are_numbers_and_zero_is_not_the_plain_name() {
        let full = "max number of supported kubelet config (10) has been reached. Please delete old kubelet configs before retrying";
        let numbered = (1..=9).map(|number| config(&format!("c{number}"), Some(&number.to_string()), number));
        let mut others: Vec<Value> = numbered.collect();
        others.push(config("zero", Some("0"), 10));
        assert_agrees(&ManagedNames, input(config("me", None, 11), others.clone(), &[]), Err(full));
        others.push(config("plain", Some(""), 12));
        assert_agrees(&ManagedNames, input(config("me", None, 13), others, &[]), Err(full));
        let odd = vec![config("a", Some("01"), 1), config("b", Some("+9"), 2)];
        assert_agrees(&ManagedNames, input(config("me", None, 3), odd, &[]), Err(full));
    }
}
