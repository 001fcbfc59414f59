//! What a structural schema tells rules about `self`: its type, and how large it can be.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{convert::escape, types::Type};

/// The largest body of a request: nothing in it can be larger.
const REQUEST: u64 = 3 * 1024 * 1024;

/// The type of a value, and the sizes it may have.
pub struct Declared {
    shape: Shape,
    /// How many elements, entries or characters it has at most.
    pub(super) most: u64,
    /// The fewest bytes it takes.
    least: u64,
}

enum Shape {
    Object(String, BTreeMap<String, Declared>),
    List(Box<Declared>),
    /// The values of a map, and how long its keys are at most.
    Map(Box<Declared>, u64),
    Plain(Type),
}

impl Declared {
    /// The type of a schema's values; none if rules cannot see them. `resource` is set where a resource begins.
    pub fn of(schema: &Value, resource: bool) -> Option<Declared> {
        declare(schema, resource, "selfType")
    }

    /// The type of a resource of which this is known; the types within are named after it.
    pub fn resource(schema: &Value, name: &str) -> Option<Declared> {
        declare(schema, true, name)
    }

    /// An object of which nothing but the types of its fields is known.
    pub(super) fn record(name: &str, fields: impl IntoIterator<Item = (String, Declared)>) -> Declared {
        Declared { shape: Shape::Object(name.to_owned(), fields.into_iter().collect()), most: 0, least: 2 }
    }

    pub(super) fn list(element: Declared) -> Declared {
        Declared { shape: Shape::List(Box::new(element)), most: 0, least: 2 }
    }

    /// A map that holds so many values at most, under keys of so many characters.
    pub(super) fn map(value: Declared, most: u64, keys: u64) -> Declared {
        Declared { shape: Shape::Map(Box::new(value), keys), most, least: 2 }
    }

    pub(super) fn plain(own: Type) -> Declared {
        plain(own, 0, 0)
    }

    /// How often a value fits into one request.
    pub fn occurrences(&self) -> u64 {
        REQUEST / (self.least + 1)
    }

    pub(super) fn cel_type(&self) -> Type {
        match &self.shape {
            Shape::Object(name, _) => Type::Struct(name.clone()),
            Shape::List(element) => Type::list(element.cel_type()),
            Shape::Map(value, _) => Type::Map(Box::new(Type::Text), Box::new(value.cel_type())),
            Shape::Plain(own) => own.clone(),
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&Declared> {
        match &self.shape {
            Shape::Object(_, fields) => fields.get(name),
            _ => None,
        }
    }

    pub(super) fn element(&self) -> Option<&Declared> {
        match &self.shape {
            Shape::List(element) | Shape::Map(element, _) => Some(element),
            _ => None,
        }
    }

    /// How long the keys of a map are at most. Schemas say nothing of them, and they count for nothing.
    pub(super) fn keys(&self) -> Option<u64> {
        match &self.shape {
            Shape::Map(_, keys) => Some(*keys),
            _ => None,
        }
    }

    /// Every object type within, by name.
    pub(super) fn objects<'d>(&'d self, into: &mut HashMap<&'d str, &'d Declared>) {
        match &self.shape {
            Shape::Object(name, fields) => {
                into.insert(name, self);
                fields.values().for_each(|field| field.objects(into));
            }
            Shape::List(element) | Shape::Map(element, _) => element.objects(into),
            Shape::Plain(_) => {}
        }
    }
}

fn declare(schema: &Value, resource: bool, name: &str) -> Option<Declared> {
    if schema["x-kubernetes-int-or-string"] == true || schema["format"] == "int-or-string" {
        let most = schema["maxLength"].as_u64().map_or(REQUEST - 2, |length| length * 4);
        return Some(plain(Type::Dyn, most, 1));
    }
    match schema["type"].as_str()? {
        "array" => {
            let items = &schema["items"];
            let element = declare(items, is_resource(items), &format!("{name}.@idx"))?;
            let most = schema["maxItems"].as_u64().unwrap_or((REQUEST - 2) / (element.least + 1));
            Some(Declared { shape: Shape::List(Box::new(element)), most, least: 2 })
        }
        "object" if schema["additionalProperties"].is_object() => {
            let values = &schema["additionalProperties"];
            let value = declare(values, is_resource(values), &format!("{name}.@elem"))?;
            let most = schema["maxProperties"].as_u64().unwrap_or((REQUEST - 2) / (value.least + 6));
            Some(Declared { shape: Shape::Map(Box::new(value), 0), most, least: 2 })
        }
        "object" => Some(object(schema, resource, name)),
        "string" => Some(text(schema)),
        "boolean" => Some(plain(Type::Bool, 0, 4)),
        "number" => Some(plain(Type::Double, 0, 1)),
        "integer" => Some(plain(Type::Int, 0, 1)),
        _ => None,
    }
}

fn is_resource(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

fn plain(own: Type, most: u64, least: u64) -> Declared {
    Declared { shape: Shape::Plain(own), most, least }
}

fn object(schema: &Value, resource: bool, name: &str) -> Declared {
    let extended;
    let properties = match resource {
        true => {
            extended = with_metadata(&schema["properties"]);
            &extended
        }
        false => &schema["properties"],
    };
    let required = |name: &str| schema["required"].as_array().is_some_and(|list| list.iter().any(|own| own == name));
    let mut fields = BTreeMap::new();
    let mut least = 2;
    for (property, child) in properties.as_object().into_iter().flatten() {
        let Some(field) = spelled(property) else { continue };
        let Some(declared) = declare(child, is_resource(child), &format!("{name}.{field}")) else { continue };
        if required(property) && child["default"].is_null() {
            least += property.len() as u64 + declared.least + 4;
        }
        fields.insert(field, declared);
    }
    Declared { shape: Shape::Object(name.to_owned(), fields), most: 0, least }
}

/// The name of a field as rules write it; some names cannot be written at all.
fn spelled(name: &str) -> Option<String> {
    let writable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let starts = name.chars().next().is_some_and(|first| !first.is_ascii_digit());
    (starts && name.chars().all(writable)).then(|| escape(name))
}

/// Every resource shows its kind, its version and its name, whatever else its schema says.
fn with_metadata(properties: &Value) -> Value {
    let is = |value: &Value, name: &str| value["type"] == name;
    let metadata = &properties["metadata"];
    let said = is(&properties["kind"], "string")
        && is(&properties["apiVersion"], "string")
        && is(metadata, "object")
        && is(&metadata["properties"]["name"], "string")
        && is(&metadata["properties"]["generateName"], "string");
    let mut properties = properties.clone();
    if !said {
        let text = serde_json::json!({ "type": "string" });
        properties["kind"] = text.clone();
        properties["apiVersion"] = text.clone();
        properties["metadata"] =
            serde_json::json!({ "type": "object", "properties": { "name": text, "generateName": text } });
    }
    properties
}

fn text(schema: &Value) -> Declared {
    let length = schema["maxLength"].as_u64();
    match schema["format"].as_str() {
        Some("byte") => plain(Type::Bytes, length.unwrap_or(REQUEST - 2), 2),
        Some("duration") => plain(Type::Duration, 32, 3),
        Some("date") => plain(Type::Timestamp, 12, 12),
        Some("date-time") => plain(Type::Timestamp, 32, 21),
        _ => {
            let longest = || {
                let values = schema["enum"].as_array().filter(|values| !values.is_empty())?;
                values.iter().map(|value| value.as_str().map_or(0, |text| text.len() as u64)).max()
            };
            // A character takes four bytes at most.
            let most = length.map(|length| length * 4).or_else(longest).unwrap_or(REQUEST - 2);
            plain(Type::Text, most, 2)
        }
    }
}
