//! Before anything can be watched: the namespace, the definitions, and nobody else at work.

use std::time::Duration;

use api::known::Unread;
use cluster::events::Severity;
use cluster::{read, write};
use health::Readiness;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use operate::trouble::{self, Trouble};
use operate::{Desired, Step};
use serde_json::json;

use crate::context::{Context, MANAGER, Source};
use crate::keep::bring;

/// Definitions are established within a second or two; a server that takes longer is asked again.
const ESTABLISHED: Duration = Duration::from_secs(20);

/// On the ClusterOperator: the namespace of the operator that keeps it.
pub(crate) const OPERATOR_NAMESPACE: &str = "machinist.dev/operator-namespace";

/// `true` once the cluster can be watched.
pub(crate) async fn prepare(context: &Context) -> bool {
    match is_free(context).await {
        Ok(true) => context.unread(Source::Facts, None),
        Ok(false) => return false,
        // A person may have switched this operator off, or another one may be at work. Nothing is written before that is known.
        Err(unread) => {
            let message = trouble::unread(&unread);
            context.health.set(Readiness::Hindered(vec![message.clone()]));
            let namespace = context.namespace();
            context.events.publish::<Namespace>(namespace, None, Severity::Warning, "CannotRead", &message);
            context.unread(Source::Facts, Some(unread));
            return false;
        }
    }
    take_over(context).await;
    let installation = context.installation();
    let objects = operate::installed(&installation);
    let is = |desired: &Desired, kind: &str| desired.id().kind == kind;
    for namespace in objects.iter().filter(|one| is(one, "Namespace")) {
        bring(context, namespace, false).await;
    }
    look_at_namespace(context).await;
    let mut definitions = Vec::new();
    for definition in objects.iter().filter(|one| is(one, "CustomResourceDefinition")) {
        definitions.push(bring(context, definition, false));
    }
    // Definitions are large, and a server takes several as fast as one.
    futures::future::join_all(definitions).await;
    if context.settings.installs {
        let own = |one: &&Desired| is(one, "Deployment") && one.id().name == operate::workloads::OPERATOR;
        for deployment in objects.iter().filter(own) {
            bring(context, deployment, false).await;
        }
    }
    are_established(context, &objects).await
}

/// Whether this operator may write: nobody switched it off, and no other is at work.
async fn is_free(context: &Context) -> Result<bool, Unread> {
    if replicas(context, context.namespace()).await? == Some(0) {
        context.health.set(Readiness::Leading);
        return Ok(false);
    }
    if let Some(other) = another_operator(context).await? {
        stand_aside(context, &other).await;
        return Ok(false);
    }
    Ok(true)
}

/// How many operators a namespace should have; nothing where it has no Deployment of one. Asked directly: there is no
/// watch yet.
async fn replicas(context: &Context, namespace: &str) -> Result<Option<i32>, Unread> {
    let api: Api<Deployment> = Api::namespaced(context.client.clone(), namespace);
    let deployment = read::get(&api, operate::workloads::OPERATOR).await;
    let deployment = deployment.fresh("deployments", Timestamp::now())?;
    Ok(deployment.as_ref().and_then(|one| Some(one.spec.as_ref()?.replicas.unwrap_or(1))))
}

/// The namespace of another operator that is at work in this cluster: a second installation, or upstream's own.
async fn another_operator(context: &Context) -> Result<Option<String>, Unread> {
    let id = operate::Id::of(&operate::status::object());
    let present = read::get(&crate::world::api(&context.client, &id), &id.name).await;
    let present = present.fresh("clusteroperators", Timestamp::now())?;
    let noted = present.as_ref().and_then(|object| object.metadata.annotations.as_ref()?.get(OPERATOR_NAMESPACE));
    let mut candidates = vec![api::names::NAMESPACE.to_owned()];
    candidates.extend(noted.cloned());
    candidates.retain(|namespace| namespace != context.namespace());
    for namespace in candidates {
        if replicas(context, &namespace).await?.is_some_and(|replicas| replicas > 0) {
            return Ok(Some(namespace));
        }
    }
    Ok(None)
}

/// Tells everybody, and writes nothing but that.
async fn stand_aside(context: &Context, other: &str) {
    let message = trouble::two_operators(context.namespace(), other);
    context.health.set(Readiness::Hindered(vec![message.clone()]));
    let is_news = !context.troubles().iter().any(|trouble| trouble.message == message);
    context.trouble(Source::Operators, Some(Trouble::new(Step::RenderConfig, message.clone())));
    if !is_news {
        return;
    }
    let namespace = context.namespace();
    context.events.publish::<Namespace>(namespace, None, Severity::Warning, "TwoOperators", &message);
    let id = operate::Id::of(&operate::status::object());
    let now = context.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({"apiVersion": id.api_version, "kind": id.kind, "metadata": {"name": id.name}, "status": {
        "conditions": [{
            "type": "TwoOperators", "status": "True", "reason": "TwoOperators", "message": message, "lastTransitionTime": now,
        }],
    }});
    // A manager of its own: the other operator keeps the rest, and this condition goes when we give it up.
    let parameters = PatchParams::apply(&aside(namespace)).force();
    let api = crate::world::api(&context.client, &id);
    if let Err(error) = write::in_time(api.patch_status(&id.name, &parameters, &Patch::Apply(&status))).await {
        tracing::debug!(error = &error as &dyn std::error::Error, "the ClusterOperator could not be written");
    }
}

fn aside(namespace: &str) -> String {
    format!("{MANAGER}-{namespace}")
}

/// Says that this operator keeps the cluster now, and takes back what it said while it stood aside.
async fn take_over(context: &Context) {
    let stood_aside = context.stands_aside();
    context.trouble(Source::Operators, None);
    if stood_aside {
        let id = operate::Id::of(&operate::status::object());
        let nothing = json!({"apiVersion": id.api_version, "kind": id.kind, "metadata": {"name": id.name}});
        let parameters = PatchParams::apply(&aside(context.namespace())).force();
        let api = crate::world::api(&context.client, &id);
        let _ = write::in_time(api.patch_status(&id.name, &parameters, &Patch::Apply(&nothing))).await;
    }
}

async fn look_at_namespace(context: &Context) {
    let api: Api<Namespace> = Api::all(context.client.clone());
    // What was last said about it stands while it cannot be read.
    let Ok(Some(namespace)) = write::in_time(api.get_opt(context.namespace())).await else { return };
    let text = serde_json::to_value(namespace).ok().and_then(|namespace| trouble::terminating(&namespace));
    context.trouble(Source::Namespace, text.map(|text| Trouble::new(Step::RenderConfig, text)));
}

async fn are_established(context: &Context, objects: &[Desired]) -> bool {
    let api: Api<CustomResourceDefinition> = Api::all(context.client.clone());
    let all = async {
        for one in objects.iter().filter(|one| one.id().kind == "CustomResourceDefinition") {
            let name = one.id().name;
            if await_condition(api.clone(), &name, is_crd_established()).await.is_err() {
                return false;
            }
        }
        true
    };
    let established = tokio::time::timeout(ESTABLISHED, all).await.unwrap_or(false);
    if !established {
        let troubles = context.troubles().into_iter().map(|trouble| trouble.message).collect();
        context.health.set(Readiness::Hindered(troubles));
    }
    established
}
