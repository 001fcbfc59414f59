//! Mutating admission policies: those in the store, laid over every write they are bound to before webhooks see it.

use std::sync::Arc;

use schema::{
    Schema,
    policy::{Change, Review},
};
use serde_json::{Value, json};

use super::{
    policies::{Bound, Broken, asked, bound, decide, namespace, versioned},
    turns::Turns,
    webhooks::Write,
};
use crate::{
    object::text,
    registry::Resource,
    status::{Answer, Failure},
    verbs::{FieldValidation, Request, convert, decode},
};

const POLICIES: &str = builtin::MUTATING_POLICIES;
const BINDINGS: &str = builtin::MUTATING_BINDINGS;

/// The object as the mutating policies leave it after one turn. What is deleted is not asked about.
pub(super) async fn mutate(
    request: &Request<'_>,
    write: Write<'_>,
    new: Option<Value>,
    turns: &mut Turns<String>,
) -> Answer<Option<Value>> {
    let Some(mut object) = new else { return Ok(None) };
    let (bound, broken) = bound(request, write, Some(&object), (POLICIES, BINDINGS));
    let mut failures: Vec<(Broken, bool)> = broken.into_iter().map(|broken| (broken, false)).collect();
    if !bound.is_empty() {
        turns.begin(Some(&object));
        let namespace = namespace(request);
        let mut dirty = false;
        for bound in &bound {
            for params in &bound.params {
                let asked = Asked { request, write, bound, params, namespace: &namespace };
                let (after, done) = asked.answer(object, turns, &mut failures).await?;
                object = after;
                dirty |= done;
            }
        }
        // Who did anything has all others look again, whether anything became of it or not.
        if dirty {
            turns.changed();
        }
        turns.end(Some(&object));
    }
    failures.retain(|(broken, _)| broken.policy["spec"]["failurePolicy"] != "Ignore");
    if failures.is_empty() { Ok(Some(object)) } else { Err(refuse(request, write, &failures)) }
}

/// One policy that is asked about a write, with one object of parameters.
struct Asked<'a> {
    request: &'a Request<'a>,
    write: Write<'a>,
    bound: &'a Bound,
    params: &'a Value,
    namespace: &'a Value,
}

impl Asked<'_> {
    /// The object as the policy leaves it, and whether the policy did anything.
    async fn answer(
        &self,
        object: Value,
        turns: &mut Turns<String>,
        failures: &mut Vec<(Broken, bool)>,
    ) -> Answer<(Value, bool)> {
        let Request { api, resource, .. } = *self.request;
        let own = &self.bound.resource;
        let old = versioned(self.request, own, self.write.old).await?;
        let before = versioned(self.request, own, Some(&object)).await?;
        match self.evaluate(&old, &before, turns, failures)? {
            None => Ok((object, false)),
            Some(now) if now == before => Ok((object, true)),
            Some(now) if self.own_kind() => Ok((now, true)),
            Some(now) => Ok((convert::between(api, own, resource, now).await?, true)),
        }
    }

    /// What the policy makes of the object in the version that it is about; nothing if it did nothing.
    fn evaluate(
        &self,
        old: &Value,
        before: &Value,
        turns: &mut Turns<String>,
        failures: &mut Vec<(Broken, bool)>,
    ) -> Answer<Option<Value>> {
        let Bound { policy, binding, resource, .. } = self.bound;
        let (spec, key) = (&policy["spec"], self.key());
        let fail = |why: String| (Broken { policy: Arc::clone(policy), binding: Some(binding.clone()), why }, true);
        let review = Review {
            object: before,
            old,
            request: &asked(self.request, resource, self.write),
            namespace: self.namespace,
            params: &self.bare_params(),
            decide: &|access| decide(self.request, access),
        };
        match crate::verbs::patiently(|| schema::policy::conditions(&spec["matchConditions"], &review)) {
            Ok(true) if !turns.passes_over(&key) => {}
            Ok(_) => return Ok(None),
            Err(why) => {
                failures.push(fail(why));
                return Ok(None);
            }
        }
        let schema = self.schema();
        let (mut now, mut done) = (before.clone(), false);
        for mutation in spec["mutations"].as_array().into_iter().flatten() {
            let changed = crate::verbs::patiently(|| {
                let review = Review { object: &now, ..review };
                schema::policy::mutate(mutation, &spec["variables"], &review, schema.clone())
            });
            match changed.map(|change| self.complete(change, &now)) {
                Ok(Ok(after)) => {
                    now = after;
                    done = true;
                }
                Ok(Err(Trouble::Policy(why))) | Err(why) => failures.push(fail(why)),
                Ok(Err(Trouble::Request(failure))) => return Err(failure),
            }
        }
        if now != *before {
            turns.changed();
        }
        if spec["reinvocationPolicy"] == "IfNeeded" {
            turns.may_ask_again(key);
        }
        Ok(Some(now).filter(|_| done))
    }

    /// Parameters as mutating policies see them: those of built-in kinds do not say what they are.
    fn bare_params(&self) -> Value {
        let mut params = self.params.clone();
        let built_in = self.bound.of_params.as_ref().is_some_and(|resource| resource.custom.is_none());
        if let Some(params) = params.as_object_mut().filter(|_| built_in) {
            params.remove("apiVersion");
            params.remove("kind");
        }
        params
    }

    fn key(&self) -> String {
        let Bound { policy, binding, .. } = self.bound;
        let name = |object: &Value| text(&object["metadata"]["name"]).to_owned();
        let namespace = text(&self.params["metadata"]["namespace"]);
        [name(policy), name(binding), namespace.to_owned(), name(self.params)].join("/")
    }

    /// Whether the object is of another kind than its resource, as that of a subresource may be.
    fn own_kind(&self) -> bool {
        super::other_kind(self.request.subresource).is_some()
    }

    /// The schema that the object is merged by. Those of subresources have none, and can only be patched.
    fn schema(&self) -> Result<&Schema, String> {
        match super::other_kind(self.request.subresource) {
            None => Ok(&self.bound.resource.schema),
            Some((group, kind)) => Err(format!("{group}/v1, Kind={kind}")),
        }
    }

    /// The object after a change, decoded and completed like one that a client sent.
    fn complete(&self, change: Change, before: &Value) -> Result<Value, Trouble> {
        let resource = &self.bound.resource;
        let request = Request { resource, ..*self.request };
        let mut after = match change {
            Change::None => return Ok(before.clone()),
            Change::Merged(mut after) => {
                if !self.own_kind() {
                    converted(resource, &mut after).map_err(Trouble::Policy)?;
                    let _ = request.fit(&mut after, &[], FieldValidation::Ignore);
                }
                after
            }
            Change::Patched(mut after) => {
                self.keep_kind(&mut after, before).map_err(|why| Trouble::Request(Failure::internal(why)))?;
                // What is not in the schema of a custom kind is dropped later, without a word.
                let strict = resource.custom.is_none();
                let validation = if strict { FieldValidation::Strict } else { FieldValidation::Ignore };
                let fits = request.fit(&mut after, &[], validation);
                fits.map_err(|why| Trouble::Request(Failure::internal(why)))?;
                if let Some(metadata) = after["metadata"].as_object_mut()
                    && metadata.get("managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty)
                {
                    metadata.remove("managedFields");
                }
                after
            }
        };
        if !self.own_kind() {
            request.default(&mut after);
        }
        Ok(after)
    }

    /// A patch may take away what says which kind an object is of, but not change it.
    fn keep_kind(&self, after: &mut Value, before: &Value) -> Result<(), String> {
        if let Some(found) = decode::other_than_object(after) {
            return Err(decode::no_kind_in(found));
        }
        if self.bound.resource.custom.is_some() && !self.own_kind() {
            return match text(&after["kind"]) {
                "" => Err(format!("Object 'Kind' is missing in '{after}'")),
                _ => Ok(()),
            };
        }
        for field in ["apiVersion", "kind"] {
            if text(&after[field]).is_empty() {
                after[field] = before[field].clone();
            }
        }
        if after["kind"] != before["kind"] || after["apiVersion"] != before["apiVersion"] {
            let (kind, version) = (text(&after["kind"]), text(&after["apiVersion"]));
            return Err(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            ));
        }
        Ok(())
    }
}

/// Why a change cannot be had.
enum Trouble {
    /// The policy says what follows.
    Policy(String),
    /// The request fails, whatever the policy says.
    Request(Box<Failure>),
}

fn converted(resource: &Resource, object: &mut Value) -> Result<(), String> {
    resource.schema.convert(object).map_err(|why| {
        let Resource { group, version, kind, .. } = resource;
        format!("unable to convert unstructured object to {group}/{version}, Kind={kind}: {why}")
    })
}

fn refuse(request: &Request<'_>, write: Write<'_>, failures: &[(Broken, bool)]) -> Box<Failure> {
    let message = |Broken { policy, binding, why }: &Broken| {
        let policy = text(&policy["metadata"]["name"]);
        match binding {
            Some(binding) => {
                let binding = text(&binding["metadata"]["name"]);
                format!("policy '{policy}' with binding '{binding}' denied request: {why}")
            }
            None => format!("policy {policy:?} denied request: {why}"),
        }
    };
    let messages: Vec<String> = failures.iter().map(|(broken, _)| message(broken)).collect();
    let mut failure = Failure::forbidden(request.resource, write.name, "");
    if let Some(details) = &mut failure.details {
        details["causes"] = messages.iter().map(|message| json!({"message": message})).collect();
    }
    failure.message = messages.into_iter().next().unwrap_or_default();
    // Only what comes of an expression has a reason of its own; the code stays.
    if failures.first().is_some_and(|(_, evaluated)| *evaluated) {
        failure.reason = "Invalid".into();
    }
    failure
}
