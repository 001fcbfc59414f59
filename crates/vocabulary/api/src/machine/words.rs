//! Condition types, phases and annotations of the machine kinds.

/// Values of a Machine's `status.phase`.
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
    /// Ours: false if the Machine's spec is invalid, so that nothing can be done.
    pub const VALID: &str = "Valid";
    /// Ours: false if creating the instance failed.
    pub const INSTANCE_CREATED: &str = "InstanceCreated";
    /// Ours: false if updating the existing instance failed.
    pub const INSTANCE_UPDATED: &str = "InstanceUpdated";
    /// Ours: false if deleting the instance failed.
    pub const INSTANCE_DELETED: &str = "InstanceDeleted";
    /// Ours: false if another Machine claims the same instance, or several instances claim this Machine.
    pub const INSTANCE_UNIQUE: &str = "InstanceUnique";
    /// Ours: false if another Machine has an address of the same node, so that the node is linked to neither.
    pub const NODE_UNIQUE: &str = "NodeUnique";
    /// Ours: false if the Machine had a node that no longer exists.
    pub const NODE_EXISTS: &str = "NodeExists";
    /// Ours: false if an instance runs and its node has not joined; the reason says where it stopped.
    pub const NODE_JOINED: &str = "NodeJoined";
}

/// Condition types of MachineHealthChecks.
pub mod health_condition {
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    pub const EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE: &str = "ExternalRemediationTemplateAvailable";
    pub const EXTERNAL_REMEDIATION_REQUEST_AVAILABLE: &str = "ExternalRemediationRequestAvailable";
}

/// Severities of a condition that is false.
pub mod severity {
    pub const ERROR: &str = "Error";
    pub const WARNING: &str = "Warning";
    pub const INFO: &str = "Info";
}

/// Our own annotations on machine kinds.
pub mod annotation {
    /// On a Machine: the decision about its instance, recorded as JSON before the provider is called.
    pub const INSTANCE_INTENT: &str = "machinist.dev/instance-intent";
    /// On a Machine: the maximum duration of a drain, such as `30m`.
    pub const DRAIN_TIMEOUT: &str = "machinist.dev/drain-timeout";
    /// On a Machine: `true` or `false`, whether it matches the template of its set, or of the
    /// deployment of its set.
    pub const MATCHES_TEMPLATE: &str = "machinist.dev/matches-template";
    /// On a Machine and on a MachineSet of a deployment: the hash of the template it was created from.
    pub const TEMPLATE_HASH: &str = "machinist.dev/template-hash";
    /// On a MachineSet: it creates no new machines, whatever its replicas are.
    pub const NO_NEW_MACHINES: &str = "machinist.dev/no-new-machines";
    /// On a MachineHealthCheck: how many of its machines, as a number or percentage, may be remediated at once.
    pub const MAX_REMEDIATIONS: &str = "machinist.dev/max-remediations";
    /// On a MachineDeployment: with `OnDelete`, machines are replaced only when they are deleted by hand.
    pub const UPDATE_STRATEGY: &str = "machinist.dev/update-strategy";
    /// On a MachineDeployment, whose status has no conditions: its conditions, as a list in JSON.
    pub const CONDITIONS: &str = "machinist.dev/conditions";
    /// On a MachineHealthCheck and on the ControlPlaneMachineSet: which process acts for it, since when, and on which
    /// machines.
    pub const CLAIM: &str = "machinist.dev/claim";
    /// On a Node: the labels, annotations and taints that were copied from its Machine, as JSON.
    pub const APPLIED_FROM_MACHINE: &str = "machinist.dev/applied-from-machine";
}
