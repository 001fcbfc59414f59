//! What can go wrong with a call, and what kind of trouble libvirt's words mean.
//!
//! `virsh` has one exit code for everything that fails, so its messages are all there is.

use std::path::PathBuf;
use std::time::Duration;

use machine::provider::{Error, ErrorKind};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// libvirt said no, in these words.
    #[error("{0}")]
    Refused(String),
    /// The program could not be run.
    #[error("cannot run {} ({reason}); install it beside the machine controllers (Debian: libvirt-clients)", path.display())]
    Program { path: PathBuf, reason: String },
    /// libvirt did not answer.
    #[error("libvirt did not answer for {} s", .0.as_secs())]
    Silent(Duration),
    /// The answer is not what the command prints.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

/// Words in libvirt's messages and what they mean. The first that occur decide.
const KINDS: &[(&[&str], ErrorKind)] = &[
    (
        &[
            "authentication failed",
            "access denied",
            "authentication required",
            "Permission denied",
            "Host key verification",
        ],
        ErrorKind::Credentials,
    ),
    (
        &[
            "failed to connect to the hypervisor",
            "Connection refused",
            "Connection reset",
            "Cannot recv data",
            "End of file while reading data",
            "client socket is closed",
            "Disconnected from",
            "is not active",
            "keepalive",
        ],
        ErrorKind::Unreachable,
    ),
    (
        &[
            "Not enough free space",
            "No space left on device",
            "Disk quota exceeded",
            "Cannot allocate memory",
            "cannot set up guest memory",
        ],
        ErrorKind::NoCapacity,
    ),
    (
        &[
            "not found",
            "failed to get domain",
            "failed to get pool",
            "failed to get vol",
            "failed to get network",
            "No such file",
        ],
        ErrorKind::NotFound,
    ),
    (&["XML error"], ErrorKind::InvalidSpec),
];

impl Fault {
    /// From what a failed command printed.
    pub(super) fn refused(stderr: &str) -> Self {
        let lines = stderr.lines().map(|line| line.strip_prefix("error: ").unwrap_or(line).trim());
        let mut lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        lines.dedup();
        let words = if lines.is_empty() { "virsh failed and said nothing".to_owned() } else { lines.join(": ") };
        Self::Refused(words)
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(words) => {
                let has = |known: &&(&[&str], ErrorKind)| known.0.iter().any(|word| words.contains(word));
                KINDS.iter().find(has).map_or(ErrorKind::Other, |(_, kind)| *kind)
            }
            Self::Program { .. } | Self::Silent(_) => ErrorKind::Unreachable,
            Self::Unreadable(_) => ErrorKind::Other,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// The pool is not there, which says nothing about its volumes: it may only be undefined for a while.
    pub(crate) fn is_pool_missing(&self) -> bool {
        self.says("failed to get pool")
    }

    /// Whether libvirt's words contain these.
    pub(crate) fn says(&self, words: &str) -> bool {
        matches!(self, Self::Refused(said) if said.contains(words))
    }

    /// There is a volume of that name already; drivers say so in different order.
    pub(crate) fn is_taken(&self) -> bool {
        self.says("already exists") || self.says("exists already")
    }

    /// The hypervisor has no such call.
    pub(crate) fn is_unsupported(&self) -> bool {
        self.says("not supported by the connection driver")
    }

    /// The error that a condition shows: what we were doing and libvirt's words.
    pub(crate) fn error(&self, doing: &str) -> Error {
        Error::new(self.kind(), format!("{doing}: {self}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text is what libvirt 9.0 printed.
    #[test]
    fn libvirts_words_become_kinds() {
        for (stderr, kind) in [
            (
                "error: failed to connect to the hypervisor\nerror: Failed to connect socket to '/x': No such file or directory",
                ErrorKind::Unreachable,
            ),
            (
                "error: failed to connect to the hypervisor\nerror: unable to connect to server at '127.0.0.1:1': Connection refused",
                ErrorKind::Unreachable,
            ),
            (
                "error: failed to connect to the hypervisor\nerror: authentication failed: authentication failed",
                ErrorKind::Credentials,
            ),
            (
                "error: Failed to create vol big\nerror: internal error: Not enough free space in pool for volume 'big'",
                ErrorKind::NoCapacity,
            ),
            (
                "error: failed to get vol 'base'\nerror: Storage volume not found: no storage vol with matching path 'base'",
                ErrorKind::NotFound,
            ),
            (
                "error: failed to get pool 'p'\nerror: Storage pool not found: no storage pool with matching name 'p'",
                ErrorKind::NotFound,
            ),
            (
                "error: failed to get network 'n'\nerror: Network not found: no network with matching name 'n'",
                ErrorKind::NotFound,
            ),
            (
                "error: Failed to define domain from /dev/stdin\nerror: XML error: Extra disks vda",
                ErrorKind::InvalidSpec,
            ),
            (
                "error: Failed to start domain 'm'\nerror: Requested operation is not valid: network 'n' is not active",
                ErrorKind::Unreachable,
            ),
            ("error: something new", ErrorKind::Other),
            ("", ErrorKind::Other),
        ] {
            assert_eq!(Fault::refused(stderr).kind(), kind, "{stderr}");
        }
    }

    #[test]
    fn a_missing_program_is_told_with_its_package() {
        let fault = Fault::Program { path: "virsh".into(), reason: "No such file or directory".to_owned() };
        assert_eq!(fault.kind(), ErrorKind::Unreachable);
        assert!(fault.to_string().contains("libvirt-clients"));
    }
}
