//! The MachineConfigs of one pool's KubeletConfigs.

use std::collections::BTreeMap;

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use serde_json::{Map, Value, json};

use super::{Claim, SUBJECT, Settings, Snapshot, name_of, place};
use crate::conditions;
use crate::fragment::{File, Fragment};
use crate::kubelet::{Configured, Provenance, limits, merge};
use crate::plan::{Existing, Standing, seal};
use crate::templates::profile::Kubelet;

/// Adds the pool's MachineConfigs to `wanted`, and returns the configuration that its kubelets end up with.
pub(super) fn add(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    base: Result<Map<String, Value>, String>,
    claims: &mut [Claim<'_>],
    existing: &Existing<'_>,
    wanted: &mut BTreeMap<String, MachineConfig>,
) -> Map<String, Value> {
    let name = name_of(pool);
    let base = match base {
        Ok(base) => base,
        Err(why) => {
            for claim in claims.iter_mut().filter(|claim| claim.is_on(pool)) {
                claim.fail(format!("could not get original kubelet config: {why}"));
                hold(claim, &name, existing, wanted);
            }
            return Map::new();
        }
    };
    let members = members(pool, claims, existing, wanted);
    let accepted = accept(&base, members, claims, snapshot, existing);
    let kept = kept(&accepted, claims, &name, existing, snapshot);
    for (index, member) in accepted.iter().enumerate() {
        let config_name = names(claims, *member, &name);
        claims[*member].names.insert(config_name.clone());
        if index < kept {
            continue;
        }
        // Of those that another controller wrote only the last was ever in force.
        let from = kept.saturating_sub(1).min(index);
        let settings = in_order(claims, &accepted[from..=index]);
        let Ok(configured) = merge(&base, &settings) else { continue };
        let config = generated(snapshot, &config_name, &name, &claims[*member], &configured);
        wanted.insert(config_name, config);
    }
    let from = kept.saturating_sub(1).min(accepted.len().saturating_sub(1));
    match accepted.get(from..).map(|all| merge(&base, &in_order(claims, all))) {
        Some(Ok(configured)) => configured.configuration,
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
        let Some(suffix) = &claim.suffix else { continue };
        let config_name = SUBJECT.names.suffixed(&name, suffix);
        if existing.standing(&config_name) == Standing::Users {
            let why = format!(
                "could not Create/Update MachineConfig: {config_name} exists and was not generated; rename or delete it"
            );
            claim.fail(why);
        } else if claim.settings.is_some() {
            members.push(index);
        } else {
            hold(claim, &name, existing, wanted);
        }
    }
    members.sort_by_key(|index| names(claims, *index, &name));
    members
}

/// Leaves a MachineConfig that exists as it is.
fn hold(claim: &mut Claim<'_>, pool: &str, existing: &Existing<'_>, wanted: &mut BTreeMap<String, MachineConfig>) {
    let Some(suffix) = &claim.suffix else { return };
    let name = SUBJECT.names.suffixed(pool, suffix);
    if let Some(live) = existing.get(&name) {
        claim.names.insert(name.clone());
        wanted.insert(name, live.clone());
    }
}

/// Those that a kubelet accepts together. Where it does not, later names give way to earlier ones.
fn accept(
    base: &Map<String, Value>,
    members: Vec<usize>,
    claims: &mut [Claim<'_>],
    snapshot: &Snapshot,
    existing: &Existing<'_>,
) -> Vec<usize> {
    let is_whole = matches!(place(snapshot), Ok(Kubelet::Whole));
    let check = |settings: &[&Settings]| -> Result<(), String> {
        let merged = merge(base, settings).map_err(|error| error.to_string())?;
        let checked = match is_whole {
            true => limits::check(base, &merged.configuration),
            false => limits::check_part(&merged.configuration),
        };
        checked.map_err(|error| error.to_string())
    };
    if check(&in_order(claims, &members)).is_ok() {
        return members;
    }
    let mut by_name = members.clone();
    by_name.sort_by_key(|index| claims[*index].name().to_owned());
    let mut accepted: Vec<usize> = Vec::new();
    for index in by_name {
        accepted.push(index);
        let Err(why) = check(&in_order(claims, &accepted)) else { continue };
        claims[index].refuse(why, existing);
        if claims[index].settings.is_none() || check(&in_order(claims, &accepted)).is_err() {
            accepted.pop();
        }
    }
    members.into_iter().filter(|index| accepted.contains(index)).collect()
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

/// Settings in the order of their KubeletConfigs' names.
fn in_order<'c>(claims: &'c [Claim<'_>], members: &[usize]) -> Vec<&'c Settings> {
    let mut settings: Vec<&Settings> = members.iter().filter_map(|index| claims[*index].settings.as_ref()).collect();
    settings.sort_by(|a, b| a.name.cmp(&b.name));
    settings
}

fn generated(snapshot: &Snapshot, name: &str, pool: &str, claim: &Claim<'_>, configured: &Configured) -> MachineConfig {
    let fragment = Fragment::of_files(files(snapshot, configured));
    let mut generated = fragment.machine_config(name, pool, &snapshot.version, Some(claim.owner(SUBJECT)));
    let word = |one: &Provenance| match one.overrode.as_slice() {
        [] => json!(one.from),
        overrode => json!({"from": one.from, "overrode": overrode}),
    };
    let provenance: Map<String, Value> =
        configured.provenance.iter().map(|one| (one.field.clone(), word(one))).collect();
    generated.metadata.annotations.get_or_insert_default().extend([
        (annotations::ACCEPTED_SETTINGS.to_owned(), claim.accepted_settings()),
        (annotations::FIELD_PROVENANCE.to_owned(), Value::Object(provenance).to_string()),
    ]);
    seal(generated, &format!("{} {}", SUBJECT.kind, claim.name()))
}

fn files(snapshot: &Snapshot, configured: &Configured) -> Vec<File> {
    match snapshot.profile.kubelet() {
        Kubelet::Whole | Kubelet::Unknown => configured.files(),
        Kubelet::Dropin { folder, unit, .. } => {
            let unit = unit.map(|unit| File::new(unit.path, unit.contents));
            unit.into_iter().chain([configured.dropin(format!("{folder}/99-machinist-kubelet.conf"))]).collect()
        }
    }
}
