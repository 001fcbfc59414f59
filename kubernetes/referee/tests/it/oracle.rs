//! The real server's own decisions as a Go program: one line is asked, one line is answered.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use referee::needs;
use serde_json::Value;

const FILES: &[(&str, &str)] = &[
    ("go.mod", include_str!("../../go/oracle/go.mod")),
    ("go.sum", include_str!("../../go/oracle/go.sum")),
    ("main.go", include_str!("../../go/oracle/main.go")),
    ("patterns.go", include_str!("../../go/oracle/patterns.go")),
    ("quantities.go", include_str!("../../go/oracle/quantities.go")),
    ("rules.go", include_str!("../../go/oracle/rules.go")),
];

pub(crate) struct Oracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts the program, built now if this machine never did.
    pub(crate) fn start() -> Option<Oracle> {
        if !needs::go() {
            return None;
        }
        let program = referee::go_program("oracle", FILES).expect("the oracle is built");
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the oracle starts");
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Some(Oracle { child, input, output })
    }

    pub(crate) fn ask(&mut self, question: &Value) -> Vec<Value> {
        writeln!(self.input, "{question}").expect("the oracle listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the oracle answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} after {question}"))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It ends with its input too; a test that panics does not wait for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
