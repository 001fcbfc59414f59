//! Tasks: vCenter answers at once with the name of one, and what comes of it is read there.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Client, Fault, Reference};

const PATHS: &[&str] = &["info"];
/// The pause before the second look; each further one is twice as long.
const FIRST_LOOK: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Running,
    Done(Option<Reference>),
    Failed(Fault),
    /// vCenter forgets tasks some minutes after their end.
    Forgotten,
}

/// One of the tasks that vCenter lists.
pub(crate) struct Recent {
    pub(crate) description: String,
    pub(crate) queued: Option<Timestamp>,
    pub(crate) outcome: Outcome,
}

/// A task by its name in a Machine's status.
pub(crate) fn named(name: &str) -> Reference {
    Reference::new("Task", name)
}

impl Client {
    /// Starts a task.
    pub(crate) async fn start(
        &self,
        this: &Reference,
        method: &str,
        arguments: Vec<crate::xml::Element>,
    ) -> Result<Reference, Fault> {
        let answer = self.call(this, method, arguments).await?;
        let task = answer.at(&["returnval"]).and_then(Reference::of);
        task.ok_or_else(|| Fault::Unreadable(format!("{method} has no task")))
    }

    pub(crate) async fn outcome(&self, task: &Reference) -> Result<Outcome, Fault> {
        let found = self.of(task, PATHS).await?;
        Ok(found.as_ref().map_or(Outcome::Forgotten, outcome))
    }

    /// What came of many tasks, with one call unless vCenter has forgotten one of them.
    pub(crate) async fn outcomes(&self, tasks: &[Reference]) -> Result<HashMap<Reference, Outcome>, Fault> {
        match self.properties(tasks, PATHS).await {
            Err(fault) if fault.is_gone() => {}
            found => return Ok(found?.iter().map(|task| (task.reference.clone(), outcome(task))).collect()),
        }
        let mut outcomes = HashMap::new();
        for task in tasks {
            outcomes.insert(task.clone(), self.outcome(task).await?);
        }
        Ok(outcomes)
    }

    /// Looks at a task until it ends, or until the patience is spent.
    pub(crate) async fn follow(&self, task: &Reference, until: Instant) -> Result<Outcome, Fault> {
        let mut pause = FIRST_LOOK;
        loop {
            let outcome = self.outcome(task).await?;
            if outcome != Outcome::Running || Instant::now() + pause > until {
                return Ok(outcome);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Asks a task to end. One that has ended already refuses, which is as good.
    pub(crate) async fn cancel(&self, task: &Reference) {
        if let Err(fault) = self.call(task, "CancelTask", Vec::new()).await {
            tracing::debug!(error = &fault as &dyn std::error::Error, task = task.value, "cannot cancel a task");
        }
    }

    /// The tasks that run or ended lately.
    pub(crate) async fn recent_tasks(&self) -> Result<Vec<Recent>, Fault> {
        let manager = self.own("taskManager").await?;
        let tasks = self.of(&manager, &["recentTask"]).await?;
        let tasks = tasks.map(|manager| manager.references("recentTask")).unwrap_or_default();
        let mut recent = Vec::new();
        // One that vCenter has just forgotten would fail a question for all.
        for task in tasks {
            let Some(found) = self.of(&task, PATHS).await? else { continue };
            let text = |name| found.get("info").and_then(|info| info.text_at(&[name]));
            recent.push(Recent {
                description: text("descriptionId").unwrap_or_default().to_owned(),
                queued: text("queueTime").and_then(|time| time.parse().ok()),
                outcome: outcome(&found),
            });
        }
        Ok(recent)
    }
}

fn outcome(task: &super::property::Object) -> Outcome {
    let info = task.get("info");
    match info.and_then(|info| info.text_at(&["state"])) {
        Some("success") => Outcome::Done(info.and_then(|info| info.at(&["result"])).and_then(Reference::of)),
        Some("error") => {
            let error = info.and_then(|info| info.at(&["error"])).cloned().unwrap_or_default();
            Outcome::Failed(Fault::of_task(&error))
        }
        _ => Outcome::Running,
    }
}
