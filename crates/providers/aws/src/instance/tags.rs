//! The tags that say whose an instance is.

use std::collections::HashSet;

use machine::provider::Mark;

use crate::Settings;
use crate::client::Params;
use crate::ec2::wire::{self, Items};
use crate::spec::{AwsSpec, Tag};

/// Shown in AWS's console; upstream finds instances by it.
pub(super) const NAME: &str = "Name";
/// Namespace and name of the Machine.
pub(super) const MACHINE: &str = "machinist.dev/machine";
/// The Machine's uid, which tells it from a later one of the same name.
pub(super) const UID: &str = "machinist.dev/uid";
const OURS: &str = "machinist.dev/";
const CLUSTER: &str = "kubernetes.io/cluster/";
/// The value of the cluster tag on what goes with the cluster.
pub(super) const OWNED: &str = "owned";

pub(super) fn cluster(cluster: &str) -> String {
    format!("{CLUSTER}{cluster}")
}

/// The tags of a machine's instance and volumes.
pub(super) fn wanted(spec: &AwsSpec, mark: &Mark, settings: &Settings) -> Vec<(String, String)> {
    with_mark(spec.tags.iter().chain(&settings.resource_tags), mark)
}

/// Tags of users, of which the first of a name counts and none may claim the instance, followed by the mark.
pub(super) fn with_mark<'a>(tags: impl IntoIterator<Item = &'a Tag>, mark: &Mark) -> Vec<(String, String)> {
    let Mark { cluster: id, namespace, machine, uid } = mark;
    let mut names = HashSet::new();
    let reserved = |name: &str| name == NAME || name.starts_with(CLUSTER) || name.starts_with(OURS);
    let users = tags.into_iter().filter(|tag| !reserved(&tag.name) && names.insert(tag.name.clone()));
    let mut tags: Vec<_> = users.map(|tag| (tag.name.clone(), tag.value.clone())).collect();
    tags.push((cluster(id), OWNED.to_owned()));
    tags.push((NAME.to_owned(), machine.clone()));
    tags.push((MACHINE.to_owned(), format!("{namespace}/{machine}")));
    tags.push((UID.to_owned(), uid.clone()));
    tags
}

/// The mark on something, if it carries one of ours for this cluster.
pub(super) fn mark(tags: &Items<wire::Tag>, cluster_id: &str) -> Option<Mark> {
    let (namespace, machine) = wire::find(tags, MACHINE)?.split_once('/')?;
    let uid = wire::find(tags, UID)?;
    (wire::find(tags, &cluster(cluster_id)) == Some(OWNED)).then(|| Mark {
        cluster: cluster_id.to_owned(),
        namespace: namespace.to_owned(),
        machine: machine.to_owned(),
        uid: uid.to_owned(),
    })
}

/// Those that are not there, or have another value. Nothing is ever taken away.
pub(super) fn missing(present: &Items<wire::Tag>, wanted: &[(String, String)]) -> Vec<(String, String)> {
    wanted.iter().filter(|(key, value)| wire::find(present, key) != Some(value)).cloned().collect()
}

pub(super) fn add(present: &mut Items<wire::Tag>, tags: &[(String, String)]) {
    for (key, value) in tags {
        present.item.retain(|tag| tag.key != *key);
        present.item.push(wire::Tag { key: key.clone(), value: value.clone() });
    }
}

/// `TagSpecification.1.ResourceType` and so on.
pub(super) fn specify(params: &mut Params, resources: &[&str], tags: &[(String, String)]) {
    for (index, resource) in resources.iter().enumerate() {
        let prefix = format!("TagSpecification.{}", index + 1);
        params.push(format!("{prefix}.ResourceType"), resource);
        for (index, (key, value)) in tags.iter().enumerate() {
            params.push(format!("{prefix}.Tag.{}.Key", index + 1), key);
            params.push(format!("{prefix}.Tag.{}.Value", index + 1), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_mark() -> Mark {
        let [cluster, namespace, machine, uid] = ["c1", "ns", "m-1", "u-1"].map(str::to_owned);
        Mark { cluster, namespace, machine, uid }
    }

    fn tag(name: &str, value: &str) -> Tag {
        Tag { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn the_machine_s_tags_come_before_the_cluster_s_and_none_takes_the_place_of_the_mark() {
        let tags = [tag("a", "1"), tag("a", "2"), tag("Name", "x"), tag("kubernetes.io/cluster/c2", "owned")];
        let spec = AwsSpec { tags: tags.to_vec(), ..AwsSpec::default() };
        let settings =
            Settings { resource_tags: vec![tag("a", "3"), tag("b", "4"), tag(UID, "x")], ..Settings::default() };
        let wanted = wanted(&spec, &some_mark(), &settings);
        let expected = [
            ("a", "1"),
            ("b", "4"),
            ("kubernetes.io/cluster/c1", "owned"),
            ("Name", "m-1"),
            ("machinist.dev/machine", "ns/m-1"),
            ("machinist.dev/uid", "u-1"),
        ];
        assert_eq!(wanted, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_mark_is_read_back_and_only_for_its_own_cluster() {
        let mut tags = Items::default();
        let wanted = with_mark(&[], &some_mark());
        assert_eq!(missing(&tags, &wanted).len(), 4);
        add(&mut tags, &wanted);
        assert!(missing(&tags, &wanted).is_empty());
        assert_eq!(mark(&tags, "c1"), Some(some_mark()));
        assert_eq!(mark(&tags, "c2"), None);
    }

    #[test]
    fn a_tag_with_another_value_is_written_again() {
        let mut tags = Items::default();
        add(&mut tags, &[("a".to_owned(), "1".to_owned())]);
        let wanted = [("a".to_owned(), "2".to_owned())];
        assert_eq!(missing(&tags, &wanted), wanted);
    }
}
