//! Request bodies become objects: JSON, YAML or protobuf, with the fields that strict decoding complains about.

use schema::FieldError;
use serde_json::Value;

use super::{FieldValidation, Request, convert};
use crate::{
    http::Call,
    object::text,
    status::{Answer, Failure},
};

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: &[&str] = &["application/json", "application/yaml", PROTOBUF];

/// A parsed body and the fields that occur twice in it.
pub(crate) struct Document {
    pub value: Value,
    pub duplicates: Vec<String>,
}

pub(crate) enum Problem {
    Media,
    /// The text of the parser, as clients of Kubernetes know it.
    Syntax(String),
    Yaml(String),
    /// The envelope could be read, the object in it could not.
    Object(String),
}

/// The content type of a body, without its parameters.
pub(crate) fn media(call: &Call) -> &str {
    call.header("content-type").split(';').next().unwrap_or_default().trim()
}

/// Parses a body by its content type; none counts as JSON. Protobuf needs a schema: see `protobuf`.
pub(crate) fn parse(call: &Call) -> Result<Document, Problem> {
    match media(call) {
        "" | "application/json" => parse_json(&call.body),
        "application/yaml" => parse_yaml(&call.body),
        _ => Err(Problem::Media),
    }
}

pub(crate) fn parse_json(body: &[u8]) -> Result<Document, Problem> {
    match serde_json::from_slice(body) {
        Ok(value) => Ok(Document { value, duplicates: schema::strict::duplicate_fields(body) }),
        Err(error) => Err(Problem::Syntax(cel::go::json::complaint(body).unwrap_or_else(|| error.to_string()))),
    }
}

pub(crate) fn parse_yaml(body: &[u8]) -> Result<Document, Problem> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::Yaml("yaml: invalid UTF-8".to_owned()))?;
    match serde_saphyr::from_str::<Value>(text) {
        Ok(value) => Ok(Document { value, duplicates: Vec::new() }),
        Err(error) => Err(Problem::Yaml(yaml_complaint(&error.to_string()))),
    }
}

/// What a document is, in Go's words, if it is no object.
pub(crate) fn other_than_object(value: &Value) -> Option<&'static str> {
    match value {
        Value::Object(_) => None,
        Value::Array(_) => Some("array"),
        Value::String(_) => Some("string"),
        Value::Number(_) => Some("number"),
        Value::Bool(_) => Some("bool"),
        Value::Null => Some("null"),
    }
}

/// What is said of JSON that is something else than an object.
pub(crate) fn no_kind_in(found: &str) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// A mistake in YAML, with its line in front as clients know it.
fn yaml_complaint(error: &str) -> String {
    let number = |text: &str| -> String { text.chars().take_while(char::is_ascii_digit).collect() };
    let line = error.split("line ").skip(1).map(number).find(|digits| !digits.is_empty());
    let first = error.lines().next().unwrap_or_default();
    format!("yaml: line {}: {first}", line.unwrap_or_else(|| "1".to_owned()))
}

/// The object of a built-in kind in a protobuf body, unless the body says it is of another kind.
pub(crate) fn protobuf(body: &[u8], kind: &str, schema: &schema::Schema) -> Result<Value, Problem> {
    if body.is_empty() {
        return Err(Problem::Syntax("empty data".to_owned()));
    }
    if !body.starts_with(schema::protobuf::MAGIC) {
        let prefix = "[107 56 115 0]";
        let problem = format!("provided data does not appear to be a protobuf message, expected prefix {prefix}");
        return Err(Problem::Syntax(problem));
    }
    let envelope = schema::protobuf::envelope(body).ok_or_else(|| Problem::Syntax("unexpected EOF".to_owned()))?;
    let mut value = match envelope.kind == kind || envelope.kind.is_empty() {
        true => schema.from_protobuf(envelope.raw).map_err(Problem::Object)?,
        false => serde_json::json!({}),
    };
    for (field, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            value[field] = text.into();
        }
    }
    Ok(value)
}

impl Request<'_> {
    /// The body by its content type.
    fn document(&self) -> Result<Document, Problem> {
        if media(self.call) != PROTOBUF || self.resource.custom.is_some() {
            return parse(self.call);
        }
        let (kind, api_version) = self.expected_kind();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let schema = if kind == self.resource.kind {
            Some(std::sync::Arc::clone(&self.resource.schema))
        } else {
            tables::definition_of(group, version, &kind).and_then(schema::Schema::builtin)
        };
        let schema = schema.ok_or(Problem::Media)?;
        let value = protobuf(&self.call.body, &kind, &schema)?;
        Ok(Document { value, duplicates: Vec::new() })
    }

    /// The object in the body: of this resource's kind, without unknown fields.
    pub(crate) fn decode(&self, validation: FieldValidation) -> Answer<Value> {
        let document = match self.document() {
            Ok(document) => document,
            Err(Problem::Media) => return Err(Failure::unsupported_media(ACCEPTED)),
            Err(Problem::Yaml(error)) => return Err(self.unrecognised(&error)),
            Err(Problem::Object(error)) => return Err(self.misfit(&error)),
            Err(Problem::Syntax(error)) if media(self.call) == PROTOBUF => return Err(self.unrecognised(&error)),
            Err(Problem::Syntax(error)) => {
                return Err(self.unrecognised(&format!("couldn't get version/kind; json parse error: {error}")));
            }
        };
        let Document { mut value, duplicates } = document;
        if value.is_null() {
            return Err(self.unrecognised("Object 'Kind' is missing in 'null'"));
        }
        if let Some(found) = other_than_object(&value) {
            return Err(self.unrecognised(&no_kind_in(found)));
        }
        self.check_kind(&mut value)?;
        if self.is_of_other_kind(&value) {
            return Ok(value);
        }
        self.prune(&mut value, &duplicates, validation)?;
        Ok(value)
    }

    /// An object that claims another kind is refused later, and until then nobody knows its fields.
    fn is_of_other_kind(&self, value: &Value) -> bool {
        self.resource.custom.is_some() && text(&value["kind"]) != self.expected_kind().0
    }

    /// Fills in what a decoded object leaves to the server.
    pub(crate) fn default(&self, value: &mut Value) {
        if !self.is_of_other_kind(value) {
            // An empty list of policies is one that somebody chose, until it is left out as Go leaves it out.
            if convert::is_autoscaler(self.resource) {
                self.resource.rules.default(value, &super::now);
                self.resource.schema.default(value);
            } else {
                self.resource.schema.default(value);
                self.resource.rules.default(value, &super::now);
            }
            convert::settle_view(self.resource, value);
        }
    }

    /// The kind and version of the body must be those of the endpoint; built-ins may leave them out.
    fn check_kind(&self, value: &mut Value) -> Answer<()> {
        let (kind, api_version) = self.expected_kind();
        let (own_kind, own_version) = (text(&value["kind"]).to_owned(), text(&value["apiVersion"]).to_owned());
        let custom = self.resource.custom.is_some();
        if own_kind.is_empty() && custom {
            return Err(self.unrecognised(&format!("Object 'Kind' is missing in '{}'", self.summary())));
        }
        if own_version.is_empty() && custom {
            return Err(self.unrecognised(&format!("Object 'apiVersion' is missing in '{}'", self.summary())));
        }
        if custom && own_kind != kind && own_version == api_version {
            if kind == self.resource.kind {
                // What else is wrong with it is told together with its kind.
                return Ok(());
            }
            let error = FieldError::invalid("kind", own_kind.as_str(), format!("must be {kind}"));
            let name = text(&value["metadata"]["name"]);
            return Err(Failure::invalid(&self.resource.group, &own_kind, name, &[error]));
        }
        if !own_kind.is_empty() && own_kind != kind && (own_version.is_empty() || own_version == api_version) {
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            if !own_version.is_empty() && tables::definition_of(group, version, &own_kind).is_none() {
                return Err(Failure::bad_request(format!(
                    "{own_kind} in version {version:?} cannot be handled as a {kind}: no kind {own_kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
                )));
            }
            let version = match own_version.rsplit('/').next() {
                Some("") | None => self.resource.version.as_str(),
                Some(version) => version,
            };
            return Err(Failure::bad_request(format!(
                "{own_kind} in version {version:?} cannot be handled as a {kind}: converting ({version}.{own_kind}) to ({}.{kind}): unknown conversion",
                self.package()
            )));
        }
        if !own_version.is_empty() && own_version != api_version {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({own_version}) does not match the expected API version ({api_version})"
            )));
        }
        // Kinds without a schema of their own here are still objects made of objects.
        for field in ["metadata", "spec", "status", "target", "deleteOptions"] {
            if kind != self.resource.kind && !matches!(value.get(field), None | Some(Value::Null | Value::Object(_))) {
                let version = &self.resource.version;
                let error = format!("json: cannot unmarshal into Go struct field {kind}.{field}");
                let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
                return Err(Failure::bad_request(message));
            }
        }
        value["kind"] = kind.into();
        value["apiVersion"] = api_version.into();
        Ok(())
    }

    /// The group as messages about conversions spell it.
    fn package(&self) -> &str {
        match self.resource.group.split('.').next() {
            Some("") | None => "core",
            Some(first) => first,
        }
    }

    fn expected_kind(&self) -> (String, String) {
        match self.resource.subresource(self.subresource) {
            Some(subresource) if !subresource.kind.is_empty() => {
                let version = if subresource.version.is_empty() {
                    self.resource.api_version()
                } else {
                    crate::registry::group_version(&subresource.group, &subresource.version)
                };
                (subresource.kind.clone(), version)
            }
            _ => (self.resource.kind.clone(), self.resource.api_version()),
        }
    }

    /// Drops what the schema does not know and complains as the client asked; what is left must have the kind's shape.
    pub(crate) fn prune(&self, value: &mut Value, duplicates: &[String], validation: FieldValidation) -> Answer<()> {
        self.fit(value, duplicates, validation).map_err(|error| self.misfit(&error))
    }

    fn misfit(&self, error: &str) -> Box<Failure> {
        let kind = self.expected_kind().0;
        let version = &self.resource.version;
        Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
    }

    /// As `prune`, with the bare complaint as the error.
    pub(crate) fn fit(
        &self,
        value: &mut Value,
        duplicates: &[String],
        validation: FieldValidation,
    ) -> Result<(), String> {
        if self.expected_kind().0 != self.resource.kind {
            return Ok(());
        }
        let schema = &self.resource.schema;
        if let Some(error) = schema.decode_error(value) {
            return Err(error);
        }
        let unknown = schema.prune_and_name(value);
        let complaints = schema::strict::problems(&unknown, duplicates);
        match validation {
            _ if complaints.is_empty() => Ok(()),
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                complaints.into_iter().for_each(|complaint| self.call.warn(complaint));
                Ok(())
            }
            FieldValidation::Strict => Err(schema::strict::error(&complaints)),
        }
    }

    pub(crate) fn unrecognised(&self, error: &str) -> Box<Failure> {
        let kind = self.expected_kind().0;
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {error} ({})",
            hex_summary(&self.call.body)
        ))
    }

    fn summary(&self) -> String {
        String::from_utf8_lossy(&self.call.body).into_owned()
    }
}

/// The beginning of a body in hexadecimal, as the API shows data it could not read.
fn hex_summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    if body.len() > SHOWN {
        return format!("{} ...", hex::encode(&body[..SHOWN]));
    }
    hex::encode(body)
}
