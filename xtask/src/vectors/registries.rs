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
