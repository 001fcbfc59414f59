//! Policies to and from the objects that carry them. A policy that names no service or an unknown action is refused.
//!
//! What was merged is read as a whole or not at all. Of what a user wrote, [`Policies::accepted`] keeps the entries that can
//! be followed.

use api::operator::{
    NodeDisruptionPolicyAction, NodeDisruptionPolicyConfig, NodeDisruptionPolicyFile, NodeDisruptionPolicySshKey,
    NodeDisruptionPolicyUnit, ServiceReference,
};

use super::{Action, Policies, Policy};
use crate::host::HostPath;

/// Why a policy cannot be followed; the path is relative to the object's `nodeDisruptionPolicy`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Error {
    pub path: String,
    pub message: String,
}

impl Policies {
    /// The entries of a user that can be followed, and what is wrong with the others.
    pub fn accepted(config: &NodeDisruptionPolicyConfig) -> (Self, Vec<Error>) {
        let (mut policies, mut errors) = (Policies::default(), Vec::new());
        for (index, file) in config.files.iter().enumerate() {
            let at = format!("files[{index}]");
            let read = check_path(&file.path, &at).and_then(|()| read_users(&file.actions, &at));
            add(&mut policies.files, &mut errors, "files", index, &file.path, read);
        }
        for (index, unit) in config.units.iter().enumerate() {
            let at = format!("units[{index}]");
            let read = check_unit(&unit.name, &format!("{at}.name")).and_then(|()| read_users(&unit.actions, &at));
            add(&mut policies.units, &mut errors, "units", index, &unit.name, read);
        }
        if let Some(key) = &config.sshkey {
            match read_users(&key.actions, "sshkey") {
                Ok(actions) => policies.ssh_key = actions,
                Err(error) => errors.push(error),
            }
        }
        (policies, errors)
    }
}

/// Adds one entry, unless it cannot be followed or an earlier one is about the same thing.
fn add(
    known: &mut Vec<Policy>,
    errors: &mut Vec<Error>,
    list: &str,
    index: usize,
    subject: &str,
    read: Result<Vec<Action>, Error>,
) {
    let is_same = |policy: &Policy| policy.subject.trim_end_matches('/') == subject.trim_end_matches('/');
    match read {
        Ok(_) if known.iter().any(is_same) => errors.push(Error {
            path: format!("{list}[{index}]"),
            message: format!("an earlier entry is about {subject:?} already; remove one of them"),
        }),
        Ok(actions) => known.push(Policy { subject: subject.to_owned(), actions }),
        Err(error) => errors.push(error),
    }
}

/// A policy on `/` covers everything; any other has to be a path that a change can be compared with.
fn check_path(path: &str, at: &str) -> Result<(), Error> {
    match HostPath::parse(path) {
        Err(error) if !path.starts_with('/') || !path.trim_matches('/').is_empty() => Err(Error {
            path: format!("{at}.path"),
            message: format!("{error}; write an absolute path, for example /etc/app/app.conf"),
        }),
        _ => Ok(()),
    }
}

fn check_unit(name: &str, at: &str) -> Result<(), Error> {
    let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '_' | '\\' | '-' | '@');
    if UNITS.contains(&suffix) && !stem.is_empty() && stem.chars().all(plain) {
        return Ok(());
    }
    Err(Error { path: at.to_owned(), message: format!("{name:?} is no unit, for example crio.service") })
}

/// What units may end in.
const UNITS: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];

/// The actions of a user's entry. Some can only stand alone, and one is the cluster's own.
fn read_users(actions: &[NodeDisruptionPolicyAction], at: &str) -> Result<Vec<Action>, Error> {
    let at = format!("{at}.actions");
    let read = read_all(actions, &at)?;
    for (index, action) in read.iter().enumerate() {
        let refuse = |message: String| Err(Error { path: format!("{at}[{index}]"), message });
        match action {
            Action::None | Action::Reboot if read.len() > 1 => {
                return refuse(format!(
                    "{} stands for all there is to do; remove the other actions",
                    actions[index].type_
                ));
            }
            Action::Special => return refuse("Special is for defaults only; write Drain and Reload".to_owned()),
            Action::Reload(service) => check_unit(service, &format!("{at}[{index}].reload.serviceName"))?,
            Action::Restart(service) => check_unit(service, &format!("{at}[{index}].restart.serviceName"))?,
            Action::None | Action::Reboot | Action::Drain | Action::DaemonReload => {}
        }
    }
    Ok(read)
}

impl TryFrom<&NodeDisruptionPolicyConfig> for Policies {
    type Error = Error;

    fn try_from(config: &NodeDisruptionPolicyConfig) -> Result<Self, Error> {
        let files = config.files.iter().enumerate().map(|(index, file)| {
            let actions = read_all(&file.actions, &format!("files[{index}].actions"))?;
            Ok(Policy { subject: file.path.clone(), actions })
        });
        let units = config.units.iter().enumerate().map(|(index, unit)| {
            let actions = read_all(&unit.actions, &format!("units[{index}].actions"))?;
            Ok(Policy { subject: unit.name.clone(), actions })
        });
        let ssh_key = match &config.sshkey {
            Some(key) => read_all(&key.actions, "sshkey.actions")?,
            None => Vec::new(),
        };
        Ok(Policies { files: files.collect::<Result<_, _>>()?, units: units.collect::<Result<_, _>>()?, ssh_key })
    }
}

impl From<&Policies> for NodeDisruptionPolicyConfig {
    fn from(policies: &Policies) -> Self {
        let files = policies.files.iter().map(|policy| NodeDisruptionPolicyFile {
            path: policy.subject.clone(),
            actions: write_all(&policy.actions),
        });
        let units = policies.units.iter().map(|policy| NodeDisruptionPolicyUnit {
            name: policy.subject.clone(),
            actions: write_all(&policy.actions),
        });
        let sshkey = NodeDisruptionPolicySshKey { actions: write_all(&policies.ssh_key) };
        NodeDisruptionPolicyConfig { files: files.collect(), units: units.collect(), sshkey: Some(sshkey) }
    }
}

fn read_all(actions: &[NodeDisruptionPolicyAction], at: &str) -> Result<Vec<Action>, Error> {
    let read = actions
        .iter()
        .enumerate()
        .map(|(index, action)| read(action).map_err(|message| Error { path: format!("{at}[{index}]"), message }));
    read.collect()
}

fn read(action: &NodeDisruptionPolicyAction) -> Result<Action, String> {
    let service = |reference: &Option<ServiceReference>, field: &str| match reference {
        Some(reference) if !reference.service_name.is_empty() => Ok(reference.service_name.clone()),
        _ => Err(format!("{} names no service; set {field}.serviceName", action.type_)),
    };
    match action.type_.as_str() {
        "None" => Ok(Action::None),
        "Drain" => Ok(Action::Drain),
        "DaemonReload" => Ok(Action::DaemonReload),
        "Reload" => service(&action.reload, "reload").map(Action::Reload),
        "Restart" => service(&action.restart, "restart").map(Action::Restart),
        "Special" => Ok(Action::Special),
        "Reboot" => Ok(Action::Reboot),
        other => Err(format!("unknown action {other:?} (allowed: None, Drain, Reload, Restart, DaemonReload, Reboot)")),
    }
}

fn write_all(actions: &[Action]) -> Vec<NodeDisruptionPolicyAction> {
    actions.iter().map(NodeDisruptionPolicyAction::from).collect()
}

impl From<&Action> for NodeDisruptionPolicyAction {
    fn from(action: &Action) -> Self {
        let plain = |name: &str| NodeDisruptionPolicyAction { type_: name.to_owned(), ..Default::default() };
        let named = |service: &String| Some(ServiceReference { service_name: service.clone() });
        match action {
            Action::None => plain("None"),
            Action::Drain => plain("Drain"),
            Action::DaemonReload => plain("DaemonReload"),
            Action::Reload(service) => NodeDisruptionPolicyAction { reload: named(service), ..plain("Reload") },
            Action::Restart(service) => NodeDisruptionPolicyAction { restart: named(service), ..plain("Restart") },
            Action::Special => plain("Special"),
            Action::Reboot => plain("Reboot"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn the_defaults_survive_being_written_and_read() {
        let defaults = Policies::defaults(&Settings::default());
        assert_eq!(Policies::try_from(&NodeDisruptionPolicyConfig::from(&defaults)), Ok(defaults));
    }

    #[test]
    fn an_action_nobody_knows_is_refused_with_its_place() {
        let unknown = NodeDisruptionPolicyAction { type_: "Explode".into(), ..Default::default() };
        let nameless = NodeDisruptionPolicyAction { type_: "Restart".into(), ..Default::default() };
        for (action, expected) in [
            (
                unknown,
                "files[0].actions[0]: unknown action \"Explode\" (allowed: None, Drain, Reload, Restart, DaemonReload, Reboot)",
            ),
            (nameless, "files[0].actions[0]: Restart names no service; set restart.serviceName"),
        ] {
            let files = vec![NodeDisruptionPolicyFile { path: "/etc/x".into(), actions: vec![action] }];
            let config = NodeDisruptionPolicyConfig { files, ..Default::default() };
            let refusal = Policies::try_from(&config).map_err(|error| error.to_string());
            assert_eq!(refusal, Err(expected.to_owned()));
        }
    }

    #[test]
    fn of_what_a_user_wrote_only_the_bad_entries_are_left_out() {
        let config = serde_json::json!({
            "files": [
                {"path": "/etc/good", "actions": [{"type": "Restart", "restart": {"serviceName": "a@b.service"}}]},
                {"path": "etc/relative", "actions": [{"type": "None"}]},
                {"path": "/etc/../up", "actions": [{"type": "None"}]},
                {"path": "/etc/good/", "actions": [{"type": "None"}]},
                {"path": "/etc/special", "actions": [{"type": "Special"}]},
                {"path": "/etc/both", "actions": [{"type": "Drain"}, {"type": "Reboot"}]},
                {"path": "/etc/none", "actions": [{"type": "None"}, {"type": "DaemonReload"}]},
                {"path": "/etc/service", "actions": [{"type": "Reload", "reload": {"serviceName": "crio"}}]},
                {"path": "/", "actions": [{"type": "Drain"}]},
            ],
            "units": [
                {"name": "good.service", "actions": [{"type": "DaemonReload"}]},
                {"name": "bad", "actions": [{"type": "None"}]},
                {"name": "good.service", "actions": [{"type": "None"}]},
            ],
            "sshkey": {"actions": [{"type": "Explode"}]},
        });
        let config = serde_json::from_value(config).unwrap_or_default();
        let (policies, errors) = Policies::accepted(&config);
        let names: Vec<_> =
            policies.files.iter().chain(&policies.units).map(|policy| policy.subject.as_str()).collect();
        assert_eq!(names, ["/etc/good", "/", "good.service"]);
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        expect_test::expect![[r#"
            files[1].path: path "etc/relative" is not absolute; write an absolute path, for example /etc/app/app.conf
            files[2].path: path "/etc/../up" contains "." or ".."; write an absolute path, for example /etc/app/app.conf
            files[3]: an earlier entry is about "/etc/good/" already; remove one of them
            files[4].actions[0]: Special is for defaults only; write Drain and Reload
            files[5].actions[1]: Reboot stands for all there is to do; remove the other actions
            files[6].actions[0]: None stands for all there is to do; remove the other actions
            files[7].actions[0].reload.serviceName: "crio" is no unit, for example crio.service
            units[1].name: "bad" is no unit, for example crio.service
            units[2]: an earlier entry is about "good.service" already; remove one of them
            sshkey.actions[0]: unknown action "Explode" (allowed: None, Drain, Reload, Restart, DaemonReload, Reboot)"#]]
        .assert_eq(&errors.join("\n"));
    }
}
