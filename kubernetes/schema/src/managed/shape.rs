//! How a value merges: as a map, a list or a leaf, by schema and, where the schema is silent, by the value itself.

use serde_json::{Map, Value};

use crate::node::{Additional, Id, List, Node, Schema, Types};

/// What the schema knows about a place.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Node(Id),
    /// Nothing: maps merge by key, lists are atomic.
    Unknown,
}

/// How the value at a place merges.
pub(super) enum Shape<'s> {
    Map { atomic: bool, node: Option<&'s Node> },
    List { list: &'s List, items: Place },
    Leaf,
}

impl Shape<'_> {
    pub(super) fn is_like(&self, other: &Shape<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

static ATOMIC: List = List::Atomic;

/// A null of which the schema says nothing counts as an empty map.
pub(super) fn shape<'s>(schema: &'s Schema, place: Place, value: &Value) -> Shape<'s> {
    let Place::Node(id) = place else {
        return match value {
            Value::Object(_) | Value::Null => Shape::Map { atomic: false, node: None },
            Value::Array(_) => Shape::List { list: &ATOMIC, items: Place::Unknown },
            _ => Shape::Leaf,
        };
    };
    let node = schema.node(id);
    let list = || Shape::List { list: &node.list, items: node.items.map_or(Place::Unknown, Place::Node) };
    let map = || Shape::Map { atomic: node.atomic_map, node: Some(node) };
    // What may be a number or a text is, to those who merge, of any type.
    let any = node.types.is_any() || (node.int_or_string && schema.custom);
    match (node.types, value) {
        (Types::OBJECT, _) => map(),
        (Types::ARRAY, _) => list(),
        (_, Value::Object(_) | Value::Null) if any => map(),
        (_, Value::Array(_)) if any => list(),
        _ => Shape::Leaf,
    }
}

/// The place of a field, and whether the schema declares it by name.
///
/// What makes an embedded resource a resource is declared in every one of them.
pub(super) fn field(schema: &Schema, node: Option<&Node>, name: &str) -> (Place, bool) {
    let Some(node) = node else { return (Place::Unknown, false) };
    match name {
        "metadata" if node.embedded => return (Place::Node(schema.metadata), true),
        "apiVersion" | "kind" if node.embedded => {
            return (node.property(name).map_or(Place::Unknown, Place::Node), true);
        }
        _ => {}
    }
    match (node.property(name), node.additional) {
        (Some(id), _) => (Place::Node(id), true),
        (None, Additional::Schema(id)) => (Place::Node(id), false),
        (None, Additional::None | Additional::Any) => (Place::Unknown, false),
    }
}

/// The path element of a list's element: `k:{…}` or `v:…`; the error is the server's text.
pub(super) fn element(schema: &Schema, list: &List, items: Place, value: &Value) -> Result<String, String> {
    match list {
        List::Map(keys) => {
            let Value::Object(map) = value else {
                return Err(match value {
                    Value::Null => "associative list with keys may not have a null element".to_string(),
                    _ => "associative list with keys may not have non-map elements".to_string(),
                });
            };
            let mut key = Map::new();
            for name in keys.iter() {
                let default = || match items {
                    Place::Node(id) => {
                        let child = schema.node(id).property(name)?;
                        schema.node(child).default.as_ref()
                    }
                    Place::Unknown => None,
                };
                if let Some(value) = map.get(name.as_ref()).or_else(default) {
                    key.insert(name.to_string(), value.clone());
                }
            }
            if key.is_empty() {
                let quoted: Vec<String> = keys.iter().map(|k| format!("\"{k}\"")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                    quoted.join(" ")
                ));
            }
            Ok(format!("k:{}", Value::Object(key)))
        }
        _ => match value {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_string()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_string()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_string()),
            scalar => Ok(format!("v:{scalar}")),
        },
    }
}

/// Whether elements of the list have an identity.
pub(super) fn is_associative(list: &List) -> bool {
    matches!(list, List::Set | List::Map(_))
}
