//! `registries`: mirrors, blocked and allowed registries and signature policies, as the files of the generated fragment.

use api::config::ImageSpec;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use typed::registries::{self, Sources};

use super::fleet::list;
use super::judge::{Check, Expected, Judge, Rule};
use super::same;

pub(crate) struct Registries;

impl Judge for Registries {
    fn file(&self) -> &'static str {
        "registries"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let image: ImageSpec =
            serde_json::from_value(input["image"]["spec"].clone()).map_err(|error| error.to_string())?;
        let built = registries::build(&Sources {
            sources: &image.registry_sources.unwrap_or_default(),
            content_policies: &objects(input, "imageContentSourcePolicies", "operator.openshift.io/v1alpha1")?,
            digest_mirrors: &objects(input, "imageDigestMirrorSets", "config.openshift.io/v1")?,
            tag_mirrors: &objects(input, "imageTagMirrorSets", "config.openshift.io/v1")?,
            cluster_policies: &objects(input, "clusterImagePolicies", "config.openshift.io/v1")?,
            policies: &objects(input, "imagePolicies", "config.openshift.io/v1")?,
            release_image: input["releaseImage"].as_str(),
            default_registries: input["defaultRegistriesConf"].as_str().unwrap_or_default(),
            default_policy: &input["defaultPolicy"],
        })
        .map_err(|error| error.to_string())?;
        let files = built.files.iter().map(|file| {
            let (form, content) = match file.path.rsplit('.').next() {
                Some("json") => ("json", serde_json::from_str(&file.contents).map_err(|error| error.to_string())?),
                Some("yaml") => ("yaml", serde_saphyr::from_str(&file.contents).map_err(|error| error.to_string())?),
                _ => ("toml", toml::from_str::<Value>(&file.contents).map_err(|error| error.to_string())?),
            };
            Ok(json!({"path": file.path, "mode": file.mode, "overwrite": true, form: content}))
        });
        let files = files.collect::<Result<Vec<_>, String>>()?;
        Ok(json!({"files": files, "skipped": built.skipped_message()}))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    /// In TOML an empty string and `false` equal a missing value; an empty list does not.
    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let plain = |answer: &Value| {
            let mut answer = answer.clone();
            for file in answer["files"].as_array_mut().into_iter().flatten() {
                if let Some(content) = file.get_mut("toml") {
                    without_unset(content);
                }
            }
            answer
        };
        same::difference(&plain(expected), &plain(ours))
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        let said = ["with new changes: ", "from imagepolicy: "].iter().find_map(|end| error.split_once(end));
        vec![said.map_or(error, |(_, said)| said).to_owned()]
    }
}

const RULES: &[Rule] = &[
    // Upstream adds the payload's repository to the allowed ones, and then treats it as the user's.
    Rule {
        name: "blocking-the-payload-rejects-nothing-else",
        covers: |input| list(blocked(input)).next().is_some() && list(allowed(input)).next().is_none(),
        answer: |_, expected| match expected {
            Expected::Output(mut output) => {
                for file in output["files"].as_array_mut().into_iter().flatten() {
                    if file["json"]["default"] == json!([{"type": "reject"}]) {
                        file["json"]["default"] = json!([{"type": "insecureAcceptAnything"}]);
                    }
                }
                Expected::Output(output)
            }
            Expected::Refusal(phrases) if phrases.iter().any(|phrase| is_about_allowed(phrase)) => {
                Expected::Checked(Check(accepts_by_default))
            }
            other => other,
        },
    },
    // With a scheme the runtime reads nothing of registries.conf, and the others never match an image.
    Rule {
        name: "entries-that-name-no-registry-are-refused",
        covers: |input| {
            let sources = &input["image"]["spec"]["registrySources"];
            let lists = ["insecureRegistries", "blockedRegistries", "allowedRegistries"];
            let entries = lists.into_iter().flat_map(|name| list(&sources[name])).filter(|entry| !is_wildcard(entry));
            let search = list(&sources["containerRuntimeSearchRegistries"]);
            let scopes = policies(input).flat_map(|policy| list(&policy["spec"]["scopes"]));
            let all = entries.chain(search).chain(scopes.filter(|scope| !is_wildcard(scope)));
            all.filter_map(Value::as_str).any(|entry| !is_registry(entry.strip_prefix("*.").unwrap_or(entry)))
        },
        answer: |_, expected| {
            let mut phrases = match expected {
                Expected::Refusal(phrases) => phrases,
                Expected::Output(_) | Expected::Checked(_) => Vec::new(),
            };
            phrases.extend(["invalid entry for".to_owned(), "is no scope".to_owned()]);
            Expected::Refusal(phrases)
        },
    },
    // Upstream gives up, because it cannot tell what of the name a mirror replaces; the runtime replaces the whole host.
    Rule {
        name: "mirrors-of-wildcards-are-carried-over",
        covers: |_| true,
        answer: |_, expected| match expected {
            Expected::Refusal(phrases) if phrases.iter().any(|phrase| phrase.contains("for a wildcard scope")) => {
                Expected::Checked(Check(mirrors_everything))
            }
            other => other,
        },
    },
    Rule {
        name: "ipv6-addresses-are-hosts",
        covers: |input| mirror_names(input).any(|name| name.starts_with('[')),
        answer: |input, expected| match expected {
            Expected::Refusal(phrases) if phrases.iter().any(|phrase| is_about_address(phrase)) => {
                let is_host = |name: &str| !name.starts_with('[') || is_registry(name);
                match mirror_names(input).all(is_host) {
                    true => Expected::Checked(Check(|_, _| None)),
                    false => Expected::Refusal(phrases),
                }
            }
            other => other,
        },
    },
    // Upstream looks for mirrors of the image docker.io/a, which is a short name for another image, and gives up.
    Rule {
        name: "policies-for-docker-hub-are-applied",
        covers: |input| policies(input).any(|policy| list(&policy["spec"]["scopes"]).any(|scope| scope == "docker.io")),
        answer: |_, expected| match expected {
            Expected::Refusal(phrases) if phrases.iter().any(|phrase| phrase.contains("must be canonical")) => {
                Expected::Checked(Check(fetches_signatures))
            }
            other => other,
        },
    },
];

fn objects<T: DeserializeOwned>(input: &Value, field: &str, api_version: &str) -> Result<Vec<T>, String> {
    let kind = match field {
        "imageContentSourcePolicies" => "ImageContentSourcePolicy",
        "imageDigestMirrorSets" => "ImageDigestMirrorSet",
        "imageTagMirrorSets" => "ImageTagMirrorSet",
        "clusterImagePolicies" => "ClusterImagePolicy",
        _ => "ImagePolicy",
    };
    let whole = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        serde_json::from_value(object).map_err(|error| error.to_string())
    };
    list(&input[field]).map(whole).collect()
}

fn without_unset(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| member != "" && *member != Value::Bool(false));
            members.values_mut().for_each(without_unset);
        }
        Value::Array(items) => items.iter_mut().for_each(without_unset),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn blocked(input: &Value) -> &Value {
    &input["image"]["spec"]["registrySources"]["blockedRegistries"]
}

fn allowed(input: &Value) -> &Value {
    &input["image"]["spec"]["registrySources"]["allowedRegistries"]
}

fn policies(input: &Value) -> impl Iterator<Item = &Value> {
    list(&input["clusterImagePolicies"]).chain(list(&input["imagePolicies"]))
}

fn is_wildcard(entry: &Value) -> bool {
    entry.as_str().is_none_or(|entry| entry.is_empty() || entry.contains('*'))
}

/// Host, port and path of an image, of which all but the host may be missing; the path may end in a tag or a digest.
fn is_registry(entry: &str) -> bool {
    let (name, _) = entry.split_once('@').unwrap_or((entry, ""));
    let (host, path) = name.split_once('/').map_or((name, None), |(host, path)| (host, Some(path)));
    let name = |text: &str, others: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest
            .split_once(']')
            .is_some_and(|(address, port)| name(address, ":") && (port.is_empty() || name(port, ":"))),
        None => name(host, ".-:"),
    };
    let is_part = |part: &str| name(part, "._-") && !part.contains(char::is_uppercase);
    is_host && path.is_none_or(|path| path.split_once(':').map_or(path, |(path, _)| path).split('/').all(is_part))
}

/// Sources and mirrors of all mirror sets.
fn mirror_names(input: &Value) -> impl Iterator<Item = &str> {
    let sets = [
        ("imageContentSourcePolicies", "repositoryDigestMirrors"),
        ("imageDigestMirrorSets", "imageDigestMirrors"),
        ("imageTagMirrorSets", "imageTagMirrors"),
    ];
    let entries =
        sets.into_iter().flat_map(|(sets, field)| list(&input[sets]).flat_map(move |set| list(&set["spec"][field])));
    entries.flat_map(|entry| list(&entry["mirrors"]).chain([&entry["source"]]).filter_map(Value::as_str))
}

fn is_about_address(phrase: &str) -> bool {
    phrase.starts_with("invalid format for") && phrase.contains("\"[")
}

/// Whether every entry of registries.conf has mirrors.
fn mirrors_everything(_: &Value, ours: &Value) -> Option<String> {
    let Some(conf) = file(ours, registries::REGISTRIES) else { return Some("there is no registries.conf".to_owned()) };
    let without = list(&conf["toml"]["registry"]).find(|registry| list(&registry["mirror"]).next().is_none());
    without.map(|registry| format!("{registry} has no mirrors"))
}

fn is_about_allowed(phrase: &str) -> bool {
    phrase.contains("not nested inside allowedRegistries") || phrase.contains("only one of AllowedRegistries")
}

fn file<'a>(ours: &'a Value, path: &str) -> Option<&'a Value> {
    list(&ours["files"]).find(|file| file["path"] == path)
}

fn accepts_by_default(_: &Value, ours: &Value) -> Option<String> {
    let policy = file(ours, registries::POLICY).map(|file| &file["json"]["default"]);
    (policy != Some(&json!([{"type": "insecureAcceptAnything"}]))).then(|| format!("the default is {policy:?}"))
}

fn fetches_signatures(_: &Value, ours: &Value) -> Option<String> {
    let signed = file(ours, registries::SIGSTORE).is_some_and(|file| file["yaml"]["docker"]["docker.io"].is_object());
    (!signed).then(|| "signatures of docker.io are not fetched".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::judge::assert_agrees;
    use super::*;

    #[allow(clippy::needless_pass_by_value)]
    fn input(sources: Value) -> Value {
        json!({"image": {"spec": {"registrySources": sources}}, "defaultPolicy": {"default": []}})
    }

    fn conf(registry: &Value) -> Value {
        let toml = json!({"registry": [registry]});
        json!({"path": registries::REGISTRIES, "mode": 420, "overwrite": true, "toml": toml})
    }

    #[test]
    fn an_address_in_brackets_is_a_registry() {
        let upstream = conf(&json!({"location": "[fd00::1]:5000", "insecure": true}));
        let given = input(json!({"insecureRegistries": ["[fd00::1]:5000"]}));
        assert_agrees(&Registries, given, Ok(json!({"files": [upstream]})));
        let mut given = input(json!({}));
        given["imageContentSourcePolicies"] = json!([{"metadata": {"name": "x"}, "spec": {
            "repositoryDigestMirrors": [{"source": "quay.io/a", "mirrors": ["[fd00::1]:5000/a"]}],
        }}]);
        let error =
            "could not update registries config with new changes: invalid format for mirror \"[fd00::1]:5000/a\"";
        assert_agrees(&Registries, given, Err(error));
    }

    #[test]
    fn entries_that_name_no_registry_are_refused() {
        for entry in ["https://reg.corp", "reg.corp/", "REG.corp/Team", "my_reg:5000", "reg.corp//a", "a b"] {
            for field in ["insecureRegistries", "blockedRegistries", "containerRuntimeSearchRegistries"] {
                let upstream = conf(&json!({"location": entry}));
                assert_agrees(&Registries, input(json!({field: [entry]})), Ok(json!({"files": [upstream]})));
            }
        }
    }

    #[test]
    fn mirrors_of_a_wildcard_reach_entries_below_it() {
        let error = "could not update registries config with new changes: internal error: mirrorsAdjustedForNestedScope for a wildcard scope \"*.wild.io\"";
        for (field, entry) in [("blockedRegistries", "sub.wild.io/ns"), ("insecureRegistries", "*.sub.wild.io")] {
            let mut given = input(json!({field: [entry]}));
            given["imageTagMirrorSets"] = json!([{"metadata": {"name": "x"}, "spec": {
                "imageTagMirrors": [{"source": "*.wild.io", "mirrors": ["mirror.local/wild"]}],
            }}]);
            assert_agrees(&Registries, given.clone(), Err(error));
            let conf = &Registries.answer(&given).unwrap()["files"][0]["toml"]["registry"][1];
            let below = if entry.starts_with('*') { "mirror.local/wild" } else { "mirror.local/wild/ns" };
            assert_eq!(conf["mirror"][0]["location"], below);
        }
    }
}
