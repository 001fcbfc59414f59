//! The conditions of a MachineConfigNode, in upstream's words.

use api::names::{node_condition, status};

/// One condition as it shall be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    pub type_: &'static str,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

fn words(type_: &'static str, status: &'static str, reason: &'static str, message: String) -> Words {
    Words { type_, status, reason, message }
}

/// The host can take the update; what that will do to it.
pub fn prepared(actions: &[String], drain: bool) -> Words {
    let message = format!("Update Compatible. Post Cfg Actions: [{}] Drain Required: {drain}", actions.join(" "));
    words(node_condition::UPDATE_PREPARED, status::TRUE, "UpdatePrepared", message)
}

/// Files and OS are about to be written.
pub fn applying(to: &str) -> [Words; 2] {
    let message = format!("Updating the Files and OS on disk as a part of the in progress phase to {to}");
    [
        words(node_condition::UPDATE_EXECUTED, status::UNKNOWN, "AppliedFilesAndOS", message.clone()),
        words(node_condition::APPLIED_FILES_AND_OS, status::UNKNOWN, APPLIED, message),
    ]
}

/// Files and OS are written.
pub fn applied(to: &str) -> [Words; 2] {
    let message = format!("Applied new Files and OS to the node. The node is on {to}");
    [
        words(node_condition::APPLIED_FILES_AND_OS, status::TRUE, APPLIED, message.clone()),
        words(node_condition::UPDATE_EXECUTED, status::TRUE, "UpdateExecuted", message),
    ]
}

const APPLIED: &str = "UpdateExecutedAppliedFilesAndOS";

/// Services have picked the change up.
pub fn acted() -> Words {
    let type_ = node_condition::UPDATE_POST_ACTION_COMPLETE;
    words(type_, status::TRUE, type_, "Post-update actions are complete; no reboot is needed".to_owned())
}

/// The node is about to reboot.
pub fn reboots() -> Words {
    words(node_condition::REBOOTED_NODE, status::UNKNOWN, "RebootedNode", "Upgrade requires a reboot.".to_owned())
}

/// The node has rebooted.
pub fn rebooted() -> Words {
    words(node_condition::REBOOTED_NODE, status::TRUE, "RebootedNode", "Node has rebooted".to_owned())
}

/// The node runs the config that it should.
pub fn done(node: &str, current: &str) -> [Words; 3] {
    [
        words(node_condition::UPDATED, status::TRUE, "Updated", format!("Node {node} Updated")),
        words(
            node_condition::RESUMED,
            status::TRUE,
            "Resumed",
            format!("In desired config {current}. Resumed normal operations."),
        ),
        words(
            node_condition::NODE_DEGRADED,
            status::FALSE,
            "UpgradeSucceeded",
            format!("Node {node} upgrade succeeded"),
        ),
    ]
}

/// A move failed.
pub fn failed(node: &str, reason: &str) -> Words {
    let message = format!("Node {node} upgrade failure. {reason}");
    words(node_condition::NODE_DEGRADED, status::TRUE, "NodeDegraded", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_update_says_what_it_will_do() {
        let told = prepared(&["Reload(\"ssh.service\")".to_owned(), "DaemonReload".to_owned()], true);
        assert_eq!(
            told.message,
            "Update Compatible. Post Cfg Actions: [Reload(\"ssh.service\") DaemonReload] Drain Required: true"
        );
    }

    #[test]
    fn each_phase_of_an_update_ends_what_it_began() {
        let types = |words: &[Words]| {
            let mut types: Vec<&str> = words.iter().map(|words| words.type_).collect();
            types.sort_unstable();
            types
        };
        assert_eq!(types(&applying("b")), types(&applied("b")));
        assert_eq!(reboots().type_, rebooted().type_);
    }
}
