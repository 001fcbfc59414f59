//! Makes an instance, or finds what came of making it.

use machine::provider::{Error, ErrorKind, Instance, Intent, Request, State};
use tokio::time::{Duration, Instant};

use super::operation::{self, Outcome};
use super::{Gcp, Site, body, convert, lookup};
use crate::client::Fault;
use crate::spec;

/// The pause between two looks at an operation.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn create(gcp: &Gcp, request: &Request, intent: &Intent) -> Result<Instance, Error> {
    let spec = spec::usable(&request.spec, &request.mark.cluster)
        .map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))?;
    let site = gcp.site(&spec, &request.secrets)?;
    if let Some(instance) = existing(&site, request, operation::recorded(request)).await? {
        return Ok(instance);
    }
    let cannot_look = |fault: Fault| fault.error("cannot look at the recorded operation");
    if let Some(name) = operation::recorded(request) {
        match operation::look(&site, name).await.map_err(cannot_look)? {
            Outcome::Running => return Ok(convert::under_way(name, request)),
            Outcome::Failed(error) => return Ok(failed(name, request, error)),
            // It was made and is gone, and Google would answer its token with it.
            Outcome::Done => {
                let error = Error::new(ErrorKind::Other, "the instance was made and is gone");
                return Ok(failed(name, request, error));
            }
            Outcome::Forgotten => {}
        }
    }
    let body = body::body(&site, &spec, request, gcp.accounts.settings())?;
    let started = site.client.post(&site.zonal("instances"), &[("requestId", &intent.token)], Some(&body)).await;
    let operation = match started {
        Ok(operation) => operation,
        // Another process was faster, or an earlier call whose answer got lost.
        Err(fault) if fault.is("alreadyExists") => {
            let found = existing(&site, request, None).await?;
            return found.ok_or_else(|| fault.error("cannot make the instance"));
        }
        Err(fault) => return Err(fault.error("cannot make the instance")),
    };
    let name = operation["name"].as_str().unwrap_or_default().to_owned();
    let until = Instant::now() + gcp.accounts.settings().patience;
    let mut outcome = operation::outcome(&operation);
    while outcome == Outcome::Running && Instant::now() + PAUSE < until {
        tokio::time::sleep(PAUSE).await;
        outcome = operation::look(&site, &name).await.map_err(cannot_look)?;
    }
    match outcome {
        // Its token stands for what failed, so that the next attempt needs another.
        Outcome::Failed(error) => Ok(failed(&name, request, error)),
        Outcome::Running | Outcome::Done | Outcome::Forgotten => {
            let found = existing(&site, request, Some(&name)).await?;
            Ok(found.unwrap_or_else(|| convert::under_way(&name, request)))
        }
    }
}

fn failed(operation: &str, request: &Request, error: Error) -> Instance {
    Instance { state: State::Failed(error), ..convert::under_way(operation, request) }
}

/// The machine's instance, made by this operation, if it is there. A name that somebody else has is an error.
async fn existing(site: &Site, request: &Request, operation: Option<&str>) -> Result<Option<Instance>, Error> {
    let name = &request.mark.machine;
    let found = site.client.find(&site.instance(name)).await;
    let Some(found) = found.map_err(|fault| fault.error("cannot look for the instance"))? else { return Ok(None) };
    if lookup::belongs(&found, site, request) {
        return Ok(Some(convert::instance(&found, site, request, operation)));
    }
    let message = format!(
        "zone {} has another instance {name} that does not belong to this Machine; remove it or give the Machine another name",
        site.zone
    );
    Err(Error::new(ErrorKind::Other, message))
}
