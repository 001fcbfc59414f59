//! A server of one object, with nothing in it but calls to this crate: enough to compare with a real one.

use schema::{
    Schema,
    managed::{self, ApplyError, Writer},
    metadata::{self, NameRule},
    patch, status, strict,
};
use serde_json::{Value, json};

const TIME: &str = "2020-01-01T00:00:00Z";

pub(crate) struct Model {
    pub(crate) schema: std::sync::Arc<Schema>,
    pub(crate) group: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) has_status: bool,
    pub(crate) custom: bool,
    live: Option<Value>,
}

type Answer = Result<Value, Value>;

impl Model {
    pub(crate) fn new(
        schema: std::sync::Arc<Schema>,
        group: &str,
        api_version: &str,
        kind: &str,
        has_status: bool,
        custom: bool,
    ) -> Model {
        let (group, api_version, kind) = (group.to_string(), api_version.to_string(), kind.to_string());
        Model { schema, group, api_version, kind, has_status, custom, live: None }
    }

    /// Continues from an object that a real server answered.
    pub(crate) fn continue_from(&mut self, live: &Value) {
        self.live = Some(live.clone());
    }

    /// Carries out one step and answers as the recording does.
    pub(crate) fn step(&mut self, step: &Value) -> Value {
        let mut warnings = Vec::new();
        let (code, answer) = match step["do"].as_str().unwrap() {
            "create" => (201, self.create(step, &mut warnings)),
            "apply" => (if self.live.is_some() { 200 } else { 201 }, self.apply(step)),
            _ => (200, self.change(step, &mut warnings)),
        };
        let mut answer = match answer {
            Ok(object) => json!({"code": code, "object": object}),
            Err(refusal) => refusal,
        };
        if !warnings.is_empty() {
            answer["warnings"] = json!(warnings);
        }
        answer
    }

    fn full(&self, step: &Value) -> Value {
        let mut object = step["object"].clone();
        let map = object.as_object_mut().unwrap();
        map.entry("apiVersion").or_insert(json!(self.api_version));
        map.entry("kind").or_insert(json!(self.kind));
        let meta = map.entry("metadata").or_insert(json!({}));
        meta.as_object_mut().unwrap().entry("name").or_insert(json!("one"));
        object
    }

    fn writer<'a>(&'a self, step: &'a Value) -> Writer<'a> {
        let subresource = if step["status"] == true { "status" } else { "" };
        Writer {
            manager: step["manager"].as_str().unwrap_or("m"),
            api_version: &self.api_version,
            subresource,
            time: TIME,
        }
    }

    fn reset(&self, step: &Value) -> &'static [&'static str] {
        match (step["status"] == true, self.has_status, self.custom) {
            (true, _, true) => &["metadata", "spec"],
            (true, _, false) => &["spec"],
            (false, true, _) => &["status"],
            (false, false, _) => &[],
        }
    }

    /// Unknown fields by the step's validation mode.
    fn decode(&self, object: &mut Value, step: &Value, warnings: &mut Vec<String>) -> Result<(), Value> {
        if let Some(problem) = self.schema.decode_error(object) {
            return Err(self.cannot_handle(&problem));
        }
        let unknown = self.schema.prune_and_name(object);
        let problems = strict::problems(&unknown, &[]);
        match step["fieldValidation"].as_str() {
            Some("Strict") if !problems.is_empty() => Err(self.cannot_handle(&strict::error(&problems))),
            Some("Warn") => {
                warnings.extend(problems);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn cannot_handle(&self, problem: &str) -> Value {
        let version = self.api_version.rsplit('/').next().unwrap();
        let kind = &self.kind;
        let message = format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {problem}");
        json!({"code": 400, "message": message, "reason": "BadRequest"})
    }

    fn create(&mut self, step: &Value, warnings: &mut Vec<String>) -> Answer {
        self.live = None;
        let mut object = self.full(step);
        self.decode(&mut object, step, warnings)?;
        self.schema.default(&mut object);
        managed::update(&self.schema, None, &mut object, &self.writer(step), self.reset(step));
        self.finish_create(object)
    }

    fn finish_create(&mut self, mut object: Value) -> Answer {
        if self.has_status {
            object.as_object_mut().unwrap().remove("status");
        }
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("namespace");
        }
        let mut errors = metadata::validate_create(&object, false, NameRule::Subdomain);
        errors.extend(self.schema.validate(&object, None));
        self.judge(&object, &errors)?;
        self.live = Some(object.clone());
        Ok(object)
    }

    fn judge(&self, object: &Value, errors: &[schema::FieldError]) -> Result<(), Value> {
        if errors.is_empty() {
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or("");
        let answer = status::invalid(&self.group, &self.kind, name, errors);
        Err(json!({
            "code": 422, "message": answer["message"], "reason": "Invalid", "causes": answer["details"]["causes"],
        }))
    }

    fn change(&mut self, step: &Value, warnings: &mut Vec<String>) -> Answer {
        let Some(live) = self.live.clone() else { return Err(json!({"code": 404})) };
        let mut object = match step["do"].as_str().unwrap() {
            "update" => {
                let mut object = self.full(step);
                if let Some(namespace) = live["metadata"].get("namespace") {
                    object["metadata"]["namespace"] = namespace.clone();
                }
                object
            }
            "merge" => patch::merge(&live, &step["object"]),
            "strategic" => patch::strategic(&self.schema, &live, &step["object"]).map_err(|e| refused(&e))?,
            "json" => {
                let text = step["object"].to_string();
                patch::json(&live, text.as_bytes()).map_err(|e| refused(&e))?
            }
            other => unreachable!("no step {other}"),
        };
        self.decode(&mut object, step, warnings)?;
        self.schema.default(&mut object);
        managed::update(&self.schema, Some(&live), &mut object, &self.writer(step), self.reset(step));
        self.finish_change(object, &live, step)
    }

    fn finish_change(&mut self, mut object: Value, live: &Value, step: &Value) -> Answer {
        let status = step["status"] == true;
        let managed = object["metadata"].get("managedFields").cloned();
        let (taken, mut kept) = if status { (&object, live.clone()) } else { (live, object.clone()) };
        if status || self.has_status {
            let map = kept.as_object_mut().unwrap();
            map.remove("status");
            if let Some(value) = taken.get("status") {
                map.insert("status".into(), value.clone());
            }
        }
        let meta = kept["metadata"].as_object_mut().unwrap();
        meta.remove("managedFields");
        if let Some(managed) = managed {
            meta.insert("managedFields".into(), managed);
        }
        object = kept;
        let mut with_version = object.clone();
        with_version["metadata"]["resourceVersion"] = json!("1");
        let mut errors = metadata::validate_update(&with_version, live);
        errors.extend(match status {
            true => self.schema.validate_status(&object, Some(live)),
            false => self.schema.validate(&object, Some(live)),
        });
        self.judge(&object, &errors)?;
        if managed::same_but_for_times(live, &object) {
            return Ok(live.clone());
        }
        self.live = Some(object.clone());
        Ok(object)
    }

    fn apply(&mut self, step: &Value) -> Answer {
        let applied = self.full(step);
        if applied["apiVersion"] != self.api_version.as_str() {
            let shown = applied["apiVersion"].as_str().unwrap();
            let message = format!("invalid object type: {shown}, Kind={}", self.kind);
            return Err(json!({"code": 400, "message": message, "reason": "BadRequest"}));
        }
        let live = self.live.clone();
        let writer = self.writer(step);
        let outcome =
            managed::apply(&self.schema, live.as_ref(), &applied, &writer, step["force"] == true, self.reset(step));
        let mut object = match outcome {
            Ok(applied) => applied.object,
            Err(ApplyError::Conflict(conflicts)) => {
                let answer = managed::conflict_status(&conflicts);
                return Err(json!({
                    "code": 409, "message": answer["message"], "reason": "Conflict",
                    "causes": answer["details"]["causes"],
                }));
            }
            Err(ApplyError::Untyped(text)) => {
                let name = applied["metadata"]["name"].as_str().unwrap();
                let message = format!(
                    "failed to create typed patch object (/{name}; {}, Kind={}): {text}",
                    self.api_version, self.kind
                );
                return Err(json!({"code": 500, "message": message, "reason": null}));
            }
            Err(ApplyError::BadRequest(text)) => {
                return Err(json!({"code": 400, "message": text, "reason": "BadRequest"}));
            }
        };
        self.schema.default_applied(&mut object);
        match live {
            None => self.finish_create(object),
            Some(live) => self.finish_change(object, &live, step),
        }
    }
}

fn refused(error: &patch::PatchError) -> Value {
    match error {
        patch::PatchError::BadRequest(text) => json!({"code": 400, "message": text, "reason": "BadRequest"}),
        patch::PatchError::TooLarge(text) => json!({"code": 413, "message": text, "reason": "RequestEntityTooLarge"}),
        patch::PatchError::Internal(text) => json!({"code": 500, "message": text, "reason": null}),
        patch::PatchError::Unprocessable(_) => json!({
            "code": 422, "reason": "Invalid",
            "message": "the server rejected our request due to an error in our request",
        }),
    }
}
