//! Runs vcsim, the simulator of vCenter that govmomi brings.
//!
//! It speaks vCenter's SOAP interface and the REST interface of tags. Its clones take no time unless a test holds them, it
//! knows no permissions, and hosts never run out of anything.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::process::Process;

const FILES: &[(&str, &str)] = &[
    ("go.mod", include_str!("../go/vcsim/go.mod")),
    ("go.sum", include_str!("../go/vcsim/go.sum")),
    ("main.go", include_str!("../go/vcsim/main.go")),
];
/// It starts in a fraction of a second, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who may log in. `main.go` has the same.
pub const USER: &str = "administrator";
pub const PASSWORD: &str = "a-password-that-nobody-may-print";

/// A running simulator. Dropping it ends it.
pub struct Vcsim {
    /// Host and port, where it serves HTTPS with a certificate that nobody signed.
    pub address: String,
    // Declared before the folder, because it logs into the folder until it is dropped.
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Vcsim {
    /// Starts a simulator on a free loopback port, and builds it first if necessary. Blocks until it responds.
    pub fn start() -> Result<Self> {
        let program = referee::go_program("vcsim", FILES)?;
        let folder = tempfile::tempdir()?;
        let mut process = Process::start(&program, &[], &[], &folder.path().join("log"))?;
        let since = Instant::now();
        loop {
            if let Some(address) = address(&fs::read_to_string(folder.path().join("log"))?) {
                return Ok(Self { address, _process: process, _folder: folder });
            }
            if !process.is_running() || since.elapsed() > PATIENCE {
                bail!("vcsim does not listen:\n{}", process.tail(20));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the address that the server prints once it listens.
fn address(log: &str) -> Option<String> {
    let line = log.lines().find_map(|line| line.strip_prefix("listening on "))?;
    // A line without its end may be half an address.
    log.ends_with('\n').then(|| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_what_the_server_prints() {
        assert_eq!(address("2026/01/01 words\nlistening on 127.0.0.1:4321\n").as_deref(), Some("127.0.0.1:4321"));
        assert_eq!(address("listening on 127.0.0.1:43"), None);
        assert_eq!(address("starting\n"), None);
    }
}
