//! Looks at whether a new config works on this node; `node::trial` judges what is seen.

use std::time::Duration;

use change::host::{Activity, Host};
use change::step::Step;
use change::target::Target;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cluster_policy::ClusterPolicy;
use crate::journal::{Check, PostAction, Trial};
use crate::run::Options;

pub use ::node::trial::{Clock, Credential, Seen, Verdict, judge};

const DEADLINE: u32 = 600;
const CONNECT: Duration = Duration::from_secs(3);
/// Where a gateway may answer, if only with a refusal: the config server's port first, which many firewalls drop, then what
/// routers listen on.
const WITNESS_PORTS: [u16; 5] = [22623, 53, 443, 80, 22];
/// How much later the next port is asked. A gateway that answers does so within milliseconds, at its first port; one that
/// drops all of them must not hold up an update for the time limits of all of them together.
const STAGGER: Duration = Duration::from_millis(300);

/// Who tells whether the network is there when the API is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The default gateway of this network namespace.
    Gateway,
    /// Whoever listens at `host:port`.
    At(String),
    /// Nobody: a simulated host shares its network with whoever simulates it, whose gateway is not asked.
    Nobody,
}

/// A change is tried where the policy says so; else where it reboots or touches the kubelet, the runtime or the network.
pub fn plan(policy: &ClusterPolicy, steps: &[Step], actions: &[PostAction], to: &Target) -> Option<Trial> {
    let runtime = &policy.settings.runtime_service;
    let is_risky = actions.contains(&PostAction::Reboot) || steps.iter().any(|step| is_vital(step, runtime));
    let wanted = policy.pool.trial.as_ref();
    if wanted.is_none() && !is_risky {
        return None;
    }
    let deadline = wanted.and_then(|trial| trial.deadline.as_deref()).and_then(seconds);
    let checks = wanted.map(|trial| trial.checks.iter().filter_map(check).collect()).unwrap_or_default();
    let is_run = |unit: &change::target::Unit| !unit.mask && unit.enabled != Some(false);
    let units = to.units.iter().filter(|(_, unit)| is_run(unit)).map(|(name, _)| name.clone()).collect();
    let live = !actions.contains(&PostAction::Reboot);
    Some(Trial { deadline_seconds: deadline.unwrap_or(DEADLINE), units, checks, live, ..Trial::default() })
}

fn is_vital(step: &Step, runtime: &str) -> bool {
    let vital_unit = |unit: &str| unit == "kubelet.service" || unit == runtime;
    match step {
        Step::WriteUnit { unit } | Step::WriteDropin { unit, .. } | Step::MaskUnit { unit } => vital_unit(unit),
        Step::WriteFile { path } | Step::PutBack { path } | Step::WriteLink { path } => {
            // The kubelet, the runtime, the network, and what this daemon itself starts with.
            const FOLDERS: [&str; 12] = [
                "/etc/kubernetes",
                "/etc/rancher",
                "/var/lib/kubelet",
                "/var/lib/rancher",
                "/var/lib/k0s",
                "/etc/machinist",
                "/etc/crio",
                "/etc/containerd",
                "/etc/containers",
                "/etc/NetworkManager",
                "/etc/systemd/network",
                "/etc/nmstate",
            ];
            FOLDERS.iter().any(|folder| path.is_beneath(folder))
                || path.as_str().starts_with(&format!("/etc/systemd/system/{runtime}"))
                || path.as_str().starts_with("/etc/systemd/system/kubelet.service")
        }
        _ => false,
    }
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

/// Before the change: what answers now must answer again.
pub async fn note_what_works(trial: &mut Trial, options: &Options) {
    trial.kubelet = kubelet_is_well(&options.kubelet).await;
    let candidates = match &options.witness {
        Witness::At(address) => vec![address.clone()],
        Witness::Gateway => {
            gateway().map(|gateway| WITNESS_PORTS.map(|port| format!("{gateway}:{port}")).into()).unwrap_or_default()
        }
        Witness::Nobody => Vec::new(),
    };
    trial.witness = first_that_answers(candidates).await;
}

/// Each a little after the one before: a gateway is asked at its first port only, as a rule, and does not take this for a scan.
async fn first_that_answers(candidates: Vec<String>) -> Option<String> {
    let ask = |(place, address): (u32, String)| async move {
        tokio::time::sleep(STAGGER * place).await;
        answers(&address).await.then_some(address)
    };
    let mut asked: FuturesUnordered<_> = (0..).zip(candidates).map(ask).collect();
    while let Some(answer) = asked.next().await {
        if answer.is_some() {
            return answer;
        }
    }
    None
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
    let witness_answers = match &trial.witness {
        Some(address) if !api_is_heard => answers(address).await,
        _ => true,
    };
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

/// A refusal is an answer too: something is there.
async fn answers(address: &str) -> bool {
    match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        Err(_) => false,
    }
}

/// The default gateway, as the kernel's routing table has it.
fn gateway() -> Option<std::net::Ipv4Addr> {
    let table = std::fs::read_to_string("/proc/net/route").ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_default = fields.get(1) == Some(&"00000000");
        let number = u32::from_str_radix(fields.get(2)?, 16).ok()?;
        (is_default && number != 0).then(|| std::net::Ipv4Addr::from(number.to_le_bytes()))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_gateway_is_asked_at_one_port_when_that_answers() {
        let [first, second] = [TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0")].map(Result::unwrap);
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let candidates = vec!["127.0.0.1:1".to_owned(), address(&first), address(&second)];
        assert_eq!(first_that_answers(candidates).await.as_deref(), Some("127.0.0.1:1"), "a refusal is an answer");
        let found = first_that_answers(vec![address(&first), address(&second)]).await;
        assert_eq!(found, Some(address(&first)));
        second.set_nonblocking(true).unwrap();
        assert!(second.accept().is_err(), "nobody has knocked there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_drops_every_port_is_given_up_soon() {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // The queue of a listener that nobody serves has two places.
        let _queued = [TcpStream::connect(&address).await.unwrap(), TcpStream::connect(&address).await.unwrap()];
        let begun = tokio::time::Instant::now();
        assert_eq!(first_that_answers(vec![address; WITNESS_PORTS.len()]).await, None);
        assert_eq!(begun.elapsed().as_millis(), (CONNECT + 4 * STAGGER).as_millis());
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(
            (seconds("1h30m"), seconds("90s"), seconds("500ms"), seconds("x")),
            (Some(5400), Some(90), Some(1), None)
        );
    }
}
