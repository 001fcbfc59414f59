//! Generates CustomResourceDefinitions from the Rust types.
//!
//! kube's derive generates names, columns and subresources. The schema is generated here a second time with one more
//! rule: an `Option` that is `None` is a missing key, never `null`, unless the field is marked `nullable`. Use [`crd`]
//! and not `K::crd()`, whose schema allows `null` for every optional field.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kube::CustomResourceExt;
use kube::core::schema::StructuralSchemaRewriter;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::{cluster, config, healthchecking, machine, machineconfiguration, machinist, operator};

/// Returns the CRDs of all kinds, in a fixed order: by group, then as the documentation introduces them.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        crd::<machineconfiguration::MachineConfig>(),
        crd::<machineconfiguration::MachineConfigPool>(),
        crd::<machineconfiguration::KubeletConfig>(),
        crd::<machineconfiguration::ContainerRuntimeConfig>(),
        crd::<machineconfiguration::ControllerConfig>(),
        crd::<machineconfiguration::MachineConfigNode>(),
        crd::<machineconfiguration::PinnedImageSet>(),
        crd::<machineconfiguration::MachineOSConfig>(),
        crd::<machineconfiguration::MachineOSBuild>(),
        crd::<operator::MachineConfiguration>(),
        crd::<operator::ImageContentSourcePolicy>(),
        crd::<config::ClusterOperator>(),
        crd::<config::Image>(),
        crd::<config::ImageDigestMirrorSet>(),
        crd::<config::ImageTagMirrorSet>(),
        crd::<config::ClusterImagePolicy>(),
        crd::<config::ImagePolicy>(),
        crd::<config::Node>(),
        crd::<config::FeatureGate>(),
        crd::<config::ApiServer>(),
        crd::<config::ClusterInfrastructure>(),
        crd::<config::Proxy>(),
        crd::<config::Scheduler>(),
        crd::<machine::Machine>(),
        crd::<machine::MachineSet>(),
        crd::<machine::MachineHealthCheck>(),
        crd::<machine::MachineDeployment>(),
        crd::<machine::ControlPlaneMachineSet>(),
        crd::<cluster::Machine>(),
        crd::<cluster::MachineSet>(),
        crd::<cluster::MachineDeployment>(),
        crd::<cluster::Cluster>(),
        crd::<healthchecking::MachineHealthCheck>(),
        crd::<machinist::BootstrapToken>(),
        crd::<machinist::ClusterSettings>(),
        crd::<machinist::KeptConfig>(),
        crd::<machinist::NodeSurvey>(),
        crd::<machinist::PoolLedger>(),
        crd::<machinist::PoolPolicy>(),
        crd::<machinist::RenderedProvenance>(),
    ]
}

/// Returns the CRD of one kind.
///
/// # Panics
///
/// Never for the kinds of this crate: the tests generate each of them.
pub fn crd<K: CustomResourceExt + JsonSchema>() -> CustomResourceDefinition {
    let mut definition = K::crd();
    // The API server reserves groups below k8s.io for Kubernetes, unless a CRD is annotated as approved or unapproved.
    if definition.spec.group.ends_with(".k8s.io") {
        let approval = ("api-approved.kubernetes.io".to_owned(), "unapproved, for manifests of 2019".to_owned());
        definition.metadata.annotations.get_or_insert_default().extend([approval]);
    }
    let names = &mut definition.spec.names;
    names.list_kind = Some(format!("{}List", names.kind));
    for version in &mut definition.spec.versions {
        if let Some(validation) = &mut version.schema {
            validation.open_api_v3_schema = Some(schema::<K>());
        }
    }
    definition
}

/// Returns a CRD as it is written to a file. Bounds are written as integers if possible, as in hand-written CRDs,
/// although the type stores them as floats.
pub fn manifest(definition: &CustomResourceDefinition) -> Value {
    let mut value = serde_json::to_value(definition).unwrap_or_default();
    whole_numbers(&mut value);
    value
}

fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Number(number) => {
            // Every integer below 2^53 is exact as a float, so the cast loses nothing.
            if let Some(fraction) = number.as_f64().filter(|_| number.is_f64())
                && fraction.fract() == 0.0
                && fraction.abs() < 9e15
            {
                *value = Value::from(fraction as i64);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn schema<K: JsonSchema>() -> JSONSchemaProps {
    let mut settings =
        SchemaSettings::openapi3().with_transform(StructuralSchemaRewriter).with_transform(IntOrStringTypes);
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.transforms.insert(0, Box::new(OptionalIsAbsent));
    let mut root = settings.into_generator().into_root_schema_for::<K>();
    root.remove("title");
    if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
        // A kind whose spec may be missing uses serde's default; it must not become a default of the API.
        if let Some(spec) = properties.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("default");
        }
        properties.insert("apiVersion".to_owned(), json!({ "type": "string" }));
        properties.insert("kind".to_owned(), json!({ "type": "string" }));
        properties.insert("metadata".to_owned(), json!({ "type": "object" }));
    }
    serde_json::from_value(root.to_value()).expect("a schema generated from a type of this crate is a CRD schema")
}

/// Removes the `null` that schemars generates for an `Option`; a nullable field is marked as such itself.
#[derive(Clone)]
struct OptionalIsAbsent;

impl Transform for OptionalIsAbsent {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(object) = schema.as_object_mut() {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get("anyOf")
                && let [Value::Object(choice), null] = choices.as_slice()
                && null.get("type").is_some_and(|name| name == "null")
            {
                let choice = choice.clone();
                object.remove("anyOf");
                for (key, value) in choice {
                    object.entry(key).or_insert(value);
                }
            }
        }
        transform_subschemas(self, schema);
    }
}

/// Lists the two types of an int-or-string, like upstream's generator. It runs last because the structural rewriter
/// removes types from alternatives.
#[derive(Clone)]
struct IntOrStringTypes;

impl Transform for IntOrStringTypes {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if let Some(object) = schema.as_object_mut()
            && object.contains_key("x-kubernetes-int-or-string")
        {
            object.insert("anyOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
        }
    }
}
