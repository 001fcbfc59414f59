//! Plans `99-<pool>-generated-registries` from the Image, the mirror sets and the signature policies.
//!
//! An object that cannot be applied is told about: policies in their conditions, the others, which have none, in an event.
//! It is left out if it was never in force. If it was, every pool keeps what it has until the object is corrected, because
//! nodes without a policy that somebody relies on are worse than nodes without the newest one. ImagePolicies are the
//! exception: a tenant who could delete one anyway must not be able to stop the cluster's registries with it.
//!
//! What is in force and what is left out is noted on the generated MachineConfig.

mod accept;
mod left_out;
mod policies;

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::config::{ClusterImagePolicy, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet};
use api::labels;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, MachineConfigSpec};
use api::operator::ImageContentSourcePolicy;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::{Error, hosts};
use crate::fragment::{File, Fragment};
use crate::names;
use crate::plan::{Existing, Object, Plan, Standing, note, seal};
use crate::pools::{name_of, reached, template_role};
use crate::runtime::main_file::MainFile;
use crate::templates::{Profile, Runtime};
use accept::Accepted;

/// What the planner looks at. All lists are complete.
#[derive(Clone)]
pub struct Snapshot {
    pub now: Timestamp,
    /// Version of the controller, which generated MachineConfigs are stamped with.
    pub version: String,
    pub profile: Profile,
    pub pools: Vec<MachineConfigPool>,
    pub machine_configs: Vec<MachineConfig>,
    /// The Image named `cluster`.
    pub image: Option<Image>,
    pub content_policies: Vec<ImageContentSourcePolicy>,
    pub digest_mirrors: Vec<ImageDigestMirrorSet>,
    pub tag_mirrors: Vec<ImageTagMirrorSet>,
    pub cluster_policies: Vec<ClusterImagePolicy>,
    pub policies: Vec<ImagePolicy>,
    /// The image that the cluster itself is made from, where there is one.
    pub release_image: Option<String>,
    /// The registries.conf and policy.json that hosts of each role start from, or why they cannot be told. Both are empty
    /// for a role that is not here.
    pub defaults: BTreeMap<String, Result<(String, Value), String>>,
    /// The runtimes that the nodes of each pool have, where they are known.
    pub runtimes: BTreeMap<String, BTreeSet<Runtime>>,
    pub default_runtime: Runtime,
    /// What is known of containerd's main file on the nodes of each pool.
    pub main_files: BTreeMap<String, MainFile>,
    pub originals: BTreeMap<String, MachineConfigSpec>,
    /// Fingerprints of what kept MachineConfigs were made from, by name.
    pub inputs: BTreeMap<String, String>,
    pub adopt: BTreeSet<String>,
}

debug_without_contents!(Snapshot { version, profile });

/// Decides what to write, delete and tell.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut plan = Plan::default();
    let existing = Existing::new(&snapshot.machine_configs);
    let accepted = Accepted::of(snapshot, &existing);
    let mut wanted = BTreeMap::new();
    for pool in snapshot.pools.iter().filter(|pool| is_built_in(pool)) {
        let name = names::registries(&name_of(pool));
        let made = make(snapshot, pool, &accepted);
        if let Some(desired) = desired(snapshot, pool, &name, &made, &accepted, &existing, &mut plan) {
            if existing.standing(&name) != Standing::Users {
                let known = existing.get(&name).and_then(|live| note(live, annotations::LEFT_OUT));
                left_out::tell(&made.left_out, known, &mut plan);
            }
            wanted.insert(name, desired);
        }
    }
    let is_ours = |live: &&MachineConfig| {
        let name = live.metadata.name.as_deref().unwrap_or_default();
        name.starts_with("99-") && name.ends_with("-generated-registries")
    };
    plan.tidy(&existing, is_ours, &wanted, &BTreeSet::new(), &snapshot.originals);
    for desired in wanted.into_values() {
        plan.put(desired, &existing);
    }
    policies::tell(snapshot, &accepted, &mut plan);
    dedup(&mut plan);
    plan
}

/// The MachineConfig that a pool shall have, if it shall have one that we write.
fn desired(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    name: &str,
    made: &Made,
    accepted: &Accepted,
    existing: &Existing<'_>,
    plan: &mut Plan,
) -> Option<MachineConfig> {
    let live = existing.get(name);
    let standing = existing.standing(name);
    if standing == Standing::Users {
        return live
            .filter(|_| !made.fragment.is_empty())
            .map(|live| plan.stand_aside(live, "registries, mirrors and image policies"));
    }
    // What another controller made is looked at also while there is nothing to say: its inputs are noted then, and ours
    // replaces it once the last of them is gone.
    let says_nothing = made.fragment.is_empty() && made.left_out.is_empty();
    if says_nothing && standing != Standing::Foreign && (live.is_none() || !accepted.is_lost) {
        return None;
    }
    if !is_replaced(snapshot, existing, name, plan) {
        return None;
    }
    // Of what another controller made nobody knows which objects are in it.
    let is_lost = accepted.is_lost || standing == Standing::Foreign && accepted.refuses_any();
    match live {
        Some(live) if made.is_broken || is_lost => Some(left_out::noted(live.clone(), live, &made.left_out)),
        _ => {
            let config = generated(snapshot, name, pool, &made.fragment, accepted);
            Some(match live {
                Some(live) => left_out::noted(config, live, &made.left_out),
                None => left_out::note_on(config, &made.left_out),
            })
        }
    }
}

fn object(kind: &'static str, metadata: &ObjectMeta) -> Object {
    Object { kind, namespace: metadata.namespace.clone(), name: metadata.name.clone().unwrap_or_default() }
}

fn is_built_in(pool: &MachineConfigPool) -> bool {
    pool.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::MCO_BUILT_IN))
}

/// What is made for a pool.
#[derive(Default)]
struct Made {
    fragment: Fragment,
    /// What is not in force, and why.
    left_out: BTreeMap<Object, String>,
    /// Whether files are missing through no fault of any object.
    is_broken: bool,
}

/// The files for every runtime of a pool.
fn make(snapshot: &Snapshot, pool: &MachineConfigPool, accepted: &Accepted) -> Made {
    let mut made = Made { left_out: accepted.left_out(), ..Made::default() };
    let mut files: Vec<File> = Vec::new();
    for runtime in runtimes(snapshot, pool) {
        match runtime {
            Runtime::Crio => match accepted.build(snapshot, &template_role(pool)) {
                Ok(built) => {
                    if let Some(message) = built.skipped_message() {
                        made.leave_out(image(), message);
                    }
                    for source in &built.loops {
                        made.leave_out(asker(snapshot, source), contradiction(source));
                    }
                    if let Some(image) = accepted.unread_release().filter(|_| !built.files.is_empty()) {
                        made.leave_out(templates(), Error::ReleaseImage(image.to_owned()).to_string());
                    }
                    files.extend(built.files);
                }
                Err(error) => {
                    made.is_broken = true;
                    made.leave_out(templates(), error.to_string());
                }
            },
            // k3s has one file of its own for registries, in another form.
            Runtime::Containerd { .. } if snapshot.profile == Profile::K3s => {
                made.left_out.extend(everything(snapshot).into_iter().map(|object| (object, K3S.to_owned())));
            }
            Runtime::Containerd { .. } => match hosts::build(&accepted.sources("", &Value::Null)) {
                Ok(found) => {
                    // They are written nevertheless: they do no harm, and what is not known may be so.
                    let readers = reached(&snapshot.pools, &[pool]).into_iter();
                    let readers = readers.filter(|reader| own_runtimes(snapshot, pool, reader).contains(&runtime));
                    for reader in readers.filter(|_| !found.files.is_empty()).map(name_of) {
                        let main = snapshot.main_files.get(&reader).cloned().unwrap_or_default();
                        let Some(why) = main.refuses_hosts(&reader) else { continue };
                        everything(snapshot).into_iter().for_each(|object| made.leave_out(object, why.clone()));
                    }
                    files.extend(found.files);
                    if !found.unsupported.is_empty() {
                        made.leave_out(image(), found.unsupported.join("; "));
                    }
                    for scope in &found.scopes {
                        made.leave_out(asker(snapshot, scope), hosts::no_settings(scope));
                    }
                }
                Err(error) => {
                    made.is_broken = true;
                    made.leave_out(image(), error.to_string());
                }
            },
        }
    }
    made.fragment = Fragment::of_files(files);
    made
}

impl Made {
    fn leave_out(&mut self, object: Object, why: String) {
        let known = self.left_out.entry(object).or_default();
        if known.is_empty() {
            *known = why;
        } else if !known.contains(&why) {
            *known = format!("{known}; {why}");
        }
    }
}

fn image() -> Object {
    Object::new("Image", "cluster")
}

/// Where the templates and the release image come from.
fn templates() -> Object {
    Object::new("ControllerConfig", "machine-config-controller")
}

const K3S: &str =
    "k3s takes registries from /etc/rancher/k3s/registries.yaml; write a MachineConfig with that file instead";

/// Every object that says something about registries.
fn everything(snapshot: &Snapshot) -> Vec<Object> {
    let image = snapshot.image.iter().filter(|image| image.spec.registry_sources.is_some());
    let mut objects: Vec<Object> = image.map(|image| object("Image", &image.metadata)).collect();
    objects.extend(snapshot.content_policies.iter().map(|one| object("ImageContentSourcePolicy", &one.metadata)));
    objects.extend(snapshot.digest_mirrors.iter().map(|one| object("ImageDigestMirrorSet", &one.metadata)));
    objects.extend(snapshot.tag_mirrors.iter().map(|one| object("ImageTagMirrorSet", &one.metadata)));
    objects
}

/// The last mirror set that has a word on a source; without one it was the Image.
fn asker(snapshot: &Snapshot, source: &str) -> Object {
    let digest = sorted(&snapshot.digest_mirrors, |set| &set.metadata)
        .into_iter()
        .rev()
        .find(|set| set.spec.image_digest_mirrors.iter().any(|mirrors| mirrors.source == source));
    let tag = sorted(&snapshot.tag_mirrors, |set| &set.metadata)
        .into_iter()
        .rev()
        .find(|set| set.spec.image_tag_mirrors.iter().any(|mirrors| mirrors.source == source));
    let older = sorted(&snapshot.content_policies, |policy| &policy.metadata)
        .into_iter()
        .rev()
        .find(|policy| policy.spec.repository_digest_mirrors.iter().any(|mirrors| mirrors.source == source));
    let found = digest.map(|set| object("ImageDigestMirrorSet", &set.metadata));
    let found = found.or_else(|| tag.map(|set| object("ImageTagMirrorSet", &set.metadata)));
    let found = found.or_else(|| older.map(|policy| object("ImageContentSourcePolicy", &policy.metadata)));
    found.unwrap_or_else(image)
}

fn sorted<K>(objects: &[K], metadata: impl Fn(&K) -> &ObjectMeta) -> Vec<&K> {
    let mut objects: Vec<&K> = objects.iter().collect();
    objects.sort_by_key(|one| (metadata(one).namespace.clone(), metadata(one).name.clone()));
    objects
}

fn contradiction(source: &str) -> String {
    format!(
        "mirror sets contradict one another on the order of the mirrors of {source:?}; the first name was taken first; write the mirrors in one order everywhere"
    )
}

/// The runtimes of the nodes that get what is made for a pool.
fn runtimes(snapshot: &Snapshot, pool: &MachineConfigPool) -> BTreeSet<Runtime> {
    reached(&snapshot.pools, &[pool]).into_iter().flat_map(|reader| own_runtimes(snapshot, pool, reader)).collect()
}

/// The runtimes of a pool that gets what is made for another or for itself. Without nodes it has that of the other.
fn own_runtimes(snapshot: &Snapshot, made_for: &MachineConfigPool, reader: &MachineConfigPool) -> BTreeSet<Runtime> {
    let known = snapshot.runtimes.get(&name_of(reader)).filter(|known| !known.is_empty());
    match known {
        Some(known) => known.clone(),
        None if name_of(reader) == name_of(made_for) => BTreeSet::from([snapshot.default_runtime]),
        None => BTreeSet::new(),
    }
}

/// Whether a MachineConfig of this name is ours to write. One of another controller is, once what it was made from changes.
fn is_replaced(snapshot: &Snapshot, existing: &Existing<'_>, name: &str, plan: &mut Plan) -> bool {
    match existing.standing(name) {
        Standing::Missing | Standing::Ours => true,
        Standing::Users => false,
        Standing::Foreign if snapshot.adopt.contains(name) => true,
        Standing::Foreign => {
            let inputs = json!([
                snapshot.image.as_ref().map(|image| &image.spec),
                specs(snapshot.content_policies.iter().map(|one| json!(one.spec))),
                specs(snapshot.digest_mirrors.iter().map(|one| json!(one.spec))),
                specs(snapshot.tag_mirrors.iter().map(|one| json!(one.spec))),
                specs(snapshot.cluster_policies.iter().map(|one| json!(one.spec))),
                specs(snapshot.policies.iter().map(|one| json!([one.metadata.namespace, one.spec]))),
            ]);
            plan.has_changed(name, &inputs, &snapshot.inputs)
        }
    }
}

/// Specs in an order that does not depend on who lists them.
fn specs(specs: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut specs: Vec<Value> = specs.collect();
    specs.sort_by_cached_key(Value::to_string);
    specs
}

fn generated(
    snapshot: &Snapshot,
    name: &str,
    pool: &MachineConfigPool,
    fragment: &Fragment,
    accepted: &Accepted,
) -> MachineConfig {
    let owner = snapshot.image.as_ref().map(|image| OwnerReference {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "Image".to_owned(),
        name: image.metadata.name.clone().unwrap_or_default(),
        uid: image.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    });
    let mut config = fragment.machine_config(name, &name_of(pool), &snapshot.version, owner);
    let notes = config.metadata.annotations.get_or_insert_default();
    notes.insert(annotations::ACCEPTED_SETTINGS.to_owned(), accepted.listed());
    seal(config, "Image cluster, mirror sets and image policies")
}

/// Pools are told of the same things; people need to hear them once.
fn dedup(plan: &mut Plan) {
    let mut seen = BTreeSet::new();
    plan.events.retain(|event| seen.insert((event.about.clone(), event.message.clone())));
}
