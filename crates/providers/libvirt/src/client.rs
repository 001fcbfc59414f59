//! libvirt through `virsh`: one process for each call, and one connection for many questions.
//!
//! Arguments are given by name (`--pool NAME`), so that no value is taken for an option. User data travels through standard
//! input only: arguments are visible to everybody on the machine.

mod batch;
mod fault;
mod host;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

pub(crate) use batch::Described;
pub use fault::Fault;
pub(crate) use host::{Host, Image, Pool};

/// The program that speaks to libvirt.
pub trait Virsh: Send + Sync {
    /// Runs one command, or a script of several when there is only one argument, and returns what it printed.
    fn run<'a>(&'a self, uri: &'a str, call: &'a Call) -> BoxFuture<'a, Result<Output, Fault>>;
}

/// One run of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub arguments: Vec<String>,
    /// What it reads from standard input.
    pub input: Vec<u8>,
}

/// What a run printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub succeeded: bool,
    pub stdout: String,
    pub stderr: String,
}

/// The program as it is installed beside the controllers.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    patience: Duration,
}

impl Program {
    pub fn new(path: impl Into<PathBuf>, patience: Duration) -> Self {
        Self { path: path.into(), patience }
    }

    fn broken(&self, error: &std::io::Error) -> Fault {
        Fault::Program { path: self.path.clone(), reason: error.to_string() }
    }

    async fn start(&self, uri: &str, call: &Call) -> Result<Output, Fault> {
        let mut command = Command::new(&self.path);
        command.args(["--quiet", "--connect", uri]).args(&call.arguments);
        // Its messages are read, so they must be in English; it must not look for defaults in files of a user.
        command.env("LC_ALL", "C").env_remove("LANGUAGE").env_remove("VIRSH_DEFAULT_CONNECT_URI");
        command.stdin(if call.input.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| self.broken(&error))?;
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program that stops reading says why on its standard error.
                let _ = stdin.write_all(&call.input).await;
            }
        };
        let (output, ()) = futures::join!(child.wait_with_output(), feed);
        let output = output.map_err(|error| self.broken(&error))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Output { succeeded: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) })
    }
}

impl Virsh for Program {
    fn run<'a>(&'a self, uri: &'a str, call: &'a Call) -> BoxFuture<'a, Result<Output, Fault>> {
        async move {
            match tokio::time::timeout(self.patience, self.start(uri, call)).await {
                Ok(result) => result,
                Err(_) => Err(Fault::Silent(self.patience)),
            }
        }
        .boxed()
    }
}
