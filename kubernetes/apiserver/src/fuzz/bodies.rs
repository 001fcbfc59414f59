//! Bodies that are almost right, or not at all: objects, options, and patches of every kind.

use serde_json::{Map, Value, json};

use super::{Random, requests::Sort};

/// A body and what its sender says it is.
pub(super) struct Content {
    pub media: &'static str,
    pub bytes: Vec<u8>,
}

/// An object of this sort, changed in a few places, in one of the forms that clients send.
pub(super) fn object(random: &mut Random, sort: &Sort, name: &str) -> Content {
    let mut value = sort.object.clone();
    if !random.once_in(15) {
        value["metadata"]["name"] = name.into();
    } else {
        value["metadata"]["generateName"] = random.pick(&["g-", "", "G_", "a/b", "\u{e4}"]).into();
    }
    if random.once_in(3) {
        decorate(random, &mut value);
    }
    if random.once_in(2) {
        for _ in 0..=random.below(3) {
            mutate(&mut value, random);
        }
    }
    written(random, &value)
}

pub(super) fn options(random: &mut Random) -> Content {
    let mut value = json!({
        "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background",
        "preconditions": {"uid": "x", "resourceVersion": "5"}, "dryRun": ["All"],
    });
    for field in ["preconditions", "dryRun", "gracePeriodSeconds", "propagationPolicy"] {
        if random.once_in(2)
            && let Some(value) = value.as_object_mut()
        {
            value.remove(field);
        }
    }
    if random.once_in(2) {
        mutate(&mut value, random);
    }
    written(random, &value)
}

/// Metadata that has a meaning to the server.
fn decorate(random: &mut Random, value: &mut Value) {
    let reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "n0", "uid": "0-0", "blockOwnerDeletion": true});
    let managed = json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}}]);
    let (field, decoration) = match random.below(10) {
        0 => ("labels", json!({"app": "a", "bad key!": "x"})),
        1 => ("annotations", json!({"a": "b", "": ""})),
        2 => ("finalizers", json!(["example.com/f", "foregroundDeletion"])),
        3 => ("ownerReferences", json!([reference])),
        4 => ("managedFields", managed),
        5 => ("resourceVersion", json!("7")),
        6 => ("uid", json!("00000000-0000-0000-0000-000000000000")),
        7 => ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        8 => ("namespace", json!("n1")),
        _ => ("labels", json!({"app": "a"})),
    };
    value["metadata"][field] = decoration;
}

/// Changes one place of a value.
fn mutate(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(members) if !members.is_empty() && !random.once_in(8) => {
            let key = members.keys().nth(random.below(members.len())).cloned().unwrap_or_default();
            match random.below(12) {
                0 => drop(members.remove(&key)),
                1 => drop(
                    members.insert(random.pick(&["", "x", "kind", "$patch", "a/b~0", "\u{0}"]).to_owned(), odd(random)),
                ),
                _ => mutate(members.entry(key).or_insert(Value::Null), random),
            }
        }
        Value::Array(items) if !items.is_empty() && !random.once_in(8) => {
            let at = random.below(items.len());
            match random.below(6) {
                0 => items.push(items[at].clone()),
                1 => drop(items.remove(at)),
                _ => mutate(&mut items[at], random),
            }
        }
        other => *other = odd(random),
    }
}

fn odd(random: &mut Random) -> Value {
    match random.below(20) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(i64::MAX),
        4 => json!(u64::MAX),
        5 => json!(1.5e300),
        6 => json!(-0.0),
        7 => json!(""),
        8 => json!("x".repeat(random.below(3000))),
        9 => json!("\u{0}\u{1F600}\u{202e}\n"),
        10 => json!([]),
        11 => json!({}),
        12 => json!([[[{"a": [null]}]]]),
        13 => json!("100Ei"),
        14 => json!("2026-02-31T25:61:00Z"),
        15 => json!(2_147_483_648_u64),
        16 => (0..random.below(200)).fold(json!(0), |inner, _| json!([inner])),
        17 => json!("-9e40"),
        18 => json!("1e-999999999999"),
        _ => json!({"a": {"b": "c"}}),
    }
}

/// A patch of any kind.
pub(super) fn patch(random: &mut Random, sort: &Sort, name: &str) -> Content {
    match random.below(4) {
        0 => {
            let operations: Vec<Value> = (0..=random.below(4)).map(|_| operation(random)).collect();
            let mut value = Value::Array(operations);
            if random.once_in(8) {
                mutate(&mut value, random);
            }
            Content { media: "application/json-patch+json", bytes: spoilt(random, value.to_string().into_bytes()) }
        }
        1 => Content { media: "application/merge-patch+json", bytes: part(random, sort) },
        2 => {
            let mut value: Value = serde_json::from_slice(&part(random, sort)).unwrap_or_default();
            if value.is_object() && random.once_in(2) {
                let (key, directive) = match random.below(5) {
                    0 => ("$patch", json!("replace")),
                    1 => ("$patch", json!("delete")),
                    2 => ("$retainKeys", json!(["a", 1])),
                    3 => ("$setElementOrder/finalizers", json!(["a"])),
                    _ => ("$deleteFromPrimitiveList/finalizers", json!(["a", {}])),
                };
                if value["metadata"].is_object() && random.once_in(2) {
                    value["metadata"][key] = directive;
                } else {
                    value[key] = directive;
                }
            }
            let bytes = spoilt(random, value.to_string().into_bytes());
            Content { media: "application/strategic-merge-patch+json", bytes }
        }
        _ => {
            let content = object(random, sort, name);
            Content { media: "application/apply-patch+yaml", bytes: content.bytes }
        }
    }
}

/// A few fields of an object.
fn part(random: &mut Random, sort: &Sort) -> Vec<u8> {
    let mut value = sort.object.clone();
    value["metadata"] = Map::new().into();
    decorate(random, &mut value);
    for _ in 0..random.below(3) {
        mutate(&mut value, random);
    }
    let text = value.to_string().into_bytes();
    if random.once_in(6) { spoilt(random, text) } else { text }
}

fn operation(random: &mut Random) -> Value {
    let path = random.pick(&[
        "",
        "/",
        "/metadata/labels/a",
        "/metadata/name",
        "/spec",
        "/spec/0",
        "/spec/list/-",
        "/data/k",
        "/metadata/finalizers/0",
        "/a~1b",
        "/a~2",
        "x",
        "/metadata/resourceVersion",
        "/spec/containers/99999999999999999999",
        "/kind",
        "/metadata/labels",
    ]);
    let kind = random.pick(&["add", "remove", "replace", "move", "copy", "test", "x", ""]);
    let mut operation = json!({"op": kind, "path": path, "value": odd(random)});
    if matches!(kind, "move" | "copy") || random.once_in(9) {
        operation["from"] = random.pick(&["", "/metadata", "/spec", "/nothing", "x"]).into();
    }
    if random.once_in(9)
        && let Some(operation) = operation.as_object_mut()
    {
        operation.remove(random.pick(&["op", "path", "value"]));
    }
    operation
}

/// A value as JSON, YAML or protobuf, now and then spoilt.
fn written(random: &mut Random, value: &Value) -> Content {
    match random.below(10) {
        0 | 1 => {
            let text = serde_saphyr::to_string(value).unwrap_or_default();
            Content { media: "application/yaml", bytes: spoilt(random, text.into_bytes()) }
        }
        2 => Content { media: "application/vnd.kubernetes.protobuf", bytes: protobuf(random, value) },
        _ => Content { media: "application/json", bytes: spoilt(random, value.to_string().into_bytes()) },
    }
}

/// Most texts stay as they are.
fn spoilt(random: &mut Random, mut text: Vec<u8>) -> Vec<u8> {
    if !random.once_in(6) || text.is_empty() {
        return text;
    }
    let at = random.below(text.len());
    match random.below(14) {
        0 => text.truncate(at),
        1 => text[at] = u8::try_from(random.below(256)).unwrap_or(0),
        2 => drop(text.splice(at..at, b"NaN".iter().copied())),
        3 => drop(text.splice(1..1, b"\"kind\":\"x\",\"kind\":\"y\",".iter().copied())),
        4 => text = [b"[".repeat(20_000), text].concat(),
        5 => text = b"{\"a\":".repeat(20_000),
        6 => text = [b"\xEF\xBB\xBF".to_vec(), text].concat(),
        7 => text.clear(),
        8 => text = b" \n\t ".to_vec(),
        9 => text.extend_from_slice(b"\n---\n{}"),
        10 => {
            text =
                b"{\"metadata\":{\"name\":\"n0\"},\"data\":{\"k\":1e999,\"l\":123456789012345678901234567890}}".to_vec()
        }
        11 => text = b"a: &a [*a]\nb: &b {<<: *b}\nc: &c [x,x,x,x]\nd: [*c,*c,*c]".to_vec(),
        12 => text = [b"&a ".to_vec(), b"[".repeat(400)].concat(),
        _ => text = (0..random.below(300)).map(|_| u8::try_from(random.below(256)).unwrap_or(0)).collect(),
    }
    text
}

/// The envelope of Kubernetes around a message that may be anything.
fn protobuf(random: &mut Random, value: &Value) -> Vec<u8> {
    let text = |key: &str| value[key].as_str().unwrap_or_default().as_bytes().to_vec();
    let named = [field(1, text("apiVersion")), field(2, text("kind"))].concat();
    let name = value["metadata"]["name"].as_str().unwrap_or_default().as_bytes().to_vec();
    let mut message = field(1, field(1, name));
    if random.once_in(2) {
        message.extend(noise(random, 0));
    }
    let mut bytes = [b"k8s\0".to_vec(), field(1, named), field(2, message)].concat();
    if random.once_in(4) {
        bytes.truncate(random.below(bytes.len()));
    }
    if random.once_in(4) && !bytes.is_empty() {
        let at = random.below(bytes.len());
        bytes[at] = u8::try_from(random.below(256)).unwrap_or(0);
    }
    bytes
}

fn field(number: u8, content: Vec<u8>) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 127 {
        bytes.push(u8::try_from(length & 127).unwrap_or(0) | 128);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap_or(0));
    bytes.extend(content);
    bytes
}

/// Fields of any number and type, some with messages in them.
fn noise(random: &mut Random, depth: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(5) {
        let number = u8::try_from(random.below(15) + 1).unwrap_or(1);
        match random.below(6) {
            0 => bytes.extend([number << 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            1 => bytes.extend([number << 3 | 1, 0, 0, 0, 0, 0, 0, 248, 127]),
            2 => bytes.extend([number << 3 | 5, 0, 0, 192, 127]),
            3 => bytes.extend([number << 3 | 2, 255, 255, 255, 255, 15]),
            4 if depth < 30 => {
                let inner = noise(random, depth + 1);
                bytes.extend(field(number, inner));
            }
            _ => bytes.extend(field(number, b"text\xff".to_vec())),
        }
    }
    bytes
}
