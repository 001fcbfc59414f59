//! Decides what an admission request is answered: errors, warnings and changes.
//!
//! Objects are changed as they came and not as a type of ours would write them, so that no field is lost that we do not
//! know. An update is judged only where it changes something: a Machine whose spec a newer rule refuses can still be
//! labelled, drained and deleted.

use api::labels::{MACHINE_CLUSTER, MACHINE_ROLE};
use api::machine::{ControlPlaneMachineSet, Machine, MachineHealthCheck, MachineSet};
use base64::Engine as _;
use machine::admission::{
    Review, review_control_plane_set, review_health_check, review_machine, review_set, settle_copy,
    skips_provider_checks,
};
use machine::control_plane_set::provider_specs;
use machine::provider::{SpecRules, Surroundings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Who holds an instance.
pub(super) enum Holder {
    Nobody,
    /// Namespace and name.
    Machine(String),
    /// Machines cannot be read now, for this reason.
    Unknown(String),
}

/// What an answer depends on besides the request.
pub(super) struct Around<'a> {
    pub(super) rules: &'a dyn SpecRules,
    pub(super) surroundings: &'a Surroundings,
    /// Takes a provider ID and the Machine that asks, as namespace and name.
    pub(super) holder: &'a dyn Fn(&str, &str) -> Holder,
}

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Operations of a JSON patch.
    pub(super) patch: Vec<Value>,
}

/// Where machines are described, in a Machine and in a template.
const OF_MACHINE: &str = "/spec";
const OF_TEMPLATE: &str = "/spec/template/spec";
/// The fields of a description that may hold the provider's part: of today, and of 2019.
const SPELLINGS: [&str; 2] = ["providerSpec", "providerConfig"];

/// The answer to a request at one of upstream's paths; `None` where nothing is reviewed.
pub(super) fn answer(path: &str, request: &Value, around: &Around<'_>) -> Option<Answer> {
    let (new, old) = (&request["object"], Some(&request["oldObject"]).filter(|old| !old.is_null()));
    let judged = match path {
        "mutate-machine-openshift-io-v1beta1-machine" => mutate_machine(request, new, around),
        "mutate-machine-openshift-io-v1beta1-machineset" => Ok(mutate_set(request, new, around)),
        "validate-machine-openshift-io-v1beta1-machine" => validate_machine(request, new, old, around),
        "validate-machine-openshift-io-v1beta1-machineset" => validate_set(request, new, old, around),
        "validate-machine-openshift-io-v1beta1-machinehealthcheck" => validate_health_check(new, old),
        "validate-machine-openshift-io-v1-controlplanemachineset" => {
            validate_control_plane_set(request, new, old, around)
        }
        _ => return None,
    };
    Some(judged.unwrap_or_else(|error| Answer { errors: vec![error], ..Answer::default() }))
}

impl From<Review> for Answer {
    fn from(Review { errors, warnings }: Review) -> Self {
        Self { errors, warnings, patch: Vec::new() }
    }
}

impl Answer {
    /// The AdmissionReview that is sent back.
    pub(super) fn response(&self, uid: &Value) -> Value {
        let Self { errors, warnings, patch } = self;
        let mut response = json!({"uid": uid, "allowed": errors.is_empty()});
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        match &errors[..] {
            [] if patch.is_empty() => {}
            [] => {
                let text = Value::from(patch.clone()).to_string();
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(base64::engine::general_purpose::STANDARD.encode(text));
            }
            [one] => response["status"] = json!({"code": 403, "reason": "Forbidden", "message": one}),
            several => {
                let message = format!("[{}]", several.join(", "));
                response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
            }
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }
}

/// A check that was let in before these rules can still be labelled, claimed and deleted: only a changed spec is judged.
fn validate_health_check(new: &Value, old: Option<&Value>) -> Result<Answer, String> {
    if old.is_some_and(|old| old["spec"] == new["spec"]) {
        return Ok(Answer::default());
    }
    parse::<MachineHealthCheck>(new).map(|check| Answer::from(review_health_check(&check)))
}

fn mutate_machine(request: &Value, object: &Value, around: &Around<'_>) -> Result<Answer, String> {
    let machine: Machine = parse(object)?;
    let mut new = object.clone();
    let mut warnings = Vec::new();
    let holder = holder(request, machine.spec.provider_id.as_deref(), around)?;
    if let Some(change) = settle_copy(&machine, holder.as_deref()) {
        if change.provider_id {
            remove(&mut new, "/spec", "providerID");
        }
        if change.owner_references {
            remove(&mut new, "/metadata", "ownerReferences");
        }
        for annotation in &change.annotations {
            remove(&mut new, "/metadata/annotations", annotation);
        }
        warnings.push(change.warning);
    }
    let cluster = &around.surroundings.cluster;
    if !cluster.is_empty() && object["metadata"]["labels"].get(MACHINE_CLUSTER).is_none() {
        new["metadata"]["labels"][MACHINE_CLUSTER] = json!(cluster);
    }
    default_spec(&mut new, OF_MACHINE, &surroundings(request, object, false, around), around.rules);
    Ok(Answer { warnings, patch: difference(object, &new), errors: Vec::new() })
}

fn mutate_set(request: &Value, object: &Value, around: &Around<'_>) -> Answer {
    let mut new = object.clone();
    default_spec(&mut new, OF_TEMPLATE, &surroundings(request, object, true, around), around.rules);
    Answer { patch: difference(object, &new), ..Answer::default() }
}

/// Fills in what a spec leaves out. One that cannot be read is left for validation to refuse.
fn default_spec(object: &mut Value, path: &str, surroundings: &Surroundings, rules: &dyn SpecRules) {
    let Some(field) = spelling(object, path) else { return };
    let Some(spec) = object.pointer_mut(&format!("{path}/{field}/value")) else { return };
    if let Ok(filled) = rules.default(spec, surroundings) {
        *spec = filled;
    }
}

/// The provider spec that a request at this path is judged by, if it is one and the request changes it.
pub(super) fn judged_spec<'a>(path: &str, request: &'a Value) -> Option<&'a Value> {
    let at = match path {
        "validate-machine-openshift-io-v1beta1-machine" => OF_MACHINE,
        "validate-machine-openshift-io-v1beta1-machineset" => OF_TEMPLATE,
        _ => return None,
    };
    let new = provider_value(&request["object"], at)?;
    (provider_value(&request["oldObject"], at) != Some(new)).then_some(new)
}

/// The field that holds the provider's part: the older one only where the present one says nothing.
fn spelling(object: &Value, path: &str) -> Option<&'static str> {
    let description = object.pointer(path)?;
    SPELLINGS.into_iter().find(|field| !description[*field]["value"].is_null())
}

fn provider_value<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.pointer(path)?.get(spelling(object, path)?)?.get("value")
}

fn validate_machine(
    request: &Value,
    object: &Value,
    before: Option<&Value>,
    around: &Around<'_>,
) -> Result<Answer, String> {
    let new: Machine = parse(object)?;
    let old: Option<Machine> = before.map(parse).transpose()?;
    let is_claim = old.as_ref().is_none_or(|old| old.spec.provider_id != new.spec.provider_id);
    let claimed = new.spec.provider_id.as_deref().filter(|_| is_claim);
    let mut answer = Answer::from(review_machine(old.as_ref(), &new, holder(request, claimed, around)?.as_deref()));
    if !skips_provider_checks(old.as_ref(), &new) {
        answer.judge_spec(object, before, OF_MACHINE, &surroundings(request, object, false, around), around.rules);
    }
    Ok(answer)
}

fn validate_set(
    request: &Value,
    object: &Value,
    before: Option<&Value>,
    around: &Around<'_>,
) -> Result<Answer, String> {
    let new: MachineSet = parse(object)?;
    let old: Option<MachineSet> = before.map(parse).transpose()?;
    let mut answer = Answer::from(review_set(old.as_ref(), &new));
    answer.judge_spec(object, before, OF_TEMPLATE, &surroundings(request, object, true, around), around.rules);
    Ok(answer)
}

/// Like a health check, only a changed spec is judged. The provider is asked about every failure domain; what its specs
/// leave out is filled in on the Machines that are made of them.
fn validate_control_plane_set(
    request: &Value,
    new: &Value,
    old: Option<&Value>,
    around: &Around<'_>,
) -> Result<Answer, String> {
    if old.is_some_and(|old| old["spec"] == new["spec"]) {
        return Ok(Answer::default());
    }
    let set: ControlPlaneMachineSet = parse(new)?;
    let mut answer = Answer::from(review_control_plane_set(&set));
    let surroundings = Surroundings { control_plane: true, ..surroundings(request, new, true, around) };
    for spec in provider_specs(&set).unwrap_or_default() {
        let verdict = around.rules.validate(&spec, &surroundings);
        for problem in verdict.problems.iter().map(ToString::to_string) {
            if !answer.errors.contains(&problem) {
                answer.errors.push(problem);
            }
        }
        answer.warnings.extend(verdict.warnings);
    }
    answer.warnings.dedup();
    Ok(answer)
}

impl Answer {
    /// Adds what the provider says of its part, if that is new.
    fn judge_spec(
        &mut self,
        new: &Value,
        old: Option<&Value>,
        path: &str,
        surroundings: &Surroundings,
        rules: &dyn SpecRules,
    ) {
        let value = provider_value(new, path);
        if old.is_some_and(|old| provider_value(old, path) == value) {
            return;
        }
        self.warnings.extend(api::translate(&mut new.clone()).iter().map(ToString::to_string));
        let verdict = rules.validate(value.unwrap_or(&Value::Null), surroundings);
        self.errors.extend(verdict.problems.iter().map(ToString::to_string));
        self.warnings.extend(verdict.warnings);
    }
}

/// The Machine that holds an instance which another one brings.
fn holder(request: &Value, id: Option<&str>, around: &Around<'_>) -> Result<Option<String>, String> {
    let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(None) };
    let text = |key: &str| request[key].as_str().unwrap_or_default();
    match (around.holder)(id, &format!("{}/{}", text("namespace"), text("name"))) {
        Holder::Nobody => Ok(None),
        Holder::Machine(name) => Ok(Some(name)),
        Holder::Unknown(why) => Err(format!(
            "spec.providerID: Forbidden: it cannot be told whether another machine holds {id}: {why}; try again, or leave it out"
        )),
    }
}

fn surroundings(request: &Value, object: &Value, template: bool, around: &Around<'_>) -> Surroundings {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Surroundings {
        machine: text(&object["metadata"]["name"]),
        namespace: text(&request["namespace"]),
        control_plane: !template && object["metadata"]["labels"][MACHINE_ROLE] == "master",
        template,
        ..around.surroundings.clone()
    }
}

fn parse<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    T::deserialize(object).map_err(|error| format!("the object cannot be read: {error}"))
}

fn remove(object: &mut Value, parent: &str, key: &str) {
    if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.remove(key);
    }
}

/// The operations that make `old` into `new`, for the fields that admission changes.
fn difference(old: &Value, new: &Value) -> Vec<Value> {
    let fields = [
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/ownerReferences",
        "/spec/providerID",
        "/spec/providerSpec",
        "/spec/providerConfig",
        "/spec/template/spec/providerSpec",
        "/spec/template/spec/providerConfig",
    ];
    let operation = |path: &&str| match (old.pointer(path), new.pointer(path)) {
        (old, new) if old == new => None,
        (_, Some(value)) => Some(json!({"op": "add", "path": path, "value": value})),
        (_, None) => Some(json!({"op": "remove", "path": path})),
    };
    fields.iter().filter_map(operation).collect()
}

#[cfg(test)]
mod tests {
    use machine::provider::{Problem, Verdict};

    use super::*;

    #[test]
    fn a_health_check_is_judged_when_its_spec_changes_and_not_when_it_is_labelled() {
        let check = |limit: &str, label: &str| {
            json!({
                "metadata": {"name": "check", "labels": {"a": label}},
                "spec": {"selector": {}, "unhealthyConditions": [], "maxUnhealthy": limit},
            })
        };
        let errors = |new: &Value, old: Option<&Value>| validate_health_check(new, old).expect("it is valid").errors;
        let wrong = check("many", "x");
        assert!(!errors(&wrong, None).is_empty());
        assert!(!errors(&wrong, Some(&check("40%", "x"))).is_empty());
        assert!(errors(&check("many", "y"), Some(&wrong)).is_empty());
    }

    #[test]
    fn a_spec_is_judged_when_it_is_new_and_not_when_a_finalizer_goes() {
        let machine = |zone: &str| json!({"spec": {"providerSpec": {"value": {"zone": zone}}}});
        let path = "validate-machine-openshift-io-v1beta1-machine";
        let is_judged = |old: Value| judged_spec(path, &json!({"object": machine("a"), "oldObject": old})).is_some();
        assert!(is_judged(Value::Null));
        assert!(is_judged(machine("b")));
        assert!(!is_judged(machine("a")));
    }

    /// The provider of the tests: sizes have a default, and `huge` is none.
    struct Sizes;

    impl SpecRules for Sizes {
        fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
            let mut spec = spec.clone();
            if spec["size"].is_null() {
                spec["size"] = json!("small");
            }
            Ok(spec)
        }

        fn validate(&self, spec: &Value, _: &Surroundings) -> Verdict {
            let mut verdict = Verdict::default();
            if spec.is_null() || spec["size"] == "huge" {
                verdict.problems.push(Problem::new("providerSpec.size", format!("Invalid value: {spec}")));
            }
            verdict
        }

        fn secrets(&self, _: &Value) -> Vec<machine::provider::SecretNeed> {
            Vec::new()
        }

        fn place(&self, _: &Value) -> Value {
            Value::Null
        }

        fn capacity(&self, _: &Value) -> Option<machine::provider::Capacity> {
            None
        }
    }

    /// The answer to a creation.
    fn asked(verb: &str, kind: &str, spec: Value) -> Answer {
        let surroundings = Surroundings::default();
        let around = Around { rules: &Sizes, surroundings: &surroundings, holder: &|_, _| Holder::Nobody };
        let object = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": kind, "metadata": {}, "spec": spec});
        let path = format!("{verb}-machine-openshift-io-v1beta1-{}", kind.to_lowercase());
        answer(&path, &json!({"object": object, "oldObject": null}), &around).expect("it is reviewed")
    }

    #[test]
    fn the_spelling_of_2019_is_filled_in_judged_and_warned_of_with_the_new_one() {
        let set = |field: &str, value: Value| {
            json!({"selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {field: {"value": value}}}})
        };
        for (kind, path, spec) in [
            ("Machine", "spec", json!({"providerConfig": {"value": {"zone": "a"}}})),
            ("Machine", "spec", json!({"providerSpec": {}, "providerConfig": {"value": {"zone": "a"}}})),
            ("MachineSet", "spec.template.spec", set("providerConfig", json!({"zone": "a"}))),
        ] {
            let mut said = asked("validate", kind, spec.clone());
            assert_eq!(said.errors, Vec::<String>::new());
            let warning = said.warnings.pop().expect("the older spelling is warned of");
            assert!(warning.contains(&format!("{path}.providerConfig.value")), "{warning}");
            assert!(warning.contains(&format!("{path}.providerSpec.value")), "{warning}");
            let filled = asked("mutate", kind, spec).patch;
            let at = format!("/{}/providerConfig", path.replace('.', "/"));
            let value = json!({"value": {"zone": "a", "size": "small"}});
            assert_eq!(filled, [json!({"op": "add", "path": at, "value": value})]);
        }
        let huge = json!({"value": {"size": "huge"}});
        assert_eq!(asked("validate", "Machine", json!({"providerConfig": huge})).errors.len(), 1);
        let both = json!({"providerConfig": huge, "providerSpec": {"value": {"size": "small"}}});
        let both = asked("validate", "Machine", both);
        assert!(both.errors.is_empty() && both.warnings[0].contains("is ignored"), "{both:?}");
    }
}
