//! What the pods of an installation may do to the nodes they run on.

use super::stage::{NAMESPACE, Stage};

/// The API server itself says which pods the strictest level would refuse.
pub(super) fn every_pod_but_the_daemons_and_the_servers_is_restricted(stage: &Stage) {
    let level = "pod-security.kubernetes.io/enforce=restricted";
    let output =
        stage.cluster.try_kubectl(&["label", "--dry-run=server", "--overwrite", "namespace", NAMESPACE, level], None);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let warned = said
        .lines()
        .filter_map(|line| line.strip_prefix("Warning: "))
        .filter(|line| !line.starts_with("existing pods in"));
    let (expected, others): (Vec<&str>, Vec<&str>) = warned.partition(|line| {
        ["machine-config-daemon-", "machine-config-server-"].iter().any(|name| line.starts_with(name))
    });
    assert!(!expected.is_empty(), "the daemon owns its host: {said}");
    assert!(others.is_empty(), "{others:?}");
}
