//! Decides how a node comes to hold the images of its PinnedImageSets: what to pull next, what to pin, and why it cannot.
//!
//! Images are pulled first and pinned once all are there, so that a node never keeps half of a set for nothing. The daemon
//! fetches the sets, asks the runtime and carries out the answer.

use std::collections::BTreeSet;

use crate::host::{HostImage, RuntimeVersion, Space};

/// CRI-O's drop-in with the images that it keeps. No MachineConfig owns it.
pub const DROPIN: &str = "/etc/crio/crio.conf.d/50-pinned-images";

/// The unit that reads the drop-in.
pub const CRIO: &str = "crio.service";

/// The kubelet begins to remove images when this much of their disk is used, in percent, unless it is told otherwise.
const USED_AT_MOST: u64 = 85;

/// What an image is taken to need while nothing is known of any: most are smaller.
const UNKNOWN_SIZE: u64 = 512 * 1024 * 1024;

/// A PinnedImageSet as the controller named it and as the API has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    /// The generation of its spec; 0 while it is not known.
    pub generation: i64,
    /// Its images, or why they are not known.
    pub images: Result<Vec<String>, String>,
}

/// What is known when the next step is decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation<'a> {
    pub sets: &'a [Set],
    pub runtime: &'a RuntimeVersion,
    pub present: &'a [HostImage],
    pub space: Space,
    /// The images that this daemon has pinned before.
    pub pinned: &'a BTreeSet<String>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Pull an image; so many of so many are there.
    Pull { image: String, done: usize, of: usize },
    /// Pin exactly these.
    Pin(BTreeSet<String>),
    /// Everything is there and pinned.
    Rest,
    /// It cannot be done now; the sentence says why and what would help.
    Stuck(String),
}

/// Decides the next step.
pub fn next(situation: &Situation<'_>) -> Step {
    let Situation { sets, runtime, present, space, pinned } = situation;
    if let Some((set, why)) = sets.iter().find_map(|set| Some((set, set.images.as_ref().err()?))) {
        return Step::Stuck(format!("PinnedImageSet {} cannot be read: {why}", set.name));
    }
    let wanted: BTreeSet<String> = sets.iter().filter_map(|set| set.images.as_ref().ok()).flatten().cloned().collect();
    if wanted.is_empty() {
        return if pinned.is_empty() { Step::Rest } else { Step::Pin(wanted) };
    }
    if let Some(why) = too_old(runtime) {
        return Step::Stuck(why);
    }
    let missing: Vec<&String> = wanted.iter().filter(|image| find(present, image).is_none()).collect();
    let Some(first) = missing.first() else {
        let is_kept = |image: &String| pinned.contains(image) && find(present, image).is_some_and(|found| found.pinned);
        let all_kept = *pinned == &wanted && wanted.iter().all(is_kept);
        return if all_kept { Step::Rest } else { Step::Pin(wanted) };
    };
    if let Some(why) = lacks_space(&wanted, missing.len(), present, *space) {
        return Step::Stuck(why);
    }
    Step::Pull { image: (*first).clone(), done: wanted.len() - missing.len(), of: wanted.len() }
}

/// The text of [`DROPIN`].
pub fn dropin(images: &BTreeSet<String>) -> String {
    let lines: Vec<String> = images.iter().map(|image| format!("    {},\n", serde_json::json!(image))).collect();
    format!("[crio.image]\npinned_images = [\n{}]\n", lines.concat())
}

fn find<'a>(present: &'a [HostImage], image: &str) -> Option<&'a HostImage> {
    present.iter().find(|found| found.names.iter().any(|name| name == image))
}

/// Why a runtime cannot keep images.
fn too_old(runtime: &RuntimeVersion) -> Option<String> {
    let since = match runtime.name.as_str() {
        "cri-o" => (1, 28),
        "containerd" => (1, 7),
        other => {
            return Some(format!(
                "the container runtime {other} cannot pin images; CRI-O 1.28, containerd 1.7 and later can"
            ));
        }
    };
    let found = version(&runtime.version)?;
    (found < since).then(|| {
        format!(
            "{} {} cannot pin images; update it to {}.{} or later, or remove the pool's spec.pinnedImageSets",
            runtime.name, runtime.version, since.0, since.1
        )
    })
}

/// Major and minor version. One that is not understood, as of a build from source, is not refused.
fn version(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.trim_start_matches('v').split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Why the disk would not hold what is missing. Sizes are not known before images are pulled, so those that are there
/// stand for the others.
fn lacks_space(wanted: &BTreeSet<String>, missing: usize, present: &[HostImage], space: Space) -> Option<String> {
    let known: Vec<u64> = wanted.iter().filter_map(|image| find(present, image)).map(|found| found.size).collect();
    let count = u64::try_from(known.len()).unwrap_or(u64::MAX);
    let mean = known.iter().sum::<u64>().checked_div(count).unwrap_or(UNKNOWN_SIZE);
    // An image is on the disk twice while it is unpacked: compressed, and as it is used.
    let needed = mean.saturating_mul(u64::try_from(missing).unwrap_or(u64::MAX)).saturating_add(mean);
    let reserve = space.total / 100 * (100 - USED_AT_MOST);
    let usable = space.free.saturating_sub(reserve);
    (needed > usable).then(|| {
        format!(
            "the disk would not hold the pinned images: {missing} of {} are missing and need about {}, and {} of {} can be \
             used before the kubelet removes images; enlarge the disk, or pin fewer images",
            wanted.len(),
            size(needed),
            size(usable),
            size(space.total)
        )
    })
}

fn size(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    if bytes >= 10 * 1024 * MIB { format!("{} GiB", bytes / (1024 * MIB)) } else { format!("{} MiB", bytes / MIB) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const GIB: u64 = 1 << 30;

    fn set(images: &[&str]) -> Set {
        let images = images.iter().map(|image| (*image).to_owned()).collect();
        Set { name: "base".into(), generation: 1, images: Ok(images) }
    }

    fn image(name: &str, pinned: bool) -> HostImage {
        HostImage { names: vec![name.to_owned()], size: GIB, pinned }
    }

    /// Decides on a disk of 100 GiB with CRI-O 1.31.
    fn decide(sets: &[Set], present: &[HostImage], pinned: &[&str], free: u64) -> Step {
        let runtime = RuntimeVersion { name: "cri-o".into(), version: "1.31.2".into() };
        let pinned = pinned.iter().map(|name| (*name).to_owned()).collect();
        let space = Space { total: 100 * GIB, free };
        next(&Situation { sets, runtime: &runtime, present, space, pinned: &pinned })
    }

    #[test]
    fn images_are_pulled_one_after_the_other_then_pinned_together_then_left_alone() {
        let sets = [set(&["a@1", "b@1"]), set(&["b@1", "c@1"])];
        let free = 80 * GIB;
        assert_eq!(decide(&sets, &[], &[], free), Step::Pull { image: "a@1".into(), done: 0, of: 3 });
        let two = [image("a@1", false), image("c@1", false)];
        assert_eq!(decide(&sets, &two, &[], free), Step::Pull { image: "b@1".into(), done: 2, of: 3 });
        let all = ["a@1", "b@1", "c@1"];
        let present = all.map(|name| image(name, false));
        assert_eq!(decide(&sets, &present, &[], free), Step::Pin(all.map(str::to_owned).into()));
        let present = all.map(|name| image(name, true));
        assert_eq!(decide(&sets, &present, &all, free), Step::Rest);
        // What a set lost is let go, also when it was the last.
        assert_eq!(decide(&[set(&["a@1"])], &present, &all, free), Step::Pin(["a@1".to_owned()].into()));
        assert_eq!(decide(&[], &present, &all, free), Step::Pin(BTreeSet::new()));
        assert_eq!(decide(&[], &present, &[], free), Step::Rest);
        // Somebody took a pin off.
        let present = [image("a@1", true), image("b@1", false), image("c@1", true)];
        assert_eq!(decide(&sets, &present, &all, free), Step::Pin(all.map(str::to_owned).into()));
    }

    #[test]
    fn a_disk_that_would_not_hold_them_is_told_before_anything_is_pulled() {
        let sets = [set(&["a@1", "b@1", "c@1"])];
        let Step::Stuck(why) = decide(&sets, &[image("a@1", false)], &[], 17 * GIB) else { panic!("it was tried") };
        assert!(why.contains("2 of 3 are missing and need about 3072 MiB, and 2048 MiB of 100 GiB"), "{why}");
        // The edge: two images and the room to unpack one of them.
        let present = [image("a@1", false)];
        assert!(matches!(decide(&sets, &present, &[], 18 * GIB), Step::Pull { .. }));
        assert!(matches!(decide(&sets, &present, &[], 18 * GIB - 1), Step::Stuck(_)));
        // What is there already needs no room.
        let all = ["a@1", "b@1", "c@1"].map(|name| image(name, true));
        assert_eq!(decide(&sets, &all, &["a@1", "b@1", "c@1"], 0), Step::Rest);
    }

    #[test]
    fn runtimes_that_cannot_pin_are_told_at_their_edges() {
        let refused = |name: &str, version: &str| {
            too_old(&RuntimeVersion { name: name.into(), version: version.into() }).is_some()
        };
        assert!(refused("cri-o", "1.27.9") && !refused("cri-o", "1.28.0"));
        assert!(
            refused("containerd", "v1.6.33") && !refused("containerd", "v1.7.0") && !refused("containerd", "2.1.0")
        );
        assert!(refused("docker", "28.0.0"));
        assert!(!refused("cri-o", "unknown"), "a version that is not understood is not refused");
    }

    #[test]
    fn a_set_that_cannot_be_read_keeps_what_is_pinned() {
        let unread = Set { name: "gone".into(), generation: 0, images: Err("it does not exist".into()) };
        let step = decide(&[set(&["a@1"]), unread], &[image("a@1", true)], &["a@1"], GIB);
        assert_eq!(step, Step::Stuck("PinnedImageSet gone cannot be read: it does not exist".into()));
    }

    #[test]
    fn the_drop_in_names_every_image() {
        let images = ["r.io/a@sha256:1".to_owned(), "r.io/b@sha256:2".to_owned()].into();
        let text = "[crio.image]\npinned_images = [\n    \"r.io/a@sha256:1\",\n    \"r.io/b@sha256:2\",\n]\n";
        assert_eq!(dropin(&images), text);
    }
}
