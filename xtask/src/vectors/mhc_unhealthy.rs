//! `mhc-unhealthy`: which machines of a health check are unhealthy, and how they are remediated.

use api::machine::{Machine, MachineHealthCheck};
use k8s_openapi::api::core::v1::Node;
use machine::health::{Action, Next, Snapshot, Waiting, plan};
use serde_json::{Map, Value, json};

use super::fleet::{list, name};
use super::judge::{Expected, Judge, Rule};
use super::machines::{object, objects, plains, time, untimed};
use super::same;

pub(crate) struct MhcUnhealthy;

impl Judge for MhcUnhealthy {
    fn file(&self) -> &'static str {
        "mhc-unhealthy"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let check: MachineHealthCheck = object(&input["machineHealthCheck"])?;
        let machines: Vec<Machine> = objects(&input["machines"])?;
        let nodes: Vec<Node> = plains(&input["nodes"])?;
        let node = |name: &str| Ok(nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name)));
        let mut snapshot = Snapshot::from_objects(&check, &machines, node, time(&input["now"])?);
        snapshot.template_exists = input["remediationTemplateExists"] != json!(false);
        let mut requests: Vec<_> =
            list(&input["remediationRequests"]).filter_map(Value::as_str).map(str::to_owned).collect();
        snapshot.requests = requests.iter().cloned().collect();
        let plan = plan(&snapshot);
        let requeue = match plan.next {
            Next::OnChange(Waiting::Invalid(problem)) => return Err(problem.to_string()),
            Next::OnChange(Waiting::TemplateMissing(why)) | Next::After(_, Waiting::TemplateMissing(why)) => {
                return Err(why);
            }
            Next::OnChange(_) => Value::Null,
            Next::After(delay, _) => json!(rounded(delay)),
        };
        let [mut deleted, mut annotated, mut events] = [const { Vec::new() }; 3];
        for action in plan.actions {
            match action {
                Action::DeleteMachine { name, uid: _, resource_version: _ } => deleted.push(name),
                Action::AnnotateMachine { name } => annotated.push(name),
                Action::RebootNode { node } => return Err(format!("reboots {node}")),
                Action::CreateRequest { machine, uid: _ } => requests.push(machine),
                Action::DeleteRequest { machine } => requests.retain(|request| *request != machine),
                Action::Event(event) => {
                    let kind = if event.warning { "Warning" } else { "Normal" };
                    events.push(format!("{kind} {} {}", event.reason, event.message));
                }
            }
        }
        let targets: Map<_, _> = plan
            .verdicts
            .iter()
            .map(|(name, verdict)| {
                let next = verdict.next_look().map(rounded);
                (name.clone(), json!({"needsRemediation": verdict.needs_remediation(), "nextCheckSeconds": next}))
            })
            .collect();
        Ok(json!({
            "deleted": same::as_set(&json!(deleted)),
            "annotated": same::as_set(&json!(annotated)),
            "remediationRequestsAfter": same::as_set(&json!(requests)),
            "events": events,
            "requeueAfterSeconds": requeue,
            "status": untimed(json!(plan.status)),
            "targets": targets,
        }))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        same::object_difference(expected, ours)
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        let what = if error.contains("maxUnhealthy") { "maxUnhealthy" } else { "remediation template" };
        vec![what.to_owned()]
    }
}

/// Upstream looks a second after a timeout and reacts later than that; we look a millisecond after it. In whole seconds, which
/// is what upstream counts in, both are the same.
fn rounded(delay: jiff::SignedDuration) -> f64 {
    delay.as_secs_f64().ceil()
}

const RULES: &[Rule] = &[
    Rule { name: "booting-machines-are-not-unhealthy", covers: |_| true, answer: booting_is_fine },
    Rule { name: "a-restricted-check-waits-for-a-change", covers: |_| true, answer: restricted_waits },
    Rule { name: "one-tenth-at-once", covers: |_| true, answer: braked },
];

/// Upstream's verdict about each machine, and the consequences for our result.
struct Facts<'a> {
    input: &'a Value,
    output: &'a Value,
}

impl<'a> Facts<'a> {
    fn machines(&self) -> impl Iterator<Item = &'a Value> {
        let targets = &self.output["targets"];
        list(&self.input["machines"]).filter(move |machine| !targets[name(machine)].is_null())
    }

    fn is_sick(&self, machine: &Value) -> bool {
        self.output["targets"][name(machine)]["needsRemediation"] == json!(true)
    }

    fn is_deleting(machine: &Value) -> bool {
        !machine["metadata"]["deletionTimestamp"].is_null()
    }

    fn is_external(machine: &Value) -> bool {
        !machine["metadata"]["annotations"]["host.metal3.io/external-remediation"].is_null()
    }

    fn node(machine: &Value) -> &str {
        machine["status"]["nodeRef"]["name"].as_str().unwrap_or_default()
    }

    fn is_booting(&self, machine: &Value) -> bool {
        let has_node = machine["status"]["nodeRef"].is_object();
        !has_node && !self.is_sick(machine) && !Self::is_deleting(machine) && !Self::is_external(machine)
    }

    fn unhealthy(&self) -> i64 {
        let booting = self.machines().filter(|machine| self.is_booting(machine)).count();
        let status = &self.output["status"];
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        number(&status["expectedMachines"]) - number(&status["currentHealthy"]) - i64::try_from(booting).unwrap_or(0)
    }

    fn limit(&self) -> i64 {
        self.raw_limit().max(0)
    }

    fn raw_limit(&self) -> i64 {
        let expected = self.output["status"]["expectedMachines"].as_i64().unwrap_or(0);
        match &self.input["machineHealthCheck"]["spec"]["maxUnhealthy"] {
            Value::Number(number) => number.as_i64().unwrap_or(0),
            Value::String(text) => match text.strip_suffix('%') {
                Some(percent) => percent.parse::<i64>().map_or(0, |percent| (percent * expected).div_euclid(100)),
                None => text.parse().unwrap_or(0),
            },
            _ => expected,
        }
    }

    fn is_restricted(&self) -> bool {
        self.unhealthy() > self.limit()
    }

    fn is_paused(&self) -> bool {
        !self.input["machineHealthCheck"]["metadata"]["annotations"]["cluster.x-k8s.io/paused"].is_null()
    }

    fn full_name(&self, machine: &Value) -> String {
        let check = name(&self.input["machineHealthCheck"]);
        let namespace = self.input["machineHealthCheck"]["metadata"]["namespace"].as_str().unwrap_or_default();
        format!("{namespace}/{check}/{}/{}", name(machine), Self::node(machine))
    }

    fn events(&self, reason: &str) -> Vec<Value> {
        let has = |event: &&Value| event.as_str().unwrap_or_default().split(' ').nth(1) == Some(reason);
        list(&self.output["events"]).filter(has).cloned().collect()
    }
}

/// Machines without a node count neither way and are not reported. Counts and messages follow from that.
fn booting_is_fine(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let facts = Facts { input, output: &output };
    let starts = |machine: &Value| !machine["status"]["nodeRef"].is_object() && !facts.is_sick(machine);
    if facts.is_paused() || !facts.machines().any(starts) {
        return Expected::Output(output);
    }
    let is_restricted = facts.is_restricted();
    let sick = facts.machines().any(|machine| facts.is_sick(machine));
    if !is_restricted && sick && input["remediationTemplateExists"] == json!(false) {
        return Expected::Refusal(vec!["remediation template".to_owned()]);
    }
    let (limit, unhealthy) = (facts.limit(), facts.unhealthy());
    let total = output["status"]["expectedMachines"].as_i64().unwrap_or(0);
    let mut events: Vec<Value> = facts
        .machines()
        .filter(|machine| !Facts::node(machine).is_empty())
        .filter(|machine| !output["targets"][name(machine)]["nextCheckSeconds"].is_null())
        .map(|machine| {
            let node = Facts::node(machine);
            json!(format!("Normal DetectedUnhealthy Machine {} has unhealthy node {node}", facts.full_name(machine)))
        })
        .collect();
    let was_restricted = !facts.events("RemediationRestricted").is_empty();
    if !was_restricted {
        let others =
            list(&output["events"]).filter(|event| !event.as_str().unwrap_or_default().contains(" DetectedUnhealthy "));
        events.extend(others.cloned());
    } else if is_restricted {
        let max = match &input["machineHealthCheck"]["spec"]["maxUnhealthy"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let numbers = format!("(total: {total}, unhealthy: {unhealthy}, maxUnhealthy: {max})");
        events.push(json!(format!(
            "Warning RemediationRestricted Remediation restricted due to exceeded number of unhealthy machines {numbers}"
        )));
        output["status"]["conditions"][0]["message"] = json!(format!(
            "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy {numbers}"
        ));
    } else {
        // Upstream stopped here; we continue.
        let (remedies, outcome) = all_remedies(&facts);
        events.extend(remedies);
        for (key, value) in outcome {
            output[key] = value;
        }
        output["status"]["conditions"] = json!([{"type": "RemediationAllowed", "status": "True"}]);
        output["requeueAfterSeconds"] = soonest(&output);
    }
    output["events"] = json!(events);
    output["status"]["remediationsAllowed"] = json!((limit - unhealthy).max(0));
    Expected::Output(output)
}

/// Returns what upstream would have done without the restriction.
fn all_remedies(facts: &Facts) -> (Vec<Value>, Vec<(&'static str, Value)>) {
    let check = &facts.input["machineHealthCheck"];
    let strategy = &check["metadata"]["annotations"]["machine.openshift.io/remediation-strategy"];
    let mut events = Vec::new();
    let [mut deleted, mut annotated] = [const { Vec::new() }; 2];
    let mut requests: Vec<&str> = list(&facts.input["remediationRequests"]).filter_map(Value::as_str).collect();
    let templated = check["spec"]["remediationTemplate"].is_object();
    for machine in facts.machines() {
        let (full, is_sick) = (facts.full_name(machine), facts.is_sick(machine));
        let pending = !facts.output["targets"][name(machine)]["nextCheckSeconds"].is_null();
        if templated {
            if is_sick && !requests.contains(&name(machine)) {
                requests.push(name(machine));
            } else if !is_sick && !pending && !Facts::node(machine).is_empty() && !Facts::is_deleting(machine) {
                requests.retain(|request| *request != name(machine));
            }
        } else if is_sick && *strategy == json!("external-baremetal") && machine["status"]["phase"] != json!("Failed") {
            if !Facts::is_external(machine) {
                annotated.push(name(machine));
                let told = "Requesting external remediation of node associated with machine";
                events.push(json!(format!("Normal ExternalAnnotationAdded {told} {full}")));
            }
        } else if is_sick {
            let owned = list(&machine["metadata"]["ownerReferences"]).any(|owner| owner["controller"] == json!(true));
            if !owned {
                let told = "has no controller owner, skipping remediation";
                events.push(json!(format!("Normal SkippedNoController Machine {full} {told}")));
            } else if !Facts::is_deleting(machine) {
                deleted.push(name(machine));
                let told = "has been remediated by requesting to delete Machine object";
                events.push(json!(format!("Normal MachineDeleted Machine {full} {told}")));
            }
        }
    }
    let sets = [("deleted", deleted), ("annotated", annotated), ("remediationRequestsAfter", requests)];
    (events, sets.map(|(key, names)| (key, same::as_set(&json!(names)))).into())
}

fn soonest(output: &Value) -> Value {
    let targets = output["targets"].as_object().into_iter().flatten();
    let next = targets.filter_map(|(_, target)| target["nextCheckSeconds"].as_f64());
    next.reduce(f64::min).map_or(Value::Null, |next| json!(next.min(3600.0)))
}

/// Upstream requeues after a millisecond, again and again.
fn restricted_waits(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    if !(Facts { input, output: &output }).events("RemediationRestricted").is_empty() {
        output["requeueAfterSeconds"] = soonest(&output);
    }
    Expected::Output(output)
}

/// Limits upstream's remediations in one reconcile to a tenth of the machines, but at least one.
fn braked(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let facts = Facts { input, output: &output };
    let before: Vec<_> = list(&input["remediationRequests"]).filter_map(Value::as_str).collect();
    let templated = input["machineHealthCheck"]["spec"]["remediationTemplate"].is_object();
    let is_busy = |machine: &&Value| {
        Facts::is_deleting(machine) || Facts::is_external(machine) || (templated && before.contains(&name(machine)))
    };
    let busy = facts.machines().filter(is_busy).count();
    let mut room = (facts.machines().count() / 10).max(1).saturating_sub(busy);
    let mut held = Vec::new();
    for machine in facts.machines() {
        let acts = ["deleted", "annotated"].iter().any(|key| list(&output[*key]).any(|other| other == name(machine)))
            || (list(&output["remediationRequestsAfter"]).any(|other| other == name(machine))
                && !before.contains(&name(machine)));
        if !acts {
            continue;
        }
        if room == 0 {
            held.push((name(machine).to_owned(), format!("/{}/{} ", name(machine), Facts::node(machine))));
        } else {
            room -= 1;
        }
    }
    for key in ["deleted", "annotated", "remediationRequestsAfter"] {
        let kept = list(&output[key]).filter(|other| !held.iter().any(|(name, _)| *other == name)).cloned();
        output[key] = same::as_set(&kept.collect());
    }
    let is_held = |event: &Value| {
        let text = format!("{} ", event.as_str().unwrap_or_default());
        let remedy = text.contains(" MachineDeleted ") || text.contains(" ExternalAnnotationAdded ");
        remedy && held.iter().any(|(_, full)| text.contains(full.as_str()))
    };
    output["events"] = list(&output["events"]).filter(|event| !is_held(event)).cloned().collect();
    Expected::Output(output)
}
