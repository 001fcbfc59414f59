//! Operations: what came of something that Google accepted.

use machine::provider::{Error, Request};
use serde_json::Value;

use super::Site;
use crate::client::{Fault, kind_of_code};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    Running,
    Done,
    Failed(Error),
    /// Google forgets operations after some days.
    Forgotten,
}

pub(super) fn outcome(operation: &Value) -> Outcome {
    if operation["status"].as_str() != Some("DONE") {
        return Outcome::Running;
    }
    let Some(error) = operation["error"]["errors"].get(0) else { return Outcome::Done };
    let text = |name: &str| error[name].as_str().unwrap_or_default();
    let message = format!("Google could not make the instance: {}: {}", text("code"), text("message"));
    let id = operation["name"].as_str().unwrap_or_default();
    Outcome::Failed(Error::new(kind_of_code(text("code")), message).with_request_id(id))
}

pub(super) async fn look(site: &Site, name: &str) -> Result<Outcome, Fault> {
    let found = site.client.find(&site.zonal(&format!("operations/{name}"))).await?;
    Ok(found.as_ref().map_or(Outcome::Forgotten, outcome))
}

/// The operation of the present attempt, as the Machine's status has it.
pub(super) fn recorded(request: &Request) -> Option<&str> {
    let status = request.provider_status.as_ref()?;
    let attempt = request.intent.as_ref().map(|intent| intent.attempt);
    let is_present = status["attempt"].as_u64().is_none_or(|of| attempt.is_none_or(|now| u64::from(now) == of));
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
    status["operation"].as_str().filter(is_name).filter(|_| is_present)
}
