//! The pages of `docs/guide` as users would follow them: each command of a page is run, and its answer compared.
//!
//! Commands stand on lines that begin with `$ `, their answers below. In an answer `…` stands for anything within a line,
//! and alone on a line for any lines; spaces count once. A command that only looks is run again until it answers as the
//! page says, as a reader would.

mod page;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use page::{Block, matches, read};
use testkit::binaries::binary;
use testkit::process::Process;
use testkit::{ControlPlane, Kind, control_plane, needs, wait_until};

/// Pages in the order in which they are read; each leaves the fleet as it found it.
const PAGES: [&str; 8] = [
    "change-the-kubelet.md",
    "an-infra-pool.md",
    "an-old-manifest.md",
    "pace-and-order.md",
    "when-somebody-interferes.md",
    "rotate-ssh-keys.md",
    "when-a-drain-does-not-finish.md",
    "when-a-change-fails.md",
];

/// How long a look may take to show what the page says.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running `machinist up`.
struct Fleet {
    _process: Option<Process>,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    /// Last, so that it outlives the fleet.
    _other: Option<ControlPlane>,
}

impl Fleet {
    async fn start(kind: Kind) -> Option<Self> {
        if !needs::kubectl() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("fleet");
        let mut arguments = vec!["up".to_owned(), "--data".to_owned(), data.display().to_string()];
        let mut kubeconfig = data.join("kubeconfig");
        let other = match kind {
            Kind::Embedded => None,
            Kind::Real => Some(control_plane(Kind::Real).await?),
        };
        if let Some(other) = &other {
            kubeconfig = other.kubeconfig();
            other.install().await;
            arguments.extend(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
        }
        let log = folder.path().join("up.log");
        let mut process = Process::start(&binary("machinist"), &arguments, &[], &log).unwrap();
        wait_until("the fleet to be up", || {
            assert!(process.is_running(), "machinist up ended: {}", process.output());
            let is_up = process.output().contains("Your fleet is up");
            async move { is_up.then_some(()) }
        })
        .await;
        Some(Self { _process: Some(process), kubeconfig, folder, _other: other })
    }

    /// A real API server, and nothing that runs pods.
    async fn bare() -> Option<Self> {
        if !needs::kubectl() {
            return None;
        }
        let other = control_plane(Kind::Real).await?;
        let (kubeconfig, folder) = (other.kubeconfig(), tempfile::tempdir().unwrap());
        Some(Self { _process: None, kubeconfig, folder, _other: Some(other) })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("fleet")
    }

    /// Exit code and everything printed.
    fn run(&self, command: &str, folder: &Path) -> (i32, String) {
        let programs = binary("machinist").parent().unwrap().to_owned();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(folder).stdin(Stdio::null());
        shell.env("PATH", path).env("KUBECONFIG", &self.kubeconfig).env("DIR", self.data()).env("NO_COLOR", "1");
        let output = shell.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code().unwrap_or(-1), text.concat())
    }

    fn follow(&self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let folder = tempfile::tempdir().unwrap();
        for block in read(name, &text) {
            match block {
                Block::File { name, text } => std::fs::write(folder.path().join(name), text).unwrap(),
                Block::Command { line, command, expected } => {
                    println!("{name}:{line}: $ {command}");
                    self.check(&format!("{name}:{line}"), &command, &expected, folder.path());
                }
            }
        }
    }

    fn check(&self, place: &str, command: &str, expected: &[String], folder: &Path) {
        let begun = Instant::now();
        loop {
            let (code, seen) = self.run(command, folder);
            if matches(expected, &seen) {
                return;
            }
            let again = page::only_looks(command) && begun.elapsed() < PATIENCE;
            let expected = expected.join("\n");
            assert!(
                again,
                "{place}: $ {command}\nended with {code} and printed\n{seen}\ninstead of\n{expected}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The end of the fleet's log, for the message of a failing test.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.data().join("machinist.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

#[tokio::test]
async fn every_page_of_the_guide_holds_on_the_embedded_api() {
    let Some(fleet) = Fleet::start(Kind::Embedded).await else { return };
    PAGES.iter().for_each(|page| fleet.follow(page));
}

#[tokio::test]
async fn every_page_of_the_guide_holds_on_a_real_api_server() {
    let Some(fleet) = Fleet::start(Kind::Real).await else { return };
    PAGES.iter().for_each(|page| fleet.follow(page));
}

#[tokio::test]
async fn the_page_about_installing_holds_on_a_real_api_server() {
    let Some(cluster) = Fleet::bare().await else { return };
    cluster.follow("install.md");
}
