//! Users' manifests survive a round trip through the types.

use api::{cluster, config, healthchecking, machine, machineconfiguration, operator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[track_caller]
fn check<K: Serialize + DeserializeOwned>(manifest: &str) {
    let plain: Value = serde_saphyr::from_str(manifest).unwrap();
    let typed: K = serde_json::from_value(plain.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), plain);
}

#[test]
fn a_machine_config_keeps_its_ignition_untouched() {
    check::<machineconfiguration::MachineConfig>(
        r"
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-worker-chrony
  labels:
    machineconfiguration.openshift.io/role: worker
spec:
  kernelArguments: [nosmt, mitigations=auto]
  kernelType: realtime
  fips: false
  extensions: [usbguard]
  osImageURL: ''
  config:
    ignition: {version: 3.2.0, futureField: {kept: true}}
    storage:
      files:
      - path: /etc/chrony.conf
        mode: 420
        overwrite: true
        contents: {source: 'data:,pool%20ntp.example.org%20iburst%0A'}
    systemd:
      units:
      - {name: chronyd.service, enabled: true, dropins: [{name: 10-a.conf, contents: '[Service]'}]}
",
    );
}

#[test]
fn a_pool_with_its_status() {
    check::<machineconfiguration::MachineConfigPool>(
        r"
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: infra, generation: 4, creationTimestamp: '2019-03-01T12:00:00Z'}
spec:
  machineConfigSelector:
    matchExpressions:
    - {key: machineconfiguration.openshift.io/role, operator: In, values: [worker, infra]}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/infra: ''}}
  maxUnavailable: 34%
  paused: false
  configuration:
    name: rendered-infra-0123
    source:
    - {apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig, name: 00-worker}
status:
  observedGeneration: 4
  machineCount: 3
  updatedMachineCount: 0
  readyMachineCount: 0
  unavailableMachineCount: 1
  degradedMachineCount: 0
  configuration: {name: rendered-infra-0122}
  conditions:
  - {type: Updating, status: 'True', lastTransitionTime: '2019-03-01T12:00:00Z', message: All nodes are updating}
",
    );
}

#[test]
fn kubelet_and_container_runtime_settings() {
    check::<machineconfiguration::KubeletConfig>(
        r"
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: set-max-pods, finalizers: [99-worker-generated-kubelet]}
spec:
  machineConfigPoolSelector: {matchLabels: {custom-kubelet: small-pods}}
  logLevel: 5
  autoSizingReserved: true
  kubeletConfig: {maxPods: 500, evictionHard: {memory.available: 200Mi}}
  tlsSecurityProfile: {type: Custom, custom: {ciphers: [ECDHE-RSA-AES128-GCM-SHA256], minTLSVersion: VersionTLS12}}
",
    );
    check::<machineconfiguration::ContainerRuntimeConfig>(
        r"
apiVersion: machineconfiguration.openshift.io/v1
kind: ContainerRuntimeConfig
metadata: {name: set-log-and-pid}
spec:
  machineConfigPoolSelector: {matchLabels: {debug-crio: config-log-and-pid}}
  containerRuntimeConfig: {pidsLimit: 2048, logLevel: debug, logSizeMax: 1048576, overlaySize: 8G, defaultRuntime: crun}
",
    );
}

#[test]
fn a_controller_config_keeps_its_nulls() {
    check::<machineconfiguration::ControllerConfig>(
        r"
apiVersion: machineconfiguration.openshift.io/v1
kind: ControllerConfig
metadata: {name: machine-config-controller}
spec:
  additionalTrustBundle: null
  baseOSContainerImage: quay.example.org/os@sha256:0
  cloudProviderCAData: null
  cloudProviderConfig: ''
  clusterDNSIP: 172.30.0.10
  dns: null
  images: {infraImageKey: quay.example.org/pause}
  infra:
    apiVersion: config.openshift.io/v1
    kind: Infrastructure
    metadata: {name: cluster}
    spec: {platformSpec: {type: BareMetal, baremetal: {}}}
    status:
      platform: BareMetal
      platformStatus: {type: BareMetal, baremetal: {apiServerInternalIPs: [192.0.2.1], loadBalancer: {type: UserManaged}}}
      controlPlaneTopology: HighlyAvailable
  ipFamilies: IPv4
  kubeAPIServerServingCAData: Y2VydA==
  network: {mtuMigration: null}
  proxy: null
  releaseImage: ''
  rootCAData: Y2VydA==
",
    );
}

#[test]
fn disruption_policies() {
    check::<operator::MachineConfiguration>(
        r"
apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  managementState: Managed
  nodeDisruptionPolicy:
    files:
    - {path: /etc/motd, actions: [{type: None}]}
    - {path: /etc/chrony.conf, actions: [{type: Restart, restart: {serviceName: chronyd.service}}]}
    units:
    - {name: auditd.service, actions: [{type: Drain}, {type: Reload, reload: {serviceName: crio.service}}, {type: DaemonReload}]}
    sshkey: {actions: [{type: Reboot}]}
status:
  nodeDisruptionPolicyStatus:
    clusterPolicies:
      files: [{path: /etc/mco/internal-registry-pull-secret.json, actions: [{type: None}]}, {path: /etc/x, actions: [{type: Special}]}]
",
    );
}

#[test]
fn a_cluster_operator() {
    check::<config::ClusterOperator>(
        r"
apiVersion: config.openshift.io/v1
kind: ClusterOperator
metadata: {name: machine-config}
spec: {}
status:
  conditions:
  - {type: Available, status: 'True', lastTransitionTime: '2019-03-01T12:00:00Z', reason: AsExpected}
  extension: {lastSyncError: ''}
  relatedObjects: [{group: '', resource: namespaces, name: openshift-machine-config-operator}]
  versions: [{name: operator, version: 4.1.0}]
",
    );
}

#[test]
fn machines_and_their_controllers() {
    check::<machine::MachineSet>(
        r"
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: worker-a, namespace: openshift-machine-api}
spec:
  replicas: 2
  deletePolicy: Oldest
  selector: {matchLabels: {machine.openshift.io/cluster-api-machineset: worker-a}}
  template:
    metadata: {labels: {machine.openshift.io/cluster-api-machineset: worker-a}}
    spec:
      metadata: {labels: {node-role.kubernetes.io/worker: ''}}
      taints: [{key: dedicated, value: infra, effect: NoSchedule}]
      lifecycleHooks: {preDrain: [{name: backup, owner: backups}]}
      providerSpec: {value: {apiVersion: machine.openshift.io/v1beta1, kind: AWSMachineProviderConfig, instanceType: m5.large}}
",
    );
    check::<machine::MachineHealthCheck>(
        r"
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: workers, namespace: openshift-machine-api}
spec:
  selector: {matchLabels: {machine.openshift.io/cluster-api-machine-role: worker}}
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]
  maxUnhealthy: 40%
  nodeStartupTimeout: 10m
",
    );
    check::<cluster::MachineDeployment>(
        r"
apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata: {name: workers, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {set: workers}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 25%}}
  template:
    metadata: {labels: {set: workers}}
    spec:
      versions: {kubelet: 1.13.4}
      providerSpec: {valueFrom: {machineClass: {name: small, provider: example}}}
",
    );
    check::<healthchecking::MachineHealthCheck>(
        r"
apiVersion: healthchecking.openshift.io/v1alpha1
kind: MachineHealthCheck
metadata: {name: example, namespace: default}
spec: {selector: {matchLabels: {role: worker}}, remediationStrategy: reboot}
",
    );
}

#[test]
fn objects_without_a_spec_can_be_read() {
    for kind in ["Machine", "MachineSet", "MachineHealthCheck"] {
        let object = serde_json::json!({ "apiVersion": "machine.openshift.io/v1beta1", "kind": kind, "metadata": {} });
        match kind {
            "Machine" => drop(serde_json::from_value::<machine::Machine>(object).unwrap()),
            "MachineSet" => drop(serde_json::from_value::<machine::MachineSet>(object).unwrap()),
            _ => drop(serde_json::from_value::<machine::MachineHealthCheck>(object).unwrap()),
        }
    }
}
