//! The verbs of the resource API. Each takes a request apart, decides, and commits or answers.

pub(crate) mod components;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod shape;
pub(crate) mod subresources;
pub(crate) mod update;
pub(crate) mod watch;

use std::sync::Arc;

use http::Response;
use schema::FieldError;
use serde_json::Value;

use crate::{
    http::{Body, Call, Shape, respond},
    object::{Key, Name, text},
    registry::Resource,
    server::Api,
    status::{Answer, Failure},
};

/// One request for one resource, after routing and authorisation.
pub(crate) struct Request<'a> {
    pub api: &'a Arc<Api>,
    pub call: &'a Call,
    pub resource: &'a Arc<Resource>,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// What a client wants of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options every write takes from the query.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub manager: String,
    pub force: Option<bool>,
}

impl Request<'_> {
    pub(crate) fn key(&self, name: &str) -> Key {
        Key { collection: Arc::clone(&self.resource.collection), name: Name::new(self.namespace, name) }
    }

    pub(crate) fn options(&self, kind: &str) -> Answer<Options> {
        let query = &self.call.query;
        let mut errors = Vec::new();
        let runs: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
        if runs.iter().any(|run| *run != "All") {
            let bad: Vec<Value> = runs.iter().map(|run| Value::from(*run)).collect();
            errors.push(FieldError::not_supported("dryRun", bad, &["All".to_owned()]));
        }
        let manager = query.text("fieldManager");
        if manager.len() > 128 {
            errors.push(FieldError::too_long("fieldManager", 128));
        }
        if let Some(bad) = manager.chars().position(char::is_control) {
            let detail = format!("should only contain printable characters (at position {bad})");
            errors.push(FieldError::invalid("fieldManager", manager, detail));
        }
        let validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"].map(str::to_owned);
                errors.push(FieldError::not_supported("fieldValidation", other, &supported));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(Failure::invalid("meta.k8s.io", kind, "", &errors));
        }
        let force = query.get("force").map(|value| value != "false" && value != "0");
        Ok(Options { dry_run: !runs.is_empty(), validation, manager: manager.to_owned(), force })
    }

    /// The name under which this write owns fields: what the client says, or the first word of its user agent.
    pub(crate) fn manager(&self, options: &Options) -> String {
        if !options.manager.is_empty() {
            return options.manager.clone();
        }
        let agent = self.call.header("user-agent");
        let first = agent.split('/').next().unwrap_or_default();
        let printable: String = first.chars().filter(|c| !c.is_control()).take(128).collect();
        if printable.is_empty() { "unknown".to_owned() } else { printable }
    }

    /// One object as the answer, in the shape the client asked for.
    pub(crate) fn object(&self, code: u16, value: Value) -> Answer<Response<Body>> {
        let accept = &self.call.accept;
        let pretty = accept.pretty || self.call.query.flag("pretty");
        let value = match accept.shape {
            Shape::Object => value,
            Shape::Table => shape::table(self, std::slice::from_ref(&value), &value["metadata"]),
            Shape::Metadata => shape::metadata(value, &accept.shape_version),
        };
        Ok(respond::value(code, &value, accept.yaml, pretty))
    }

    pub(crate) fn not_found(&self) -> Box<Failure> {
        Failure::not_found(self.resource, self.name)
    }
}

/// Refuses an object of a custom kind that says it is of another; of the rest, lists and rules are looked at all the same.
fn check_custom_kind(
    resource: &Resource,
    value: &Value,
    old: Option<&Value>,
    mut errors: Vec<FieldError>,
    name: &str,
) -> Answer<()> {
    let own = text(&value["kind"]);
    if resource.custom.is_none() || own == resource.kind {
        return Ok(());
    }
    errors.push(FieldError::invalid("kind", own, format!("must be {}", resource.kind)));
    errors.extend(patiently(|| resource.schema.validate_lists_and_rules(value, old)));
    Err(Failure::invalid(&resource.group, own, name, &errors))
}

/// How long the rules of one object may run; the real server's limits come to about as much.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Runs a validation whose rules end when they have taken too long.
pub(crate) fn patiently<T>(validate: impl FnOnce() -> T) -> T {
    let end = std::time::Instant::now() + PATIENCE;
    schema::with_patience(move || std::time::Instant::now() < end, validate)
}

/// The time as objects carry it: seconds, UTC.
pub(crate) fn now() -> String {
    timestamp(jiff::Timestamp::now())
}

pub(crate) fn timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
