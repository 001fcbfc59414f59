//! Objects that a schema or a rule must refuse, each with a part of the error message.

use testkit::ControlPlane;

struct Refusal {
    why: &'static str,
    manifest: &'static str,
    says: &'static str,
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        why: "the object is named after its node",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigNode, metadata: {name: one}, \
                   spec: {node: {name: two}, pool: {name: worker}, configVersion: {desired: not-yet-set}}}",
        says: "spec.node.name should match metadata.name",
    },
    Refusal {
        why: "a node's name is a DNS subdomain",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigNode, metadata: {name: one}, \
                   spec: {node: {name: one}, pool: {name: Worker_1}, configVersion: {desired: not-yet-set}}}",
        says: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters",
    },
    Refusal {
        why: "images are pinned by digest",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: PinnedImageSet, metadata: {name: tagged}, \
                   spec: {pinnedImages: [{name: 'registry.example.org/team/app:latest'}]}}",
        says: "the OCI Image reference must end with a valid '@sha256:<digest>' suffix",
    },
    Refusal {
        why: "a build configuration is named after its pool",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineOSConfig, metadata: {name: other}, \
                   spec: {machineConfigPool: {name: layered}, imageBuilder: {imageBuilderType: Job}, \
                   renderedImagePushSecret: {name: push}, renderedImagePushSpec: 'registry.example.org/team/os:latest'}}",
        says: "MachineOSConfig name must match the referenced MachineConfigPool name",
    },
    Refusal {
        why: "a build does not change once it is asked for",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineOSBuild, metadata: {name: layered-1}, \
                   spec: {machineConfig: {name: rendered-layered-2}, machineOSConfig: {name: layered}, \
                   renderedImagePushSpec: 'registry.example.org/team/os:latest'}}",
        says: "machineOSBuildSpec is immutable once set",
    },
    Refusal {
        why: "stores are given once",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: ContainerRuntimeConfig, metadata: {name: twice}, \
                   spec: {containerRuntimeConfig: {additionalImageStores: [{path: /a}, {path: /a}]}}}",
        says: "additionalImageStores must not contain duplicate paths",
    },
    Refusal {
        why: "a size is a quantity",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: ContainerRuntimeConfig, metadata: {name: large}, \
                   spec: {containerRuntimeConfig: {overlaySize: very large}}}",
        says: "spec.containerRuntimeConfig.overlaySize",
    },
    Refusal {
        why: "the kubelet's verbosity ends at 10",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: KubeletConfig, metadata: {name: loud}, \
                   spec: {logLevel: 11}}",
        says: "spec.logLevel in body should be less than or equal to 10",
    },
    Refusal {
        why: "a stream's name is a DNS subdomain",
        manifest: "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: odd}, \
                   spec: {osImageStream: {name: RHEL_9}}}",
        says: "a RFC 1123 subdomain must consist of lower case alphanumeric characters",
    },
    Refusal {
        why: "a reload names what is reloaded",
        manifest: "{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}, \
                   spec: {nodeDisruptionPolicy: {files: [{path: /etc/a, actions: [{type: Reload}]}]}}}",
        says: "reload is required when type is Reload, and forbidden otherwise",
    },
    Refusal {
        why: "a reboot needs nothing beside it",
        manifest: "{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}, \
                   spec: {nodeDisruptionPolicy: {files: [{path: /etc/a, actions: [{type: Reboot}, {type: Drain}]}]}}}",
        says: "Reboot action can only be specified standalone, as it will override any other actions",
    },
    Refusal {
        why: "a unit's name ends in its type",
        manifest: "{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}, \
                   spec: {nodeDisruptionPolicy: {units: [{name: crio, actions: [{type: None}]}]}}}",
        says: "Invalid ${SERVICETYPE} in service name",
    },
    Refusal {
        why: "users cannot ask for the special action",
        manifest: "{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}, \
                   spec: {nodeDisruptionPolicy: {sshkey: {actions: [{type: Special}]}}}}",
        says: "Unsupported value: \"Special\"",
    },
    Refusal {
        why: "no more than all machines can be unhealthy",
        manifest: "{apiVersion: machine.openshift.io/v1beta1, kind: MachineHealthCheck, metadata: {name: all, namespace: default}, \
                   spec: {maxUnhealthy: 101%}}",
        says: "spec.maxUnhealthy",
    },
    Refusal {
        why: "a hook has a name of some length",
        manifest: "{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {name: short, namespace: default}, \
                   spec: {lifecycleHooks: {preDrain: [{name: ab, owner: someone}]}}}",
        says: "spec.lifecycleHooks.preDrain[0].name in body should be at least 3 chars long",
    },
    Refusal {
        why: "only three policies choose the machine that goes",
        manifest: "{apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, metadata: {name: worst, namespace: default}, \
                   spec: {deletePolicy: Worst}}",
        says: "supported values: \"Random\", \"Newest\", \"Oldest\"",
    },
    Refusal {
        why: "a deployment describes its machines",
        manifest: "{apiVersion: cluster.k8s.io/v1alpha1, kind: MachineDeployment, metadata: {name: bare, namespace: default}, \
                   spec: {selector: {}}}",
        says: "spec.template: Required value",
    },
    Refusal {
        why: "there is one object of settings",
        manifest: "{apiVersion: machinist.dev/v1alpha1, kind: ClusterSettings, metadata: {name: other}, spec: {}}",
        says: "ClusterSettings must be named cluster",
    },
    Refusal {
        why: "a check checks one thing",
        manifest: "{apiVersion: machinist.dev/v1alpha1, kind: PoolPolicy, metadata: {name: odd}, \
                   spec: {trial: {checks: [{name: both, unit: a.service, tcp: 'b:1'}]}}}",
        says: "a check has exactly one of unit, tcp and http",
    },
    Refusal {
        why: "a duration has a unit",
        manifest: "{apiVersion: machinist.dev/v1alpha1, kind: PoolPolicy, metadata: {name: odd}, spec: {settle: '5'}}",
        says: "spec.settle in body should match",
    },
];

pub(super) fn what_the_rules_forbid_is_refused(control_plane: &ControlPlane) {
    for Refusal { why, manifest, says } in REFUSALS {
        let output = super::try_apply(control_plane, manifest);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "accepted although {why}: {manifest}");
        assert!(said.contains(says), "refused for another reason than that {why}: {said}");
    }
}
