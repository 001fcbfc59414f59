//! What the objects that expressions make are outside of expressions: JSON, and what the real server says of the rest.
//!
//! A mutating policy gives an object that is merged, or operations whose values are put into a patch. The two are written
//! down differently: a merge takes the values of the language as they are, and only knows some of them.

use serde_json::{Map, Value as Json};

use super::{
    run::time::{duration_printed, duration_text},
    value::{Key, List, Made, Value},
};

/// A value that is no JSON, and fits nothing.
#[derive(Debug)]
pub struct Odd {
    /// As Go prints it.
    pub plain: String,
    /// As Go writes it in a program.
    pub syntax: String,
    /// What Go calls its type.
    pub kind: String,
}

impl Odd {
    /// What stands in the place of the odd value of this number.
    #[must_use]
    pub fn placeholder(number: usize) -> Json {
        Json::String(Odd::name(number))
    }

    /// The text of that.
    #[must_use]
    pub fn name(number: usize) -> String {
        format!("\0odd {number}")
    }

    /// The odd value in whose place this stands.
    #[must_use]
    pub fn find<'o>(odd: &'o [Odd], value: &Json) -> Option<&'o Odd> {
        odd.get(value.as_str()?.strip_prefix("\0odd ")?.parse::<usize>().ok()?)
    }
}

/// The largest whole number that every reader of JSON takes for what it is.
const SAFE: i64 = (1 << 53) - 1;

/// Types that do not say where their objects stand.
pub fn misplaced(made: &Made) -> Vec<String> {
    let mut found = Vec::new();
    place(&Value::Made(made.clone().into()), &made.name, &mut found);
    found
}

fn place(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Made(made) => {
            if *made.name != *path {
                let name = &made.name;
                found.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
                ));
            }
            for (field, value) in &made.fields {
                place(value, &format!("{path}.{field}"), found);
            }
        }
        Value::List(list) if !list.found => list.items.iter().for_each(|item| place(item, path, found)),
        Value::Map(map) if !map.found => map.values().for_each(|value| place(value, path, found)),
        _ => {}
    }
}

/// A made object as it is merged, with what is no JSON in it kept aside. None if a key in it is no text.
pub fn merged(made: &Made) -> Option<(Json, Vec<Odd>)> {
    let mut odd = Vec::new();
    let object = fields(made, &mut odd)?;
    Some((object, odd))
}

fn fields(made: &Made, odd: &mut Vec<Odd>) -> Option<Json> {
    let mut object = Map::new();
    for (name, value) in &made.fields {
        object.insert(name.to_string(), field(value, odd)?);
    }
    Some(Json::Object(object))
}

/// The value of a field. Lists and maps that expressions make are known here, and nowhere below.
fn field(value: &Value, odd: &mut Vec<Odd>) -> Option<Json> {
    match value {
        Value::Optional(Some(inner)) => field(inner, odd),
        Value::List(list) => Some(items(list, odd)),
        Value::Map(map) => {
            let mut object = Map::new();
            for (key, value) in map.iter() {
                let Key::Text(key) = key else { return None };
                object.insert(key.to_string(), plain(value, odd));
            }
            Some(Json::Object(object))
        }
        other => Some(plain(other, odd)),
    }
}

fn items(list: &List, odd: &mut Vec<Odd>) -> Json {
    list.items.iter().map(|item| if list.found { within(item, odd) } else { plain(item, odd) }).collect()
}

/// A value in something that stood in an object, where a null is one.
fn within(value: &Value, odd: &mut Vec<Odd>) -> Json {
    match value {
        Value::Null => Json::Null,
        other => plain(other, odd),
    }
}

fn plain(value: &Value, odd: &mut Vec<Odd>) -> Json {
    match value {
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Double(number) if number.is_finite() => (*number).into(),
        Value::Text(text) | Value::Type(text) => (&**text).into(),
        Value::Optional(None) => Json::Null,
        Value::Optional(Some(inner)) => plain(inner, odd),
        Value::List(list) if list.found => items(list, odd),
        Value::Map(map) if map.found => {
            let entries = map.iter().map(|(key, value)| (Value::from(key.clone()).to_string(), within(value, odd)));
            Json::Object(entries.collect())
        }
        Value::Made(made) if !made.is_operation() => match fields(made, odd) {
            Some(object) => object,
            None => strange(value, odd),
        },
        other => strange(other, odd),
    }
}

fn strange(value: &Value, odd: &mut Vec<Odd>) -> Json {
    odd.push(Odd { plain: shown(value), syntax: written(value), kind: go_type(value) });
    Odd::placeholder(odd.len() - 1)
}

/// A value as Go prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL_VALUE".to_owned(),
        Value::Bytes(bytes) => format!("[{}]", joined(bytes.iter(), " ")),
        Value::Duration(length) => duration_printed(*length),
        Value::Time(moment) => moment.printed(),
        Value::Quantity(quantity) => quantity.integer().map_or_else(|| value.to_string(), |whole| whole.to_string()),
        Value::List(list) => format!("[{}]", joined(list.items.iter().map(shown), " ")),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}:{}", Value::from(key.clone()), shown(value)));
            format!("map[{}]", joined(entries, " "))
        }
        other => other.to_string(),
    }
}

/// A value as Go writes it in a program.
fn written(value: &Value) -> String {
    match value {
        Value::Null => "0".to_owned(),
        Value::Uint(number) => format!("{number:#x}"),
        Value::Bytes(bytes) => {
            let bytes = bytes.iter().map(|byte| format!("{byte:#x}"));
            format!("[]uint8{{{}}}", joined(bytes, ", "))
        }
        Value::Duration(length) => length.to_string(),
        Value::Time(moment) => moment.written(),
        Value::Text(text) => crate::go::quote(text),
        Value::List(list) => format!("[]ref.Val{{{}}}", joined(list.items.iter().map(written), ", ")),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}:{}", written(&key.clone().into()), written(value)));
            format!("map[ref.Val]ref.Val{{{}}}", joined(entries, ", "))
        }
        other => other.to_string(),
    }
}

fn joined(parts: impl Iterator<Item = impl ToString>, between: &str) -> String {
    parts.map(|part| part.to_string()).collect::<Vec<_>>().join(between)
}

/// What Go calls the type of a value.
pub(super) fn go_type(value: &Value) -> String {
    match value {
        Value::Null => "structpb.NullValue",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::Text(_) | Value::Type(_) => "string",
        Value::Bytes(_) => "[]uint8",
        Value::Duration(_) => "time.Duration",
        Value::Time(_) => "time.Time",
        Value::List(list) if list.found => "[]interface {}",
        Value::List(_) => "[]ref.Val",
        Value::Map(map) if map.found => "map[string]interface {}",
        Value::Map(_) => "map[ref.Val]ref.Val",
        Value::Optional(None) => "<nil>",
        Value::Optional(Some(inner)) => return go_type(inner),
        Value::Url(_) => "*url.URL",
        Value::Quantity(_) => "*resource.Quantity",
        Value::Ip(_) => "netip.Addr",
        Value::Cidr(_) => "netip.Prefix",
        Value::Made(made) if made.is_operation() => "*mutation.JSONPatchVal",
        Value::Made(_) => "map[string]interface {}",
        other => return other.type_name().to_string(),
    }
    .to_owned()
}

/// The operation of a patch.
///
/// # Errors
/// Its value cannot be written as JSON, or says that it stands elsewhere.
pub fn operation(made: &Made) -> Result<Map<String, Json>, String> {
    let mut operation = Map::new();
    // The real server has these quoted as Go does, which not every reader of JSON understands.
    for (field, needed) in [("op", true), ("path", true), ("from", false)] {
        let text = made.text(field);
        if text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\x08' | '\x0c')) {
            continue;
        }
        if needed || !text.is_empty() {
            operation.insert(field.to_owned(), text.into());
        }
    }
    let Some(value) = made.fields.get("value") else { return Ok(operation) };
    if let Value::Made(inner) = value
        && !inner.is_operation()
    {
        let misplaced = misplaced(inner);
        if !misplaced.is_empty() {
            return Err(format!("type mismatch: {}", misplaced.join("\n")));
        }
    }
    let value = written_out(value, true)
        .map_err(|why| format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"))?;
    operation.insert("value".to_owned(), value);
    Ok(operation)
}

fn written_out(value: &Value, is_whole: bool) -> Result<Json, String> {
    let unconverted = |name: &str| Err(format!("type conversion error from '{name}' to '*structpb.Value'"));
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) if (-SAFE..=SAFE).contains(number) => (*number).into(),
        Value::Uint(number) if *number <= SAFE.unsigned_abs() => (*number).into(),
        Value::Int(_) | Value::Uint(_) => value.to_string().into(),
        Value::Double(number) => number_of(*number)?,
        Value::Text(text) => (&**text).into(),
        Value::Bytes(bytes) => encoded(bytes),
        Value::Duration(length) => duration_text(*length).into(),
        Value::Time(moment) => moment.text().into(),
        Value::Optional(Some(inner)) => written_out(inner, is_whole)?,
        Value::Optional(None) => return Err("optional.none() dereference".to_owned()),
        Value::List(list) => list.items.iter().map(|item| written_out(item, false)).collect::<Result<_, _>>()?,
        Value::Map(map) => {
            let mut object = Map::new();
            for (key, value) in map.iter() {
                let Key::Text(key) = key else {
                    let kind = Value::from(key.clone()).type_name();
                    return Err(format!("unsupported type conversion from '{kind}' to string"));
                };
                object.insert(key.to_string(), written_out(value, false)?);
            }
            Json::Object(object)
        }
        Value::Type(_) => return Err("type conversion not supported for 'type'".to_owned()),
        Value::Url(_) => return unconverted("URL"),
        Value::Quantity(_) => return unconverted("Quantity"),
        Value::Ip(_) => return unconverted("IP"),
        Value::Cidr(_) => return unconverted("CIDR"),
        Value::Version(_) => return unconverted("Semver"),
        Value::Made(made) if made.is_operation() => {
            return Err("cannot convert to native type: *structpb.Value".to_owned());
        }
        Value::Made(made) if is_whole => whole(made)?,
        // The real server ends the connection over these.
        Value::Made(made) => return unconverted(&made.name),
        Value::Format(_) | Value::Access(_) | Value::Decision(_) => return unconverted(&value.type_name()),
    })
}

/// An object that is the whole value of an operation.
fn whole(made: &Made) -> Result<Json, String> {
    let Some((object, odd)) = merged(made) else { return Err("unable to convert to *structpb.Value".to_owned()) };
    match odd.into_iter().next() {
        Some(odd) => Err(format!("proto: invalid type: {}", odd.kind)),
        None => Ok(object),
    }
}

fn number_of(number: f64) -> Result<Json, String> {
    if !number.is_finite() {
        let shown = if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        };
        return Err(format!(
            "json: error calling MarshalJSON for type *structpb.Value: proto: google.protobuf.Value.number_value: invalid {shown} value"
        ));
    }
    // A whole number is written without a point.
    Ok(match number.fract() == 0.0 && number.abs() <= SAFE as f64 {
        true => (number as i64).into(),
        false => number.into(),
    })
}

fn encoded(bytes: &[u8]) -> Json {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes).into()
}
