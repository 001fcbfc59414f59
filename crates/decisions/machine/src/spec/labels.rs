//! Labels of a Machine that say which cluster it belongs to and what it is for.

use std::collections::BTreeMap;

use api::labels::{MACHINE_CLUSTER, MACHINE_ROLE, MACHINE_TYPE};

/// Values of the role and type labels that mean the control plane; OpenShift's installer writes the older word.
const CONTROL_PLANE: [&str; 1] = ["master"];

/// Names the cluster on a Machine that does not name one.
///
/// A label that is there stays, even when it is empty or names another cluster: changing it would orphan the instance, and
/// the Machine's set would make another one.
pub fn default_cluster(labels: &mut BTreeMap<String, String>, cluster: &str) {
    labels.entry(MACHINE_CLUSTER.to_owned()).or_insert_with(|| cluster.to_owned());
}

/// Whether a Machine is part of the control plane.
#[must_use]
pub fn is_control_plane(labels: &BTreeMap<String, String>) -> bool {
    let means = |key| labels.get(key).is_some_and(|value| CONTROL_PLANE.contains(&value.as_str()));
    means(MACHINE_ROLE) || means(MACHINE_TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_cluster_label_is_filled_in_only_where_it_is_absent() {
        for (given, expected) in
            [(vec![], "c1"), (vec![(MACHINE_CLUSTER, "mine")], "mine"), (vec![(MACHINE_CLUSTER, "")], "")]
        {
            let mut labels = labels(&given);
            default_cluster(&mut labels, "c1");
            assert_eq!(labels[MACHINE_CLUSTER], expected);
        }
    }

    #[test]
    fn either_label_makes_a_machine_part_of_the_control_plane() {
        assert!(is_control_plane(&labels(&[(MACHINE_ROLE, "master")])));
        assert!(is_control_plane(&labels(&[(MACHINE_TYPE, "master"), (MACHINE_ROLE, "worker")])));
        assert!(!is_control_plane(&labels(&[(MACHINE_ROLE, "worker")])));
        assert!(!is_control_plane(&labels(&[])));
    }
}
