//! What a generated MachineConfig was made from, down to the object that set each field.
//!
//! Read from the annotations that the controller leaves on it; nothing is worked out anew, so what is shown is what was
//! merged.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use api::annotations;
use api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig, MachineConfig};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Author, authors};
use crate::gather;

/// What the annotations of a generated MachineConfig say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Generated {
    /// Kind and name of the object, or a few words where there are many.
    pub(super) from: String,
    pub(super) fields: Vec<Field>,
    /// Objects that are not in it or not wholly, and why.
    pub(super) left_out: Vec<(String, String)>,
}

/// A field that an object set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    /// The KubeletConfig whose word stands.
    pub(super) from: String,
    pub(super) overrode: Vec<String>,
}

/// An object that a MachineConfig was made from, and who wrote it.
pub(super) struct Source {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Absent when the object is gone.
    pub(super) authors: Option<Vec<Author>>,
}

impl Generated {
    /// Nothing for a MachineConfig that a user or another controller wrote.
    pub(super) fn read(fragment: &MachineConfig) -> Option<Self> {
        let note = |key: &str| fragment.metadata.annotations.as_ref()?.get(key);
        let object = |key: &str| -> Map<String, Value> {
            note(key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
        };
        let fields = object(annotations::FIELD_PROVENANCE).into_iter().map(|(name, word)| Field::read(name, &word));
        let left_out = object(annotations::LEFT_OUT).into_iter();
        Some(Self {
            from: note(annotations::GENERATED_FROM)?.clone(),
            fields: fields.collect(),
            left_out: left_out.map(|(name, why)| (name, why.as_str().unwrap_or_default().to_owned())).collect(),
        })
    }

    /// Keeps one field, or says who else may have set it.
    pub(super) fn only(&mut self, field: &str) -> anyhow::Result<()> {
        let is_it = |known: &Field| {
            let rest = known.name.strip_prefix(field);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let known: Vec<_> = self.fields.iter().map(|known| known.name.as_str()).collect();
        if !self.fields.iter().any(is_it) {
            let hint = if known.is_empty() { String::new() } else { format!("; those set {}", known.join(", ")) };
            anyhow::bail!("no KubeletConfig sets {field} here, so it is as the templates and the cluster say{hint}");
        }
        self.fields.retain(is_it);
        Ok(())
    }

    /// Kinds and names of the objects that can be looked up, each once.
    fn named(&self) -> BTreeSet<(&'static str, String)> {
        let words = self.from.split_once(' ');
        let mut named: BTreeSet<_> = self.fields.iter().map(|field| ("KubeletConfig", field.from.clone())).collect();
        match words {
            Some(("KubeletConfig", name)) if self.fields.is_empty() => {
                named.insert(("KubeletConfig", name.to_owned()));
            }
            Some(("ContainerRuntimeConfig", name)) => {
                named.insert(("ContainerRuntimeConfig", name.to_owned()));
            }
            Some(_) | None => {}
        }
        named
    }

    pub(super) fn to_json(&self, sources: &[Source]) -> Value {
        let fields = self.fields.iter();
        let fields = fields.map(|it| json!({"field": it.name, "from": it.from, "overrode": it.overrode}));
        let left_out: Map<String, Value> = self.left_out.iter().map(|(name, why)| (name.clone(), json!(why))).collect();
        let sources = sources.iter().map(|source| {
            let authors = source.authors.iter().flatten().map(Author::to_json).collect::<Vec<_>>();
            json!({"kind": source.kind, "name": source.name, "exists": source.authors.is_some(), "writtenBy": authors})
        });
        json!({
            "from": self.from, "fields": fields.collect::<Vec<_>>(), "leftOut": left_out,
            "sources": sources.collect::<Vec<_>>(),
        })
    }

    pub(super) fn report(&self, sources: &[Source], now: Timestamp) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{:<12} {}", "made from", self.from);
        for source in sources {
            let Source { kind, name, authors } = source;
            match authors.as_deref() {
                None => {
                    let _ = writeln!(text, "{:<12} {kind} {name} is gone", "");
                }
                Some(authors) => {
                    for author in authors {
                        let _ = writeln!(text, "{:<12} {kind} {name}, written by {}", "", author.report(now));
                    }
                }
            }
        }
        for (at, field) in self.fields.iter().enumerate() {
            let title = if at == 0 { "fields" } else { "" };
            let overrode = match field.overrode.as_slice() {
                [] => String::new(),
                names => format!(", which overrode {}", names.join(", ")),
            };
            let _ = writeln!(text, "{title:<12} {} is from KubeletConfig {}{overrode}", field.name, field.from);
        }
        for (name, why) in &self.left_out {
            let _ = writeln!(text, "{:<12} {name}: {why}", "left out");
        }
        text
    }
}

impl Field {
    /// `"a"`, or `{"from": "b", "overrode": ["a"]}`.
    fn read(name: String, word: &Value) -> Self {
        let from = word.as_str().or_else(|| word["from"].as_str()).unwrap_or_default().to_owned();
        let overrode = word["overrode"].as_array().into_iter().flatten();
        Self { name, from, overrode: overrode.filter_map(Value::as_str).map(str::to_owned).collect() }
    }
}

/// The objects that a MachineConfig was made from, with their authors.
pub(super) async fn sources(client: &Client, generated: &Generated) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for (kind, name) in generated.named() {
        let metadata = match kind {
            "KubeletConfig" => metadata::<KubeletConfig>(client, &name).await?,
            _ => metadata::<ContainerRuntimeConfig>(client, &name).await?,
        };
        sources.push(Source { kind, name, authors: metadata.as_ref().map(authors) });
    }
    Ok(sources)
}

async fn metadata<K>(client: &Client, name: &str) -> anyhow::Result<Option<ObjectMeta>>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    match api.get_opt(name).await {
        Ok(object) => Ok(object.map(|object| object.meta().clone())),
        Err(error) => anyhow::bail!(gather::refusal(error, "get", &K::plural(&()))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use expect_test::expect;

    use super::*;

    fn fragment(notes: Value) -> MachineConfig {
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": "99-worker-generated-kubelet-1", "annotations": notes}, "spec": {},
        });
        serde_json::from_value(config).unwrap()
    }

    fn merged() -> MachineConfig {
        let fields = json!({
            "maxPods": {"from": "b-more", "overrode": ["a-base"]}, "evictionHard[memory.available]": "a-base",
        });
        fragment(json!({
            "machinist.dev/generated-from": "KubeletConfig b-more", "machinist.dev/field-provenance": fields.to_string(),
        }))
    }

    fn source(name: &str, exists: bool) -> Source {
        let kubectl = || Author { manager: "kubectl".into(), operation: "Apply".into(), time: None };
        Source { kind: "KubeletConfig", name: name.to_owned(), authors: exists.then(|| vec![kubectl()]) }
    }

    #[test]
    fn each_field_of_a_merged_file_names_its_kubelet_config() {
        let generated = Generated::read(&merged()).unwrap();
        let named: Vec<_> = generated.named().into_iter().map(|(_, name)| name).collect();
        assert_eq!(named, ["a-base", "b-more"]);
        let report = generated.report(&[source("a-base", false), source("b-more", true)], Timestamp::UNIX_EPOCH);
        expect![[r#"
            made from    KubeletConfig b-more
                         KubeletConfig a-base is gone
                         KubeletConfig b-more, written by kubectl (Apply)
            fields       evictionHard[memory.available] is from KubeletConfig a-base
                         maxPods is from KubeletConfig b-more, which overrode a-base
        "#]]
        .assert_eq(&report);
    }

    #[test]
    fn one_field_can_be_asked_for_and_one_that_nobody_set_is_the_templates() {
        let mut generated = Generated::read(&merged()).unwrap();
        generated.only("evictionHard").unwrap();
        assert_eq!(generated.fields.len(), 1);
        let error = Generated::read(&merged()).unwrap().only("maxPod").unwrap_err();
        expect!["no KubeletConfig sets maxPod here, so it is as the templates and the cluster say; those set evictionHard[memory.available], maxPods"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn what_is_left_out_of_registries_is_told() {
        let left_out = json!({"ImageDigestMirrorSet loop": "its mirrors form a loop"}).to_string();
        let notes = json!({
            "machinist.dev/generated-from": "Image cluster, mirror sets and image policies",
            "machinist.dev/left-out": left_out,
        });
        let generated = Generated::read(&fragment(notes)).unwrap();
        assert!(generated.named().is_empty());
        expect![[r#"
            made from    Image cluster, mirror sets and image policies
            left out     ImageDigestMirrorSet loop: its mirrors form a loop
        "#]]
        .assert_eq(&generated.report(&[], Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn a_users_fragment_and_notes_that_cannot_be_read_say_nothing() {
        assert_eq!(Generated::read(&fragment(json!({}))), None);
        let notes = json!({"machinist.dev/generated-from": "KubeletConfig a", "machinist.dev/field-provenance": "{{"});
        let generated = Generated::read(&fragment(notes)).unwrap();
        assert!(generated.fields.is_empty());
        assert_eq!(generated.named().len(), 1);
    }
}
