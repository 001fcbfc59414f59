//! Child processes that cannot outlive the test.
//!
//! A test may end by a panic, by `kill -9` or by the machine's owner losing patience. Each child asks the kernel for a
//! SIGKILL when its parent is gone, so nothing is left running whichever way it ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};

/// A running child with its log; dropping it kills it.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with its output going to the file `log`.
    pub fn start(
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        log: &Path,
    ) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        command.envs(environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(Self { child: spawn(command)?, log: log.to_owned() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs; a child that ended on its own is reaped here.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGKILL, as a power cut would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a named signal (`TERM`, `STOP`, `CONT`).
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot send SIG{name}");
    }

    /// Waits for the end and says whether it was a success.
    pub fn wait(&mut self) -> io::Result<std::process::ExitStatus> {
        self.child.wait()
    }

    /// Everything it printed, for the message of a failing test.
    pub fn output(&self) -> String {
        std::fs::read(&self.log).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }

    /// The last lines it printed.
    pub fn tail(&self, lines: usize) -> String {
        let output = self.output();
        let all: Vec<&str> = output.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

type Request = (Command, Sender<io::Result<Child>>);

/// Starts the child from a thread that lives as long as the process.
///
/// The kernel sends the death signal when the *thread* that started a child ends, and a test's thread ends with the test
/// while a shared control plane goes on.
fn spawn(command: Command) -> io::Result<Child> {
    static KEEPER: LazyLock<Mutex<Sender<Request>>> = LazyLock::new(|| {
        let (sender, requests) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, answer) in requests {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (answer, child) = channel();
    KEEPER.lock().expect("no panic happens under this lock").send((command, answer)).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}
