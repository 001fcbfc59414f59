//! One process and its streams: pipes, or a terminal of its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use apiserver::{Ended, Output, Streams};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What a process leaves running behind it may hold its output; this long it is still listened to.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// The same as in most images.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) async fn run(words: Vec<String>, folder: PathBuf, tty: bool, streams: Streams) -> Ended {
    let begun = if tty { in_terminal(&words, folder, streams) } else { with_pipes(&words, folder, streams) };
    let ended = match begun {
        Ok(process) => process.end().await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(status) => Ended::Code(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
        Err(error) => Ended::Failed(format!("cannot run {}: {error}", words.first().map_or("", String::as_str))),
    }
}

struct Process {
    child: Child,
    group: Group,
    /// What carries its output. Its input goes nowhere once it has ended.
    outputs: JoinSet<()>,
    _inputs: JoinSet<()>,
}

impl Process {
    async fn end(mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        let all = async { while self.outputs.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(AFTERWARDS, all).await;
        drop(self.group);
        status
    }
}

/// Ends all of a process group when dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn command(words: &[String], folder: PathBuf) -> Command {
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.get(1..).unwrap_or_default()).current_dir(folder).kill_on_drop(true).process_group(0);
    command.env_clear().env("PATH", PATH).env("HOME", "/root");
    command
}

fn spawn(mut command: Command) -> io::Result<(Child, Group)> {
    let child = command.spawn()?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    Ok((child, group))
}

fn with_pipes(words: &[String], folder: PathBuf, streams: Streams) -> io::Result<Process> {
    let mut command = command(words, folder);
    let (mut child, group) = spawn({
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    })?;
    let (mut outputs, mut inputs) = (JoinSet::new(), JoinSet::new());
    if let Some(stdin) = child.stdin.take() {
        inputs.spawn(feed(streams.stdin, stdin));
    }
    if let Some(stdout) = child.stdout.take() {
        outputs.spawn(carry(stdout, streams.output.clone(), Output::Stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        outputs.spawn(carry(stderr, streams.output, Output::Stderr));
    }
    Ok(Process { child, group, outputs, _inputs: inputs })
}

fn in_terminal(words: &[String], folder: PathBuf, streams: Streams) -> io::Result<Process> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let name = ptsname(&controller, Vec::new())?;
    let no_ctty = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap_or(0);
    let terminal =
        File::options().read(true).write(true).custom_flags(no_ctty).open(name.to_string_lossy().as_ref())?;
    let mut command = command(words, folder);
    command.env("TERM", "xterm");
    let (child, group) = spawn({
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
        command
    })?;
    let controller = File::from(controller);
    let (reading, sized) = (controller.try_clone()?, controller.try_clone()?);
    let (mut outputs, mut inputs) = (JoinSet::new(), JoinSet::new());
    inputs.spawn(resize(streams.size, sized));
    inputs.spawn(feed_terminal(streams.stdin, tokio::fs::File::from_std(controller)));
    outputs.spawn(carry(tokio::fs::File::from_std(reading), streams.output, Output::Stdout));
    Ok(Process { child, group, outputs, _inputs: inputs })
}

/// Writes input until there is no more, and then ends it.
async fn feed(mut pieces: mpsc::Receiver<Bytes>, mut stdin: impl AsyncWrite + Unpin) {
    while let Some(piece) = pieces.recv().await {
        if stdin.write_all(&piece).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
    let _ = stdin.shutdown().await;
}

/// A terminal stays open when there is no more input, but who reads from it is told.
async fn feed_terminal(mut pieces: mpsc::Receiver<Bytes>, mut terminal: tokio::fs::File) {
    const END_OF_INPUT: &[u8] = &[4];
    while let Some(piece) = pieces.recv().await {
        if terminal.write_all(&piece).await.is_err() || terminal.flush().await.is_err() {
            return;
        }
    }
    let _ = terminal.write_all(END_OF_INPUT).await;
    let _ = terminal.flush().await;
}

/// Sends output as it comes, until its end or until nobody wants it.
async fn carry(mut from: impl AsyncRead + Unpin, to: mpsc::Sender<Output>, kind: fn(Bytes) -> Output) {
    let mut buffer = vec![0; 16 << 10];
    // The end of a terminal is an error.
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if to.send(kind(Bytes::copy_from_slice(&buffer[..length]))).await.is_err() {
            return;
        }
    }
}

async fn resize(mut sizes: watch::Receiver<Option<(u16, u16)>>, terminal: File) {
    loop {
        if let Some((columns, rows)) = *sizes.borrow_and_update() {
            let _ = tcsetwinsize(&terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
        }
        if sizes.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a command writes to both streams, and how it ends.
    async fn check(script: &str, input: &[&'static str], tty: bool) -> (String, String, Ended) {
        let (stdin, pieces) = mpsc::channel(9);
        let (output, mut outputs) = mpsc::channel(9);
        let (_size, sizes) = watch::channel(Some((91, 7)));
        for piece in input {
            let _ = stdin.send(Bytes::from_static(piece.as_bytes())).await;
        }
        drop(stdin);
        let words = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let streams = Streams { stdin: pieces, output, size: sizes };
        let running = tokio::spawn(run(words, "/".into(), tty, streams));
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(piece) = outputs.recv().await {
            match piece {
                Output::Stdout(bytes) => stdout.extend(bytes),
                Output::Stderr(bytes) => stderr.extend(bytes),
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (text(stdout), text(stderr), running.await.expect("it does not panic"))
    }

    #[tokio::test]
    async fn streams_are_kept_apart_and_the_code_is_told() {
        let seen = check("cat; echo out; echo err >&2; exit 3", &["in", "put\n"], false).await;
        assert_eq!(seen, ("input\nout\n".to_owned(), "err\n".to_owned(), Ended::Code(3)));
        assert_eq!(check("kill -9 $$", &[], false).await.2, Ended::Code(137));
    }

    #[tokio::test]
    async fn a_terminal_has_a_size_and_both_streams() {
        let (stdout, stderr, ended) = check("sleep 0.1; stty size; echo err >&2; exit 4", &[], true).await;
        assert!(stdout.contains("7 91\r\n") && stdout.contains("err\r\n"), "{stdout:?}");
        assert_eq!((stderr.as_str(), ended), ("", Ended::Code(4)));
    }

    #[tokio::test]
    async fn a_process_that_is_not_waited_for_any_more_is_ended() {
        let (output, mut outputs) = mpsc::channel(9);
        let (_stdin, stdin) = mpsc::channel(9);
        let (_size, size) = watch::channel(None);
        let words = ["/bin/sh", "-c", "sleep 1000 & echo $$; wait"].map(str::to_owned).to_vec();
        let running = tokio::spawn(run(words, "/".into(), false, Streams { stdin, output, size }));
        let Some(Output::Stdout(first)) = outputs.recv().await else { panic!("it says its number first") };
        running.abort();
        let _ = running.await;
        let group = String::from_utf8_lossy(&first).trim().to_owned();
        let is_there = || {
            let all = std::process::Command::new("ps").args(["-e", "-o", "pgid=,stat="]).output().expect("ps runs");
            let text = String::from_utf8_lossy(&all.stdout).into_owned();
            text.lines().any(|line| line.split_whitespace().next() == Some(&group) && !line.contains('Z'))
        };
        for _ in 0..100 {
            if !is_there() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("group {group} still runs");
    }
}
