//! Server-side apply and the tracking of who manages which field (`metadata.managedFields`).
//!
//! Objects go in, objects with up-to-date managedFields come out. The time of a write is part of the input; storing, and
//! deciding whether anything is stored at all, is the caller's.

mod collect;
mod compare;
mod entries;
mod fieldset;
mod merge;
mod overlay;
mod remove;
mod shape;
mod typed;

pub use fieldset::FieldSet;
pub(crate) use overlay::overlay;

use serde_json::{Map, Value, json};

use self::{
    collect::collect,
    compare::{Comparison, compare},
    entries::{Entry, Operation},
    remove::{remove, with_parents},
};
use crate::node::Schema;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields nobody manages: the server writes them itself.
const UNMANAGED: [&[&str]; 12] = [
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:clusterName"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:managedFields"],
    &["f:metadata", "f:resourceVersion"],
];

/// Who writes, how and when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The field manager; empty is written as `unknown`.
    pub manager: &'a str,
    /// The version of the request, `apps/v1`.
    pub api_version: &'a str,
    /// `status`, or empty for the resource itself.
    pub subresource: &'a str,
    /// RFC 3339 with seconds, `2026-01-02T03:04:05Z`.
    pub time: &'a str,
}

/// The outcome of an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    pub object: Value,
    /// Whether anything but managedFields differs from the live object.
    pub changed: bool,
}

/// One field that another manager holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// As messages print it: `"kubectl" using apps/v1`.
    pub manager: String,
    /// `.spec.replicas`.
    pub field: String,
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The configuration does not fit the kind; the text follows `failed to create typed patch object (…): `.
    #[error("{0}")]
    Untyped(String),
    /// The configuration says what no configuration may (400).
    #[error("{0}")]
    BadRequest(String),
}

/// Applies a configuration over the live object, which is `None` when the apply creates it.
///
/// `reset` names top-level fields that this endpoint ignores (`status` for the resource, `spec` for its status). The result
/// is merged but not yet defaulted.
///
/// # Errors
/// Another manager holds a field with another value and `force` is off, or the configuration does not fit the kind.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
    reset: &[&str],
) -> Result<Applied, ApplyError> {
    if !applied["metadata"]["managedFields"].is_null() {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_string()));
    }
    let mut outcome = apply_once(schema, live, applied, writer, force, reset);
    if let (Err(ApplyError::Conflict(conflicts)), Some(live), "kubectl") = (&outcome, live, writer.manager) {
        // What the last client-side apply wrote and nobody changed since belongs to the same user.
        let allowed = allowed_by_last_applied(schema, live, writer.api_version).unwrap_or_default().paths();
        let rest: Vec<Conflict> = conflicts.iter().filter(|c| !allowed.contains(&c.field)).cloned().collect();
        outcome = match rest.is_empty() {
            true => apply_once(schema, Some(live), applied, writer, true, reset),
            false => Err(ApplyError::Conflict(rest)),
        };
    }
    let mut applied_object = outcome?;
    if writer.manager == "kubectl" {
        keep_last_applied(&mut applied_object.object, applied);
    }
    Ok(applied_object)
}

fn apply_once(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
    reset: &[&str],
) -> Result<Applied, ApplyError> {
    typed::check(schema, applied, &[]).map_err(ApplyError::Untyped)?;
    let zero = schema.zero(applied);
    let (live, mut managers) = match live {
        Some(live) => {
            let mut managers = entries::decode(&live["metadata"]["managedFields"]).unwrap_or_default();
            if managers.is_empty() {
                let before = Writer { manager: "before-first-apply", ..*writer };
                track(schema, &zero, live, &mut managers, &before, reset);
            }
            (without_managed(live), managers)
        }
        None => (zero, Vec::new()),
    };
    let own = entry(writer, Operation::Apply);
    let last = managers.iter().position(|e| e.is_of(&own)).map(|at| managers.remove(at));

    let mut merged = merge::merge(schema, &live, applied).map_err(ApplyError::Untyped)?;
    let fields = without_reset(&collect(schema, applied), reset);
    if let Some(last) = last.as_ref().filter(|last| !last.fields.is_empty()) {
        merged = prune(schema, &merged, &managers, &fields, &last.fields);
    }
    let changes = filtered(compare(schema, &live, &merged).map_err(ApplyError::Untyped)?, reset);
    let taken = changes.taken();
    if !force {
        let conflicts = conflicts(&managers, &taken);
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflict(conflicts));
        }
    }
    give_up(&mut managers, &taken, &changes.removed);
    let changed = merged != live;
    let fields = fields.difference(&unmanaged());
    if !fields.is_empty() {
        // Who applies the same again keeps the time of before.
        let time = if changed { Some(writer.time.to_string()) } else { last.and_then(|l| l.time) };
        managers.push(Entry { fields, time, ..own });
    }
    let mut object = merged;
    put_managed(&mut object, entries::encode(managers));
    Ok(Applied { object, changed })
}

/// Tracks a write that is no apply: puts new managedFields into `object`. `live` is `None` on create.
///
/// Call it after defaulting and before the server sets what it sets itself (uid, resource version, generation).
pub fn update(schema: &Schema, live: Option<&Value>, object: &mut Value, writer: &Writer<'_>, reset: &[&str]) {
    let sent = object.pointer_mut("/metadata/managedFields").map(Value::take).unwrap_or_default();
    remove_managed(object);
    let stored = live.map_or(&Value::Null, |live| &live["metadata"]["managedFields"]);
    let mut managers = match () {
        () if !writer.subresource.is_empty() => entries::decode(stored).unwrap_or_default(),
        () if entries::is_reset(&sent, schema.custom) => Vec::new(),
        () => match entries::decode(&sent) {
            Some(entries) if !entries.is_empty() => entries,
            _ => entries::decode(stored).unwrap_or_default(),
        },
    };
    // An object whose managers were forgotten is tracked again by its next apply, not before.
    if live.is_none() || !managers.is_empty() {
        let zero;
        let before = match live {
            Some(live) => live,
            None => {
                zero = schema.zero(object);
                &zero
            }
        };
        track(schema, before, object, &mut managers, writer, reset);
        entries::cap(&mut managers);
    }
    put_managed(object, entries::encode(managers));
}

/// Whether two objects are equal but for the times in their managedFields; such a write is not stored.
#[must_use]
pub fn same_but_for_times(old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let timeless = |object: &Value| {
        let mut list = object["metadata"]["managedFields"].clone();
        for entry in list.as_array_mut().into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        // The order of entries depends on their times.
        if let Some(list) = list.as_array_mut() {
            list.sort_by_key(Value::to_string);
        }
        list
    };
    let (Some(a), Some(b)) = (old.as_object(), new.as_object()) else { return false };
    let rest_equal = a.len() == b.len()
        && a.iter().all(|(key, value)| match (key.as_str(), value.as_object(), b.get(key)) {
            ("metadata", Some(left), Some(Value::Object(right))) => {
                let keys = |m: &Map<String, Value>| m.len() - usize::from(m.contains_key("managedFields"));
                keys(left) == keys(right) && left.iter().all(|(k, v)| k == "managedFields" || right.get(k) == Some(v))
            }
            (_, _, other) => other == Some(value),
        });
    rest_equal && timeless(old) == timeless(new)
}

/// The 409 that lists conflicts.
#[must_use]
pub fn conflict_status(conflicts: &[Conflict]) -> Value {
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|c| {
            json!({ "reason": "FieldManagerConflict", "message": format!("conflict with {}", c.manager), "field": c.field })
        })
        .collect();
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": conflict_message(conflicts), "reason": "Conflict", "details": { "causes": causes }, "code": 409,
    })
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", conflict.manager, conflict.field);
    }
    let mut managers: Vec<&str> = conflicts.iter().map(|c| c.manager.as_str()).collect();
    managers.sort_unstable();
    managers.dedup();
    let mut lines = Vec::new();
    for manager in managers {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(conflicts.iter().filter(|c| c.manager == manager).map(|c| format!("- {}", c.field)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

fn conflicts(managers: &[Entry], taken: &FieldSet) -> Vec<Conflict> {
    let of = |entry: &Entry| {
        let manager = entry.shown();
        let paths = entry.fields.intersection(taken).paths();
        paths.into_iter().map(move |field| Conflict { manager: manager.clone(), field })
    };
    managers.iter().flat_map(of).collect()
}

/// Gives what changed between two objects to an update manager, and takes it from the others.
fn track(
    schema: &Schema,
    before: &Value,
    after: &Value,
    managers: &mut Vec<Entry>,
    writer: &Writer<'_>,
    reset: &[&str],
) {
    // An object that does not fit its kind is not tracked; the server only logs it.
    let Ok(changes) = compare(schema, before, after) else { return };
    let changes = filtered(changes, reset);
    if changes.is_same() {
        return;
    }
    let taken = changes.taken();
    give_up(managers, &taken, &changes.removed);
    let taken = taken.difference(&unmanaged());
    if taken.is_empty() {
        return;
    }
    let own = entry(writer, Operation::Update);
    match managers.iter_mut().find(|e| e.is_of(&own)) {
        Some(known) => {
            known.fields = known.fields.union(&taken);
            known.time = own.time;
        }
        None => managers.push(Entry { fields: taken, ..own }),
    }
}

fn give_up(managers: &mut Vec<Entry>, taken: &FieldSet, removed: &FieldSet) {
    let gone = taken.union(removed);
    for entry in managers.iter_mut() {
        entry.fields = entry.fields.difference(&gone);
    }
    managers.retain(|entry| !entry.fields.is_empty());
}

/// Removes what the manager applied last time, does not apply now, and nobody else holds.
fn prune(schema: &Schema, merged: &Value, others: &[Entry], applied: &FieldSet, last: &FieldSet) -> Value {
    let pruned = remove(schema, merged, &with_parents(schema, last));
    let owned = others.iter().fold(applied.clone(), |sum, entry| sum.union(&entry.fields));
    let all = with_parents(schema, &collect(schema, merged));
    let kept = with_parents(schema, &collect(schema, &pruned)).union(&with_parents(schema, &owned));
    let pruned = remove(schema, merged, &all.difference(&kept));
    // Only what was applied before may go; the rest stands where it stood.
    let left = with_parents(schema, &collect(schema, &pruned));
    remove(schema, merged, &all.difference(&left).intersection(&with_parents(schema, last)))
}

fn entry(writer: &Writer<'_>, operation: Operation) -> Entry {
    Entry {
        manager: if writer.manager.is_empty() { "unknown" } else { writer.manager }.to_string(),
        operation,
        api_version: writer.api_version.to_string(),
        subresource: writer.subresource.to_string(),
        time: Some(writer.time.to_string()),
        fields: FieldSet::default(),
    }
}

fn unmanaged() -> FieldSet {
    let mut fields = FieldSet::default();
    for path in UNMANAGED {
        fields.insert(path.iter().copied());
    }
    fields
}

fn reset_set(reset: &[&str]) -> FieldSet {
    let mut fields = FieldSet::default();
    for path in reset {
        let elements: Vec<String> = path.split('.').map(|name| format!("f:{name}")).collect();
        fields.insert(elements.iter().map(String::as_str));
    }
    fields
}

fn without_reset(fields: &FieldSet, reset: &[&str]) -> FieldSet {
    fields.recursive_difference(&reset_set(reset))
}

fn filtered(changes: Comparison, reset: &[&str]) -> Comparison {
    if reset.is_empty() {
        return changes;
    }
    Comparison {
        added: without_reset(&changes.added, reset),
        modified: without_reset(&changes.modified, reset),
        removed: without_reset(&changes.removed, reset),
    }
}

fn remove_managed(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn without_managed(object: &Value) -> Value {
    let mut object = object.clone();
    remove_managed(&mut object);
    object
}

fn put_managed(object: &mut Value, managed: Option<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let (Some(metadata), Some(managed)) = (metadata.as_object_mut(), managed) {
        metadata.insert("managedFields".to_string(), managed);
    }
}

/// The fields of the last client-side apply that still have the values it gave them.
fn allowed_by_last_applied(schema: &Schema, live: &Value, api_version: &str) -> Option<FieldSet> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str().filter(|t| !t.is_empty())?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"] != api_version {
        return None;
    }
    let changes = compare(schema, &last, live).ok()?;
    let fields = collect(schema, &last);
    Some(fields.difference(&changes.taken()).difference(&changes.removed))
}

/// A server-side apply by kubectl keeps the annotation of client-side applies current.
fn keep_last_applied(object: &mut Value, applied: &Value) {
    let annotations = object.get_mut("metadata").and_then(|m| m.get_mut("annotations")).and_then(Value::as_object_mut);
    if let Some(known) = annotations.and_then(|a| a.get_mut(LAST_APPLIED)) {
        let mut text = applied.to_string();
        text.push('\n');
        *known = text.into();
    }
}

/// A list element's key as messages show it.
fn fieldset_element(key: &str) -> String {
    let mut fields = FieldSet::default();
    fields.insert(std::iter::once(key));
    fields.paths().pop().unwrap_or_default()
}
