//! Runs test programs side by side and keeps account of their time.
//!
//! Most of what the long programs do is waiting: for a server to start, a lease to end, a node to boot. Each program has limits
//! of its own for what is heavy, such as one real control plane for two cores, so a few programs fit on a small machine.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::build::Program;
use super::part::Part;
use crate::workspace;

/// No test program takes nearly as long, also on a busy machine: one that does hangs.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Programs that take longest, longest first: begun first, they leave no lane to wait for at the end.
const LONG: [&str; 8] =
    ["e2e it", "e2e it stories", "machines it", "machinist it", "operator it", "referee it", "aws it", "apiserver it"];

/// A program, or a share of its tests.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) part: Part,
    pub(super) folder: PathBuf,
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<String>,
}

impl Job {
    fn of(program: &Program, name: &str, arguments: Vec<String>) -> Self {
        let Program { part, folder, path, .. } = program.clone();
        Self { name: name.to_owned(), part, folder, path, arguments }
    }

    /// The examples in the documentation, which only cargo can run.
    pub(super) fn examples() -> Self {
        Self {
            name: "examples".to_owned(),
            part: Part::Quick,
            folder: workspace::root(),
            path: PathBuf::from("cargo"),
            arguments: ["test", "--doc", "--workspace", "--locked"].map(str::to_owned).to_vec(),
        }
    }
}

/// What became of a job.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) name: String,
    pub(super) part: Part,
    pub(super) time: Duration,
    pub(super) passed: u32,
    pub(super) is_ok: bool,
}

/// The jobs of these programs, longest first. The stories of `e2e` are a job of their own, because each follows whole pages on
/// one fleet while the other tests come and go.
pub(super) fn jobs(programs: &[Program], filter: Option<&str>, left_out: &[String]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for program in programs {
        let mut arguments: Vec<String> = filter.into_iter().map(str::to_owned).collect();
        match (program.name.as_str(), filter) {
            ("e2e it", None) => {
                let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
                jobs.push(Job::of(program, "e2e it", own(&["--skip", "stories::"])));
                jobs.push(Job::of(program, "e2e it stories", own(&["stories::"])));
                continue;
            }
            ("referee it", None) if !left_out.is_empty() => {
                arguments.push("--exact".to_owned());
                arguments.extend(left_out.iter().flat_map(|name| ["--skip".to_owned(), name.clone()]));
            }
            _ => {}
        }
        jobs.push(Job::of(program, &program.name, arguments));
    }
    jobs.sort_by_key(|job| LONG.iter().position(|name| *name == job.name).unwrap_or(LONG.len()));
    jobs
}

/// How many programs run at once.
pub(super) fn lanes() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8) + 1
}

/// Runs the jobs; what a failed one printed is shown when it ends. All of it is kept in `logs`.
pub(super) fn run(jobs: Vec<Job>, variables: &[(&str, PathBuf)], logs: &Path) -> anyhow::Result<Vec<Done>> {
    std::fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let lanes = lanes().min(jobs.len());
    let (waiting, done) = (Mutex::new(VecDeque::from(jobs)), Mutex::new(Vec::new()));
    let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        let work = || -> anyhow::Result<()> {
            while let Some(job) = take() {
                let ended = carry_out(&job, variables, &logs.join(format!("{}.log", job.name.replace(' ', "-"))))?;
                done.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
            }
            Ok(())
        };
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(work)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().map_err(|_| anyhow::anyhow!("a lane broke off"))?)
    })?;
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn carry_out(job: &Job, variables: &[(&str, PathBuf)], log: &Path) -> anyhow::Result<Done> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let begun = Instant::now();
    let mut command = Command::new(&job.path);
    command.args(&job.arguments).current_dir(&job.folder).stdin(Stdio::null());
    // As cargo does; snapshots are found by it.
    command.env("CARGO_MANIFEST_DIR", &job.folder).envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdout(file.try_clone().context("a log is opened once")?).stderr(file);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", job.path.display()))?;
    let status = end_of(&mut child, begun + LIMIT).with_context(|| format!("cannot wait for {}", job.name))?;
    let time = begun.elapsed();
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let passed = passed(&text);
    if status.success() {
        if passed > 0 {
            println!("ok      {:<24}{passed:>5} tests {:>5.0} s", job.name, time.as_secs_f32());
        }
    } else {
        println!("{text}\nFAILED  {:<24}({status}) {:>5.0} s", job.name, time.as_secs_f32());
    }
    Ok(Done { name: job.name.clone(), part: job.part, time, passed, is_ok: status.success() })
}

/// Waits for a program; one that hangs is ended, so that its log tells which test it was.
fn end_of(child: &mut Child, deadline: Instant) -> std::io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            return child.wait();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How many tests passed, by the last line of the program.
fn passed(text: &str) -> u32 {
    let lines = text.lines().filter_map(|line| line.strip_prefix("test result: "));
    let mut counts = lines.filter_map(|line| line.split_once(". ")?.1.split(' ').next()?.parse().ok());
    counts.next_back().unwrap_or_default()
}

/// The time of each part, and of the programs that took longest.
pub(super) fn table(done: &[Done], wall: Duration) -> String {
    let mut text = format!("\n{:<12}{:>7}{:>9}\n", "part", "tests", "time");
    for part in Part::ALL {
        let own: Vec<&Done> = done.iter().filter(|it| it.part == part).collect();
        if own.is_empty() {
            continue;
        }
        let (tests, time): (u32, Duration) = (own.iter().map(|it| it.passed).sum(), own.iter().map(|it| it.time).sum());
        let _ = writeln!(text, "{:<12}{tests:>7}{:>7.0} s", part.name(), time.as_secs_f32());
    }
    let mut longest: Vec<&Done> = done.iter().collect();
    longest.sort_by_key(|it| std::cmp::Reverse(it.time));
    let longest: Vec<String> =
        longest.iter().take(5).map(|it| format!("{} {:.0} s", it.name, it.time.as_secs_f32())).collect();
    let _ = writeln!(text, "longest: {}", longest.join(", "));
    let _ = writeln!(text, "all of them, {} at once: {:.0} s", lanes(), wall.as_secs_f32());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended() {
        let mut hanging = Command::new("sleep").arg("1000").spawn().expect("every machine has sleep");
        let status = end_of(&mut hanging, Instant::now()).expect("it can be ended");
        assert!(!status.success());
    }

    fn program(name: &str) -> Program {
        let (folder, path) = (PathBuf::from("/w"), PathBuf::from("/w/it"));
        Program { name: name.to_owned(), package: String::new(), part: Part::Real, folder, path }
    }

    #[test]
    fn stories_are_a_job_of_their_own_and_long_programs_begin_first() {
        let programs = [program("api unit"), program("referee it"), program("e2e it")];
        let jobs = jobs(&programs, None, &["long::one".to_owned()]);
        let told: Vec<String> = jobs.iter().map(|job| format!("{}: {}", job.name, job.arguments.join(" "))).collect();
        assert_eq!(
            told,
            [
                "e2e it: --skip stories::",
                "e2e it stories: stories::",
                "referee it: --exact --skip long::one",
                "api unit: ",
            ]
        );
    }

    #[test]
    fn a_filter_chooses_by_name_and_leaves_nothing_out() {
        let jobs = jobs(&[program("e2e it"), program("referee it")], Some("runbook"), &["long::one".to_owned()]);
        assert!(jobs.iter().all(|job| job.arguments == ["runbook"]), "{jobs:?}");
    }

    #[test]
    fn tests_are_counted_by_the_last_line_of_their_program() {
        assert_eq!(passed("test result: ok. 1 passed; 0 failed\n\ntest result: ok. 34 passed; 0 failed\n"), 34);
        assert_eq!(passed("killed"), 0);
    }

    #[test]
    fn the_time_of_each_part_is_told() {
        let done = |name: &str, part: Part, time: u64| {
            let time = Duration::from_secs(time);
            Done { name: name.to_owned(), part, time, passed: 2, is_ok: true }
        };
        let all =
            [done("a it", Part::Quick, 3), done("e2e it", Part::Real, 700), done("e2e it stories", Part::Real, 300)];
        let table = table(&all, Duration::from_secs(710));
        assert!(table.contains("quick             2      3 s\n"), "{table}");
        assert!(table.contains("real              4   1000 s\n"), "{table}");
        assert!(table.contains("longest: e2e it 700 s, e2e it stories 300 s, a it 3 s\n"), "{table}");
    }
}
