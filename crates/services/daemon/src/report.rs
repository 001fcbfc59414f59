//! Tells the config server how this machine's first boot went, with the credential it got its config by.
//!
//! A machine that cannot tell comes up all the same: nothing here fails a boot.

use std::path::Path;
use std::time::Duration;

use ignition::Resource;
use serde::Deserialize;
use serde_json::Value;
use serving::SERVER_CA;
use serving::pointer::FIRST_BOOT;
use serving::report::Report;

/// What Ignition leaves behind about itself.
const IGNITION_RESULT: &str = "etc/.ignition-result.json";

/// The server answers at once or not at all.
const PATIENCE: Duration = Duration::from_secs(15);

/// Lines of a log that are worth telling, at most.
const LINES: usize = 12;

/// Where to tell it, as the pointer config says.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Credential {
    report: String,
    token: String,
    /// What the server is checked by, which it gave with the config.
    #[serde(skip)]
    ca: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is not an address to report to")]
    Address(String),
    #[error(transparent)]
    Connect(#[from] cluster::connect::Error),
    #[error("the config server did not take the report: {0}")]
    Send(#[from] kube::Error),
    #[error("the config server did not answer")]
    Silent,
    #[error("cannot write the report: {0}")]
    Write(#[from] http::Error),
}

impl Credential {
    /// What Ignition wrote to the root; `None` on a machine whose pool is open, or whose first boot is over.
    pub fn on(root: &Path) -> Option<Self> {
        let text = std::fs::read(under(root, FIRST_BOOT)).ok()?;
        let credential: Self = serde_json::from_slice(&text).ok()?;
        // A root that Ignition has not finished may have the one and not the other.
        Some(Self { ca: std::fs::read(under(root, SERVER_CA)).ok()?, ..credential })
    }

    /// The same from the config that Ignition has fetched, for a machine whose root it could not write.
    pub fn in_config(config: &Value) -> Option<Self> {
        let credential: Self = serde_json::from_slice(&contents(config, FIRST_BOOT)?).ok()?;
        Some(Self { ca: contents(config, SERVER_CA).unwrap_or_default(), ..credential })
    }
}

/// What a config puts into a file.
fn contents(config: &Value, path: &str) -> Option<Vec<u8>> {
    let files = config.pointer("/storage/files")?.as_array()?;
    let file = files.iter().find(|file| file["path"] == path)?;
    let contents: Resource = serde_json::from_value(file["contents"].clone()).ok()?;
    ignition::decode(&contents).ok()
}

/// Sends a report, with what Ignition says about itself and, unless it is given, the host's name.
pub async fn send(root: &Path, credential: &Credential, mut report: Report) -> Result<(), Error> {
    let result = std::fs::read(root.join(IGNITION_RESULT)).ok();
    report.ignition = result.and_then(|text| serde_json::from_slice(&text).ok());
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    report.host = report.host.or_else(host);
    let address: http::Uri = credential.report.parse().map_err(|_| Error::Address(credential.report.clone()))?;
    let authority = address.authority().ok_or_else(|| Error::Address(credential.report.clone()))?;
    let server = format!("https://{authority}");
    let client = cluster::connect::connect_with_token(&server, &credential.ca, &credential.token).await?;
    let body = serde_json::to_vec(&report).unwrap_or_default();
    let request = http::Request::post(address.path()).header("content-type", "application/json").body(body)?;
    match tokio::time::timeout(PATIENCE, client.request_text(request)).await {
        Ok(answer) => {
            answer?;
            Ok(())
        }
        Err(_) => Err(Error::Silent),
    }
}

/// The first boot is over: the credential is of no more use here.
pub fn forget(root: &Path) {
    if let Err(error) = std::fs::remove_file(under(root, FIRST_BOOT))
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(error = &error as &dyn std::error::Error, "the first boot's credential is still on disk");
    }
}

/// The lines of Ignition's log that say what went wrong, newest last.
pub fn failures(log: &str) -> String {
    let is_bad = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["fail", "error", "critical", "panic"].iter().any(|word| line.contains(word))
    };
    let lines: Vec<&str> = log.lines().filter(is_bad).map(str::trim).collect();
    let lines = if lines.is_empty() { log.lines().map(str::trim).collect() } else { lines };
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

fn under(root: &Path, path: &str) -> std::path::PathBuf {
    root.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credential_is_found_in_what_ignition_fetched() {
        let pointer = serving::pointer::pointer("host:1", "worker", b"CA", Some("secret"));
        let credential = Credential::in_config(&pointer).expect("a credential");
        let (report, token) = ("https://host:1/report/worker".into(), "secret".into());
        assert!(credential == Credential { report, token, ca: Vec::new() });
    }

    #[test]
    fn of_a_log_the_failures_are_told() {
        let log = "Stage: files\nop(1): [started] x\nop(1): [failed] x: no space left\nEnd\n";
        assert_eq!(failures(log), "op(1): [failed] x: no space left");
        assert_eq!(failures("all\nwell\n"), "all; well");
    }
}
