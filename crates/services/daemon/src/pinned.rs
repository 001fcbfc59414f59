//! Brings the images of the node's PinnedImageSets to the host and keeps them there, and reports it on the MachineConfigNode.
//!
//! It runs beside the main loop, as certificates do: neither an update under way nor a paused pool holds it up, and nothing
//! here drains or reboots. What to do next is decided in `change::pinned`; every step looks at the runtime anew, so it can
//! be cut off anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::machineconfiguration::{MachineConfigNode, PinnedImageSet};
use api::names::{node_condition, status};
use change::host::{Attributes, Error, ErrorKind, Host, HostPath};
use change::pinned::{CRIO, DROPIN, Set, Situation, Step, dropin, next};
use cluster::Events;
use cluster::error::if_found;
use cluster::events::Severity;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

/// Which images this daemon has pinned, so that only those are ever let go.
const MEMORY: &str = "/etc/machine-config-daemon/pinned-images.json";
/// A field manager of its own: the daemon's other conditions are applied whole by another.
const MANAGER: &str = "machinist-daemon-images";
/// Pauses before what failed is tried again; they double.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Follows the sets that the Node names until the task is dropped.
pub(crate) async fn follow(
    host: Arc<dyn Host>,
    client: Client,
    node: String,
    mut named: watch::Receiver<Option<String>>,
    events: Events,
) {
    let mut task = Task {
        host,
        client,
        node,
        events,
        sets: Vec::new(),
        is_known: false,
        retry: None,
        done: None,
        told: None,
        times: BTreeMap::new(),
    };
    let mut is_over = true;
    loop {
        tokio::select! {
            changed = named.changed() => {
                if changed.is_err() {
                    return;
                }
                // Before the Node was heard nothing is known, and nothing is let go.
                let Some(names) = named.borrow_and_update().clone() else { continue };
                // A node that never had any is told nothing of them.
                if names.is_empty() && !task.is_known && !task.has_pinned().await {
                    continue;
                }
                task.retry = None;
                task.read(&names).await;
                is_over = false;
            }
            done = task.step(), if !is_over => is_over = done,
        }
    }
}

struct Task {
    host: Arc<dyn Host>,
    client: Client,
    node: String,
    events: Events,
    sets: Vec<Set>,
    /// The Node has named sets before, so that none is news too.
    is_known: bool,
    /// When what failed is tried again, and the pause before that.
    retry: Option<(Instant, Duration)>,
    /// The last step that went well. One that is asked for again at once has had no effect.
    done: Option<String>,
    /// The last report, which is not written twice.
    told: Option<Value>,
    /// The status of each condition, and since when.
    times: BTreeMap<String, (String, String)>,
}

impl Task {
    /// Reads the sets that the annotation names.
    async fn read(&mut self, names: &str) {
        self.is_known = true;
        let api: Api<PinnedImageSet> = Api::all(self.client.clone());
        self.sets.clear();
        for named in names.split(',').filter(|named| !named.is_empty()) {
            let name = named.split('@').next().unwrap_or_default().to_owned();
            let read = if_found(cluster::write::in_time(api.get(&name)).await);
            let (generation, images) = match read {
                Ok(Some(set)) => {
                    let images = set.spec.pinned_images.into_iter().map(|image| image.name).collect();
                    (set.metadata.generation.unwrap_or_default(), Ok(images))
                }
                Ok(None) => (
                    0,
                    Err("it does not exist; create it, or take it out of the pool's spec.pinnedImageSets".to_owned()),
                ),
                Err(error) => (0, Err(cluster::error::chain(&error))),
            };
            self.sets.push(Set { name, generation, images });
        }
    }

    async fn has_pinned(&self) -> bool {
        self.blocking(memory).await.is_ok_and(|pinned| !pinned.is_empty())
    }

    /// Does the next thing and reports it. Says whether there is nothing left to do until the Node names other sets.
    async fn step(&mut self) -> bool {
        if let Some((at, _)) = self.retry {
            tokio::time::sleep_until(at).await;
            let unread: Vec<String> = self.sets.iter().map(|set| format!("{}@0", set.name)).collect();
            if self.sets.iter().any(|set| set.images.is_err()) {
                self.read(&unread.join(",")).await;
            }
        }
        let sets = self.sets.clone();
        match self.blocking(move |host| look(host, &sets)).await {
            Ok(Step::Pull { image, done, of }) => {
                if self.is_repeated(&format!("pull {image}")) {
                    let why = format!(
                        "{image} was pulled, and the runtime does not list it by that name; name it as `crictl images --digests` does"
                    );
                    self.fail(why).await;
                    return false;
                }
                self.report(&format!("pulling image {} of {of}: {image}", done + 1), None).await;
                let pulled = self.blocking(move |host| images(host)?.pull(&image)).await;
                self.went(pulled).await;
                false
            }
            Ok(Step::Pin(wanted)) => {
                if self.is_repeated(&format!("pin {wanted:?}")) {
                    let why = "the images were pinned, and the runtime does not say so; see whether another drop-in of it sets pinned_images";
                    self.fail(why.to_owned()).await;
                    return false;
                }
                let pinned = self.blocking(move |host| pin(host, &wanted)).await;
                self.went(pinned).await;
                false
            }
            Ok(Step::Rest) => {
                (self.retry, self.done) = (None, None);
                self.report("", None).await
            }
            Ok(Step::Stuck(why)) => {
                self.fail(why).await;
                false
            }
            Err(error) => {
                self.fail(error.to_string()).await;
                false
            }
        }
    }

    /// Whether this step was the last one and went well. After the pause that follows it is tried once more.
    fn is_repeated(&mut self, step: &str) -> bool {
        let is_repeated = self.done.as_deref() == Some(step);
        self.done = (!is_repeated).then(|| step.to_owned());
        is_repeated
    }

    async fn went(&mut self, done: Result<(), Error>) {
        match done {
            // The pause goes on growing until everything is there.
            Ok(()) => self.retry = self.retry.map(|(_, pause)| (Instant::now(), pause)),
            Err(error) => {
                self.done = None;
                self.fail(error.to_string()).await;
            }
        }
    }

    async fn fail(&mut self, why: String) {
        let pause = self.retry.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        self.retry = Some((Instant::now() + pause, pause));
        tracing::warn!(pause = pause.as_secs(), "pinned images: {why}");
        self.report("", Some(&why)).await;
    }

    /// Writes both conditions and the progress of each set. Says whether they have arrived.
    async fn report(&mut self, progress: &str, problem: Option<&str>) -> bool {
        let body = self.body(progress, problem);
        if self.told.as_ref() == Some(&body) {
            return true;
        }
        if let Some(why) = problem {
            self.events.publish::<Node>(&self.node, None, Severity::Warning, "PinnedImagesFailed", why);
        }
        let api: Api<MachineConfigNode> = Api::all(self.client.clone());
        let parameters = PatchParams::apply(MANAGER).force();
        let mut applied = body.clone();
        for condition in applied["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = json!(self.since(condition));
        }
        match cluster::write::in_time(api.patch_status(&self.node, &parameters, &Patch::Apply(&applied))).await {
            Ok(_) => {
                self.told = Some(body);
                true
            }
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "pinned images could not be reported");
                let pause = self.retry.map_or(FIRST_PAUSE, |(_, pause)| pause);
                self.retry = Some((Instant::now() + pause, pause));
                false
            }
        }
    }

    /// Since when a condition has its status.
    fn since(&mut self, condition: &Value) -> String {
        let word = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        let now = || jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let known = self.times.entry(word("type")).or_insert_with(|| (word("status"), now()));
        if known.0 != word("status") {
            *known = (word("status"), now());
        }
        known.1.clone()
    }

    fn body(&self, progress: &str, problem: Option<&str>) -> Value {
        let is_done = progress.is_empty() && problem.is_none();
        let condition = |type_: &str, is_so: bool, reason: &str, message: &str| {
            let status = if is_so { status::TRUE } else { status::FALSE };
            json!({"type": type_, "status": status, "reason": reason, "message": message})
        };
        let count: usize = self.sets.iter().filter_map(|set| set.images.as_ref().ok()).map(Vec::len).sum();
        let done = format!("{count} images of {} PinnedImageSets are pinned", self.sets.len());
        let message = if is_done { done.as_str() } else { problem.unwrap_or(progress) };
        let reason = if is_done { "AsExpected" } else { "ImagePrefetch" };
        let conditions = [
            condition(node_condition::PINNED_IMAGE_SETS_PROGRESSING, !is_done, reason, message),
            condition(
                node_condition::PINNED_IMAGE_SETS_DEGRADED,
                problem.is_some(),
                if problem.is_some() { "PrefetchFailed" } else { "AsExpected" },
                problem.unwrap_or("All is good"),
            ),
        ];
        let known = self.sets.iter().filter(|set| set.generation > 0);
        let sets = known.map(|set| {
            let mut entry = json!({"name": set.name, "desiredGeneration": set.generation});
            match problem {
                Some(why) => {
                    entry["lastFailedGeneration"] = json!(set.generation);
                    entry["lastFailedGenerationError"] = json!(why);
                }
                None if is_done => entry["currentGeneration"] = json!(set.generation),
                None => {}
            }
            entry
        });
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
            "metadata": {"name": self.node},
            "status": {"conditions": conditions, "pinnedImageSets": sets.collect::<Vec<_>>()},
        })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Host) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let host = Arc::clone(&self.host);
        let done = tokio::task::spawn_blocking(move || work(&*host)).await;
        done.unwrap_or_else(|error| Err(Error::new(ErrorKind::Failed, "look after", "images", error.to_string())))
    }
}

fn images(host: &dyn Host) -> Result<&dyn change::host::Images, Error> {
    host.images()
        .ok_or_else(|| Error::new(ErrorKind::Unsupported, "pin", "images", "this host has no container runtime"))
}

fn look(host: &dyn Host, sets: &[Set]) -> Result<Step, Error> {
    let pinned = memory(host)?;
    // A host without a runtime is not asked while nothing is wanted of it.
    if pinned.is_empty() && sets.is_empty() {
        return Ok(Step::Rest);
    }
    let images = images(host)?;
    let (runtime, present, space) = (images.runtime()?, images.list()?, images.space()?);
    Ok(next(&Situation { sets, runtime: &runtime, present: &present, space, pinned: &pinned }))
}

/// Lets the runtime keep exactly these, of those that are ours.
fn pin(host: &dyn Host, wanted: &BTreeSet<String>) -> Result<(), Error> {
    let earlier = memory(host)?;
    let files = host.files();
    // Before anything is pinned: what is forgotten would be kept for ever.
    let all: BTreeSet<&String> = earlier.union(wanted).collect();
    remember(host, &json!(all))?;
    let images = images(host)?;
    if images.runtime()?.name == "containerd" {
        let present = images.list()?;
        let is_there = |image: &str| present.iter().any(|found| found.names.iter().any(|name| name == image));
        for image in earlier.difference(wanted).filter(|image| is_there(image)) {
            images.mark(image, false)?;
        }
        for image in wanted {
            images.mark(image, true)?;
        }
    } else {
        let path = path(DROPIN)?;
        match wanted.is_empty() {
            true => files.remove(&path)?,
            false => files.put(&path, dropin(wanted).as_bytes(), &Attributes::root(0o644))?,
        }
        files.flush()?;
        if host.services().activity(CRIO)?.active == "active" {
            host.services().reload(CRIO)?;
        }
    }
    remember(host, &json!(wanted))
}

fn remember(host: &dyn Host, images: &Value) -> Result<(), Error> {
    host.files().put(&path(MEMORY)?, images.to_string().as_bytes(), &Attributes::root(0o600))?;
    host.files().flush()
}

fn memory(host: &dyn Host) -> Result<BTreeSet<String>, Error> {
    let bytes = host.files().read(&path(MEMORY)?)?.unwrap_or_default();
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

fn path(text: &str) -> Result<HostPath, Error> {
    HostPath::parse(text).map_err(|error| Error::new(ErrorKind::Refused, "write", text, error.problem))
}
