//! Which feature gates a kubelet knows: one that is given a gate it does not know, or one that is locked to another value,
//! exits at once.

mod table;

use super::read::distance;
use table::{GATES, RECORDED, Row};

/// Why a kubelet of this minor version would exit, if a gate were set to `on`. Nothing where that is not known.
#[must_use]
pub fn fault(gate: &str, on: bool, minor: u64) -> Option<String> {
    if !RECORDED.contains(&minor) {
        return None;
    }
    let Some((_, first, last, locked)) = GATES.iter().find(|(name, ..)| *name == gate) else {
        return Some(format!("kubelets of 1.{minor} know no such gate{}", hint(gate, minor)));
    };
    if minor < *first {
        return Some(format!("kubelets know it from 1.{first} on, and some are of 1.{minor}"));
    }
    if minor > *last {
        return Some(format!("kubelets know it up to 1.{last} only, and some are of 1.{minor}"));
    }
    let (since, to) = (*locked)?;
    (minor >= since && to != on).then(|| format!("it is locked to {to} from 1.{since} on"))
}

/// The gate of this version that a misspelt one is nearest to, if one is near.
fn hint(gate: &str, minor: u64) -> String {
    let known = GATES.iter().filter(|(_, first, last, _): &&Row| (*first..=*last).contains(&minor));
    let near = known.map(|(name, ..)| (distance(name, gate), *name)).min();
    match near {
        Some((distance, near)) if distance <= 2 || near.eq_ignore_ascii_case(gate) => {
            format!(" (did you mean {near}?)")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(gate: &str, on: bool, minor: u64, expected: Expect) {
        expected.assert_eq(&fault(gate, on, minor).unwrap_or_default());
    }

    #[test]
    fn a_gate_counts_from_the_version_that_brings_it_to_the_one_that_takes_it_away() {
        check("MemoryQoS", true, 33, expect![""]);
        check("MemoryQos", true, 33, expect!["kubelets of 1.33 know no such gate (did you mean MemoryQoS?)"]);
        check("NoSuchThing", true, 36, expect!["kubelets of 1.36 know no such gate"]);
        check("SystemdWatchdog", true, 31, expect!["kubelets know it from 1.32 on, and some are of 1.31"]);
        check("CloudDualStackNodeIPs", true, 36, expect!["kubelets know it up to 1.31 only, and some are of 1.36"]);
        check("SidecarContainers", false, 36, expect!["it is locked to true from 1.33 on"]);
        check("SidecarContainers", true, 36, expect![""]);
        check("SidecarContainers", false, 32, expect![""]);
        check("AllAlpha", true, 36, expect![""]);
    }

    #[test]
    fn of_versions_that_are_not_recorded_nothing_is_said() {
        for minor in [RECORDED.start() - 1, RECORDED.end() + 1] {
            check("NoSuchThing", true, minor, expect![""]);
        }
    }

    #[test]
    fn the_table_is_sorted_and_its_versions_are_recorded_ones() {
        assert!(GATES.is_sorted_by(|a, b| a.0 < b.0));
        for (name, first, last, _) in GATES {
            assert!(first <= last && RECORDED.contains(first) && RECORDED.contains(last), "{name}");
        }
    }
}
