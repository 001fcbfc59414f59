//! Load balancers of the control plane: target pools that the spec names.

use machine::provider::{Error, ErrorKind};
use serde_json::{Value, json};

use super::Site;
use crate::spec::GcpSpec;

pub(super) async fn register(site: &Site, spec: &GcpSpec, name: &str) -> Result<(), Error> {
    for pool in &spec.target_pools {
        if !is_member(site, pool, name).await? {
            change(site, pool, name, "addInstance").await?;
        }
    }
    Ok(())
}

/// A pool that is gone has no members, and keeps nobody from leaving the others.
pub(super) async fn deregister(site: &Site, spec: &GcpSpec, name: &str) -> Result<(), Error> {
    for pool in &spec.target_pools {
        match leave(site, pool, name).await {
            Err(error) if error.kind == ErrorKind::NotFound => {}
            left => left?,
        }
    }
    Ok(())
}

async fn leave(site: &Site, pool: &str, name: &str) -> Result<(), Error> {
    if is_member(site, pool, name).await? { change(site, pool, name, "removeInstance").await } else { Ok(()) }
}

fn path(site: &Site, pool: &str) -> String {
    site.regional(&format!("targetPools/{pool}"))
}

async fn is_member(site: &Site, pool: &str, name: &str) -> Result<bool, Error> {
    let found = site.client.get(&path(site, pool), &[("fields", "instances")]).await;
    let found: Value = found.map_err(|fault| fault.error(&format!("cannot look at target pool {pool}")))?;
    let end = format!("/{}", site.instance(name));
    let mut members = found["instances"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(members.any(|member| member.ends_with(&end)))
}

async fn change(site: &Site, pool: &str, name: &str, verb: &str) -> Result<(), Error> {
    let body = json!({"instances": [{"instance": site.instance(name)}]});
    let done = site.client.post(&format!("{}/{verb}", path(site, pool)), &[], Some(&body)).await;
    done.map(|_| ()).map_err(|fault| fault.error(&format!("cannot change the members of target pool {pool}")))
}
