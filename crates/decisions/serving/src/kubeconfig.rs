//! Writes the kubelet's bootstrap kubeconfig, which suffices to request a certificate and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// Returns a kubeconfig with `token`. It is JSON, which is valid YAML.
pub fn kubeconfig(server: &str, ca: &[u8], token: &str) -> String {
    json!({
        "clusters": [{"name": "local", "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(ca)}}],
        "users": [{"name": "kubelet", "user": {"token": token}}],
        "contexts": [{"name": "kubelet", "context": {"cluster": "local", "user": "kubelet"}}],
        "current-context": "kubelet",
    })
    .to_string()
}
