//! What the API knows of one built-in kind beyond its schema, and how a write or a table asks for it.
//!
//! A kind is a value: flags, texts and functions. Each is written down once, in its own file below `kinds`.

use schema::FieldError;
use serde_json::Value;

use crate::{
    fields::Read,
    strategy::Strategy,
    table::{self, Column, Row},
    text,
    validate::{Findings, Place, items},
};

/// The time of a write as objects carry it; asked for only where a rule needs it.
pub type Now<'a> = &'a dyn Fn() -> String;

/// The rules of one kind. Whatever a kind does not say is as in [`Kind::plain`].
#[derive(Clone, Copy)]
pub struct Kind {
    /// Where its objects are kept: `group/plural`. Both event groups share one.
    pub collection: &'static str,
    pub strategy: Strategy,
    /// The other version in which objects are served, if there is one.
    pub view: Option<View>,
    /// Fields that can be selected on, beyond name and namespace.
    pub(crate) fields: &'static [(&'static str, Read)],
    /// The columns of a table; see [`table::columns`] for the notation.
    pub(crate) columns: &'static str,
    /// What stands in them.
    pub(crate) cells: fn(&Row<'_>) -> Value,
    /// Fills in what no schema does.
    pub(crate) default: fn(&mut Value, Now<'_>),
    /// Completes a new object of a kind that starts with a state of its own.
    pub(crate) create: fn(&mut Value, Now<'_>),
    /// Keeps what an update may not change, beyond the rules of all kinds.
    pub(crate) update: fn(&mut Update<'_>),
    /// What is said of an object that is being deleted.
    pub(crate) deleting: fn(&mut Value, Now<'_>),
    pub(crate) validate: Check,
    /// Whether the schema has no say about what is missing: that is found by `validate`, as on the real server.
    pub(crate) judged: bool,
    /// Whether finalizers without a domain are refused, although the kind is none of the older groups.
    pub(crate) checks_finalizers: bool,
    /// What is said of an object without refusing it; the first is what it was before.
    pub(crate) warnings: fn(Option<&Value>, &Value) -> Vec<String>,
}

/// Another version of a kind, which shows the same objects in another form.
#[derive(Clone, Copy)]
pub struct View {
    /// The `apiVersion` in which objects are stored.
    pub stored_as: &'static str,
    /// Brings an object from the other form into the stored one.
    pub store: fn(Value) -> Value,
    /// Brings a stored object into the other form.
    pub show: fn(&mut Value),
    /// The name in storage of a field that a selector names.
    pub field: fn(&str) -> &str,
}

/// How a kind is checked: by the object alone, with the object before, or with all that is known of the write.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    Nothing,
    Object(fn(&Place<'_>, &mut Findings)),
    Change(fn(&Place<'_>, Option<&Value>, &mut Findings)),
    Write(fn(&Write<'_>, &mut Findings)),
}

/// A write that is to be checked.
pub struct Write<'a> {
    /// The group of the version in which the object is written.
    pub group: &'a str,
    /// What an update is sent to; empty for the object itself.
    pub subresource: &'a str,
    pub value: &'a Value,
    /// The object before; none if it is new.
    pub old: Option<&'a Value>,
}

/// An update that is to be completed.
pub struct Update<'a> {
    pub subresource: &'a str,
    pub old: &'a Value,
    pub new: &'a mut Value,
    pub now: Now<'a>,
}

impl Kind {
    /// A kind of which nothing is known but where its objects are kept.
    pub(crate) const fn plain(collection: &'static str) -> Kind {
        Kind {
            collection,
            strategy: Strategy::PLAIN,
            view: None,
            fields: &[],
            columns: table::PLAIN,
            cells: table::plain,
            default: |_, _| {},
            create: |_, _| {},
            update: |_| {},
            deleting: |_, _| {},
            validate: Check::Nothing,
            judged: false,
            checks_finalizers: false,
            warnings: |_, _| Vec::new(),
        }
    }

    /// Fills in the defaults that no schema carries.
    pub fn default(&self, value: &mut Value, now: Now<'_>) {
        (self.default)(value, now);
    }

    /// Completes a new object of a kind that starts with a state of its own.
    pub fn prepare_create(&self, value: &mut Value, now: Now<'_>) {
        (self.create)(value, now);
    }

    /// What an update of a built-in keeps, beyond the rules of all kinds.
    pub fn prepare_update(&self, mut update: Update<'_>) {
        (self.update)(&mut update);
    }

    /// What the status of an object says once it is being deleted.
    pub fn mark_deleting(&self, value: &mut Value, now: Now<'_>) {
        (self.deleting)(value, now);
    }

    /// What is wrong with an object, beyond what its schema says.
    #[must_use]
    pub fn validate(&self, write: &Write<'_>) -> Vec<FieldError> {
        let mut findings = Vec::new();
        let older = matches!(write.group, "" | "apps" | "batch" | "policy" | "rbac.authorization.k8s.io");
        if older || self.checks_finalizers {
            finalizers(write.value, &mut findings);
        }
        match self.validate {
            Check::Nothing => {}
            Check::Object(check) => check(&Place::root(write.value), &mut findings),
            Check::Change(check) => check(&Place::root(write.value), write.old, &mut findings),
            Check::Write(check) => check(write, &mut findings),
        }
        findings
    }

    /// Adds own findings to those of the schema; where both miss a field, the own words are kept.
    pub fn combine(&self, errors: &mut Vec<FieldError>, own: Vec<FieldError>) {
        let misses = |error: &FieldError| error.reason() == "FieldValueRequired";
        errors.retain(|error| {
            let said = |own: &FieldError| misses(own) && own.field == error.field;
            !misses(error) || !(own.iter().any(said) || self.judged && !error.field.starts_with("metadata."))
        });
        errors.extend(own);
    }

    /// What is said of an object without refusing it.
    #[must_use]
    pub fn warnings(&self, subresource: &str, old: Option<&Value>, new: &Value) -> Vec<String> {
        if subresource.is_empty() { (self.warnings)(old, new) } else { Vec::new() }
    }

    /// Where a selectable field stands among the values that [`Kind::extract`] returns.
    #[must_use]
    pub fn field(&self, path: &str) -> Option<usize> {
        self.fields.iter().position(|(known, _)| *known == path)
    }

    /// Whether anything but name and namespace can be selected on.
    #[must_use]
    pub fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The values of the selectable fields.
    #[must_use]
    pub fn extract(&self, object: &Value) -> Box<[Box<str>]> {
        self.fields.iter().map(|(path, read)| read.of(object, path).into()).collect()
    }

    /// The columns of a table, in the real server's order.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        table::columns(self.columns)
    }

    /// The cells of an object in its stored form, one per column; `now` is RFC 3339.
    #[must_use]
    pub fn cells(&self, object: &Value, now: &str) -> Vec<Value> {
        match (self.cells)(&Row::of(object, now)) {
            Value::Array(cells) => cells,
            _ => Vec::new(),
        }
    }
}

/// The older kinds know the finalizers that may do without a domain.
fn finalizers(value: &Value, errors: &mut Findings) {
    for (at, finalizer) in items(&value["metadata"]["finalizers"]).iter().map(text).enumerate() {
        if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{at}]"), finalizer, detail));
        }
    }
}
