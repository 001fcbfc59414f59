//! The MachineConfigs of one pool's KubeletConfigs.

use std::collections::BTreeMap;

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use serde_json::{Map, Value, json};

use super::{Claim, SUBJECT, Settings, Snapshot, dropin, name_of, place};
use crate::conditions;
use crate::fragment::{File, Fragment};
use crate::kubelet::{Configured, Provenance, limits, merge_over};
use crate::plan::{Existing, Standing, seal};
use crate::templates::profile::Kubelet;

/// Adds the pool's MachineConfigs to `wanted`, and returns the configuration that its kubelets end up with.
pub(super) fn add(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    base: Result<Configured, String>,
    claims: &mut [Claim<'_>],
    existing: &Existing<'_>,
    wanted: &mut BTreeMap<String, MachineConfig>,
) -> Configured {
    let name = name_of(pool);
    let base = match base {
        Ok(base) => base,
        Err(why) => {
            for claim in claims.iter_mut().filter(|claim| claim.is_on(pool)) {
                claim.fail(format!("could not get original kubelet config: {why}"));
                claim.hold(&name, existing, wanted);
            }
            return Configured::default();
        }
    };
    let members = members(pool, claims, existing, wanted);
    let accepted = accept(snapshot, &name, &base, &members, claims, existing);
    for member in members.iter().filter(|member| !accepted.contains(member)) {
        claims[*member].hold(&name, existing, wanted);
    }
    let kept = kept(&accepted, claims, &name, existing, snapshot);
    for (index, member) in accepted.iter().enumerate() {
        let config_name = names(claims, *member, &name);
        claims[*member].names.insert(config_name.clone());
        if index < kept {
            continue;
        }
        // Of those that another controller wrote only the last was ever in force.
        let from = kept.saturating_sub(1).min(index);
        let settings = in_order(claims, &name, &accepted[from..=index]);
        match merge_over(&base, &settings) {
            Ok(configured) => {
                let config = generated(snapshot, &config_name, &name, &claims[*member], &configured);
                wanted.insert(config_name, config);
            }
            // All of them together fit, which is what counts on the node.
            Err(_) => claims[*member].hold(&name, existing, wanted),
        }
    }
    let from = kept.saturating_sub(1).min(accepted.len().saturating_sub(1));
    match accepted.get(from..).map(|all| merge_over(&base, &in_order(claims, &name, all))) {
        Some(Ok(configured)) => configured,
        Some(Err(_)) | None => base,
    }
}

/// The claims on a pool that can be generated, in the order of their MachineConfigs.
fn members(
    pool: &MachineConfigPool,
    claims: &mut [Claim<'_>],
    existing: &Existing<'_>,
    wanted: &mut BTreeMap<String, MachineConfig>,
) -> Vec<usize> {
    let name = name_of(pool);
    let mut members = Vec::new();
    for (index, claim) in claims.iter_mut().enumerate().filter(|(_, claim)| claim.is_on(pool)) {
        let Some(config_name) = claim.config_name(&name) else { continue };
        if claim.is_displaced(&name, existing) {
            let why = format!(
                "could not Create/Update MachineConfig: {config_name} exists and was not generated; rename or delete it"
            );
            claim.fail(why);
        } else if claim.settings(&name).is_some() {
            members.push(index);
        } else {
            claim.hold(&name, existing, wanted);
        }
    }
    members.sort_by_key(|index| names(claims, *index, &name));
    members
}

/// Those that a kubelet accepts together. Where it does not, what is new gives way to what is in force, and later names to
/// earlier ones.
fn accept(
    snapshot: &Snapshot,
    pool: &str,
    base: &Configured,
    members: &[usize],
    claims: &mut [Claim<'_>],
    existing: &Existing<'_>,
) -> Vec<usize> {
    let is_whole = matches!(place(snapshot), Ok(Kubelet::Whole));
    let mut standing: Vec<Settings> =
        members.iter().filter_map(|index| in_force(snapshot, pool, &claims[*index], existing)).collect();
    standing.sort_by(|a, b| a.name.cmp(&b.name));
    let standing = merge_over(base, &standing.iter().collect::<Vec<_>>());
    let standing = standing.map(|merged| merged.configuration).unwrap_or_default();
    let check = |settings: &[&Settings]| -> Result<(), String> {
        let merged = merge_over(base, settings).map_err(|error| error.to_string())?;
        let checked = match is_whole {
            true => limits::check(&base.configuration, &merged.configuration),
            false => limits::check_dropin(&standing, &merged.configuration),
        };
        checked.map_err(|error| error.to_string())
    };
    if check(&in_order(claims, pool, members)).is_ok() {
        return members.to_vec();
    }
    let mut asked: BTreeMap<usize, Option<Settings>> = BTreeMap::new();
    for index in members {
        let in_force = in_force(snapshot, pool, &claims[*index], existing);
        asked.insert(*index, claims[*index].set(pool, in_force));
    }
    let has_settings = |index: &&usize| claims[**index].settings(pool).is_some();
    let mut accepted: Vec<usize> = members.iter().filter(has_settings).copied().collect();
    // What the cluster itself brings may have changed since.
    if check(&in_order(claims, pool, &accepted)).is_err() {
        accepted.clear();
    }
    let mut by_name: Vec<usize> = members.to_vec();
    by_name.sort_by_key(|index| claims[*index].name().to_owned());
    for index in by_name {
        let is_new = !accepted.contains(&index);
        if is_new {
            accepted.push(index);
        }
        let in_force = claims[index].set(pool, asked.remove(&index).flatten());
        let Err(why) = check(&in_order(claims, pool, &accepted)) else { continue };
        claims[index].fail_on(pool, why);
        let falls_back = in_force.is_some();
        claims[index].set(pool, in_force);
        if is_new && (!falls_back || check(&in_order(claims, pool, &accepted)).is_err()) {
            accepted.pop();
        }
    }
    members.iter().filter(|index| accepted.contains(index)).copied().collect()
}

/// What a claim has in force on a pool, where that is known.
fn in_force(snapshot: &Snapshot, pool: &str, claim: &Claim<'_>, existing: &Existing<'_>) -> Option<Settings> {
    let is_foreign = existing.standing(&claim.config_name(pool)?) == Standing::Foreign;
    match is_foreign && is_unedited(snapshot, claim) {
        true => claim.settings(pool).cloned(),
        false => claim.accepted(pool, existing),
    }
}

/// How many of the first MachineConfigs are another controller's and stay as they are: those before the first that is new
/// or edited since.
fn kept(members: &[usize], claims: &[Claim<'_>], pool: &str, existing: &Existing<'_>, snapshot: &Snapshot) -> usize {
    let is_kept = |index: &&usize| {
        let name = names(claims, **index, pool);
        existing.standing(&name) == Standing::Foreign
            && is_unedited(snapshot, &claims[**index])
            && !snapshot.adopt.contains(&name)
    };
    members.iter().take_while(is_kept).count()
}

fn is_unedited(snapshot: &Snapshot, claim: &Claim<'_>) -> bool {
    let config = snapshot.kubelet_configs.iter().find(|config| config.metadata.name == claim.metadata.name);
    config.and_then(|config| config.status.as_ref()).is_some_and(|status| {
        status.observed_generation >= claim.metadata.generation && conditions::succeeded(&status.conditions)
    })
}

fn names(claims: &[Claim<'_>], index: usize, pool: &str) -> String {
    SUBJECT.names.suffixed(pool, claims[index].suffix.as_deref().unwrap_or_default())
}

/// A pool's settings in the order of their KubeletConfigs' names.
fn in_order<'c>(claims: &'c [Claim<'_>], pool: &str, members: &[usize]) -> Vec<&'c Settings> {
    let mut settings: Vec<&Settings> = members.iter().filter_map(|index| claims[*index].settings(pool)).collect();
    settings.sort_by(|a, b| a.name.cmp(&b.name));
    settings
}

fn generated(snapshot: &Snapshot, name: &str, pool: &str, claim: &Claim<'_>, configured: &Configured) -> MachineConfig {
    let fragment = Fragment::of_files(files(snapshot, configured));
    let mut generated = fragment.machine_config(name, pool, &snapshot.version, Some(claim.owner()));
    let word = |one: &Provenance| match one.overrode.as_slice() {
        [] => json!(one.from),
        overrode => json!({"from": one.from, "overrode": overrode}),
    };
    let provenance: Map<String, Value> =
        configured.provenance.iter().map(|one| (one.field.clone(), word(one))).collect();
    generated.metadata.annotations.get_or_insert_default().extend([
        (annotations::ACCEPTED_SETTINGS.to_owned(), claim.accepted_settings(pool)),
        (annotations::FIELD_PROVENANCE.to_owned(), Value::Object(provenance).to_string()),
    ]);
    seal(generated, &format!("{} {}", SUBJECT.kind, claim.name()))
}

fn files(snapshot: &Snapshot, configured: &Configured) -> Vec<File> {
    match snapshot.profile.kubelet() {
        Kubelet::Whole | Kubelet::Unknown => configured.files(),
        Kubelet::Dropin { folder, unit, .. } => {
            dropin(unit, configured.dropin(format!("{folder}/99-machinist-kubelet.conf")))
        }
    }
}
