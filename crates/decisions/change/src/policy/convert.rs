//! Policies to and from the objects that carry them. A policy that names no service or an unknown action is refused.

use api::operator::{
    NodeDisruptionPolicyAction, NodeDisruptionPolicyConfig, NodeDisruptionPolicyFile, NodeDisruptionPolicySshKey,
    NodeDisruptionPolicyUnit, ServiceReference,
};

use super::{Action, Policies, Policy};

/// Why a policy cannot be followed; the path is relative to the object's `nodeDisruptionPolicy`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Error {
    pub path: String,
    pub message: String,
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
}
