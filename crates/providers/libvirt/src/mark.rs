//! The mark of a Machine on its domain, and the names that follow from the mark.
//!
//! libvirt keeps metadata on domains only. A domain is therefore defined before anything else is made and undefined after
//! everything else is gone, and its label lists what belongs to it: nothing of a Machine is ever without a mark.

use jiff::Timestamp;
use machine::provider::Mark;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::xml::Element;

/// The XML namespace of our metadata.
pub(crate) const NAMESPACE: &str = "https://machinist.dev/libvirt";
/// The prefix that stands for it in documents.
pub(crate) const PREFIX: &str = "machinist";

const ELEMENT: &str = "machinist:machine";

/// File names end at 255 bytes; the rest is for what we append.
const LONGEST_NAME: usize = 200;

/// The names of what belongs to a Machine. They depend on nothing but its name and uid, so they are found again without a
/// record and whatever becomes of its labels, and a Machine made anew under an old name gets others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) uuid: Uuid,
    pub(crate) mac: String,
    /// The volume with the disk.
    pub(crate) disk: String,
    /// The volume that is read at the first boot.
    pub(crate) boot: String,
}

impl Names {
    pub(crate) fn of(mark: &Mark) -> Self {
        let Mark { machine, uid, .. } = mark;
        let digest: [u8; 32] = Sha256::digest(format!("{machine}\n{uid}")).into();
        let [a, b, c, d, ..] = digest;
        let bytes: [u8; 16] = std::array::from_fn(|index| digest[8 + index]);
        let stem: String = machine.chars().take(LONGEST_NAME).collect();
        let suffix = hex::encode([a, b, c, d]);
        Self {
            uuid: uuid::Builder::from_custom_bytes(bytes).into_uuid(),
            // The range that qemu's addresses come from.
            mac: format!("52:54:00:{:02x}:{:02x}:{:02x}", digest[4], digest[5], digest[6]),
            disk: format!("{stem}.{suffix}.qcow2"),
            boot: format!("{stem}.{suffix}.boot"),
        }
    }
}

/// What is written on a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) mark: Mark,
    pub(crate) stage: Stage,
    pub(crate) created: Option<Timestamp>,
    pub(crate) pool: String,
    /// Volumes in the pool that go with the domain.
    pub(crate) volumes: Vec<String>,
}

/// How far the domain's creation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is defined, and what it needs is being made.
    Making,
    /// It was started.
    Made,
}

impl Label {
    /// As part of a domain's definition.
    pub(crate) fn element(&self) -> Element {
        self.fill(Element::new(ELEMENT).with("xmlns:machinist", NAMESPACE))
    }

    /// As `virsh metadata` takes it, which adds the namespace itself.
    pub(crate) fn bare(&self) -> Element {
        self.fill(Element::new("machine"))
    }

    fn fill(&self, element: Element) -> Element {
        let Self { mark: Mark { cluster, namespace, machine, uid }, stage, created, pool, volumes } = self;
        let stage = match stage {
            Stage::Making => "making",
            Stage::Made => "made",
        };
        let volumes = volumes.iter().map(|volume| Element::new("volume").saying(volume));
        let element = element.with("cluster", cluster).with("namespace", namespace).with("name", machine);
        let element = element.with("uid", uid).with("stage", stage).with("pool", pool);
        let element = match created {
            Some(created) => element.with("created", created),
            None => element,
        };
        element.holding_all(volumes)
    }

    /// The label of a domain, if it is one of ours.
    pub(crate) fn of(domain: &Element) -> Option<Self> {
        let element = domain.at(&["metadata", ELEMENT])?;
        if element.attribute("xmlns:machinist") != Some(NAMESPACE) {
            return None;
        }
        let text = |name| element.attribute(name).map(str::to_owned);
        // `virsh metadata` gives the prefix to the outermost element only, or to all.
        let volumes = element.all("volume").chain(element.all("machinist:volume"));
        Some(Self {
            mark: Mark {
                cluster: text("cluster")?,
                namespace: text("namespace")?,
                machine: text("name")?,
                uid: text("uid")?,
            },
            stage: if element.attribute("stage") == Some("made") { Stage::Made } else { Stage::Making },
            created: element.attribute("created").and_then(|text| text.parse().ok()),
            pool: text("pool").unwrap_or_default(),
            volumes: volumes.map(|volume| volume.text().to_owned()).filter(|volume| !volume.is_empty()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(uid: &str) -> Mark {
        let text = str::to_owned;
        Mark { cluster: text("c1"), namespace: text("n"), machine: text("m-1"), uid: text(uid) }
    }

    #[test]
    fn a_machine_made_anew_under_an_old_name_has_other_names() {
        let (one, again, other) = (Names::of(&mark("u1")), Names::of(&mark("u1")), Names::of(&mark("u2")));
        assert_eq!(one, again);
        assert!(one.uuid != other.uuid && one.mac != other.mac && one.disk != other.disk && one.boot != other.boot);
        assert!(one.disk.starts_with("m-1.") && one.mac.starts_with("52:54:00:"));
        let long = Names::of(&Mark { machine: "m".repeat(253), ..mark("u1") });
        assert!(long.disk.len() < 255);
    }

    #[test]
    fn a_label_reads_as_it_was_written() {
        let volumes = vec!["a <b>.qcow2".to_owned(), "b".to_owned()];
        let (created, pool) = (Some(Timestamp::UNIX_EPOCH), "p & q".to_owned());
        let label = Label { mark: mark("u1"), stage: Stage::Making, created, pool, volumes };
        let domain = |label: Element| Element::new("domain").holding(Element::new("metadata").holding(label)).render();
        let read = Label::of(&Element::parse(&domain(label.element())).unwrap());
        assert_eq!(read.as_ref(), Some(&label));
        assert_eq!(Label::of(&Element::parse(&domain(label.bare())).unwrap()), None, "without our namespace");
        assert_eq!(Label::of(&Element::new("domain")), None);
    }
}
