//! The server as a process of its own, and what the kernel says about it.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use reqwest::Client;

pub(crate) const TOKEN: &str = "bench";
/// Longer than requests are measured beside watchers that do not read.
pub(crate) const STALLED: Duration = Duration::from_secs(45);

/// The child: serves until killed.
pub(crate) async fn serve(folder: &str) {
    let builder = apiserver::Server::builder().data(folder).token(TOKEN, "admin", &["system:masters"]);
    let server = builder.end_stalled_after(STALLED).start().await;
    println!("{}", server.as_ref().unwrap().server());
    std::future::pending::<()>().await;
}

pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    pub(crate) client: Client,
}

impl Server {
    pub(crate) fn spawn(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--serve")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, url: line.trim().to_owned(), client: client(&folder.join("ca.crt")) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn cpu(&self) -> Duration {
        cpu(&[self.id()])
    }

    pub(crate) fn memory(&self) -> f64 {
        memory(self.id())
    }

    /// The most memory it ever had.
    pub(crate) fn peak(&self) -> f64 {
        status(self.id(), "VmHWM")
    }

    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn client(authority: &Path) -> Client {
    let certificate = reqwest::Certificate::from_pem(&std::fs::read(authority).unwrap()).unwrap();
    Client::builder().tls_certs_only([certificate]).build().unwrap()
}

/// The time the processes' threads have run so far.
pub(crate) fn cpu(processes: &[u32]) -> Duration {
    let tasks = processes.iter().flat_map(|process| std::fs::read_dir(format!("/proc/{process}/task")).unwrap());
    let run = |task: std::fs::DirEntry| {
        // A thread may end while it is looked at.
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|run| run.parse().ok()).unwrap_or(0)
    };
    Duration::from_nanos(tasks.map(|task| run(task.unwrap())).sum())
}

/// Megabytes resident.
pub(crate) fn memory(process: u32) -> f64 {
    status(process, "VmRSS")
}

fn status(process: u32, field: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Every connection is a file here, as it is in the server, which raises its own limit. Root may go beyond the hard one.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// How many connections fit both in this process and in the server's.
pub(crate) fn connections() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap().saturating_sub(150))
}

pub(crate) fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap().split(' ').next().unwrap().to_owned()
}
