//! Whose a virtual machine is, written on it.
//!
//! The mark is an entry of the machine's extra configuration, which its guest cannot read, and is part of the request that
//! clones it: there is no moment in which the machine exists without it. The instance UUID is the Machine's uid, as
//! upstream has it, so that machines of either controller are known to both.

use jiff::Timestamp;
use machine::provider::Mark;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The key of the mark.
pub(crate) const KEY: &str = "machinist.dev.machine";

/// What is written on a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) mark: Mark,
    pub(crate) stage: Stage,
    pub(crate) created: Option<Timestamp>,
}

/// How far the machine's creation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is cloned, and was not switched on yet.
    Making,
    /// It was switched on.
    Made,
}

impl Label {
    /// Neither names of Kubernetes nor uids and times have a semicolon.
    pub(crate) fn text(&self) -> String {
        let Self { mark: Mark { cluster, namespace, machine, uid }, stage, created } = self;
        let stage = match stage {
            Stage::Making => "making",
            Stage::Made => "made",
        };
        let created = created.map(|created| created.to_string()).unwrap_or_default();
        format!("cluster={cluster};namespace={namespace};name={machine};uid={uid};stage={stage};created={created}")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let part = |key: &str| {
            let mut parts = text.split(';').filter_map(|part| part.split_once('='));
            parts.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
        };
        let mark = Mark {
            cluster: part("cluster")?,
            namespace: part("namespace")?,
            machine: part("name")?,
            uid: part("uid").filter(|uid| !uid.is_empty())?,
        };
        let stage = if part("stage").as_deref() == Some("made") { Stage::Made } else { Stage::Making };
        Some(Self { mark, stage, created: part("created").and_then(|time| time.parse().ok()) })
    }
}

/// The Machine's uid, or a UUID that follows from it where it is something else.
pub(crate) fn instance_uuid(uid: &str) -> Uuid {
    uid.parse().unwrap_or_else(|_| {
        let digest = Sha256::digest(format!("machinist vsphere {uid}"));
        let mut bytes = [0_u8; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_reads_as_it_was_written() {
        let text = str::to_owned;
        let mark = Mark { cluster: text("c1"), namespace: text("n"), machine: text("m-1"), uid: text("u") };
        let label = Label { mark, stage: Stage::Made, created: Some(Timestamp::UNIX_EPOCH) };
        assert_eq!(Label::parse(&label.text()).as_ref(), Some(&label));
        let making = Label { stage: Stage::Making, created: None, ..label };
        assert_eq!(Label::parse(&making.text()), Some(making));
        for bad in ["", "cluster=c", "cluster=c;namespace=n;name=m;uid="] {
            assert_eq!(Label::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_instance_uuid_is_the_uid_where_that_is_one() {
        let uid = "5736bf56-49f5-4667-b38c-b97e09dc9578";
        assert_eq!(instance_uuid(uid).to_string(), uid);
        assert_eq!(instance_uuid("u"), instance_uuid("u"));
        assert_ne!(instance_uuid("u"), instance_uuid("v"));
    }
}
