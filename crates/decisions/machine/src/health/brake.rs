//! What keeps a check from making things worse.

use std::collections::BTreeMap;

use super::verdict::is_healthy;
use super::{Check, Target, Verdict};

/// One sick machine on a new config is a sick machine; two are a sick config.
const SUSPICIOUS: usize = 2;

/// Something that machines may share.
type Trait = fn(&Target) -> Option<&str>;

/// How many more machines may be put under remediation. `None` means as many as there are.
pub(super) fn room(check: &Check, total: usize, busy: usize) -> Option<usize> {
    let limit = check.at_once.as_ref()?.of(total).max(1);
    Some(usize::try_from(limit).unwrap_or(0).saturating_sub(busy))
}

/// What the sick machines share and the healthy ones do not have, if there is such a thing.
///
/// The sick ones must all have it, most of those that have it must be sick, and some healthy machine must be without it:
/// otherwise there is nothing to compare with.
pub(super) fn shared_change(check: &Check, judged: &[(&Target, Verdict)]) -> Option<String> {
    check.at_once.as_ref()?;
    let sick: Vec<_> =
        judged.iter().filter(|(_, verdict)| verdict.needs_remediation()).map(|(target, _)| *target).collect();
    if sick.len() < SUSPICIOUS {
        return None;
    }
    let well: Vec<_> =
        judged.iter().filter(|(target, verdict)| is_healthy(target, verdict)).map(|(target, _)| *target).collect();
    let traits: [(&str, Trait); 3] = [
        ("config", |target| target.node()?.config.as_deref()),
        ("OS image", |target| target.node()?.image.as_deref()),
        ("provider spec", |target| Some(target.spec.as_str())),
    ];
    traits.into_iter().find_map(|(what, of)| {
        let value = common(&sick, of)?;
        let also_well = well.iter().filter(|target| of(target) == Some(value)).count();
        let otherwise = well.iter().any(|target| of(target).is_some_and(|other| other != value));
        let name = if what == "provider spec" { "a provider spec".to_owned() } else { format!("{what} {value}") };
        (otherwise && also_well < sick.len()).then_some(name)
    })
}

/// The value that all of them have.
fn common<'a>(targets: &[&'a Target], of: Trait) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for target in targets {
        *counts.entry(of(target)?).or_default() += 1;
    }
    match counts.into_iter().collect::<Vec<_>>().as_slice() {
        [(value, _)] => Some(value),
        _ => None,
    }
}
