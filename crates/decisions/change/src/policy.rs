//! Node disruption policies: what a change of a path, a unit or the login keys asks of a running node.
//!
//! Holds the defaults, lays the user's policies over them and finds the one that covers a change. It never decides
//! what changed (see `diff`) nor what a whole change costs (see `disruption`).

mod convert;

use std::fmt;

pub use convert::Error as PolicyError;

/// What a cluster calls the things the defaults speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The login user whose keys and password a config may change.
    pub admin_user: String,
    /// The container runtime's unit, with its suffix.
    pub runtime_service: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { admin_user: "core".into(), runtime_service: "crio.service".into() }
    }
}

/// One thing to do on a node so that a change takes effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// The change takes effect by itself.
    None,
    Drain,
    DaemonReload,
    Reload(String),
    Restart(String),
    /// Reload the container runtime, after a drain if the change could take images away from running pods.
    Special,
    Reboot,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::None => f.write_str("none"),
            Action::Drain => f.write_str("drain"),
            Action::DaemonReload => f.write_str("daemon-reload"),
            Action::Reload(service) => write!(f, "reload {service}"),
            Action::Restart(service) => write!(f, "restart {service}"),
            Action::Special => f.write_str("reload the container runtime"),
            Action::Reboot => f.write_str("reboot"),
        }
    }
}

/// What a change of one subject (a path or a unit's name) asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub subject: String,
    pub actions: Vec<Action>,
}

/// The policies in force: every path, unit and the login keys. What none of them covers asks for a reboot.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Policies {
    pub files: Vec<Policy>,
    pub units: Vec<Policy>,
    pub ssh_key: Vec<Action>,
}

impl Policies {
    /// The defaults of a cluster.
    #[must_use]
    pub fn defaults(settings: &Settings) -> Self {
        let runtime = || settings.runtime_service.clone();
        let reload = || vec![Action::Reload(runtime())];
        let restart = |name: &str| Action::Restart(name.to_owned());
        let entry = |subject: &str, actions: Vec<Action>| Policy { subject: subject.to_owned(), actions };
        Policies {
            files: vec![
                entry("/var/lib/kubelet/config.json", vec![Action::None]),
                entry("/etc/machine-config-daemon/no-reboot/containers-gpg.pub", reload()),
                entry("/etc/containers/policy.json", reload()),
                entry(crate::registries::PATH, vec![Action::Special]),
                entry("/etc/containers/registries.d", reload()),
                entry("/etc/crio/policies", reload()),
                entry("/etc/nmstate/openshift", vec![Action::None]),
                entry(
                    "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
                    vec![restart(TRUST_SERVICE), Action::Restart(runtime())],
                ),
                entry("/etc/kubernetes/credential-providers", vec![restart(KUBELET)]),
                entry(
                    "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
                    vec![Action::DaemonReload, restart(KUBELET)],
                ),
                entry("/etc/iri-registry", vec![restart(RELEASE_REGISTRY)]),
                entry("/usr/local/bin/load-registry-image.sh", vec![restart(RELEASE_REGISTRY)]),
                entry("/etc/pki/ca-trust/source/anchors/iri-root-ca.crt", vec![restart(TRUST_SERVICE)]),
            ],
            units: vec![entry(RELEASE_REGISTRY, vec![Action::DaemonReload, restart(RELEASE_REGISTRY)])],
            ssh_key: vec![Action::None],
        }
    }

    /// Lays the user's policies over these: the same path or unit replaces, others are appended in the user's order.
    #[must_use]
    pub fn overlaid(mut self, user: Policies) -> Self {
        overlay(&mut self.files, user.files);
        overlay(&mut self.units, user.units);
        if !user.ssh_key.is_empty() {
            self.ssh_key = user.ssh_key;
        }
        self
    }

    /// The policy of the longest path that is `path` itself or a folder above it.
    #[must_use]
    pub fn for_path(&self, path: &str) -> Option<&Policy> {
        self.files
            .iter()
            .filter(|policy| covers(&policy.subject, path))
            .max_by_key(|policy| policy.subject.trim_end_matches('/').len())
    }

    /// The policy of a unit, by its exact name.
    #[must_use]
    pub fn for_unit(&self, name: &str) -> Option<&Policy> {
        self.units.iter().find(|policy| policy.subject == name)
    }
}

/// Refreshes the system's trust store from the anchors folder.
pub const TRUST_SERVICE: &str = "coreos-update-ca-trust.service";
const KUBELET: &str = "kubelet.service";
const RELEASE_REGISTRY: &str = "iri-registry.service";

fn overlay(base: &mut Vec<Policy>, user: Vec<Policy>) {
    for policy in user {
        match base.iter_mut().find(|known| known.subject == policy.subject) {
            Some(known) => known.actions = policy.actions,
            None => base.push(policy),
        }
    }
}

/// Whether a policy on `folder` covers `path`. A policy on `/` covers everything.
fn covers(folder: &str, path: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    match path.strip_prefix(folder) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(subject: &str, actions: Vec<Action>) -> Policy {
        Policy { subject: subject.into(), actions }
    }

    fn found(policies: &Policies, path: &str) -> Option<String> {
        policies.for_path(path).map(|policy| policy.subject.clone())
    }

    #[test]
    fn the_longest_folder_above_a_path_decides() {
        let policies = Policies {
            files: vec![
                on("/", vec![Action::Drain]),
                on("/etc/my", vec![Action::None]),
                on("/etc/my/app", vec![Action::Reboot]),
            ],
            ..Policies::default()
        };
        assert_eq!(found(&policies, "/etc/my/app/one.conf").as_deref(), Some("/etc/my/app"));
        assert_eq!(found(&policies, "/etc/my/app").as_deref(), Some("/etc/my/app"));
        assert_eq!(found(&policies, "/etc/my/apple").as_deref(), Some("/etc/my"));
        assert_eq!(found(&policies, "/opt/x").as_deref(), Some("/"));
    }

    #[test]
    fn a_users_entry_replaces_the_default_in_its_place_and_new_ones_follow() {
        let user = Policies {
            files: vec![on("/etc/new", vec![Action::None]), on("/etc/containers/policy.json", vec![Action::Reboot])],
            ..Policies::default()
        };
        let all = Policies::defaults(&Settings::default()).overlaid(user);
        assert_eq!(all.files[2], on("/etc/containers/policy.json", vec![Action::Reboot]));
        assert_eq!(all.files.last(), Some(&on("/etc/new", vec![Action::None])));
        assert_eq!(all.ssh_key, vec![Action::None]);
    }

    #[test]
    fn the_defaults_name_the_clusters_own_runtime() {
        let settings = Settings { runtime_service: "containerd.service".into(), ..Settings::default() };
        let all = Policies::defaults(&settings);
        assert_eq!(
            all.for_path("/etc/containers/policy.json").map(|p| p.actions.clone()),
            Some(vec![Action::Reload("containerd.service".into())])
        );
    }
}
