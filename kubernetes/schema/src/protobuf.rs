//! Objects from protobuf, as kubectl's generators and Go controllers send built-in kinds.
//!
//! Numbers of fields come from the tables; their types from the schema. What is not understood is an error, never a guess:
//! an unknown number is skipped, as every reader of protobuf does.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::node::{Additional, Id, Node, Schema, Types};

/// The first bytes of every body in this form.
pub const MAGIC: &[u8] = b"k8s\0";

/// Objects nest as deep as their types do; only recursive ones could go further.
const MAX_DEPTH: usize = 64;

/// The envelope around an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub raw: &'a [u8],
}

/// Takes the envelope off a body; `None` if there is none or it is torn.
#[must_use]
pub fn envelope(body: &[u8]) -> Option<Envelope<'_>> {
    let mut envelope = Envelope { api_version: "", kind: "", raw: &[] };
    for (number, value) in fields(body.strip_prefix(MAGIC)?)? {
        match (number, value) {
            (1, Wire::Bytes(meta)) => {
                for (number, value) in fields(meta)? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => envelope.api_version = std::str::from_utf8(text).ok()?,
                        (2, Wire::Bytes(text)) => envelope.kind = std::str::from_utf8(text).ok()?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Some(envelope)
}

impl Schema {
    /// The object in a message of this built-in kind, or what is wrong with the message.
    pub fn from_protobuf(&self, message: &[u8]) -> Result<Value, String> {
        let mut object = Map::new();
        self.read(self.root, message, &mut object, 0)?;
        Ok(object.into())
    }

    fn read(&self, id: Id, message: &[u8], object: &mut Map<String, Value>, depth: usize) -> Result<(), String> {
        match self.node(id).wire {
            Some(table) => self.read_message(id, table, message, object, depth),
            None => Err(format!("{} cannot be sent as protobuf", self.node(id).go.as_deref().unwrap_or("this kind"))),
        }
    }

    fn read_message(
        &self,
        id: Id,
        table: &'static tables::Message,
        message: &[u8],
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_string());
        }
        for (number, wire) in fields(message).ok_or("unexpected EOF")? {
            if let Some((_, definition)) = table.inlined.iter().find(|(own, _)| *own == number) {
                let inner = tables::message(definition).ok_or("an inlined message is not in the tables")?;
                self.read_message(id, inner, wire.bytes()?, object, depth + 1)?;
                continue;
            }
            let Some(field) = table.fields.iter().find(|field| field.number == number) else { continue };
            let Some(child) = self.node(id).property(field.name) else { continue };
            let node = self.node(child);
            if node.types == Types::ARRAY && node.go.is_none() {
                let items = node.items.ok_or("a list without items")?;
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                self.push(items, &wire, list, depth)?;
            } else if let (Additional::Schema(values), true) = (node.additional, node.properties.is_empty()) {
                let map = object.entry(field.name).or_insert_with(|| json!({}));
                self.insert(values, wire.bytes()?, map, depth)?;
            } else {
                let value = self.value(child, &wire, depth)?;
                object.insert(field.name.to_string(), value);
            }
        }
        Ok(())
    }

    /// One entry of a repeated field, or several packed into one.
    fn push(&self, items: Id, wire: &Wire<'_>, list: &mut Value, depth: usize) -> Result<(), String> {
        let Some(list) = list.as_array_mut() else { return Ok(()) };
        match wire {
            Wire::Bytes(packed) if self.node(items).types == Types::INTEGER => {
                let mut rest = *packed;
                while !rest.is_empty() {
                    list.push(varint(&mut rest).ok_or("unexpected EOF")?.cast_signed().into());
                }
            }
            _ => list.push(self.value(items, wire, depth)?),
        }
        Ok(())
    }

    /// One entry of a map: a message of key and value.
    fn insert(&self, values: Id, entry: &[u8], map: &mut Value, depth: usize) -> Result<(), String> {
        let (mut key, mut value) = (String::new(), None);
        for (number, wire) in fields(entry).ok_or("unexpected EOF")? {
            match number {
                1 => key = text(wire.bytes()?)?,
                // A map of lists wraps each list in a message.
                2 if self.node(values).types == Types::ARRAY => {
                    let items = self.node(values).items.ok_or("a list without items")?;
                    let mut list = json!([]);
                    for (_, wire) in fields(wire.bytes()?).ok_or("unexpected EOF")? {
                        self.push(items, &wire, &mut list, depth)?;
                    }
                    value = Some(list);
                }
                2 => value = Some(self.value(values, &wire, depth)?),
                _ => {}
            }
        }
        let value = value.unwrap_or_else(|| zero(self.node(values)));
        if let Some(map) = map.as_object_mut() {
            map.insert(key, value);
        }
        Ok(())
    }

    fn value(&self, id: Id, wire: &Wire<'_>, depth: usize) -> Result<Value, String> {
        let node = self.node(id);
        if let Some(go) = node.go.as_deref() {
            match go {
                "Time" | "MicroTime" => return time(wire.bytes()?, go == "MicroTime"),
                "Quantity" => return single(wire.bytes()?, |raw| Ok(text(raw)?.into())),
                "IntOrString" => return int_or_string(wire.bytes()?),
                "FieldsV1" | "RawExtension" | "JSON" => {
                    return single(wire.bytes()?, |raw| serde_json::from_slice(raw).map_err(|error| error.to_string()));
                }
                "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
                    return Err(format!("{go} cannot be sent as protobuf"));
                }
                _ if node.wire.is_some() => {
                    let mut object = Map::new();
                    self.read(id, wire.bytes()?, &mut object, depth + 1)?;
                    return Ok(object.into());
                }
                _ => {}
            }
        }
        match node.types {
            Types::BOOLEAN => Ok((wire.number()? != 0).into()),
            Types::INTEGER => Ok(wire.number()?.cast_signed().into()),
            Types::NUMBER => Ok(f64::from_bits(wire.number()?).into()),
            Types::STRING if node.format.as_deref() == Some("byte") => Ok(STANDARD.encode(wire.bytes()?).into()),
            Types::STRING => Ok(text(wire.bytes()?)?.into()),
            _ => Err("a field of a type that protobuf does not carry".to_string()),
        }
    }
}

fn zero(node: &Node) -> Value {
    match node.types {
        Types::STRING => "".into(),
        Types::INTEGER | Types::NUMBER => 0.into(),
        Types::BOOLEAN => false.into(),
        Types::ARRAY => json!([]),
        _ => json!({}),
    }
}

/// A message that only wraps its first field.
fn single(message: &[u8], read: impl Fn(&[u8]) -> Result<Value, String>) -> Result<Value, String> {
    let mut value = Value::Null;
    for (number, wire) in fields(message).ok_or("unexpected EOF")? {
        if number == 1 && !wire.bytes()?.is_empty() {
            value = read(wire.bytes()?)?;
        }
    }
    Ok(value)
}

fn time(message: &[u8], micro: bool) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (0, 0);
    for (number, wire) in fields(message).ok_or("unexpected EOF")? {
        match number {
            1 => seconds = wire.number()?.cast_signed(),
            2 => nanos = wire.number()?.cast_signed(),
            _ => {}
        }
    }
    // Go's zero time has no place in JSON.
    const ZERO: i64 = -62_135_596_800;
    if message.is_empty() || (seconds == ZERO && nanos == 0) {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|error| error.to_string())?;
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    let layout = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(time.strftime(layout).to_string().into())
}

fn int_or_string(message: &[u8]) -> Result<Value, String> {
    let (mut kind, mut number, mut word) = (0, 0, String::new());
    for (field, wire) in fields(message).ok_or("unexpected EOF")? {
        match field {
            1 => kind = wire.number()?,
            2 => number = wire.number()?.cast_signed(),
            3 => word = text(wire.bytes()?)?,
            _ => {}
        }
    }
    Ok(if kind == 0 { number.into() } else { word.into() })
}

#[derive(Debug, Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(&self) -> Result<&'a [u8], String> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            Wire::Number(_) => Err("proto: wrong wireType = 0".to_string()),
        }
    }

    fn number(&self) -> Result<u64, String> {
        match self {
            Wire::Number(number) => Ok(*number),
            Wire::Bytes(_) => Err("proto: wrong wireType = 2".to_string()),
        }
    }
}

fn fields(mut message: &[u8]) -> Option<Vec<(u32, Wire<'_>)>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut message)?),
            1 => {
                let (bytes, rest) = message.split_first_chunk::<8>()?;
                message = rest;
                Wire::Number(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                Wire::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = message.split_first_chunk::<4>()?;
                message = rest;
                Wire::Number(u32::from_le_bytes(*bytes).into())
            }
            _ => return None,
        };
        fields.push((u32::try_from(tag >> 3).ok()?, value));
    }
    Some(fields)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn text(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(str::to_string).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes: small numbers and lengths only.
    fn part(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        out.extend_from_slice(content);
        out
    }

    #[test]
    fn objects_are_read_with_their_maps_lists_times_and_inlined_parts() {
        let meta = [part(1, b"a"), part(11, &[part(1, b"k"), part(2, b"v")].concat()), part(8, &[8, 60])].concat();
        let volume = [part(1, b"vol"), part(2, &part(6, &part(1, b"sec")))].concat();
        let port = [part(1, b"http"), vec![3 << 3, 80]].concat();
        let container = [part(1, b"c"), part(6, &port)].concat();
        let spec = [part(1, &volume), part(2, &container), vec![4 << 3, 30]].concat();
        let message = [part(1, &meta), part(2, &spec)].concat();
        let body = [MAGIC, &part(1, &[part(1, b"v1"), part(2, b"Pod")].concat()), &part(2, &message)].concat();
        let found = envelope(&body).expect("an envelope");
        assert_eq!((found.api_version, found.kind), ("v1", "Pod"));
        let schema = Schema::builtin("io.k8s.api.core.v1.Pod").expect("in the tables");
        assert_eq!(
            schema.from_protobuf(found.raw),
            Ok(json!({
                "metadata": {"name": "a", "labels": {"k": "v"}, "creationTimestamp": "1970-01-01T00:01:00Z"},
                "spec": {"volumes": [{"name": "vol", "secret": {"secretName": "sec"}}], "terminationGracePeriodSeconds": 30,
                    "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 80}]}]},
            }))
        );
    }

    #[test]
    fn torn_messages_are_errors() {
        let schema = Schema::builtin("io.k8s.api.core.v1.Pod").expect("in the tables");
        assert!(schema.from_protobuf(&[10, 9, 1]).is_err());
        assert!(schema.from_protobuf(&[8, 1]).is_err(), "metadata is no number");
        assert_eq!(envelope(b"{}"), None);
        assert_eq!(envelope(b"k8s\0\x12\x09"), None);
    }
}
