//! Runs moto, which simulates AWS's services over HTTP.
//!
//! It responds in AWS's format and keeps its objects while it runs. It does not check signatures, forgets client
//! tokens, and starts instances immediately.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cache;
use crate::process::Process;

/// Pinned, with the dependencies that shape responses, so that tests stay reproducible.
const PACKAGES: [&str; 3] = ["moto[server,ec2,elbv2]==5.2.5", "flask==3.1.3", "werkzeug==3.1.9"];
/// Python imports about a hundred modules first, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running simulator. Dropping it ends it.
pub struct Moto {
    /// The address it listens on: `http://127.0.0.1:…`.
    pub url: String,
    // Declared before the folder, because it logs into the folder until it is dropped.
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Moto {
    /// Starts a simulator on a free loopback port, and installs it first if necessary. Blocks until it responds.
    pub fn start() -> Result<Self> {
        let packages = cache::python_packages(&PACKAGES, "moto/server.py")?;
        let folder = tempfile::tempdir()?;
        let python = crate::needs::on_path("python3").context("python3 is not on the PATH")?;
        let arguments = ["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"].map(str::to_owned);
        // References to missing objects are refused, as in AWS.
        let strict = ["MOTO_ENABLE_AMI_VALIDATION", "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION"];
        let mut environment: Vec<_> = strict.iter().map(|name| ((*name).to_owned(), "true".to_owned())).collect();
        // With thousands of default images every lookup would take a second; tests register their own.
        environment.push(("MOTO_EC2_LOAD_DEFAULT_AMIS".to_owned(), "false".to_owned()));
        environment.push(("PYTHONPATH".to_owned(), packages.display().to_string()));
        let mut process = Process::start(&python, &arguments, &environment, &folder.path().join("log"))?;
        let since = Instant::now();
        loop {
            if let Some(url) = address(&fs::read_to_string(folder.path().join("log"))?) {
                return Ok(Self { url, _process: process, _folder: folder });
            }
            if !process.is_running() || since.elapsed() > PATIENCE {
                bail!("moto does not listen:\n{}", process.tail(20));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns the address that the server prints once it listens.
fn address(log: &str) -> Option<String> {
    let line = log.lines().find_map(|line| line.split_once("Running on "))?.1;
    Some(line.split_whitespace().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_what_the_server_prints() {
        let log = "WARNING: a development server.\n * Running on http://127.0.0.1:4321\nPress CTRL+C to quit\n";
        assert_eq!(address(log).as_deref(), Some("http://127.0.0.1:4321"));
        assert_eq!(address("starting"), None);
    }
}
