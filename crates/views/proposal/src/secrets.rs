//! Decides what of a config is nobody's business, and what is shown in its place.
//!
//! A file is secret when only root may read it, when its path is known for credentials, or when its contents are a
//! private key, a kubeconfig or registry credentials. Password hashes are secret wherever they stand.

/// Whether secrets are printed as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    Masked,
    Shown,
}

/// Where clusters keep credentials.
const PATHS: [&str; 4] = [
    "/var/lib/kubelet/config.json",
    "/etc/kubernetes/kubeconfig",
    "/var/lib/kubelet/kubeconfig",
    "/root/.docker/config.json",
];

impl Secrets {
    /// Whether a file's contents must not be printed.
    #[must_use]
    pub fn hides_file(self, path: &str, mode: u32, contents: &[u8]) -> bool {
        self == Secrets::Masked && is_secret_file(path, mode, contents)
    }

    /// Whether a text outside a file, such as a unit's, must not be printed.
    #[must_use]
    pub fn hides_text(self, text: &str) -> bool {
        self == Secrets::Masked && is_secret_text(text)
    }

    /// A password hash, or what is shown for it.
    #[must_use]
    pub fn password(self, hash: &str) -> &str {
        if self == Secrets::Shown { hash } else { "<masked>" }
    }
}

/// What is shown in place of contents.
#[must_use]
pub fn mask(contents: &[u8]) -> String {
    format!("<masked, {} bytes>", contents.len())
}

fn is_secret_file(path: &str, mode: u32, contents: &[u8]) -> bool {
    let only_root = mode & 0o044 == 0;
    if contents.is_empty() {
        return false;
    }
    only_root || PATHS.contains(&path) || std::str::from_utf8(contents).is_ok_and(is_secret_text)
}

fn is_secret_text(text: &str) -> bool {
    let has = |needle: &str| text.contains(needle);
    has("PRIVATE KEY-----")
        || has("client-key-data:")
        || (has("\"auths\"") && has("\"auth\""))
        || text.lines().any(|line| line.trim_start().starts_with("token:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_recognised_by_path_mode_and_contents() {
        for (path, mode, contents, secret) in [
            ("/var/lib/kubelet/config.json", 0o644, "{}", true),
            ("/etc/motd", 0o600, "x", true),
            ("/etc/motd", 0o644, "hello", false),
            ("/etc/tls/key.pem", 0o644, "-----BEGIN EC PRIVATE KEY-----\n", true),
            ("/etc/pull.json", 0o644, r#"{"auths":{"quay.io":{"auth":"eA=="}}}"#, true),
            ("/etc/empty", 0o600, "", false),
        ] {
            assert_eq!(Secrets::Masked.hides_file(path, mode, contents.as_bytes()), secret, "{path} {contents}");
            assert!(!Secrets::Shown.hides_file(path, mode, contents.as_bytes()));
        }
    }
}
