//! `eviction`: a pod is deleted unless a disruption budget forbids it now.

use std::sync::Arc;

use http::Response;
use serde_json::{Value, json};

use super::{Body, Request, admit, created};
use crate::{
    admission::{self, policies, webhooks},
    housekeeping::budgets,
    object::{Draft, Object, text},
    status::{Answer, Failure},
    store::{Error, Expect, Write},
    verbs::{delete, now},
};

/// Two evictions racing for one budget meet here a few times at most.
const ATTEMPTS: usize = 20;

pub(super) async fn create(request: &Request<'_>) -> Answer<Response<Body>> {
    let options = request.options("CreateOptions")?;
    let eviction = request.decode(options.validation)?;
    let name = text(&eviction["metadata"]["name"]);
    if !name.is_empty() && name != request.name {
        return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut eviction = eviction;
    eviction["metadata"]["name"] = request.name.into();
    eviction["metadata"]["namespace"] = request.namespace.into();
    let write = webhooks::Write { operation: "CREATE", name: request.name, old: None };
    let eviction = admission::mutate(request, write, Some(eviction)).await?.unwrap_or_default();
    policies::check(request, write, Some(&eviction)).await?;
    webhooks::validate(request, write, Some(&eviction)).await?;
    let mut delete_options = delete::parse_options(&eviction["deleteOptions"])?;
    delete_options.dry_run |= options.dry_run;
    for _ in 0..ATTEMPTS {
        let pod = request.api.store.get("/pods", &request.key(request.name).name).ok_or_else(|| request.not_found())?;
        let value = pod.value();
        admit(request, &value)?;
        check_preconditions(request, &value, &delete_options)?;
        // Only a pod that runs counts against a budget.
        if !is_running(&value) || budget(request, &pod, &value, delete_options.dry_run).await? {
            match delete::remove(request, request.name, &delete_options).await {
                Ok(_) => return Ok(created(request)),
                Err(failure) if failure.reason == "Conflict" && delete_options.version.is_none() => {}
                Err(failure) => return Err(failure),
            }
        }
    }
    let mut failure =
        Failure::new(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
    failure.retry_after = Some(10);
    Err(failure)
}

fn is_running(pod: &Value) -> bool {
    let over = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed" | "Pending");
    !over && !pod["metadata"]["deletionTimestamp"].is_string()
}

fn check_preconditions(request: &Request<'_>, pod: &Value, options: &delete::DeleteOptions) -> Answer<()> {
    let uid = text(&pod["metadata"]["uid"]);
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(Failure::conflict(request.resource, request.name, &why));
    }
    Ok(())
}

/// Takes one disruption from the budget of the pod, if it has one. `false`: another took it first, look again.
async fn budget(request: &Request<'_>, pod: &Arc<Object>, value: &Value, dry_run: bool) -> Answer<bool> {
    let matching = budgets::of(request.api, pod);
    let stored = match matching.as_slice() {
        [] => return Ok(true),
        [one] => Arc::clone(one),
        _ => {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Failure::untyped(message));
        }
    };
    let budget = stored.value();
    if !budgets::is_healthy(value) && may_evict_unhealthy(&budget) {
        return Ok(true);
    }
    let (status, name) = (&budget["status"], stored.name());
    let observed = status["observedGeneration"].as_i64().unwrap_or(0);
    if observed < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        return Err(refused(
            message,
            &format!("The disruption budget {name} is still being processed by the server."),
            10,
        ));
    }
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
    if allowed <= 0 {
        let detail = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            status["desiredHealthy"].as_i64().unwrap_or(0),
            status["currentHealthy"].as_i64().unwrap_or(0)
        );
        return Err(refused("Cannot evict pod as it would violate the pod's disruption budget.", &detail, 0));
    }
    if dry_run {
        return Ok(true);
    }
    let mut new = budget.clone();
    new["status"]["disruptionsAllowed"] = (allowed - 1).into();
    new["status"]["disruptedPods"][request.name] = now().into();
    let draft = Draft::new(stored.key.clone(), &new);
    match request.api.store.commit(Write::Put(Box::new(draft), Expect::Version(stored.version))).await {
        Ok(_) => Ok(true),
        Err(Error::Stale) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// An unhealthy pod can go without asking if enough others are healthy, or always if the budget says so.
fn may_evict_unhealthy(budget: &Value) -> bool {
    if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return true;
    }
    let status = &budget["status"];
    let desired = status["desiredHealthy"].as_i64().unwrap_or(0);
    desired > 0 && status["currentHealthy"].as_i64().unwrap_or(0) >= desired
}

fn refused(message: &str, detail: &str, retry: u32) -> Box<Failure> {
    let mut failure = Failure::new(429, "TooManyRequests", message);
    failure.details = Some(json!({"causes": [{"reason": "DisruptionBudget", "message": detail}]}));
    failure.retry_after = (retry > 0).then_some(retry);
    failure
}
