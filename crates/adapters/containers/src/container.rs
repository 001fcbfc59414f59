//! A container that boots like a machine: it ends when it asks for a reboot, and is started again.
//!
//! It shares this machine's network unless its [`Surroundings`] say otherwise. It ends with this process, however that
//! ends.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Overlay, cannot};

/// The pause before a container that could not be started, for example for lack of memory, is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// The state that a container reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Number of boots so far.
    pub boots: u32,
    /// The pid of its first process in this machine's namespace, while it runs.
    pub leader: Option<u32>,
    /// Its service manager has finished starting up.
    pub is_up: bool,
}

/// The environment in which a container is started. By default it shares this machine's network and cgroups.
#[derive(Default)]
pub struct Surroundings {
    /// A command that runs the command after it, such as `nsenter`.
    pub launcher: Vec<String>,
    /// Additional flags of systemd-nspawn.
    pub flags: Vec<String>,
    /// Environment variables of systemd-nspawn.
    pub environment: Vec<(String, String)>,
    /// Called before each boot. If it fails, the error is written to the console and the boot is retried.
    pub prepare: Option<Box<dyn Fn() -> Result<(), String> + Send + Sync>>,
}

/// A booted root. It is killed and unmounted when dropped.
pub struct Container {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    root: Option<Overlay>,
}

struct Shared {
    name: String,
    folder: PathBuf,
    root: PathBuf,
    /// The path under which the container reaches our socket; short, however long the path of its folder is.
    socket: PathBuf,
    life: Mutex<Life>,
    changed: Condvar,
    surroundings: Surroundings,
    tell: Box<dyn Fn(State) + Send + Sync>,
}

#[derive(Default)]
struct Life {
    state: State,
    /// The pid of systemd-nspawn, while it runs.
    process: Option<u32>,
    wanted: Wanted,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    On,
    Off,
    /// The container and the thread that restarts it should end.
    End,
}

impl Container {
    /// Boots the root that is mounted in `folder`. `tell` is called from our threads with every change of state.
    ///
    /// # Errors
    /// If the notification socket cannot be created.
    pub fn boot(
        name: &str,
        folder: &Path,
        root: Overlay,
        tell: impl Fn(State) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::boot_in(Surroundings::default(), name, folder, root, tell)
    }

    /// Like [`Container::boot`], in other surroundings.
    ///
    /// # Errors
    /// The same as of [`Container::boot`].
    pub fn boot_in(
        surroundings: Surroundings,
        name: &str,
        folder: &Path,
        root: Overlay,
        tell: impl Fn(State) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let opened = File::open(folder).map_err(cannot("open", folder))?;
        let socket = folder.join("notify");
        let _ = fs::remove_file(&socket);
        // The path of a socket is limited to 107 bytes. The path through the open folder always fits.
        let within = |process: &str| PathBuf::from(format!("/proc/{process}/fd/{}/notify", opened.as_raw_fd()));
        let listening = UnixDatagram::bind(within("self")).map_err(cannot("listen on", &socket))?;
        // Messages on this socket are trusted, so nobody else may write to it.
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).map_err(cannot("write", &socket))?;
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            folder: folder.to_owned(),
            root: root.path().to_owned(),
            socket: within(&std::process::id().to_string()),
            life: Mutex::default(),
            changed: Condvar::new(),
            surroundings,
            tell: Box::new(tell),
        });
        let (keeper, listener) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            std::thread::spawn(move || keeper.keep()),
            std::thread::spawn(move || {
                listener.listen(&listening);
                // The path of the socket leads through this descriptor.
                drop(opened);
            }),
        ];
        Ok(Self { shared, threads, root: Some(root) })
    }

    pub fn state(&self) -> State {
        self.shared.life().state
    }

    /// The mounted root.
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    /// Waits for a state.
    ///
    /// # Errors
    /// If the state is not reached in time; the error contains the end of the console.
    pub fn wait(&self, patience: Duration, is_there: impl Fn(State) -> bool) -> Result<(), Error> {
        if self.shared.wait(patience, |life| is_there(life.state)) {
            return Ok(());
        }
        Err(Error::DoesNotBoot {
            name: self.shared.name.clone(),
            seconds: patience.as_secs(),
            console: self.console(30),
        })
    }

    /// Returns a command that runs in the container, or `None` while it is down.
    pub fn command(&self, words: &[&str]) -> Option<Command> {
        Some(enter(self.state().leader?, words))
    }

    /// Kills the container like a power failure. Unless it is switched off, it is started again at once.
    pub fn kill(&self) {
        signal(self.state().leader, Signal::KILL);
    }

    /// Switches the container off, like a power failure, or on again.
    pub fn switch(&self, on: bool) {
        let wanted = if on { Wanted::On } else { Wanted::Off };
        self.shared.change(|life| life.wanted = if life.wanted == Wanted::End { Wanted::End } else { wanted });
        if !on {
            self.kill();
        }
    }

    /// Shuts the container down cleanly, and kills it if that takes longer than `patience`.
    pub fn stop(self, patience: Duration) {
        let process = {
            let mut life = self.shared.life();
            life.wanted = Wanted::End;
            life.process
        };
        self.shared.changed.notify_all();
        // On the first SIGTERM systemd-nspawn asks the service manager to power off.
        signal(process, Signal::TERM);
        self.shared.wait(patience, |life| life.process.is_none());
    }

    /// Returns the last lines of the console.
    pub fn console(&self, lines: usize) -> String {
        let text = fs::read(self.shared.folder.join("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.shared.change(|life| life.wanted = Wanted::End);
        let (leader, process) = {
            let life = self.shared.life();
            (life.state.leader, life.process)
        };
        signal(leader, Signal::KILL);
        if leader.is_none() {
            signal(process, Signal::KILL);
        }
        let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to(b"END", &self.shared.socket));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = fs::remove_file(self.shared.folder.join("notify"));
        // systemd-nspawn removes this itself only if /run is a tmpfs.
        let _ = fs::remove_dir(Path::new("/run/systemd/nspawn/propagate").join(self.shared.machine()));
        drop(self.root.take());
    }
}

/// Returns a command that runs in all namespaces of a container, including its network if it has its own.
fn enter(leader: u32, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", &leader.to_string(), "-m", "-u", "-i", "-n", "-p", "-C"]).args(words);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

fn signal(process: Option<u32>, signal: Signal) {
    let process = process.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(process) = process {
        let _ = kill_process(process, signal);
    }
}

impl Shared {
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, patience: Duration, is_there: impl Fn(&Life) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.life(), patience, |life| !is_there(life));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn change(&self, change: impl FnOnce(&mut Life)) {
        let (before, after) = {
            let mut life = self.life();
            let before = life.state;
            change(&mut life);
            (before, life.state)
        };
        self.changed.notify_all();
        if before != after {
            (self.tell)(after);
        }
    }

    /// Reads the container's messages in the format of `sd_notify(3)`.
    fn listen(&self, socket: &UnixDatagram) {
        let mut buffer = [0; 4096];
        while let Ok(length) = socket.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            for line in text.lines() {
                match line.split_once('=') {
                    Some(("X_NSPAWN_LEADER_PID", leader)) => self.change(|life| {
                        life.state.leader = leader.parse().ok();
                        life.state.boots += 1;
                    }),
                    Some(("READY", "1")) => self.change(|life| life.state.is_up = life.state.leader.is_some()),
                    None if line == "END" => return,
                    _ => {}
                }
            }
        }
    }

    /// Restarts the container whenever it ends, until it is stopped for good. The cause does not matter: a reboot exits
    /// with 133, a power failure with a signal.
    fn keep(&self) {
        loop {
            {
                let life = self.changed.wait_while(self.life(), |life| life.wanted == Wanted::Off);
                if life.unwrap_or_else(PoisonError::into_inner).wanted == Wanted::End {
                    return;
                }
            }
            let mut container = match self.start() {
                Ok(container) => container,
                Err(error) => {
                    let line = format!("{} was not started: {error}\n", self.name);
                    let _ = self.console().and_then(|mut console| console.write_all(line.as_bytes()));
                    self.wait(AGAIN, |life| life.wanted == Wanted::End);
                    continue;
                }
            };
            self.change(|life| life.process = Some(container.id()));
            // The container may have been stopped just before, when there was no process to signal yet.
            if self.life().wanted == Wanted::End {
                signal(Some(container.id()), Signal::TERM);
            }
            let _ = container.wait();
            self.change(|life| {
                life.process = None;
                (life.state.leader, life.state.is_up) = (None, false);
            });
        }
    }

    /// The name of the container, unique on this machine.
    fn machine(&self) -> String {
        format!("{}-{}", self.name, std::process::id())
    }

    fn console(&self) -> std::io::Result<File> {
        File::options().create(true).append(true).open(self.folder.join("console"))
    }

    fn start(&self) -> std::io::Result<Child> {
        let console = self.console()?;
        let Surroundings { launcher, flags, environment, prepare } = &self.surroundings;
        prepare.as_ref().map_or(Ok(()), |prepare| prepare()).map_err(std::io::Error::other)?;
        let mut command = Command::new("setpriv");
        // If systemd-nspawn were killed it would leave its container behind; on SIGTERM it shuts it down.
        command.args(["--pdeathsig", "TERM"]).args(launcher);
        command.args(["systemd-nspawn", "--quiet", "-D"]).arg(&self.root);
        // systemd-nspawn leaves traces of this name behind if we are killed, so it is different each time; the host
        // name is not.
        command.arg(format!("--machine={}", self.machine()));
        command.arg(format!("--hostname={}", self.name));
        command.args(["--register=no", "--keep-unit", "--console=pipe", "--link-journal=no", "--notify-ready=yes"]);
        command.args(flags).arg("-b").envs(environment.iter().cloned());
        command.env("NOTIFY_SOCKET", &self.socket);
        // The container must not receive our Ctrl-C: together with our SIGTERM it would count as a second request and
        // skip the clean shutdown.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console).spawn()
    }
}
