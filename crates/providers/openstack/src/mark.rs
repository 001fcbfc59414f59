//! The mark on everything that is made for a Machine.
//!
//! Servers and volumes have metadata. Ports and trunks have none; their description holds the mark, because it is written in
//! the same request that makes them, while tags need another. Tags are for finding, the mark is the proof.

use std::collections::BTreeMap;

use machine::provider::Mark;
use sha2::{Digest, Sha256};

/// Nova accepts no slash in keys.
const CLUSTER: &str = "machinist.dev:cluster";
const NAMESPACE: &str = "machinist.dev:namespace";
const MACHINE: &str = "machinist.dev:machine";
const UID: &str = "machinist.dev:uid";
/// Limits of nova and neutron.
const LONGEST_TAG: usize = 60;
const LONGEST_DESCRIPTION: usize = 255;
const BEGIN: &str = "[machinist.dev ";

pub(crate) fn metadata(mark: &Mark) -> BTreeMap<String, String> {
    let Mark { cluster, namespace, machine, uid } = mark;
    let entries = [(CLUSTER, cluster), (NAMESPACE, namespace), (MACHINE, machine), (UID, uid)];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// The mark in metadata, if it is whole.
pub(crate) fn of_metadata(metadata: &BTreeMap<String, String>) -> Option<Mark> {
    let text = |key: &str| metadata.get(key).cloned();
    Some(Mark { cluster: text(CLUSTER)?, namespace: text(NAMESPACE)?, machine: text(MACHINE)?, uid: text(UID)? })
}

/// The tag that servers and ports of a cluster are listed by.
pub(crate) fn cluster_tag(cluster: &str) -> String {
    tag("machinist-cluster-", cluster)
}

/// The tag that servers and ports of a Machine are listed by.
pub(crate) fn uid_tag(uid: &str) -> String {
    tag("machinist-uid-", uid)
}

/// Text that is too long for a tag, or has letters that no tag may have, is hashed.
fn tag(prefix: &str, text: &str) -> String {
    if prefix.len() + text.len() <= LONGEST_TAG && text.is_ascii() && !text.contains([',', '/']) {
        return format!("{prefix}{text}");
    }
    let hash = hex::encode(Sha256::digest(text));
    format!("{prefix}{}", &hash[..32])
}

/// A description that ends with the mark. The user's part gives way first, then the end of the Machine's name: the uid decides.
pub(crate) fn describe(users: &str, mark: &Mark) -> String {
    let Mark { cluster, namespace, machine, uid } = mark;
    let begin = format!("{BEGIN}{uid} {cluster} {namespace} ");
    let room = LONGEST_DESCRIPTION.saturating_sub(begin.len() + 1);
    let machine: String = machine.chars().take(room).collect();
    let mark = format!("{begin}{machine}]");
    let room = LONGEST_DESCRIPTION.saturating_sub(mark.len() + 1);
    let users: String = users
        .chars()
        .scan(0, |bytes, letter| {
            *bytes += letter.len_utf8();
            (*bytes <= room).then_some(letter)
        })
        .collect();
    if users.is_empty() { mark } else { format!("{users} {mark}") }
}

/// The mark at the end of a description.
pub(crate) fn of_description(description: &str) -> Option<Mark> {
    let inner = description.rsplit_once(BEGIN)?.1.strip_suffix(']')?;
    let mut words = inner.split(' ').map(str::to_owned);
    let (uid, cluster, namespace, machine) = (words.next()?, words.next()?, words.next()?, words.next()?);
    words.next().is_none().then_some(Mark { cluster, namespace, machine, uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_mark(machine: &str) -> Mark {
        let [cluster, namespace, uid] = ["c1", "ns", "u-1"].map(str::to_owned);
        Mark { cluster, namespace, machine: machine.to_owned(), uid }
    }

    #[test]
    fn marks_are_read_back() {
        let mark = some_mark("m-1");
        assert_eq!(of_metadata(&metadata(&mark)), Some(mark.clone()));
        assert_eq!(describe("mine", &mark), "mine [machinist.dev u-1 c1 ns m-1]");
        assert_eq!(of_description(&describe("mine", &mark)), Some(mark.clone()));
        assert_eq!(of_description(&describe("", &mark)), Some(mark));
        for other in ["", "mine", "[machinist.dev u-1]", "[machinist.dev a b c d] x", "[machinist.dev a b c d e]"] {
            assert_eq!(of_description(other), None, "{other}");
        }
        assert_eq!(of_metadata(&BTreeMap::from([(UID.to_owned(), "u".to_owned())])), None);
    }

    #[test]
    fn long_texts_fit() {
        let mark = some_mark(&"m".repeat(253));
        let description = describe(&"é".repeat(100), &mark);
        assert!(description.len() <= LONGEST_DESCRIPTION);
        assert_eq!(of_description(&description).map(|mark| mark.uid).as_deref(), Some("u-1"));
        let cut = describe(&"é".repeat(200), &some_mark("m-1"));
        assert!(cut.len() <= LONGEST_DESCRIPTION && cut.len() > 250);
        assert_eq!(of_description(&cut), Some(some_mark("m-1")));
    }

    #[test]
    fn tags_fit_and_differ() {
        assert_eq!(
            uid_tag("0f6d1b9e-0000-4000-8000-000000000000"),
            "machinist-uid-0f6d1b9e-0000-4000-8000-000000000000"
        );
        let [one, other] = ["a/b", "a,b"].map(cluster_tag);
        assert!(one != other && one.len() <= LONGEST_TAG && !one.contains('/'));
        assert!(uid_tag(&"x".repeat(100)).len() <= LONGEST_TAG);
    }
}
