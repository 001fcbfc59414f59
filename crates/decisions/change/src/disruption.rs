//! What a change costs the workloads of a running node, under the policies in force.
//!
//! The answer is the same whatever the order of the input: equal actions appear once, systemd reads its units before
//! it restarts any of them, and the trust store is refreshed before whoever reads it. Nothing is performed here.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::content::{File, Undecodable};
use crate::diff::{Change, Diff};
use crate::policy::{Action, Policies, Policy, TRUST_SERVICE};
use crate::registries;

/// What must happen on a node for a change to take effect, and why.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Disruption {
    /// In the order in which they are carried out, each once; a reboot stands alone. Never `Action::None`: a change
    /// that takes effect by itself has no actions but does have reasons.
    pub actions: Vec<Action>,
    /// Whether the node's pods must leave before the first write.
    pub drain: bool,
    /// What each part of the change asks for. Empty when nothing on a running node changes.
    pub reasons: Vec<Reason>,
}

/// Why a part of a change needs its actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub subject: Subject,
    /// The policy's path or unit; `None` where no policy covers the subject, which asks for a reboot.
    pub policy: Option<String>,
    pub actions: Vec<Action>,
    /// Said only where the actions alone do not explain themselves.
    pub note: Option<String>,
}

/// A part of a change that policies look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A file, folder or link by its path.
    Path(String),
    Unit(String),
    /// The admin user's keys or password.
    Login,
    OsImage,
    KernelArguments,
    KernelType,
    Extensions,
    Fips,
    /// An administrator asked for the whole config to be applied again.
    Forced,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Path(path) => f.write_str(path),
            Subject::Unit(name) => write!(f, "unit {name}"),
            Subject::Login => f.write_str("login keys and password"),
            Subject::OsImage => f.write_str("OS image"),
            Subject::KernelArguments => f.write_str("kernel arguments"),
            Subject::KernelType => f.write_str("kernel type"),
            Subject::Extensions => f.write_str("extensions"),
            Subject::Fips => f.write_str("FIPS mode"),
            Subject::Forced => f.write_str("forced"),
        }
    }
}

/// The worst a change does, for people to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    None,
    DaemonReload,
    Reload,
    Restart,
    Drain,
    Reboot,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::None => "none",
            Class::DaemonReload => "daemon-reload",
            Class::Reload => "reload",
            Class::Restart => "restart",
            Class::Drain => "drain",
            Class::Reboot => "reboot",
        })
    }
}

impl Disruption {
    /// What `diff` needs under `policies`.
    #[must_use]
    pub fn of(diff: &Diff, policies: &Policies) -> Self {
        let mut reasons = of_the_system(diff);
        let folders = diff.directories.iter().map(|change| &change.name);
        let links = diff.links.iter().map(|change| &change.name);
        let paths = diff.files.iter().map(|change| &change.name).chain(folders).chain(links);
        reasons.extend(paths.map(|path| {
            let subject = Subject::Path(path.clone());
            Reason::under(subject, policies.for_path(path))
        }));
        reasons.extend(diff.units.iter().map(|change| {
            let subject = Subject::Unit(change.name.clone());
            Reason::under(subject, policies.for_unit(&change.name))
        }));
        if !diff.users.is_empty() {
            reasons.push(Reason {
                subject: Subject::Login,
                policy: None,
                actions: policies.ssh_key.clone(),
                note: None,
            });
        }
        Self::from_reasons(reasons, &diff.files)
    }

    /// What an administrator's request to apply everything again needs, whatever differs.
    #[must_use]
    pub fn forced() -> Self {
        Self::from_reasons(vec![Reason::reboot(Subject::Forced)], &[])
    }

    /// The worst it does.
    #[must_use]
    pub fn class(&self) -> Class {
        let drain = if self.drain { Class::Drain } else { Class::None };
        let classes = self.actions.iter().map(|action| match action {
            Action::None => Class::None,
            Action::DaemonReload => Class::DaemonReload,
            Action::Reload(_) | Action::Special => Class::Reload,
            Action::Restart(_) => Class::Restart,
            Action::Drain => Class::Drain,
            Action::Reboot => Class::Reboot,
        });
        classes.chain([drain]).max().unwrap_or(drain)
    }

    fn from_reasons(mut reasons: Vec<Reason>, files: &[Change<File>]) -> Self {
        let mut actions = Vec::new();
        for action in reasons.iter().flat_map(|reason| &reason.actions) {
            if *action != Action::None && !actions.contains(action) {
                actions.push(action.clone());
            }
        }
        if actions.contains(&Action::Reboot) {
            actions = vec![Action::Reboot];
        }
        // Stable: within one rank the order of the policy that listed them holds.
        actions.sort_by_key(rank);
        let mut drain = actions.iter().any(|action| matches!(action, Action::Drain | Action::Reboot));
        if actions.contains(&Action::Special) {
            drain |= explain_registries(&mut reasons, files);
        }
        Disruption { actions, drain, reasons }
    }
}

impl Reason {
    fn under(subject: Subject, policy: Option<&Policy>) -> Self {
        match policy {
            None => Self::reboot(subject),
            Some(policy) => {
                Reason { subject, policy: Some(policy.subject.clone()), actions: policy.actions.clone(), note: None }
            }
        }
    }

    fn reboot(subject: Subject) -> Self {
        Reason { subject, policy: None, actions: vec![Action::Reboot], note: None }
    }
}

/// Changes that only a new boot can bring about, whatever the policies say.
fn of_the_system(diff: &Diff) -> Vec<Reason> {
    let changed = [
        (diff.os_image.is_some(), Subject::OsImage),
        (diff.kernel_arguments.is_some(), Subject::KernelArguments),
        (diff.fips.is_some(), Subject::Fips),
        (diff.kernel_type.is_some(), Subject::KernelType),
        (diff.extensions.is_some(), Subject::Extensions),
    ];
    let reasons = changed.into_iter().filter(|(changed, _)| *changed);
    reasons.map(|(_, subject)| Reason::reboot(subject)).collect()
}

fn rank(action: &Action) -> u8 {
    match action {
        Action::Drain => 0,
        Action::DaemonReload => 1,
        Action::Restart(service) if service == TRUST_SERVICE => 2,
        _ => 3,
    }
}

/// Notes at each special reason why pods must leave, and says whether any of them must.
fn explain_registries(reasons: &mut [Reason], files: &[Change<File>]) -> bool {
    let mut drain = false;
    for reason in reasons.iter_mut().filter(|reason| reason.actions.contains(&Action::Special)) {
        let Subject::Path(path) = &reason.subject else { continue };
        let Some(change) = files.iter().find(|change| change.name == *path) else { continue };
        reason.note = match (decode(change.before.as_ref()), decode(change.after.as_ref())) {
            (Ok(before), Ok(after)) => registries::unsafe_because(before.as_deref(), after.as_deref()),
            (Err(error), _) | (_, Err(error)) => Some(error.to_string()),
        };
        drain |= reason.note.is_some();
    }
    drain
}

fn decode(side: Option<&File>) -> Result<Option<Cow<'_, [u8]>>, Undecodable> {
    side.map(|file| file.contents.bytes()).transpose()
}
