//! A kubeconfig with everything inside it, so that it works from any folder.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::auth::certificates::Identity;

#[derive(Debug, Clone)]
pub(crate) struct Kubeconfig {
    pub server: String,
    /// PEM.
    pub authority: String,
    pub identity: Identity,
}

impl Kubeconfig {
    pub(crate) fn yaml(&self) -> String {
        let Self { server, authority, identity } = self;
        let encode = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: machinist\nclusters:\n- name: machinist\n  cluster:\n    server: {server}\n    certificate-authority-data: {}\nusers:\n- name: admin\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\ncontexts:\n- name: machinist\n  context:\n    cluster: machinist\n    user: admin\n",
            encode(authority),
            encode(&identity.certificate),
            encode(&identity.key),
        )
    }
}
