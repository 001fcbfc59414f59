//! A compiled schema: nodes in one vector, joined by index, so that recursive kinds need no special care.

use std::sync::{Arc, OnceLock};

use regex::Regex;
use serde_json::Value;

use crate::rules::Rule;

pub(crate) type Id = u32;

/// The compiled schema of one kind. Compile once, share, walk many times.
pub struct Schema {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: Id,
    /// The node of ObjectMeta, used for `metadata` at the root and in embedded resources.
    pub(crate) metadata: Id,
    /// What a custom schema says of `metadata` itself (limits on names), for validation only.
    pub(crate) checked_metadata: Option<Id>,
    /// Custom resources are validated by schema; built-in kinds are decoded by type.
    pub(crate) custom: bool,
}

/// JSON types a node admits; none set means any.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Types(pub(crate) u8);

impl Types {
    pub(crate) const OBJECT: Types = Types(1);
    pub(crate) const ARRAY: Types = Types(2);
    pub(crate) const STRING: Types = Types(4);
    pub(crate) const INTEGER: Types = Types(8);
    pub(crate) const NUMBER: Types = Types(16);
    pub(crate) const BOOLEAN: Types = Types(32);

    pub(crate) fn has(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn is_any(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn from_name(name: &str) -> Types {
        match name {
            "object" => Types::OBJECT,
            "array" => Types::ARRAY,
            "string" => Types::STRING,
            "integer" => Types::INTEGER,
            "number" => Types::NUMBER,
            "boolean" => Types::BOOLEAN,
            _ => Types(0),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Types::OBJECT => "object",
            Types::ARRAY => "array",
            Types::STRING => "string",
            Types::INTEGER => "integer",
            Types::NUMBER => "number",
            Types::BOOLEAN => "boolean",
            // The only union the structural rules admit.
            Types(12) => "integer,string",
            Types(_) => "",
        }
    }
}

#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Not said: treated as atomic.
    #[default]
    Unspecified,
    Atomic,
    Set,
    Map(Arc<[Box<str>]>),
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) enum Additional {
    #[default]
    None,
    /// `additionalProperties: true`, or an object of which nothing more is said.
    Any,
    Schema(Id),
}

pub(crate) type Properties = Arc<[(Box<str>, Id)]>;

#[derive(Default)]
pub(crate) struct Node {
    pub(crate) types: Types,
    pub(crate) int_or_string: bool,
    pub(crate) nullable: bool,
    pub(crate) preserve: bool,
    pub(crate) embedded: bool,
    pub(crate) atomic_map: bool,
    pub(crate) default: Option<Value>,
    /// Sorted by name.
    pub(crate) properties: Properties,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Id>,
    pub(crate) list: List,
    pub(crate) format: Option<Arc<str>>,
    pub(crate) limits: Option<Arc<Limits>>,
    pub(crate) rules: Arc<[Rule]>,
    /// What the subtree has, so that walks skip what cannot matter.
    pub(crate) below: Below,
    /// Strategic merge: `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
    pub(crate) patch: Option<Arc<Patch>>,
    /// The Go type's name of a built-in object, for decoding errors.
    pub(crate) go: Option<Arc<str>>,
    /// How a built-in object travels as protobuf.
    pub(crate) wire: Option<&'static tables::Message>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Below {
    pub(crate) defaults: bool,
    pub(crate) rules: bool,
    pub(crate) keyed_lists: bool,
}

#[derive(Default, Debug)]
pub(crate) struct Patch {
    pub(crate) merge: bool,
    /// A map is replaced whole.
    pub(crate) replace: bool,
    pub(crate) key: Option<Box<str>>,
}

/// Value checks of a node; absent for most nodes of built-in kinds.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) required: Vec<Box<str>>,
    pub(crate) one_of_values: Option<Vec<Value>>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) all_of: Vec<Id>,
    pub(crate) any_of: Vec<Id>,
    pub(crate) one_of: Vec<Id>,
    pub(crate) not: Option<Id>,
}

/// A regular expression of Go's notation, built at first use: most are never reached, and each costs memory.
pub(crate) struct Pattern {
    pub(crate) text: String,
    regex: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Pattern {
        Pattern { text: text.to_string(), regex: OnceLock::new() }
    }

    /// An expression that cannot be built matches nothing; the CRD check refuses it long before.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.get_or_init(|| cel::go::pattern::compile(&self.text).ok()).as_ref().is_some_and(|r| r.is_match(text))
    }
}

impl Node {
    /// Quantities are texts that the server brings into its own form.
    pub(crate) fn is_quantity(&self) -> bool {
        self.go.as_deref() == Some("Quantity")
    }

    pub(crate) fn property(&self, name: &str) -> Option<Id> {
        let found = self.properties.binary_search_by(|(key, _)| key.as_ref().cmp(name));
        found.ok().map(|at| self.properties[at].1)
    }
}

impl Schema {
    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    /// The node of a field: declared, or by `additionalProperties`.
    pub(crate) fn field(&self, node: &Node, name: &str) -> Option<Id> {
        node.property(name).or(match node.additional {
            Additional::Schema(id) => Some(id),
            Additional::None | Additional::Any => None,
        })
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("nodes", &self.nodes.len()).field("custom", &self.custom).finish()
    }
}
