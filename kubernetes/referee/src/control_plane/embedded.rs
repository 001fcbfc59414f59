//! Our own API server on a thread of its own, so that a test may block or end its runtime.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use apiserver::{Credentials, Server};
use tokio::sync::oneshot;

use super::real::TOKEN;

pub(super) struct Embedded {
    server: String,
    port: u16,
    credentials: Credentials,
    thread: Mutex<Option<Thread>>,
    // Last, so that it is removed after the server that writes into it is gone.
    folder: tempfile::TempDir,
}

struct Thread {
    stop: oneshot::Sender<()>,
    handle: JoinHandle<()>,
}

impl Thread {
    fn end(self) {
        let _ = self.stop.send(());
        let _ = self.handle.join();
    }
}

impl Embedded {
    pub(super) fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (thread, started) = run(folder.path().to_owned(), 0)?;
        let Started { port, server, credentials } = started;
        Ok(Self { server, port, credentials, thread: Mutex::new(Some(thread)), folder })
    }

    pub(super) fn admin_kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(super) fn kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{}.kubeconfig", user.replace([':', '/'], "_")));
        let groups: Vec<&str> = group.into_iter().collect();
        fs::write(&path, self.credentials.kubeconfig_for(user, &groups)?)?;
        Ok(path)
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn stop_api_server(&self) {
        let thread = self.thread.lock().expect("no panic under this lock").take();
        if let Some(thread) = thread {
            thread.end();
        }
    }

    pub(super) fn start_api_server(&self) -> Result<()> {
        let (thread, _) = run(self.folder.path().to_owned(), self.port)?;
        *self.thread.lock().expect("no panic under this lock") = Some(thread);
        Ok(())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop_api_server();
    }
}

struct Started {
    port: u16,
    server: String,
    credentials: Credentials,
}

fn run(folder: PathBuf, port: u16) -> Result<(Thread, Started)> {
    let (stop, stopped) = oneshot::channel();
    let (report, started) = mpsc::channel();
    let handle = std::thread::Builder::new().name("embedded API".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        runtime.block_on(async move {
            let builder = Server::builder().data(folder).port(port).token(TOKEN, "admin", &["system:masters"]);
            let running = match builder.start().await {
                Ok(running) => running,
                Err(error) => return drop(report.send(Err(error))),
            };
            let started = Started {
                port: running.address.port(),
                server: running.server().to_owned(),
                credentials: running.credentials(),
            };
            let _ = report.send(Ok(started));
            let _ = stopped.await;
            running.shutdown().await;
        });
    })?;
    let started = started.recv().context("the server's thread ended")??;
    Ok((Thread { stop, handle }, started))
}
