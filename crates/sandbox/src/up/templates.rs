//! What the hosts of `up` start from: a kubelet's unit and its configuration.
//!
//! The templates that come with a profile describe real hosts. These say only what a simulated one can have, so that a
//! KubeletConfig has something to change and a fleet is up in a moment.

use api::machineconfiguration::{ControllerConfig, ControllerConfigSpec, MachineConfig};
use api::machinist::{ClusterSettings, ClusterSettingsSpec};
use jiff::Timestamp;
use serde_json::json;
use typed::objects::{Given, Memory, Objects};
use typed::templates::{Template, Templates};

/// The kubelet and the runtime of simulated hosts are configured as on OpenShift.
pub(super) const PROFILE: &str = "openshift";

const TEMPLATES: [(&str, &str); 2] = [
    (
        "common/00/kubelet-service",
        "---\nunit: kubelet.service\nenabled: true\n---\n[Unit]\nDescription=Kubernetes kubelet\n\n[Service]\n\
         ExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet.conf\nRestart=always\n\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "common/00/kubelet-conf",
        "---\npath: /etc/kubernetes/kubelet.conf\n---\napiVersion: kubelet.config.k8s.io/v1beta1\ncgroupDriver: systemd\n\
         kind: KubeletConfiguration\nmaxPods: 250\n",
    ),
];

pub(super) fn templates() -> Templates {
    let own = |(path, text): (&str, &str)| Template { path: path.to_owned(), text: text.to_owned() };
    Templates::new(TEMPLATES.map(own).to_vec())
}

/// The MachineConfigs that the controllers would make of the templates. Nodes join with them, so that nothing rolls when the
/// controllers find out what they need to know.
pub(super) fn fragments(version: &str) -> Vec<MachineConfig> {
    let infra = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {},
        "status": {"platformStatus": {"type": "None"}},
    });
    let spec = ControllerConfigSpec { infra: serde_json::from_value(infra).ok(), ..ControllerConfigSpec::default() };
    let settings = ClusterSettingsSpec { profile: Some(PROFILE.to_owned()), ..ClusterSettingsSpec::default() };
    let objects = Objects {
        now: Timestamp::now(),
        version: version.to_owned(),
        settings: Some(ClusterSettings::new(api::names::CLUSTER, settings)),
        templates: Given::Templates(templates()),
        controller_config: Some(ControllerConfig::new(api::names::CONTROLLER_CONFIG, spec)),
        api_server: None,
        pools: Vec::new(),
        nodes: Vec::new(),
        machine_configs: Vec::new(),
        main_files: Vec::new(),
        memory: Memory::default(),
    };
    objects.plan_templates(Ok(None), Vec::new()).apply
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;

    #[test]
    fn every_role_has_one_fragment_that_counts_as_generated() {
        let fragments = fragments("v1");
        let names: Vec<_> = fragments.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["00-master", "00-worker"]);
        assert!(fragments.iter().all(|it| typed::plan::standing(it) == typed::plan::Standing::Ours));
    }
}
