//! A serde deserializer over JSON that remembers which keys no struct asked for.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::Path;

/// What decoding found, besides the result.
pub(super) struct Decoded<T> {
    pub(super) result: Result<T, Mismatch>,
    pub(super) unknown: Vec<Unknown>,
    pub(super) renamed: Vec<Rename>,
}

/// A field that the type does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    pub path: Path,
    /// The field that was probably meant.
    pub similar: Option<&'static str>,
}

/// A value that does not fit its field.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub(super) at: String,
    pub(super) found: Value,
    pub(super) detail: String,
}

/// A key that differs from its field in the case of letters.
#[derive(Debug)]
pub(super) struct Rename {
    parent: String,
    from: String,
    to: &'static str,
}

impl Rename {
    pub(super) fn apply(&self, value: &mut Value) {
        let Some(parent) = value.pointer_mut(&self.parent).and_then(Value::as_object_mut) else { return };
        if let Some(value) = parent.remove(&self.from) {
            parent.insert(self.to.to_owned(), value);
        }
    }
}

pub(super) fn decode<T: serde::de::DeserializeOwned>(value: &Value, path: Path) -> Decoded<T> {
    let record = RefCell::new(Record::default());
    let result = T::deserialize(Node { value, place: Place { path, pointer: String::new() }, record: &record });
    let Record { unknown, renamed } = record.into_inner();
    Decoded { result, unknown, renamed }
}

const LONGEST_KEY: usize = 64;

/// The field whose name is at most two edits away, for names that are long enough for that to mean something.
fn similar(key: &str, fields: &'static [&'static str]) -> Option<&'static str> {
    // No field is as long, and comparing a key of a megabyte with all of them would take seconds.
    if key.len() > LONGEST_KEY {
        return None;
    }
    let near = fields.iter().map(|field| (edits(&key.to_lowercase(), &field.to_lowercase()), *field));
    let (edits, field) = near.min()?;
    (edits <= 2 && edits * 3 <= field.len()).then_some(field)
}

/// How many letters have to be put in, taken out or changed to make one word of the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, &wanted) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// What a person calls a value of this kind.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[derive(Default)]
struct Record {
    unknown: Vec<Unknown>,
    renamed: Vec<Rename>,
}

/// A place in the value: for people, and as a JSON pointer in the letters of the field names.
#[derive(Clone)]
struct Place {
    path: Path,
    pointer: String,
}

impl Place {
    fn child(&self, key: &str) -> Self {
        let escaped = key.replace('~', "~0").replace('/', "~1");
        Self { path: self.path.child(key), pointer: format!("{}/{escaped}", self.pointer) }
    }

    fn index(&self, index: usize) -> Self {
        Self { path: self.path.index(index), pointer: format!("{}/{index}", self.pointer) }
    }
}

struct Node<'v, 'r> {
    value: &'v Value,
    place: Place,
    record: &'r RefCell<Record>,
}

impl<'v, 'r> Node<'v, 'r> {
    fn mismatch(&self, wanted: &str) -> Mismatch {
        Mismatch {
            at: self.place.path.to_string(),
            found: self.value.clone(),
            detail: format!("must be {wanted}, found {}", kind(self.value)),
        }
    }

    /// Puts the place into an error that came from the visitor, which does not know it.
    fn placed<T>(&self, result: Result<T, Mismatch>) -> Result<T, Mismatch> {
        result.map_err(|mut mismatch| {
            if mismatch.at.is_empty() {
                mismatch.at = self.place.path.to_string();
                mismatch.found = self.value.clone();
            }
            mismatch
        })
    }

    fn child(&self, value: &'v Value, place: Place) -> Node<'v, 'r> {
        Node { value, place, record: self.record }
    }

    /// The members of an object; `null` has none.
    fn members(&self) -> Result<Vec<(&'v String, &'v Value)>, Mismatch> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Object(members) => Ok(members.iter().collect()),
            _ => Err(self.mismatch("an object")),
        }
    }

    fn integer<T>(&self, visitor: impl Visitor<'v, Value = T>) -> Result<T, Mismatch> {
        let number = match self.value {
            Value::Null => return self.placed(visitor.visit_i64(0)),
            Value::Number(number) => number,
            _ => return Err(self.mismatch("a whole number")),
        };
        if let Some(number) = number.as_i64() {
            return self.placed(visitor.visit_i64(number));
        }
        if let Some(number) = number.as_u64() {
            return self.placed(visitor.visit_u64(number));
        }
        match number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15) {
            #[allow(clippy::cast_possible_truncation, reason = "whole and small enough, as was just asked")]
            Some(number) => self.placed(visitor.visit_i64(number as i64)),
            None => Err(self.mismatch("a whole number")),
        }
    }

    fn text<T>(&self, visitor: impl Visitor<'v, Value = T>) -> Result<T, Mismatch> {
        match self.value {
            Value::Null => self.placed(visitor.visit_str("")),
            Value::String(text) => self.placed(visitor.visit_borrowed_str(text)),
            Value::Bool(_) | Value::Number(_) => self.placed(visitor.visit_string(self.value.to_string())),
            Value::Array(_) | Value::Object(_) => Err(self.mismatch("text")),
        }
    }
}

macro_rules! integers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            self.integer(visitor)
        })*
    };
}

macro_rules! texts {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            self.text(visitor)
        })*
    };
}

impl<'v> Deserializer<'v> for Node<'v, '_> {
    type Error = Mismatch;

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    texts! { deserialize_char deserialize_str deserialize_string deserialize_identifier }

    forward_to_deserialize_any! { <W: Visitor<'v>> bytes byte_buf unit unit_struct tuple tuple_struct }

    /// A free-form part: everything in it is known.
    fn deserialize_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let result = self.value.deserialize_any(visitor).map_err(Mismatch::custom);
        self.placed(result)
    }

    fn deserialize_bool<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value {
            Value::Null => self.placed(visitor.visit_bool(false)),
            Value::Bool(value) => self.placed(visitor.visit_bool(*value)),
            _ => Err(self.mismatch("true or false")),
        }
    }

    fn deserialize_f32<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value {
            Value::Null => self.placed(visitor.visit_f64(0.0)),
            Value::Number(number) => self.placed(visitor.visit_f64(number.as_f64().unwrap_or_default())),
            _ => Err(self.mismatch("a number")),
        }
    }

    fn deserialize_option<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'v>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let items = match self.value {
            Value::Null => Vec::new(),
            Value::Array(items) => items.iter().collect(),
            _ => return Err(self.mismatch("a list")),
        };
        let nodes = items.into_iter().enumerate();
        let nodes: Vec<_> = nodes.map(|(index, value)| self.child(value, self.place.index(index))).collect();
        self.placed(visitor.visit_seq(Items(nodes.into_iter())))
    }

    fn deserialize_map<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let members = self.members()?.into_iter();
        let members: Vec<_> =
            members.map(|(key, value)| (key.as_str(), self.child(value, self.place.child(key)))).collect();
        self.placed(visitor.visit_map(Members { rest: members.into_iter(), value: None }))
    }

    fn deserialize_struct<V: Visitor<'v>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        let mut known = Vec::new();
        let mut seen = HashSet::new();
        for (key, value) in self.members()? {
            let exact = fields.iter().find(|field| *field == key);
            let Some(&field) = exact.or_else(|| fields.iter().find(|field| field.eq_ignore_ascii_case(key))) else {
                let unknown = Unknown { path: self.place.path.child(key), similar: similar(key, fields) };
                self.record.borrow_mut().unknown.push(unknown);
                continue;
            };
            let node = self.child(value, self.place.child(field));
            if !seen.insert(field) {
                let detail = "given more than once, in different letters".to_owned();
                return Err(Mismatch { at: node.place.path.to_string(), found: value.clone(), detail });
            }
            if field != key {
                let (parent, from) = (self.place.pointer.clone(), key.clone());
                self.record.borrow_mut().renamed.push(Rename { parent, from, to: field });
            }
            known.push((field, node));
        }
        self.placed(visitor.visit_map(Members { rest: known.into_iter(), value: None }))
    }

    fn deserialize_enum<V: Visitor<'v>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        let result = self.value.deserialize_enum(name, variants, visitor).map_err(Mismatch::custom);
        self.placed(result)
    }

    fn deserialize_ignored_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_unit()
    }
}

struct Items<'v, 'r>(std::vec::IntoIter<Node<'v, 'r>>);

impl<'v> SeqAccess<'v> for Items<'v, '_> {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<Option<T::Value>, Mismatch> {
        self.0.next().map(|node| seed.deserialize(node)).transpose()
    }
}

struct Members<'k, 'v, 'r> {
    rest: std::vec::IntoIter<(&'k str, Node<'v, 'r>)>,
    value: Option<Node<'v, 'r>>,
}

impl<'v> MapAccess<'v> for Members<'_, 'v, '_> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'v>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        let Some((key, node)) = self.rest.next() else { return Ok(None) };
        self.value = Some(node);
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'v>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        let node = self.value.take().ok_or_else(|| Mismatch::custom("a value was asked for before its key"))?;
        seed.deserialize(node)
    }
}

impl serde::de::Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { at: String::new(), found: Value::Null, detail: message.to_string() }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.at, self.detail)
    }
}

impl std::error::Error for Mismatch {}
