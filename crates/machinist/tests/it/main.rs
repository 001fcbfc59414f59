//! The `machinist` binary as people use it: what goes in, what comes out, and which exit code.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod bad_input;
mod bootstrap;
mod diff;
mod doctor;
mod fleet;
mod guide;
mod help;
mod machines;
mod provider;
mod readme;
mod render;
mod server;
mod upgrade;
mod verbs;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run printed and how it ended.
struct Run {
    stdout: String,
    stderr: String,
    code: i32,
}

/// A folder of input files, gone when the test ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text.as_bytes());
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, "")
    }

    /// Runs the binary in the folder, so that file names in messages are short.
    fn run_with(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
        command.args(arguments).current_dir(self.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code().unwrap() }
    }
}

/// A fragment for the pool of `role` with this Ignition config.
fn fragment(name: &str, role: &str, ignition: &str) -> String {
    format!(
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: {name}\n  labels:\n    \
         machineconfiguration.openshift.io/role: {role}\nspec:\n  config: {ignition}\n"
    )
}

/// A fragment of the newest spec with one file.
fn file(name: &str, role: &str, path: &str, text: &str) -> String {
    let source = format!("data:,{}", text.replace(' ', "%20").replace('\n', "%0A"));
    let file = format!("{{path: {path}, mode: 0644, contents: {{source: \"{source}\"}}}}");
    fragment(name, role, &format!("{{ignition: {{version: 3.5.0}}, storage: {{files: [{file}]}}}}"))
}
