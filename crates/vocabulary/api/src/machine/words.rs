//! Condition types, phases and annotations of the machine kinds.

/// What `status.phase` of a Machine says.
pub mod phase {
    pub const PROVISIONING: &str = "Provisioning";
    pub const PROVISIONED: &str = "Provisioned";
    pub const RUNNING: &str = "Running";
    pub const DELETING: &str = "Deleting";
    pub const FAILED: &str = "Failed";
}

/// Condition types of Machines.
pub mod condition {
    pub const INSTANCE_EXISTS: &str = "InstanceExists";
    pub const DRAINABLE: &str = "Drainable";
    pub const DRAINED: &str = "Drained";
    pub const TERMINABLE: &str = "Terminable";
    /// Ours: false while the Machine cannot be acted on as it is written.
    pub const VALID: &str = "Valid";
    /// Ours: false while the instance could not be made.
    pub const INSTANCE_CREATED: &str = "InstanceCreated";
    /// Ours: false while the living instance could not be brought in line.
    pub const INSTANCE_UPDATED: &str = "InstanceUpdated";
    /// Ours: false while the instance could not be removed.
    pub const INSTANCE_DELETED: &str = "InstanceDeleted";
    /// Ours: false while another Machine claims the same instance, or several instances claim this Machine.
    pub const INSTANCE_UNIQUE: &str = "InstanceUnique";
    /// Ours: false while the node that the Machine had is gone.
    pub const NODE_EXISTS: &str = "NodeExists";
    /// Ours: false while an instance runs and its node has not joined; the reason says where it stopped.
    pub const NODE_JOINED: &str = "NodeJoined";
}

/// Condition types of MachineHealthChecks.
pub mod health_condition {
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    pub const EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE: &str = "ExternalRemediationTemplateAvailable";
    pub const EXTERNAL_REMEDIATION_REQUEST_AVAILABLE: &str = "ExternalRemediationRequestAvailable";
}

/// How grave a condition is that is false.
pub mod severity {
    pub const ERROR: &str = "Error";
    pub const WARNING: &str = "Warning";
    pub const INFO: &str = "Info";
}

/// Annotations of ours on machine kinds.
pub mod annotation {
    /// On a Machine: what was decided about its instance before the provider was asked, as JSON.
    pub const INSTANCE_INTENT: &str = "machinist.dev/instance-intent";
    /// On a Machine: how long a drain may take before it is given up, such as `30m`.
    pub const DRAIN_TIMEOUT: &str = "machinist.dev/drain-timeout";
    /// On a Machine: `true` or `false`, whether it looks like the template of its set.
    pub const MATCHES_TEMPLATE: &str = "machinist.dev/matches-template";
    /// On a Machine and on a MachineSet of a deployment: the hash of the template it was made from.
    pub const TEMPLATE_HASH: &str = "machinist.dev/template-hash";
    /// On a MachineSet: it makes no new machines, whatever its replicas say.
    pub const NO_NEW_MACHINES: &str = "machinist.dev/no-new-machines";
    /// On a MachineHealthCheck: how many of its machines, or which percentage, may be under remediation at once.
    pub const MAX_REMEDIATIONS: &str = "machinist.dev/max-remediations";
    /// On a MachineDeployment: `OnDelete` replaces machines only when somebody deletes them.
    pub const UPDATE_STRATEGY: &str = "machinist.dev/update-strategy";
    /// On a MachineHealthCheck and on the control plane's set: which process acts for it, since when, and about which
    /// machines.
    pub const CLAIM: &str = "machinist.dev/claim";
    /// On a Node: the labels, annotations and taints that came from its Machine, as JSON.
    pub const APPLIED_FROM_MACHINE: &str = "machinist.dev/applied-from-machine";
}
