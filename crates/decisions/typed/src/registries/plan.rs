//! Plans `99-<pool>-generated-registries` from the Image, the mirror sets and the signature policies.
//!
//! An object that cannot be applied is left out and told about: policies in their conditions, the others, which have none,
//! in an event. What is left out is noted on the generated MachineConfig, so that it is told once.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations;
use api::config::{ClusterImagePolicy, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet, RegistrySources};
use api::labels;
use api::machineconfiguration::{MachineConfig, MachineConfigPool, MachineConfigSpec};
use api::names::status::FALSE;
use api::operator::ImageContentSourcePolicy;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference, Time};
use serde_json::{Value, json};

use super::{Built, Error, Sources, build, hosts};
use crate::fragment::{File, Fragment};
use crate::names;
use crate::plan::{Existing, Object, Plan, Standing, Update, fingerprint, note, seal};
use crate::pools::{name_of, template_role};
use crate::templates::{Profile, Runtime};

/// What the planner looks at. All lists are complete.
#[derive(Clone, Debug)]
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
    /// The registries.conf and policy.json that hosts of each role start from.
    pub defaults: BTreeMap<String, (String, Value)>,
    /// The runtimes that the nodes of each pool have, where they are known.
    pub runtimes: BTreeMap<String, BTreeSet<Runtime>>,
    pub default_runtime: Runtime,
    pub originals: BTreeMap<String, MachineConfigSpec>,
    /// Fingerprints of what kept MachineConfigs were made from, by name.
    pub inputs: BTreeMap<String, String>,
    pub adopt: BTreeSet<String>,
}

/// Decides what to write, delete and tell.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut plan = Plan::default();
    let existing = Existing::new(&snapshot.machine_configs);
    let accepted = accept(snapshot);
    let mut wanted = BTreeMap::new();
    for pool in snapshot.pools.iter().filter(|pool| is_built_in(pool)) {
        let name = names::registries(&name_of(pool));
        let (fragment, left_out) = fragment(snapshot, pool, &accepted);
        let is_empty = fragment.is_empty() && left_out.is_empty();
        if !is_empty && is_replaced(snapshot, &existing, &name, &mut plan) {
            let known = existing.get(&name).and_then(|live| note(live, annotations::LEFT_OUT));
            tell(&left_out, known, &mut plan);
            wanted.insert(name.clone(), generated(snapshot, &name, pool, &fragment, &left_out));
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
    policies(snapshot, &accepted, &mut plan);
    dedup(&mut plan);
    plan
}

/// The objects that are applied together, and what is wrong with the others.
struct Accepted {
    sources: RegistrySources,
    content_policies: Vec<ImageContentSourcePolicy>,
    digest_mirrors: Vec<ImageDigestMirrorSet>,
    tag_mirrors: Vec<ImageTagMirrorSet>,
    cluster_policies: Vec<ClusterImagePolicy>,
    policies: Vec<ImagePolicy>,
    refused: BTreeMap<Object, String>,
}

impl Accepted {
    fn build(&self, snapshot: &Snapshot, role: &str) -> Result<Built, Error> {
        let none = (String::new(), json!({"default": [{"type": "insecureAcceptAnything"}]}));
        let (registries, policy) = snapshot.defaults.get(role).unwrap_or(&none);
        build(&self.sources(snapshot, registries, policy))
    }

    fn sources<'a>(&'a self, snapshot: &'a Snapshot, registries: &'a str, policy: &'a Value) -> Sources<'a> {
        Sources {
            sources: &self.sources,
            content_policies: &self.content_policies,
            digest_mirrors: &self.digest_mirrors,
            tag_mirrors: &self.tag_mirrors,
            cluster_policies: &self.cluster_policies,
            policies: &self.policies,
            release_image: snapshot.release_image.as_deref(),
            default_registries: registries,
            default_policy: policy,
        }
    }

    /// Keeps the last change if everything can still be built, or takes it back.
    fn judge(&mut self, snapshot: &Snapshot, object: Object, undo: impl FnOnce(&mut Self)) {
        if let Err(error) = self.build(snapshot, "") {
            undo(self);
            self.refused.insert(object, error.to_string());
        }
    }
}

/// All objects, if they can be applied together; else one after another, in the order of their names.
fn accept(snapshot: &Snapshot) -> Accepted {
    let sources = snapshot.image.as_ref().and_then(|image| image.spec.registry_sources.clone()).unwrap_or_default();
    let all = Accepted {
        sources: sources.clone(),
        content_policies: snapshot.content_policies.clone(),
        digest_mirrors: snapshot.digest_mirrors.clone(),
        tag_mirrors: snapshot.tag_mirrors.clone(),
        cluster_policies: snapshot.cluster_policies.clone(),
        policies: snapshot.policies.clone(),
        refused: BTreeMap::new(),
    };
    if all.build(snapshot, "").is_ok() {
        return all;
    }
    let mut some = Accepted {
        sources: RegistrySources::default(),
        content_policies: Vec::new(),
        digest_mirrors: Vec::new(),
        tag_mirrors: Vec::new(),
        cluster_policies: Vec::new(),
        policies: Vec::new(),
        refused: BTreeMap::new(),
    };
    macro_rules! add {
        ($list:ident, $kind:literal) => {
            for one in sorted(&snapshot.$list, |one| &one.metadata) {
                some.$list.push(one.clone());
                let object = object($kind, &one.metadata);
                some.judge(snapshot, object, |some| {
                    some.$list.pop();
                });
            }
        };
    }
    add!(digest_mirrors, "ImageDigestMirrorSet");
    add!(content_policies, "ImageContentSourcePolicy");
    add!(tag_mirrors, "ImageTagMirrorSet");
    some.sources = sources;
    some.judge(snapshot, Object::new("Image", "cluster"), |some| some.sources = RegistrySources::default());
    add!(cluster_policies, "ClusterImagePolicy");
    add!(policies, "ImagePolicy");
    some
}

fn sorted<K>(objects: &[K], metadata: impl Fn(&K) -> &ObjectMeta) -> Vec<&K> {
    let mut objects: Vec<&K> = objects.iter().collect();
    objects.sort_by_key(|one| (metadata(one).namespace.clone(), metadata(one).name.clone()));
    objects
}

fn object(kind: &'static str, metadata: &ObjectMeta) -> Object {
    Object { kind, namespace: metadata.namespace.clone(), name: metadata.name.clone().unwrap_or_default() }
}

fn is_built_in(pool: &MachineConfigPool) -> bool {
    pool.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::MCO_BUILT_IN))
}

/// The files for every runtime of a pool, and what is not in force.
fn fragment(
    snapshot: &Snapshot,
    pool: &MachineConfigPool,
    accepted: &Accepted,
) -> (Fragment, BTreeMap<Object, String>) {
    let mut left_out = accepted.refused.clone();
    let mut files: Vec<File> = Vec::new();
    let image = || Object::new("Image", "cluster");
    for runtime in runtimes(snapshot, pool) {
        match runtime {
            Runtime::Crio => match accepted.build(snapshot, &template_role(pool)) {
                Ok(built) => {
                    if let Some(message) = built.skipped_message() {
                        left_out.insert(image(), message);
                    }
                    for source in &built.loops {
                        let (object, why) = contradiction(snapshot, source);
                        left_out.insert(object, why);
                    }
                    files.extend(built.files);
                }
                Err(error) => {
                    left_out.insert(image(), error.to_string());
                }
            },
            // k3s has one file of its own for registries, in another form.
            Runtime::Containerd { .. } if snapshot.profile == Profile::K3s => {
                left_out.extend(everything(snapshot).into_iter().map(|object| (object, K3S.to_owned())));
            }
            Runtime::Containerd { .. } => {
                let default = Value::Null;
                if let Ok(found) = hosts::build(&accepted.sources(snapshot, "", &default)) {
                    files.extend(found.files);
                    if !found.unsupported.is_empty() {
                        left_out.insert(image(), found.unsupported.join("; "));
                    }
                }
            }
        }
    }
    (Fragment::of_files(files), left_out)
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

/// The last mirror set that has a word on a source whose sets contradict one another.
fn contradiction(snapshot: &Snapshot, source: &str) -> (Object, String) {
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
    let why = format!(
        "mirror sets contradict one another on the order of the mirrors of {source:?}; the first name was taken first; write the mirrors in one order everywhere"
    );
    (found.unwrap_or_else(|| Object::new("Image", "cluster")), why)
}

fn runtimes(snapshot: &Snapshot, pool: &MachineConfigPool) -> BTreeSet<Runtime> {
    let known = snapshot.runtimes.get(&name_of(pool)).filter(|known| !known.is_empty());
    known.cloned().unwrap_or_else(|| BTreeSet::from([snapshot.default_runtime]))
}

/// Whether a MachineConfig of this name is ours to write. One of another controller is, once what it was made from changes.
fn is_replaced(snapshot: &Snapshot, existing: &Existing<'_>, name: &str, plan: &mut Plan) -> bool {
    match existing.standing(name) {
        Standing::Missing | Standing::Ours => true,
        Standing::Users => false,
        Standing::Foreign if snapshot.adopt.contains(name) => true,
        Standing::Foreign => {
            let now = fingerprint(&json!([
                snapshot.image.as_ref().map(|image| &image.spec),
                snapshot.content_policies.iter().map(|one| &one.spec).collect::<Vec<_>>(),
                snapshot.digest_mirrors.iter().map(|one| &one.spec).collect::<Vec<_>>(),
                snapshot.tag_mirrors.iter().map(|one| &one.spec).collect::<Vec<_>>(),
                snapshot.cluster_policies.iter().map(|one| &one.spec).collect::<Vec<_>>(),
                snapshot.policies.iter().map(|one| &one.spec).collect::<Vec<_>>(),
            ]));
            plan.has_changed(name, now, &snapshot.inputs)
        }
    }
}

fn generated(
    snapshot: &Snapshot,
    name: &str,
    pool: &MachineConfigPool,
    fragment: &Fragment,
    left_out: &BTreeMap<Object, String>,
) -> MachineConfig {
    let owner = snapshot.image.as_ref().map(|image| OwnerReference {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "Image".to_owned(),
        name: image.metadata.name.clone().unwrap_or_default(),
        uid: image.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    });
    let mut config = fragment.machine_config(name, &name_of(pool), &snapshot.version, owner);
    if !left_out.is_empty() {
        let notes = config.metadata.annotations.get_or_insert_default();
        notes.insert(annotations::LEFT_OUT.to_owned(), listed(left_out));
    }
    seal(config, "Image cluster, mirror sets and image policies")
}

fn listed(left_out: &BTreeMap<Object, String>) -> String {
    let entries = left_out.iter().map(|(object, why)| (full_name(object), json!(why)));
    Value::Object(entries.collect()).to_string()
}

fn full_name(object: &Object) -> String {
    match &object.namespace {
        Some(namespace) => format!("{} {namespace}/{}", object.kind, object.name),
        None => format!("{} {}", object.kind, object.name),
    }
}

/// Tells what is not in force and was not told before.
fn tell(left_out: &BTreeMap<Object, String>, known: Option<&str>, plan: &mut Plan) {
    let known: Value = known.and_then(|known| serde_json::from_str(known).ok()).unwrap_or_default();
    for (object, why) in left_out {
        if known[full_name(object)] != why.as_str() {
            plan.warn(object.clone(), "RegistryConfigurationNotApplied", why.clone());
        }
    }
}

/// The conditions of signature policies.
fn policies(snapshot: &Snapshot, accepted: &Accepted, plan: &mut Plan) {
    let built = accepted.build(snapshot, "").unwrap_or_default();
    for one in &snapshot.cluster_policies {
        let object = object("ClusterImagePolicy", &one.metadata);
        let problem = accepted.refused.get(&object).map(|why| ("InvalidPolicy", why.clone()));
        let known = one.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        condition(snapshot, object, one.metadata.generation, known, problem, plan);
    }
    for one in &snapshot.policies {
        let object = object("ImagePolicy", &one.metadata);
        let is_it = |namespace: &str, name: &str| object.namespace.as_deref() == Some(namespace) && object.name == name;
        let conflict = built.conflicts.iter().find(|conflict| is_it(&conflict.namespace, &conflict.name));
        let conflict = conflict.map(|conflict| {
            let scopes: Vec<_> = conflict.scopes.iter().map(|scope| format!("{scope:?}")).collect();
            let message = format!(
                "has conflicting scope(s) [{}] that equal to or nest inside existing clusterimagepolicy, only policy from clusterimagepolicy scope(s) will be applied",
                scopes.join(" ")
            );
            ("ConflictScopes", message)
        });
        let problem = accepted.refused.get(&object).map(|why| ("InvalidPolicy", why.clone())).or(conflict);
        let known = one.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        condition(snapshot, object, one.metadata.generation, known, problem, plan);
    }
}

const PENDING: &str = "Pending";

fn condition(
    snapshot: &Snapshot,
    object: Object,
    generation: Option<i64>,
    known: &[Condition],
    problem: Option<(&str, String)>,
    plan: &mut Plan,
) {
    let known = known.iter().find(|condition| condition.type_ == PENDING);
    // A policy that never had a problem needs no word about it.
    if known.is_none() && problem.is_none() {
        return;
    }
    let (reason, message) = problem.unwrap_or(("AsExpected", String::new()));
    if known.is_some_and(|known| known.reason == reason && known.message == message) {
        return;
    }
    let condition = Condition {
        type_: PENDING.to_owned(),
        status: FALSE.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(snapshot.now),
        observed_generation: generation,
    };
    let status = Some(json!({"conditions": [condition]}));
    plan.update(Update { object, annotations: BTreeMap::new(), finalizers: None, status });
}

/// Pools are told of the same things; people need to hear them once.
fn dedup(plan: &mut Plan) {
    let mut seen = Vec::new();
    plan.events.retain(|event| {
        let is_new = !seen.contains(event);
        seen.push(event.clone());
        is_new
    });
}
