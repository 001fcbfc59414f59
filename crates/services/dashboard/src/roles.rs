//! What a dashboard in a cluster reads. It writes nothing; the two reviews are questions.

use cluster::rights::{Role, WATCH, right};

const MCO: &str = "machineconfiguration.openshift.io";
const MACHINE: &str = "machine.openshift.io";
const CONFIG: &str = "config.openshift.io";
const LIST: &[&str] = &["list"];

pub const ROLES: &[Role] = &[
    Role {
        name: "dashboard",
        everywhere: &[
            right("", "nodes", WATCH),
            right("", "pods", WATCH),
            right("", "events", LIST),
            right("apps", "daemonsets", LIST),
            right("apps", "deployments", WATCH),
            right("policy", "poddisruptionbudgets", LIST),
            right("coordination.k8s.io", "leases", LIST),
            right(MCO, "machineconfigpools", WATCH),
            right(MCO, "machineconfigs", WATCH),
            right(MCO, "machineconfignodes", WATCH),
            right(MCO, "kubeletconfigs", WATCH),
            right(MCO, "containerruntimeconfigs", WATCH),
            right(MCO, "controllerconfigs", LIST),
            right(MACHINE, "machines", WATCH),
            right(MACHINE, "machinesets", WATCH),
            right(MACHINE, "machinehealthchecks", WATCH),
            right(MACHINE, "machinedeployments", LIST),
            right(MACHINE, "controlplanemachinesets", LIST),
            right("machinist.dev", "poolledgers", WATCH),
            right("machinist.dev", "poolpolicies", WATCH),
            right("machinist.dev", "renderedprovenances", WATCH),
            right("machinist.dev", "clustersettings", LIST),
            right("operator.openshift.io", "machineconfigurations", LIST),
            right("operator.openshift.io", "imagecontentsourcepolicies", LIST),
            right(CONFIG, "apiservers", LIST),
            right(CONFIG, "nodes", LIST),
            right(CONFIG, "featuregates", LIST),
            right(CONFIG, "images", LIST),
            right(CONFIG, "imagedigestmirrorsets", LIST),
            right(CONFIG, "imagetagmirrorsets", LIST),
            right(CONFIG, "clusterimagepolicies", LIST),
            right(CONFIG, "imagepolicies", LIST),
        ],
        at_home: &[],
    },
    Role {
        name: "visitors",
        everywhere: &[
            right("authentication.k8s.io", "tokenreviews", &["create"]),
            right("authorization.k8s.io", "subjectaccessreviews", &["create"]),
        ],
        at_home: &[],
    },
];
