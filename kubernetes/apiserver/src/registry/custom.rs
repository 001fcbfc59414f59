//! Custom resources, from their definitions.

use std::sync::{Arc, LazyLock};

use schema::{Schema, table::CustomColumn};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Column, Resource, Subresource};
use crate::object::text;

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created.";

/// What only custom resources have.
#[derive(Debug, Clone)]
pub(crate) struct Custom {
    /// The name of the definition.
    pub definition: String,
    /// What of the definition this was made from; another mark means other resources.
    pub mark: String,
    /// Becomes true when the definition goes or changes: watches of this resource end.
    pub retired: watch::Sender<bool>,
    pub conversion: Conversion,
    /// How many versions the definition has, served or not.
    pub versions: usize,
    pub scale: Option<Scale>,
    /// Paths of `selectableFields`, without the leading dot.
    pub selectable: Vec<String>,
    /// Sent with every answer of a deprecated version.
    pub deprecation: Option<String>,
    /// The printed columns after the name.
    pub(crate) cells: Vec<CustomColumn>,
    /// The schema as the definition has it, for OpenAPI.
    pub open_api: Option<Arc<Value>>,
}

/// Who converts between the versions of a resource.
#[derive(Debug, Clone)]
pub(crate) enum Conversion {
    /// Nobody: versions differ in their name only.
    None,
    /// A webhook at this `clientConfig`.
    Webhook(Value),
}

/// Where replicas live in the object.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub spec: String,
    pub status: String,
    pub selector: String,
}

/// The resources of a definition: one per served version, none before its names are accepted.
pub(crate) fn serve(definition: &Value) -> Vec<Arc<Resource>> {
    let spec = &definition["spec"];
    if !is_established(definition) {
        return Vec::new();
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions.iter().find(|version| version["storage"] == true).unwrap_or(&Value::Null);
    let stored_as = super::group_version(text(&spec["group"]), text(&stored["name"]));
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| Arc::new(resource(definition, version, &stored_as)))
        .collect()
}

/// Tells states of a definition apart that are served differently; conditions alone change nothing.
pub(crate) fn mark(definition: &Value) -> String {
    let (metadata, names) = (&definition["metadata"], &definition["status"]["acceptedNames"]);
    format!("{} {} {} {names}", metadata["uid"], metadata["generation"], is_established(definition))
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn resource(definition: &Value, version: &Value, stored_as: &str) -> Resource {
    let spec = &definition["spec"];
    let (group, name) = (text(&spec["group"]), text(&version["name"]));
    let names = &definition["status"]["acceptedNames"];
    let names = if names["plural"].is_string() { names } else { &spec["names"] };
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let kind = text(&names["kind"]).to_owned();
    let plural = text(&names["plural"]).to_owned();
    let open_api = version["schema"].get("openAPIV3Schema");
    let preserve = spec["preserveUnknownFields"] == true;
    let own = |suffix: &str, kind: &str, group: &str, version: &str| Subresource {
        name: suffix.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: SUBRESOURCE_VERBS.map(str::to_owned).to_vec(),
    };
    let mut subresources = Vec::new();
    if version["subresources"].get("status").is_some() {
        subresources.push(own("status", &kind, group, name));
    }
    let scale = version["subresources"].get("scale").map(|scale| Scale {
        spec: text(&scale["specReplicasPath"]).to_owned(),
        status: text(&scale["statusReplicasPath"]).to_owned(),
        selector: text(&scale["labelSelectorPath"]).to_owned(),
    });
    if scale.is_some() {
        subresources.push(own("scale", "Scale", "autoscaling", "v1"));
    }
    let selectable = version["selectableFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let deprecation = (version["deprecated"] == true).then(|| match version["deprecationWarning"].as_str() {
        Some(warning) => warning.to_owned(),
        None => format!("{} {kind} is deprecated", super::group_version(group, name)),
    });
    Resource {
        group: group.to_owned(),
        version: name.to_owned(),
        list_kind: names["listKind"].as_str().map_or_else(|| format!("{kind}List"), str::to_owned),
        singular: names["singular"].as_str().map_or_else(|| kind.to_lowercase(), str::to_owned),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: VERBS.map(str::to_owned).to_vec(),
        subresources,
        columns: columns(version),
        collection: format!("{group}/{plural}").into(),
        stored_as: stored_as.to_owned(),
        schema: LazyLock::new({
            let open_api = open_api.cloned();
            Box::new(move || Arc::new(Schema::custom(open_api.as_ref(), preserve)))
        }),
        storage_hash: String::new(),
        definition: String::new(),
        rules: builtin::custom(),
        custom: Some(Custom {
            definition: text(&definition["metadata"]["name"]).to_owned(),
            mark: mark(definition),
            retired: watch::Sender::new(false),
            versions: spec["versions"].as_array().map_or(0, Vec::len),
            conversion: match spec["conversion"]["strategy"].as_str() {
                Some("Webhook") => Conversion::Webhook(spec["conversion"]["webhook"]["clientConfig"].clone()),
                _ => Conversion::None,
            },
            scale,
            selectable: selectable
                .iter()
                .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
                .collect(),
            deprecation,
            cells: columns(version).iter().map(|column| CustomColumn::new(&column.kind, &column.path)).collect(),
            open_api: open_api.cloned().map(Arc::new),
        }),
        kind,
        plural,
    }
}

fn columns(version: &Value) -> Vec<Column> {
    let age = json!([{"name": "Age", "type": "date", "description": AGE, "jsonPath": ".metadata.creationTimestamp"}]);
    let own = &version["additionalPrinterColumns"];
    let version = json!({"additionalPrinterColumns": if own.is_array() { own } else { &age }});
    let columns = version["additionalPrinterColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
    columns
        .iter()
        .map(|column| Column {
            name: text(&column["name"]).to_owned(),
            kind: text(&column["type"]).to_owned(),
            format: text(&column["format"]).to_owned(),
            description: text(&column["description"]).to_owned(),
            priority: column["priority"].as_i64().unwrap_or(0),
            path: text(&column["jsonPath"]).to_owned(),
        })
        .collect()
}

/// Orders versions as Kubernetes prefers them: released before beta before alpha before anything else, newer first.
pub(super) fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let end = digits(rest);
    let Ok(major) = rest[..end].parse::<u64>() else { return other };
    let (stage, minor) = match &rest[end..] {
        "" => (3, ""),
        tail => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return other,
        },
    };
    let minor = if minor.is_empty() { 0 } else { minor.parse().unwrap_or(0) };
    (stage, major, minor, std::cmp::Reverse(String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_and_age() {
        let mut versions = ["v1alpha1", "foo", "v2beta1", "v1", "v10", "v1beta2", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
