//! Looks at whether a new config works on this node; `node::trial` judges what is seen.

mod witness;

use std::time::Duration;

use change::host::{Activity, Host};
use change::risk::Risk;
use change::target::Target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cluster_policy::ClusterPolicy;
use crate::journal::{Check, Trial};
use crate::run::Options;
use crate::verify;

pub use ::node::trial::{Clock, Credential, Seen, Verdict, judge};
pub use witness::Witness;

const DEADLINE: u32 = 600;
const CONNECT: Duration = Duration::from_secs(3);
/// How long witnesses are looked for before a change that nothing is told of, which shall not wait for one.
const SOON: Duration = Duration::from_millis(500);
/// How long before any other. Each gives up earlier by itself.
const LATE: Duration = Duration::from_secs(10);

/// How a change is looked at afterwards: as the policy says; else as [`change::risk`] does.
pub fn plan(policy: &ClusterPolicy, risk: Risk, to: &Target) -> Option<Trial> {
    let wanted = policy.pool.trial.as_ref();
    if wanted.is_none() && risk <= Risk::Look {
        let look = Trial { deadline_seconds: DEADLINE, look: true, ..Trial::default() };
        return (risk == Risk::Look).then_some(look);
    }
    let deadline = wanted.and_then(|trial| trial.deadline.as_deref()).and_then(seconds);
    let checks = wanted.map(|trial| trial.checks.iter().filter_map(check).collect()).unwrap_or_default();
    let is_run = |unit: &change::target::Unit| !unit.mask && unit.enabled != Some(false);
    let units = to.units.iter().filter(|(_, unit)| is_run(unit)).map(|(name, _)| name.clone()).collect();
    let live = risk != Risk::Reboot;
    Some(Trial { deadline_seconds: deadline.unwrap_or(DEADLINE), units, checks, live, ..Trial::default() })
}

fn check(check: &api::machinist::TrialCheck) -> Option<Check> {
    let name = check.name.clone();
    match (&check.unit, &check.tcp, &check.http) {
        (Some(unit), _, _) => Some(Check::Unit { name, unit: unit.clone() }),
        (_, Some(address), _) => Some(Check::Tcp { name, address: address.clone() }),
        (_, _, Some(url)) => Some(Check::Http { name, url: url.clone() }),
        _ => None,
    }
}

/// `1h30m`, `90s`, `500ms`.
fn seconds(text: &str) -> Option<u32> {
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit_length = rest.find(|character: char| character.is_ascii_digit()).unwrap_or(rest.len());
        total += number
            * match &rest[..unit_length] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[unit_length..];
    }
    // Durations of a policy are small; a float of this size is exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (total >= 0.0).then(|| total.min(f64::from(u32::MAX)).ceil() as u32)
}

/// Before the change: what answers now must answer again. `config_server` is where this node would find it.
pub async fn note_what_works(trial: &mut Trial, options: &Options, config_server: Option<String>) {
    let candidates = options.witness.candidates(config_server.clone());
    if !trial.look {
        trial.kubelet = kubelet_is_well(&options.kubelet).await;
    }
    trial.witnesses = witness::those_that_answer(candidates, if trial.look { SOON } else { LATE }).await;
    for witness in &mut trial.witnesses {
        witness.beside_api = config_server.as_ref() == Some(&witness.address);
    }
}

/// Before a change without a reboot: a unit that has failed already says nothing about the change.
pub fn without_failed(host: &dyn Host, mut units: Vec<String>) -> Vec<String> {
    let failed = verify::failed_units(host, &units);
    units.retain(|unit| failed.iter().all(|(name, _)| name != unit));
    units
}

pub async fn observe(
    trial: &Trial,
    options: &Options,
    (api_is_heard, credential): (bool, Credential),
    failed: Vec<(String, Activity)>,
    inactive: Vec<String>,
) -> Seen {
    let mut failed_checks = inactive;
    for check in &trial.checks {
        let (name, is_well) = match check {
            Check::Unit { .. } => continue,
            Check::Tcp { name, address } => (name, connects(address).await),
            Check::Http { name, url } => (name, answers_http(url).await),
        };
        if !is_well {
            failed_checks.push(format!("check \"{name}\" does not pass"));
        }
    }
    let witness_answers = api_is_heard || trial.witnesses.is_empty() || witness::any_answers(&trial.witnesses).await;
    Seen {
        failed_units: failed.into_iter().map(|(unit, _)| unit).collect(),
        failed_checks,
        kubelet_is_well: !trial.kubelet || kubelet_is_well(&options.kubelet).await,
        api_is_heard,
        witness_answers,
        credential,
    }
}

/// Checks on units, which the host answers.
pub fn inactive_units(host: &dyn Host, trial: &Trial) -> Vec<String> {
    let mut inactive = Vec::new();
    for check in &trial.checks {
        if let Check::Unit { name, unit } = check
            && host.services().activity(unit).map(|activity| activity.active).as_deref() != Ok("active")
        {
            inactive.push(format!("check \"{name}\" does not pass: {unit} is not active"));
        }
    }
    inactive
}

pub(crate) async fn kubelet_is_well(address: &str) -> bool {
    http_status(address, "/healthz").await.is_some_and(|status| status == 200)
}

async fn answers_http(url: &str) -> bool {
    // Certificates are not this check's business: for https only the connection counts.
    if let Some(rest) = url.strip_prefix("https://") {
        let authority = rest.split('/').next().unwrap_or_default();
        return connects(&with_port(authority, 443)).await;
    }
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    http_status(&with_port(authority, 80), &format!("/{path}")).await.is_some_and(|status| status < 400)
}

fn with_port(authority: &str, port: u16) -> String {
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { authority.to_owned() } else { format!("{authority}:{port}") }
}

async fn http_status(address: &str, path: &str) -> Option<u16> {
    let ask = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut head = [0_u8; 64];
        let length = stream.read(&mut head).await.ok()?;
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        head.split_whitespace().nth(1)?.parse().ok()
    };
    tokio::time::timeout(CONNECT, ask).await.ok().flatten()
}

async fn connects(address: &str) -> bool {
    matches!(tokio::time::timeout(CONNECT, TcpStream::connect(address)).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(
            (seconds("1h30m"), seconds("90s"), seconds("500ms"), seconds("x")),
            (Some(5400), Some(90), Some(1), None)
        );
    }
}
