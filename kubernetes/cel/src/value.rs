//! The values of expressions: what they are, when they are equal, and which comes first.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use super::run::{net, quantity::Quantity, semver::Version, time::Moment};

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    Said(String),
    /// It costs more than it may. Nothing makes up for that.
    Spent,
}

impl Fault {
    pub(super) fn said<T>(text: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::Said(text.into()))
    }

    pub(super) fn overload<T>() -> Result<T, Fault> {
        Fault::said("no such overload")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Said(text) => text,
            Fault::Spent => super::budget::SPENT,
        })
    }
}

pub type Outcome = Result<Value, Fault>;

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    /// In nanoseconds.
    Duration(i64),
    Time(Moment),
    List(Arc<List>),
    Map(Arc<Entries>),
    Optional(Option<Arc<Value>>),
    /// A type, by its name.
    Type(Arc<str>),
    Url(Arc<net::Url>),
    Quantity(Quantity),
    Ip(std::net::IpAddr),
    Cidr(net::Cidr),
    /// A format of texts, by its name.
    Format(&'static str),
    Version(Arc<Version>),
    /// Asks what somebody may do.
    Access(Arc<Access>),
    Decision(Arc<Decision>),
    /// An object that an expression of a mutating policy makes.
    Made(Arc<Made>),
}

/// An object by the name of its type, which says where it belongs: `Object.spec` stands in the field `spec`.
#[derive(Clone, Debug)]
pub struct Made {
    pub name: Arc<str>,
    pub fields: BTreeMap<Arc<str>, Value>,
}

/// The operation of a patch; every other made object is named `Object`, or begins with it.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

impl Made {
    pub fn is_operation(&self) -> bool {
        &*self.name == JSON_PATCH
    }

    /// A text of an operation; empty if it has none.
    pub fn text(&self, field: &str) -> &str {
        match self.fields.get(field) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// What a field is. Those that were never set are null, and the texts of an operation are empty.
    pub(super) fn field(&self, name: &str) -> Value {
        match (self.fields.get(name), name) {
            (Some(value), _) => value.clone(),
            (None, "op" | "path" | "from") if self.is_operation() => "".into(),
            (None, _) => Value::Null,
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match name {
            "op" | "path" | "from" if self.is_operation() => !self.text(name).is_empty(),
            _ => self.fields.contains_key(name),
        }
    }

    fn equals(&self, other: &Made) -> Result<bool, Fault> {
        if self.name != other.name {
            return Ok(false);
        }
        for field in self.fields.keys().chain(other.fields.keys()) {
            let (one, two) = (self.field(field), other.field(field));
            let alike = self.has(field) == other.has(field) && one.type_name() == two.type_name();
            if !alike || !one.equals(&two)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The entries of a map.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    all: BTreeMap<Key, Value>,
    /// They stood in an object; those that expressions make do not.
    pub found: bool,
}

impl Entries {
    pub fn found(all: BTreeMap<Key, Value>) -> Entries {
        Entries { all, found: true }
    }
}

impl From<BTreeMap<Key, Value>> for Entries {
    fn from(all: BTreeMap<Key, Value>) -> Entries {
        Entries { all, found: false }
    }
}

impl Deref for Entries {
    type Target = BTreeMap<Key, Value>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Entries {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}

/// A list as a schema sees it: in order, as a set, or as a map by some of its fields.
#[derive(Clone, Debug, Default)]
pub struct List {
    pub items: Vec<Value>,
    pub kind: Kind,
    /// It stood in an object, or was put together of such lists; those that expressions make do not.
    pub found: bool,
}

impl List {
    pub fn each(&self) -> impl Iterator<Item = &Value> {
        self.items.iter()
    }
}

#[derive(Clone, Debug, Default)]
pub enum Kind {
    #[default]
    Ordered,
    Set,
    Keyed(Arc<[Box<str>]>),
}

/// A question about rights, as far as it is put together.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// A path that is no resource.
    pub path: Option<String>,
    pub group: Option<String>,
    /// None for the resource of the request itself, or where none is named yet.
    pub resource: Option<String>,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub verb: String,
    /// A service account (namespace and name) instead of who asks.
    pub account: Option<(String, String)>,
    /// What stands in the selectors that were asked for.
    pub selectors: Vec<(&'static str, String)>,
}

/// The answer to a question about rights.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: String,
}

/// What may be the key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(Arc<str>),
}

impl From<Key> for Value {
    fn from(key: Key) -> Value {
        match key {
            Key::Bool(flag) => Value::Bool(flag),
            Key::Int(number) => Value::Int(number),
            Key::Uint(number) => Value::Uint(number),
            Key::Text(text) => Value::Text(text),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Bool(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Value {
        Value::List(Arc::new(List { items, kind: Kind::Ordered, found: false }))
    }
}

/// As errors show it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(flag) => flag.fmt(f),
            Value::Int(number) => number.fmt(f),
            Value::Uint(number) => number.fmt(f),
            Value::Double(number) => f.write_str(&super::run::number::shortest(*number)),
            Value::Text(text) | Value::Type(text) => f.write_str(text),
            Value::List(list) => {
                let items: Vec<String> = list.items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Value::Map(map) => {
                let entry = |(key, value): (&Key, &Value)| format!("{}: {value}", Value::from(key.clone()));
                write!(f, "{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            other => f.write_str(&other.type_name()),
        }
    }
}

impl Value {
    /// A map that an expression makes.
    pub(super) fn map(entries: BTreeMap<Key, Value>) -> Value {
        Value::Map(Arc::new(entries.into()))
    }

    pub fn optional(inner: Option<Value>) -> Value {
        Value::Optional(inner.map(Arc::new))
    }

    pub fn type_name(&self) -> Arc<str> {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::Text(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Time(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Url(_) => "kubernetes.URL",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Version(_) => "kubernetes.Semver",
            Value::Access(access) => match (&access.path, &access.group) {
                (Some(_), _) => "kubernetes.authorization.PathCheck",
                (None, None) => "kubernetes.authorization.Authorizer",
                (None, Some(_)) if access.resource.is_some() => "kubernetes.authorization.ResourceCheck",
                (None, Some(_)) => "kubernetes.authorization.GroupCheck",
            },
            Value::Decision(_) => "kubernetes.authorization.Decision",
            Value::Made(made) => return Arc::clone(&made.name),
        }
        .into()
    }

    /// The key that an entry of this value has.
    pub(super) fn key(&self) -> Option<Key> {
        match self {
            Value::Bool(flag) => Some(Key::Bool(*flag)),
            Value::Int(number) => Some(Key::Int(*number)),
            Value::Uint(number) => Some(Key::Uint(*number)),
            Value::Text(text) => Some(Key::Text(Arc::clone(text))),
            _ => None,
        }
    }

    /// What a map has under a key; numbers are the same whatever their type.
    pub(super) fn entry<'m>(map: &'m BTreeMap<Key, Value>, key: &Value) -> Option<&'m Value> {
        if let Some(found) = key.key().and_then(|key| map.get(&key)) {
            return Some(found);
        }
        let whole = match key {
            Value::Int(number) => i128::from(*number),
            Value::Uint(number) => i128::from(*number),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 2e19 => *number as i128,
            _ => return None,
        };
        let int = i64::try_from(whole).ok().and_then(|number| map.get(&Key::Int(number)));
        int.or_else(|| u64::try_from(whole).ok().and_then(|number| map.get(&Key::Uint(number))))
    }

    pub fn equals(&self, other: &Value) -> Result<bool, Fault> {
        Ok(match (self, other) {
            (Value::Null, other) | (other, Value::Null) => matches!(other, Value::Null),
            (Value::Bool(one), Value::Bool(two)) => one == two,
            (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
                numbers(self, other) == Some(Ordering::Equal)
            }
            (Value::Text(one), Value::Text(two)) | (Value::Type(one), Value::Type(two)) => one == two,
            (Value::Bytes(one), Value::Bytes(two)) => one == two,
            (Value::Duration(one), Value::Duration(two)) => one == two,
            (Value::Time(one), Value::Time(two)) => one.same(two),
            (Value::List(one), Value::List(two)) => return lists(one, two),
            (Value::Map(one), Value::Map(two)) => {
                if one.len() != two.len() {
                    return Ok(false);
                }
                for (key, value) in one.iter() {
                    match Value::entry(two, &key.clone().into()) {
                        Some(other) if value.equals(other)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Value::Optional(one), Value::Optional(two)) => match (one, two) {
                (None, None) => true,
                (Some(one), Some(two)) => return one.equals(two),
                _ => false,
            },
            (Value::Url(one), Value::Url(two)) => one.text() == two.text(),
            // The real server knows the sum of quantities for another thing than a quantity, on the right.
            (Value::Quantity(one), Value::Quantity(two)) if !two.is_result => one.cmp(two) == Ordering::Equal,
            (Value::Ip(one), Value::Ip(two)) => one == two,
            (Value::Cidr(one), Value::Cidr(two)) => one == two,
            (Value::Format(one), Value::Format(two)) => one == two,
            (Value::Version(one), Value::Version(two)) => one.cmp(two) == Ordering::Equal,
            (Value::Made(one), Value::Made(two)) => return one.equals(two),
            (
                Value::Url(_)
                | Value::Quantity(_)
                | Value::Ip(_)
                | Value::Cidr(_)
                | Value::Format(_)
                | Value::Version(_)
                | Value::Access(_)
                | Value::Decision(_),
                _,
            ) => return Fault::overload(),
            _ => false,
        })
    }

    /// Which of two values comes first.
    pub(super) fn order(&self, other: &Value) -> Result<Ordering, Fault> {
        Ok(match (self, other) {
            (Value::Double(number), _) | (_, Value::Double(number)) if number.is_nan() => {
                return Fault::said("NaN values cannot be ordered");
            }
            (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => match numbers(self, other) {
                Some(order) => order,
                None => return Fault::overload(),
            },
            (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
            (Value::Text(one), Value::Text(two)) => one.cmp(two),
            (Value::Bytes(one), Value::Bytes(two)) => one.cmp(two),
            (Value::Duration(one), Value::Duration(two)) => one.cmp(two),
            (Value::Time(one), Value::Time(two)) => one.order(two),
            _ => return Fault::overload(),
        })
    }

    pub(super) fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(flag) => !flag,
            Value::Int(number) => *number == 0,
            Value::Uint(number) => *number == 0,
            Value::Double(number) => *number == 0.0,
            Value::Text(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Duration(length) => *length == 0,
            Value::Time(moment) => moment.is_zero(),
            Value::List(list) => list.items.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::Optional(inner) => inner.is_none(),
            Value::Made(made) => made.fields.is_empty() && !made.is_operation(),
            _ => false,
        }
    }
}

/// Compares numbers of any types; none if one is no number.
fn numbers(one: &Value, two: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (one, two) {
        (Value::Double(one), Value::Double(two)) => one.partial_cmp(two),
        (Value::Double(one), two) => against(*one, whole(two)?),
        (one, Value::Double(two)) => against(*two, whole(one)?).map(Ordering::reverse),
        _ => Some(whole(one)?.cmp(&whole(two)?)),
    }
}

fn against(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Anything beyond 64 bits is larger than any whole number there is.
    if double.abs() >= 3e19 {
        return Some(if double > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let floor = double.floor();
    Some((floor as i128).cmp(&whole).then(if double > floor { Ordering::Greater } else { Ordering::Equal }))
}

fn lists(one: &List, two: &List) -> Result<bool, Fault> {
    if one.items.len() != two.items.len() {
        return Ok(false);
    }
    match &one.kind {
        Kind::Ordered => {
            for (one, two) in one.items.iter().zip(&two.items) {
                if !one.equals(two)? {
                    return Ok(false);
                }
            }
        }
        Kind::Set | Kind::Keyed(_) => {
            for two in &two.items {
                let found = one.items.iter().find(|own| one.kind.same_place(own, two));
                match found {
                    Some(own) if own.equals(two)? => {}
                    _ => return Ok(false),
                }
            }
        }
    }
    Ok(true)
}

impl Kind {
    /// Whether two elements cannot stand in the list together.
    pub(super) fn same_place(&self, one: &Value, two: &Value) -> bool {
        match self {
            Kind::Ordered => false,
            Kind::Set => one.equals(two).unwrap_or(false),
            Kind::Keyed(fields) => fields.iter().all(|field| {
                let of = |value: &Value| match value {
                    Value::Map(map) => map.get(&Key::Text(Arc::from(&**field))).cloned(),
                    _ => None,
                };
                match (of(one), of(two)) {
                    (Some(one), Some(two)) => one.equals(&two).unwrap_or(false),
                    (None, None) => true,
                    _ => false,
                }
            }),
        }
    }
}
