//! Brings one object to what it should be.

use cluster::events::Severity;
use cluster::{Outcome, Problem, problem, write};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::api::{DynamicObject, PostParams};
use operate::trouble::{self, Trouble};
use operate::{Desired, Id, Keep};
use serde_json::{Value, json};

use crate::context::{Context, Leading, MANAGER, Source};
use crate::metrics::Object;
use crate::world::{api, looks, value};

/// One object, because it looks different from what we wrote, or because something else should be written now.
pub(crate) async fn keep(leading: &Leading, id: &Id) -> Outcome {
    let Some(desired) = leading.desired.lock().get(id).cloned() else { return Outcome::Done };
    if bring(leading, &desired, true).await { Outcome::Done } else { Outcome::Retry }
}

/// Writes what `desired` asks for and notes what is wrong; `false` when it should be tried again.
///
/// Where `tells` is set, people learn of an object that somebody else changed.
pub(crate) async fn bring(context: &Context, desired: &Desired, tells: bool) -> bool {
    let id = desired.id();
    match write_one(&context.client, MANAGER, desired).await {
        Ok(live) => {
            let was_kept = !context.kept.lock().insert(id.clone());
            context.trouble(Source::Object(id.clone()), None);
            if let Some(live) = live {
                remember(context, desired, &id, live, was_kept && tells);
            }
            true
        }
        Err(kube::Error::Api(status)) => {
            let text = trouble::refused(&id, status.code, &status.message);
            context.trouble(Source::Object(id), Some(Trouble::new(desired.step, text)));
            false
        }
        Err(error) => {
            // The API is away: nothing is wrong with the object, and a report could not be written.
            tracing::warn!(%id, error = &error as &dyn std::error::Error, "an object could not be written");
            false
        }
    }
}

/// Notes how the object looks now, and tells people when it had been changed.
fn remember(context: &Context, desired: &Desired, id: &Id, live: Written, tells: bool) {
    let now = looks(&live.object);
    let before = context.written.lock().insert(id.clone(), now);
    if id.kind == "CustomResourceDefinition" {
        let difference = operate::difference(&desired.object, &live.object);
        let trouble = difference.map(|text| Trouble::new(desired.step, trouble::changed_definition(id, &text)));
        context.trouble(Source::Definition(id.clone()), trouble);
    }
    let restored = tells && live.changed && before == Some(now);
    if restored {
        context.metrics.restored.get_or_create(&Object { kind: id.kind.clone() }).inc();
        let message = format!(
            "{id} was changed or deleted by somebody and put back; scale deployment machine-config-operator to 0 to keep hand edits"
        );
        tracing::info!("{message}");
        context.events.publish_about(about(id, context.namespace()), Severity::Normal, "ObjectRestored", &message);
    }
}

/// What an event about an object refers to; events about cluster-wide objects are in `namespace`.
pub(crate) fn about(id: &Id, namespace: &str) -> ObjectReference {
    let namespace = if id.namespace.is_empty() { namespace } else { &id.namespace };
    ObjectReference {
        api_version: Some(id.api_version.clone()),
        kind: Some(id.kind.clone()),
        name: Some(id.name.clone()),
        namespace: Some(namespace.to_owned()),
        ..ObjectReference::default()
    }
}

/// An object after it was written.
pub(crate) struct Written {
    pub(crate) object: Value,
    /// The write made a difference.
    pub(crate) changed: bool,
}

/// Writes one object in the name of `manager`; nothing where it is the user's or OpenShift's.
pub(crate) async fn write_one(
    client: &Client,
    manager: &str,
    desired: &Desired,
) -> Result<Option<Written>, kube::Error> {
    let id = desired.id();
    let api = api(client, &id);
    let present = write::in_time(api.get_opt(&id.name)).await?;
    let version = present.as_ref().and_then(|object| object.metadata.resource_version.clone());
    if present.as_ref().is_some_and(belongs_to_openshift) {
        return Ok(None);
    }
    let written = match (desired.keep, &present) {
        (Keep::Whole, _) => write::apply(&api, manager, &id.name, &desired.object).await?,
        (Keep::Labels | Keep::Once, None) => {
            let object: DynamicObject =
                serde_json::from_value(desired.object.clone()).map_err(kube::Error::SerdeError)?;
            let parameters = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
            match write::in_time(api.create(&parameters, &object)).await {
                Err(error) if problem(&error) == Problem::Conflict => return Ok(None),
                created => created?,
            }
        }
        (Keep::Labels, Some(present)) => {
            let labels = &desired.object["metadata"]["labels"];
            let has = |(key, value): (&String, &Value)| {
                present.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
                    == value.as_str()
            };
            if labels.as_object().is_some_and(|labels| labels.iter().all(has)) {
                return Ok(None);
            }
            let own = json!({
                "apiVersion": id.api_version, "kind": id.kind, "metadata": {"name": id.name, "labels": labels},
            });
            write::apply(&api, manager, &id.name, &own).await?
        }
        (Keep::Once, Some(_)) => return Ok(None),
    };
    let changed = written.metadata.resource_version != version;
    Ok(Some(Written { object: value(written), changed }))
}

/// A definition that comes with OpenShift's release is its own; ours would be put back there at once.
fn belongs_to_openshift(object: &DynamicObject) -> bool {
    let annotations = object.metadata.annotations.iter().flatten();
    annotations.into_iter().any(|(key, _)| key.starts_with("include.release.openshift.io/"))
}
