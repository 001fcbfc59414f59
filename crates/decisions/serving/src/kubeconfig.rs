//! Writes the kubelet's first kubeconfig: enough to ask for a certificate, and no more.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// A kubeconfig for `token`, as JSON, which every reader of YAML reads.
pub fn kubeconfig(server: &str, ca: &[u8], token: &str) -> String {
    json!({
        "clusters": [{"name": "local", "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(ca)}}],
        "users": [{"name": "kubelet", "user": {"token": token}}],
        "contexts": [{"name": "kubelet", "context": {"cluster": "local", "user": "kubelet"}}],
        "current-context": "kubelet",
    })
    .to_string()
}
