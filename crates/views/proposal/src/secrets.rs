//! Decides what of a config is nobody's business, and what is shown in its place.
//!
//! A file that not everybody on the node may read is masked whole, and so is one whose path or structure is known for
//! credentials. Of every other text the values that look secret are masked ([`redact`]), wherever it stands: files, units,
//! kernel arguments. Where it is not clear whether something is secret it is masked.

mod assignment;
mod redact;

use std::borrow::Cow;

pub use redact::redact;

/// Whether secrets are printed as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    Masked,
    Shown,
}

/// Where clusters keep credentials.
const PATHS: [&str; 6] = [
    "/var/lib/kubelet/config.json",
    "/etc/kubernetes/kubeconfig",
    "/var/lib/kubelet/kubeconfig",
    "/root/.docker/config.json",
    "/etc/shadow",
    "/etc/gshadow",
];

/// How names of files with nothing but credentials end.
const ENDS: [&str; 14] = [
    ".key",
    ".keys",
    "-key.pem",
    "/key.pem",
    ".keytab",
    ".p12",
    ".pfx",
    ".jks",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".dockercfg",
    ".dockerconfigjson",
    "htpasswd",
];

impl Secrets {
    /// Whether nothing of a file may be printed.
    #[must_use]
    pub fn covers_file(self, path: &str, mode: u32, contents: &[u8]) -> bool {
        self == Secrets::Masked && !contents.is_empty() && is_secret_file(path, mode, contents)
    }

    /// Whether there is anything in a file that must not be printed.
    #[must_use]
    pub fn hides_file(self, path: &str, mode: u32, contents: &[u8]) -> bool {
        self.covers_file(path, mode, contents) || std::str::from_utf8(contents).is_ok_and(|text| self.hides_text(text))
    }

    /// Whether there is anything in a text outside a file, such as a unit's, that must not be printed.
    #[must_use]
    pub fn hides_text(self, text: &str) -> bool {
        matches!(self.text(text), Cow::Owned(_))
    }

    /// A text as it may be printed.
    #[must_use]
    pub fn text(self, text: &str) -> Cow<'_, str> {
        if self == Secrets::Shown { Cow::Borrowed(text) } else { redact(text) }
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
    let is_public = mode & 0o004 != 0;
    let lower = path.to_ascii_lowercase();
    !is_public
        || PATHS.contains(&path)
        || ENDS.iter().any(|end| lower.ends_with(end))
        || std::str::from_utf8(contents).is_ok_and(is_secret_whole)
}

/// Texts that are credentials from the first line to the last: a private key, a kubeconfig with a client's key or token, a
/// Secret, logins of registries.
fn is_secret_whole(text: &str) -> bool {
    let has = |needle: &str| text.contains(needle);
    let is_key = text.trim_start().lines().next().is_some_and(|line| line.contains("PRIVATE KEY"));
    let is_secret = text.lines().any(|line| {
        let line: String = line.chars().filter(|letter| !letter.is_whitespace() && *letter != '"').collect();
        line == "kind:Secret" || line.contains("kind:Secret,") || line.contains("kind:Secret}")
    });
    let is_login = has("\"auths\"") && has("\"auth\"");
    is_key
        || is_secret
        || is_login
        || has("client-key-data")
        || text.lines().any(|it| it.trim_start().starts_with("token:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_recognised_by_path_mode_and_contents() {
        for (path, mode, contents, secret) in [
            ("/var/lib/kubelet/config.json", 0o644, "{}", true),
            ("/etc/motd", 0o600, "x", true),
            ("/etc/chrony.keys", 0o640, "1 SHA256 HEX:00", true),
            ("/etc/motd", 0o640, "x", true),
            ("/etc/motd", 0o711, "x", true),
            ("/etc/chrony.keys", 0o644, "1 SHA256 HEX:00", true),
            ("/etc/motd", 0o644, "hello", false),
            ("/etc/motd", 0o755, "hello", false),
            ("/etc/tls/key.pem", 0o644, "-----BEGIN EC PRIVATE KEY-----\n", true),
            ("/etc/tls/any", 0o644, "-----BEGIN EC PRIVATE KEY-----\n", true),
            ("/etc/pull.json", 0o644, r#"{"auths":{"quay.io":{"auth":"eA=="}}}"#, true),
            ("/etc/kube.json", 0o644, r#"{"users":[{"user":{"client-key-data":"eA=="}}]}"#, true),
            ("/etc/kube.json", 0o644, r#"{"users":[{"user":{"token":"eA=="}}]}"#, true),
            ("/etc/kube.yaml", 0o644, "users:\n- user:\n    password: eA\n", true),
            ("/etc/manifest.json", 0o644, r#"{"kind": "Secret", "data": {"a": "eA=="}}"#, true),
            ("/etc/kubelet.conf", 0o644, "authentication:\n  anonymous:\n    enabled: false\n", false),
            ("/etc/empty", 0o600, "", false),
        ] {
            assert_eq!(Secrets::Masked.hides_file(path, mode, contents.as_bytes()), secret, "{path} {contents}");
            assert!(!Secrets::Shown.hides_file(path, mode, contents.as_bytes()));
        }
    }
}
