//! Kernel arguments: the calls of rpm-ostree, missing arguments, running arguments.

use change::kargs;
use serde_json::{Value, json};

use super::judge::{Expected, Judge, Rule};

pub(crate) struct Kargs;

impl Judge for Kargs {
    fn file(&self) -> &'static str {
        "kargs"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let booted = input["booted"].as_str().unwrap_or_default();
        match input["op"].as_str() {
            Some("generate") => {
                Ok(json!({ "args": kargs::rpm_ostree_arguments(&list(&input["old"]), &list(&input["new"])) }))
            }
            Some("running") => Ok(json!({ "kernelArguments": kargs::running(&list(&input["requested"]), booted) })),
            _ => {
                let missing = kargs::missing(&list(&input["kernelArguments"]), booted);
                if missing.is_empty() {
                    return Ok(json!({ "ok": true }));
                }
                Err(format!("missing expected kernel arguments: [{}]", missing.join(" ")))
            }
        }
    }

    fn phrases(&self, _error: &str) -> Vec<String> {
        vec!["missing expected kernel arguments".into()]
    }

    fn rules(&self) -> &'static [Rule] {
        &[Rule { name: "quoted-arguments-with-spaces-validate", covers: only_quoted_are_missing, answer: is_ok }]
    }
}

/// Upstream splits the booted command line at every space, so an argument with a space that it reports as missing may
/// exist.
fn only_quoted_are_missing(input: &Value) -> bool {
    let booted = input["booted"].as_str().unwrap_or_default();
    let wanted = kargs::split_all(&list(&input["kernelArguments"]));
    let plain: Vec<&str> = booted.trim_end_matches('\n').split(' ').collect();
    let missed: Vec<&String> = wanted.iter().filter(|argument| !plain.contains(&argument.as_str())).collect();
    let is_odd = |text: &str| !text.matches('"').count().is_multiple_of(2);
    // An unclosed quote is only possible in the last argument; anywhere else both parsers refuse the line.
    let is_there = |argument: &&String| match is_odd(argument) {
        true => is_odd(booted) && booted.trim_end().ends_with(argument.as_str()),
        false => argument.contains(' ') && booted.contains(argument.as_str()),
    };
    input["op"] == "validate" && !missed.is_empty() && missed.iter().all(is_there)
}

fn is_ok(_input: &Value, _expected: Expected) -> Expected {
    Expected::Output(json!({ "ok": true }))
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
}
