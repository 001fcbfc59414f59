//! Makes the instance of a machine.
//!
//! The request carries the intent's token. However often it is repeated, by whomever, AWS makes one instance of it.

mod devices;
mod parameters;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use machine::provider::{Error, ErrorKind, Instance, Intent, Request};
use sha2::{Digest, Sha256};

use super::resolve::{self, Resolved};
use super::{Aws, failed, hosts, lookup, spec_of, tags};
use crate::client::{Client, Fault};
use crate::spec::{self, AwsSpec};
use parameters::Launch;

/// AWS's limit for user data, before it is encoded.
const LARGEST_USER_DATA: usize = 16 * 1024;
/// AWS's limit for client tokens.
const LONGEST_TOKEN: usize = 64;
/// After this time, an instance that AWS made is in its lists for certain.
const VISIBLE: SignedDuration = SignedDuration::from_mins(5);

pub(super) async fn create(aws: &Aws, request: &Request, intent: &Intent) -> Result<Instance, Error> {
    let spec = spec_of(&request.spec)?;
    refuse(&spec, request)?;
    let user_data = user_data(&spec, request)?;
    let client = aws.client(&spec, &request.secrets).await?;
    let resolved = resolve(aws, &client, &spec, request, intent).await?;
    let launch = Launch {
        spec: &spec,
        resolved: &resolved,
        tags: &tags::wanted(&spec, &request.mark, aws.accounts.settings()),
        ip_family: aws.accounts.settings().ip_family,
        user_data: user_data.as_deref(),
        token: &client_token(&intent.token),
    };
    match client.run_instance(launch.params()?).await {
        Ok(instance) => {
            aws.memory.remember(&instance);
            Ok(aws.seen(&client, &spec, &instance).await)
        }
        Err(fault) => refused(aws, &client, &spec, request, intent, fault).await,
    }
}

/// AWS's token for an intent: the same text, or a hash of one that AWS would not take.
pub(super) fn client_token(token: &str) -> String {
    if token.len() <= LONGEST_TOKEN && token.is_ascii() {
        return token.to_owned();
    }
    hex::encode(Sha256::digest(token))
}

/// What the webhook would have refused, had it been asked.
fn refuse(spec: &AwsSpec, request: &Request) -> Result<(), Error> {
    let problems: Vec<_> = spec::refusals(spec, request.control_plane).iter().map(ToString::to_string).collect();
    if problems.is_empty() { Ok(()) } else { Err(Error::new(ErrorKind::InvalidSpec, problems.join("; "))) }
}

/// What the instance reads at its first boot, encoded.
fn user_data(spec: &AwsSpec, request: &Request) -> Result<Option<String>, Error> {
    let Some(reference) = spec.user_data_secret.as_ref().filter(|reference| !reference.name.is_empty()) else {
        return Ok(None);
    };
    let missing = |what: &str| {
        let message = format!("providerSpec.userDataSecret: Secret {:?} {what}", reference.name);
        Error::new(ErrorKind::NotFound, message)
    };
    let secret = request.secrets.user_data.as_ref().ok_or_else(|| missing("does not exist"))?;
    let data = secret.bytes("userData").ok_or_else(|| missing("has no key userData"))?;
    if data.len() > LARGEST_USER_DATA {
        let message = format!(
            "providerSpec.userDataSecret: user data of {} bytes; AWS takes {LARGEST_USER_DATA}: let it point to the config",
            data.len()
        );
        return Err(Error::new(ErrorKind::InvalidSpec, message));
    }
    Ok(Some(STANDARD.encode(data)))
}

async fn resolve(
    aws: &Aws,
    client: &Client,
    spec: &AwsSpec,
    request: &Request,
    intent: &Intent,
) -> Result<Resolved, Error> {
    let dynamic = hosts::is_dynamic(spec);
    let mut resolved = resolve::resolve(client, spec, dynamic && spec.placement.availability_zone.is_empty()).await?;
    if dynamic {
        let zone = if resolved.zone.is_empty() { &spec.placement.availability_zone } else { &resolved.zone };
        let host = hosts::ensure(client, spec, request, intent, aws.accounts.settings(), zone).await?;
        resolved.host = Some(host);
    } else {
        hosts::mark_shared(client, spec, &request.mark).await;
    }
    Ok(resolved)
}

/// AWS did not launch. Two of its refusals say that it had launched before.
async fn refused(
    aws: &Aws,
    client: &Client,
    spec: &AwsSpec,
    request: &Request,
    intent: &Intent,
    fault: Fault,
) -> Result<Instance, Error> {
    let code = fault.code().to_owned();
    let error = fault.error("cannot launch an instance");
    match code.as_str() {
        // Something in the request has changed since it was first sent: user data, an image that a filter finds.
        "IdempotentParameterMismatch" => mismatched(aws, client, spec, request, intent, error).await,
        // The instance of this attempt is gone for good; the next attempt has another token.
        "IdempotentInstanceTerminated" => Ok(failed(None, error)),
        _ => {
            if error.is_final() && hosts::is_dynamic(spec) {
                // Nobody would use the host before the machine is deleted, and it costs.
                hosts::release(client, &request.mark).await?;
            }
            Err(error)
        }
    }
}

/// The instance that the first request of this attempt made.
async fn mismatched(
    aws: &Aws,
    client: &Client,
    spec: &AwsSpec,
    request: &Request,
    intent: &Intent,
    error: Error,
) -> Result<Instance, Error> {
    let token = client_token(&intent.token);
    let found = lookup::find(client, &[request]).await?.pop().unwrap_or_default();
    let of_attempt: Vec<_> = found.iter().filter(|instance| instance.client_token == token).collect();
    if let Some(instance) = of_attempt.iter().find(|instance| !lookup::is_terminated(instance)) {
        return Ok(aws.seen(client, spec, instance).await);
    }
    let is_gone = !of_attempt.is_empty() || Timestamp::now().duration_since(intent.recorded) > VISIBLE;
    if is_gone { Ok(failed(None, error)) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_aws_takes_stay_as_they_are() {
        assert_eq!(client_token("0f6d1b9e-token"), "0f6d1b9e-token");
        let long = client_token(&"x".repeat(65));
        assert_eq!(long.len(), 64);
        assert_eq!(long, client_token(&"x".repeat(65)));
        assert_ne!(long, client_token(&"x".repeat(66)));
        assert_eq!(client_token("é").len(), 64);
    }
}
