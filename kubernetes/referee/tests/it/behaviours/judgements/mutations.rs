//! What can be wrong with an object: each of its fields in turn, and whatever a sample adds.

use std::fmt;

use serde_json::{Map, Value, json};

/// One change to one place of an object, or a merge patch.
#[derive(Clone)]
pub(super) enum Mutation {
    Remove(Vec<Step>),
    Set(Vec<Step>, Value),
    Merge(Value),
}

#[derive(Clone)]
pub(super) enum Step {
    Field(String),
    Item(usize),
}

/// Fields that the server decides about, that other suites look at, or that differ on purpose (`docs/differences.md`).
const LEFT_ALONE: [&str; 8] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.creationTimestamp",
    "metadata.managedFields",
];

/// Every mutation of an object; on update what is there changes rather than becomes wrong.
pub(super) fn of(object: &Value, extras: &[Value], update: bool) -> Vec<Mutation> {
    let mut all = vec![Mutation::Merge(json!({}))];
    walk(object, &mut Vec::new(), update, &mut all);
    all.extend(extras.iter().cloned().map(Mutation::Merge));
    all
}

fn walk(value: &Value, path: &mut Vec<Step>, update: bool, all: &mut Vec<Mutation>) {
    let shown = shown(path);
    if LEFT_ALONE.contains(&shown.as_str()) || (update && (shown == "status" || shown == "metadata.generation")) {
        return;
    }
    if !path.is_empty() && shown != "metadata" {
        all.push(Mutation::Remove(path.clone()));
        for other in others(value, update) {
            all.push(Mutation::Set(path.clone(), other));
        }
    }
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                path.push(Step::Field(name.clone()));
                walk(inner, path, update, all);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                path.push(Step::Item(at));
                walk(inner, path, update, all);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Other values for the place of this one.
fn others(value: &Value, update: bool) -> Vec<Value> {
    match value {
        Value::String(_) if update => vec![json!("changed")],
        Value::String(_) => vec![json!(""), json!("Wrong Value!"), json!("a".repeat(254))],
        Value::Number(number) if update => vec![json!(number.as_i64().unwrap_or(0) + 1)],
        Value::Number(_) => vec![json!(0), json!(-1), json!(i32::MAX)],
        Value::Bool(flag) => vec![json!(!flag)],
        Value::Array(items) => {
            let mut others = vec![json!([])];
            // An address from a pool belongs to one server and means nothing to the other.
            let given = |item: &&Value| item.as_str().is_some_and(|text| text.starts_with("10.0.0."));
            if let Some(first) = items.first().filter(|item| !update || !given(item)) {
                let mut twice = items.clone();
                twice.push(first.clone());
                others.push(twice.into());
            }
            others
        }
        Value::Object(fields) => {
            let mut others = vec![json!({})];
            // A uid belongs to one server and means nothing to the other.
            if fields.values().all(Value::is_string)
                && !fields.is_empty()
                && !fields.keys().any(|key| key.ends_with("-uid"))
            {
                let mut wrong = fields.clone();
                wrong.insert("Wrong Key!".to_owned(), "Wrong Value!".into());
                others.push(wrong.into());
            }
            others
        }
        Value::Null => Vec::new(),
    }
}

impl Mutation {
    pub(super) fn apply(&self, object: &mut Value) {
        match self {
            Mutation::Merge(patch) => *object = schema::patch::merge(object, patch),
            Mutation::Set(path, value) => {
                if let Some(place) = place(object, path) {
                    *place = value.clone();
                }
            }
            Mutation::Remove(path) => {
                let Some((last, parents)) = path.split_last() else { return };
                match (place(object, parents), last) {
                    (Some(Value::Object(fields)), Step::Field(name)) => drop(fields.remove(name)),
                    (Some(Value::Array(items)), Step::Item(at)) if *at < items.len() => drop(items.remove(*at)),
                    _ => {}
                }
            }
        }
    }
}

fn place<'a>(object: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(object, |value, step| match step {
        Step::Field(name) => {
            if value.is_null() {
                *value = Map::new().into();
            }
            Some(value.as_object_mut()?.entry(name.clone()).or_insert(Value::Null))
        }
        Step::Item(at) => value.get_mut(*at),
    })
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::Merge(patch) => write!(f, "{patch}"),
            Mutation::Remove(path) => write!(f, "without {}", shown(path)),
            Mutation::Set(path, value) => {
                let text = value.to_string();
                match text.len() > 100 {
                    true => {
                        write!(f, "{} = {}... ({})", shown(path), text.chars().take(12).collect::<String>(), text.len())
                    }
                    false => write!(f, "{} = {text}", shown(path)),
                }
            }
        }
    }
}

fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => text.extend([".", name]),
            Step::Item(at) => text.push_str(&format!("[{at}]")),
        }
    }
    text
}
