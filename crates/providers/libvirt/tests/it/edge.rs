//! The edge before `virsh`: it leads volumes to real storage, plays what the test driver leaves out, and breaks calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use libvirt::client::{Call, Fault, Output, Program, Virsh};

#[derive(Clone)]
pub(crate) struct Edge(Arc<Inner>);

struct Inner {
    virsh: Program,
    /// Where volumes are; `None` leaves them to the test driver, which takes no uploads.
    storage: Option<String>,
    leases: Mutex<String>,
    calls: Mutex<Vec<Call>>,
    /// The number of the change whose answer is lost.
    broken: Mutex<Option<usize>>,
    changes: AtomicUsize,
}

/// Commands that change nothing.
const QUESTIONS: [&str; 7] =
    ["list", "capabilities", "pool-dumpxml", "vol-dumpxml", "net-dumpxml", "net-dhcp-leases", "echo"];

impl Edge {
    pub(crate) fn new(storage: Option<String>) -> Self {
        Self(Arc::new(Inner {
            virsh: Program::new("virsh", Duration::from_secs(60)),
            storage,
            leases: Mutex::default(),
            calls: Mutex::default(),
            broken: Mutex::default(),
            changes: AtomicUsize::new(0),
        }))
    }

    /// What `net-dhcp-leases` prints from now on.
    pub(crate) fn set_leases(&self, listing: &str) {
        *self.0.leases.lock().unwrap() = listing.to_owned();
    }

    /// Loses the answer to one of the changes that follow, which libvirt makes all the same.
    pub(crate) fn breaks(&self, broken: Option<usize>) {
        self.0.changes.store(0, Ordering::SeqCst);
        *self.0.broken.lock().unwrap() = broken;
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.calls.lock().unwrap().clone()
    }

    pub(crate) fn forget_calls(&self) {
        self.0.calls.lock().unwrap().clear();
    }

    async fn pass(&self, uri: &str, call: &Call) -> Result<Output, Fault> {
        let command = call.arguments[0].as_str();
        let leases = self.0.leases.lock().unwrap().clone();
        match (command, &self.0.storage) {
            ("net-dhcp-leases", _) if !leases.is_empty() => {
                Ok(Output { succeeded: true, stdout: leases, stderr: String::new() })
            }
            (command, Some(storage)) if command.starts_with("vol-") || command.starts_with("pool-") => {
                self.0.virsh.run(storage, call).await
            }
            ("vol-upload", None) => Ok(Output { succeeded: true, ..Output::default() }),
            _ => self.0.virsh.run(uri, call).await,
        }
    }
}

impl Virsh for Edge {
    fn run<'a>(&'a self, uri: &'a str, call: &'a Call) -> BoxFuture<'a, Result<Output, Fault>> {
        async move {
            self.0.calls.lock().unwrap().push(call.clone());
            let is_question = QUESTIONS.iter().any(|question| call.arguments[0].starts_with(question));
            let number = if is_question { usize::MAX } else { self.0.changes.fetch_add(1, Ordering::SeqCst) };
            let is_lost = *self.0.broken.lock().unwrap() == Some(number);
            let output = self.pass(uri, call).await;
            if is_lost { Err(Fault::Silent(Duration::from_secs(60))) } else { output }
        }
        .boxed()
    }
}
