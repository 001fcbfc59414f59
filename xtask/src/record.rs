//! `cargo xtask record`: runs the commands of the first five minutes on a real `machinist up` and draws what they print as
//! `docs/first-five-minutes.svg`, which a browser plays.
//!
//! Nothing is made up: each command is run, each line is what it printed. Only waiting is cut short, and the folder of the recording is
//! written as `~`.

mod svg;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::workspace;
use svg::Scene;

/// Where the recording is kept.
const PLACE: &str = "docs/first-five-minutes.svg";

/// How long a state may take to come.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the recording waits at most for what a command took.
const LONGEST: Duration = Duration::from_millis(1500);

/// A command, as it is typed; `FIRST` is the config that the workers were born with.
struct Shot {
    command: &'static str,
    /// It is run until it prints this, and only then shown, as somebody would who looks again.
    until: Option<&'static str>,
}

const fn shot(command: &'static str) -> Shot {
    Shot { command, until: None }
}

const fn look(command: &'static str, until: &'static str) -> Shot {
    Shot { command, until: Some(until) }
}

const SHOTS: [Shot; 11] = [
    look("kubectl get nodes", "worker-3"),
    shot("machinist plan -f examples/motd.yaml"),
    shot("kubectl apply -f examples/motd.yaml"),
    look("machinist status", "worker  Updating  1/3"),
    look("machinist why pool worker", "worker is Updated"),
    shot("echo by hand > fleet/nodes/worker-2/root/etc/motd"),
    look("machinist doctor", "content-mismatch"),
    shot("machinist doctor --fix --yes"),
    look("machinist blame worker-2 /etc/motd", "from"),
    shot("machinist rollback worker --yes --to FIRST"),
    look("machinist status --pool worker", "Updating"),
];

pub(crate) fn run(is_release: bool) -> anyhow::Result<()> {
    let profile = if is_release { "release" } else { "dev" };
    workspace::run("cargo", &["build", "--locked", "--package", "machinist", "--profile", profile])?;
    let stage = Stage::set(if is_release { "release" } else { "debug" })?;
    let mut scenes = Vec::new();
    let (_up, first) = stage.up()?;
    scenes.push(first);
    scenes.push(Scene {
        command: "export KUBECONFIG=~/fleet/kubeconfig".to_owned(),
        output: Vec::new(),
        took: Duration::ZERO,
    });
    let first = stage.first_config()?;
    for shot in SHOTS {
        println!("$ {}", shot.command);
        scenes.push(stage.take(&shot.command.replace("FIRST", &first), shot.until)?);
    }
    let drawing = svg::draw("The first five minutes with Machinist", &scenes);
    std::fs::write(workspace::root().join(PLACE), &drawing).with_context(|| format!("cannot write {PLACE}"))?;
    println!("wrote {PLACE}, {} KB", drawing.len() / 1024);
    Ok(())
}

/// A folder for one recording, with the examples in it and a fleet.
struct Stage {
    folder: PathBuf,
    programs: PathBuf,
}

/// The fleet, which ends with the recording.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-s", "INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// `programs` is the folder of the build, such as `debug`.
    fn set(programs: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("machinist-recording-{}", std::process::id()));
        let examples = folder.join("examples");
        std::fs::create_dir_all(&examples).with_context(|| format!("cannot make {}", examples.display()))?;
        let motd = workspace::root().join("examples/motd.yaml");
        std::fs::copy(&motd, examples.join("motd.yaml")).with_context(|| format!("cannot copy {}", motd.display()))?;
        let metadata = workspace::capture("cargo", &["metadata", "--no-deps", "--format-version=1"])?;
        let metadata: serde_json::Value = serde_json::from_str(&metadata).context("cargo's metadata is not JSON")?;
        let target = metadata["target_directory"].as_str().context("cargo names no target folder")?;
        Ok(Self { folder, programs: Path::new(target).join(programs) })
    }

    /// Starts the fleet; what it printed until it was up.
    fn up(&self) -> anyhow::Result<(Up, Scene)> {
        let begun = Instant::now();
        let command = "machinist up --data fleet";
        let mut up =
            Up(self.shell(&format!("exec {command}")).stdout(Stdio::piped()).spawn().context("cannot start it")?);
        let mut lines = BufReader::new(up.0.stdout.take().context("it has an output")?).lines();
        let mut output = Vec::new();
        for line in lines.by_ref() {
            output.push(self.told(&line.context("its output ended")?));
            if output.last().is_some_and(|line| line.contains("Ctrl-C stops")) {
                break;
            }
        }
        if output.is_empty() {
            bail!("machinist up said nothing");
        }
        // The rest is read, so that the fleet never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Ok((up, Scene { command: format!("{command} &"), output, took: begun.elapsed().min(LONGEST) }))
    }

    /// The config that the workers were born with.
    fn first_config(&self) -> anyhow::Result<String> {
        let asked = "kubectl get mcp worker -o jsonpath='{.spec.configuration.name}'";
        let output = self.shell(asked).output().context("cannot start kubectl")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command, again until it prints what is waited for. One that fails has no place in a recording; 3 tells that there is
    /// something to see.
    fn take(&self, command: &str, until: Option<&str>) -> anyhow::Result<Scene> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let begun = Instant::now();
            let output = self.shell(command).output().with_context(|| format!("cannot run {command}"))?;
            let is_right = matches!(output.status.code(), Some(0 | 3));
            let text =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
            if is_right && until.is_none_or(|wanted| svg::plain(&text).contains(wanted)) {
                let output = text.lines().map(|line| self.told(line)).collect();
                return Ok(Scene { command: command.to_owned(), output, took: begun.elapsed().min(LONGEST) });
            }
            if until.is_none() || Instant::now() > deadline {
                bail!("`{command}` should have said {:?}; it printed\n{text}", until.unwrap_or("what it does"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn shell(&self, command: &str) -> Command {
        let path = format!("{}:{}", self.programs.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&self.folder).stdin(Stdio::null());
        shell.env("PATH", path).env("KUBECONFIG", self.folder.join("fleet/kubeconfig")).env("CLICOLOR_FORCE", "1");
        shell
    }

    /// A line as it is shown.
    fn told(&self, line: &str) -> String {
        line.replace(&self.folder.display().to_string(), "~")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What is left is in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
