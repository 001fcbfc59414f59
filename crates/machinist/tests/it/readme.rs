//! The recordings in the README are what really happens: `up` is started and a change rolled out, as the README says.
//!
//! Folders, ports and times differ from run to run; all else has to be the same, up to the names of rendered configs.
//! `UPDATE_EXPECT=1 cargo test -p machinist readme` records them anew.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::Changes;

/// What stands before a recording, within its fence or before it.
const UP: &str = "```\n$ machinist up\n";
const STATUS: &str = "machinist status --watch\n```\n\n```\n";

const PATIENCE: Duration = Duration::from_secs(120);

struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        // As Ctrl-C would, so that its folder goes too.
        let _ = Command::new("kill").args(["-s", "INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn the_recordings_are_of_a_real_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let machinist = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_machinist"));
        command.current_dir(&root).stdin(Stdio::null()).env("NO_COLOR", "1");
        command
    };
    let mut up = Up(machinist().arg("up").stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(up.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = Vec::new();
    for line in lines.by_ref() {
        said.push(line);
        if said.last().is_some_and(|line| line.starts_with("Ctrl-C")) {
            break;
        }
    }
    check(&root, UP, recording(&readme, UP), &said.join("\n"));

    let kubeconfig = said.iter().find_map(|line| line.trim().strip_prefix("export KUBECONFIG=")).map(PathBuf::from);
    let kubeconfig = kubeconfig.expect("it says where its kubeconfig is");
    let changes = Changes::of(&kubeconfig);
    let run = |arguments: &[&str]| {
        let output = machinist().args(arguments).arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan").display().to_string();
    run(&["plan", "-f", "examples/motd.yaml", "--save", &plan]);
    run(&["apply", &plan]);
    let wanted = recording(&readme, STATUS);
    let deadline = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    loop {
        let table = run(&["status"]);
        if shape(&table) == shape(wanted) || is_worth_a_recording(&table) && is_updating_expectations() {
            return check(&root, STATUS, wanted, table.trim_end());
        }
        seen.push(table);
        let is_over = seen.last().is_some_and(|table| table.contains("worker  Updated  3/3"));
        assert!(
            !is_over && changes.wait(deadline),
            "no table of the rollout was the README's; there were:\n{}",
            seen.join("\n")
        );
    }
}

/// In the middle: one node is done, one is at it, one waits.
fn is_worth_a_recording(table: &str) -> bool {
    table.contains("Updating  1/3") && table.contains("worker-2: the machine to come back")
}

fn is_updating_expectations() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}

fn recording<'a>(readme: &'a str, before: &str) -> &'a str {
    let (_, rest) = readme.split_once(before).unwrap_or_else(|| panic!("the README has no {before:?}"));
    rest.split_once("\n```").map(|(text, _)| text).expect("a fence ends")
}

#[track_caller]
fn check(root: &Path, before: &str, recorded: &str, real: &str) {
    if shape(recorded) == shape(real) {
        return;
    }
    if is_updating_expectations() {
        let path = root.join("README.md");
        let readme = std::fs::read_to_string(&path).unwrap();
        let new = readme.replacen(&format!("{before}{recorded}"), &format!("{before}{real}"), 1);
        return std::fs::write(path, new).unwrap();
    }
    panic!(
        "the README's recording is not what happens; `UPDATE_EXPECT=1 cargo test -p machinist readme` mends it\n{real}"
    );
}

/// A text without what differs from run to run.
fn shape(text: &str) -> String {
    let lines = text.trim_end().lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

fn word(word: &str) -> String {
    const FOLDER: &str = "machinist-up-";
    let is_age = |text: &str| {
        text.ends_with(['s', 'm', 'h'])
            && text.starts_with(|first: char| first.is_ascii_digit())
            && text.chars().all(|letter| letter.is_ascii_digit() || "smh".contains(letter))
    };
    if let Some((_, rest)) = word.split_once(FOLDER) {
        let key = if word.starts_with("KUBECONFIG") { "KUBECONFIG=" } else { "" };
        return format!("{key}DIR{}", rest.get(6..).unwrap_or_default());
    }
    if word.starts_with("https://127.0.0.1:") {
        return "https://127.0.0.1:PORT,".to_owned();
    }
    if word.starts_with("http://127.0.0.1:") && word.contains("?token=") {
        return "LINK".to_owned();
    }
    if is_age(word) || word.parse::<f32>().is_ok_and(|_| word.contains('.')) {
        return "TIME".to_owned();
    }
    word.to_owned()
}

#[test]
fn only_what_differs_from_run_to_run_may_differ() {
    let one = "Your fleet is up: 4 nodes at https://127.0.0.1:42285, in 0.9 s\n  export KUBECONFIG=/tmp/machinist-up-x3Ynap/kubeconfig\nworker  1m9s  a";
    let two = "Your fleet is up: 4 nodes at https://127.0.0.1:1, in 11.2 s\n export KUBECONFIG=/var/tmp/machinist-up-aaaaaa/kubeconfig\nworker  5s  a";
    assert_eq!(shape(one), shape(two));
    assert_ne!(shape(one), shape(&two.replace("4 nodes", "5 nodes")));
    assert_ne!(shape("worker-5df6d49e"), shape("worker-5df6d49f"));
}
