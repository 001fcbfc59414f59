//! `machine-reconcile`: one reconcile of a Machine with a scripted provider.

use api::machine::Machine;
use api::names::MACHINE_FINALIZER;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use machine::lifecycle::{Action, Answer, Call, LinkedNode, Next, Snapshot, Waiting, plan};
use machine::provider::{Deletion, Error, ErrorKind, Instance, State};
use serde_json::{Value, json};

use super::fleet::list;
use super::judge::{Check, Expected, Judge, Rule};
use super::machine_drain::is_uncordoned_since;
use super::machines::{object, plains, untimed};
use super::same;

pub(crate) struct MachineReconcile;

const NOW: &str = "2026-03-01T12:00:00Z";

impl Judge for MachineReconcile {
    fn file(&self) -> &'static str {
        "machine-reconcile"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let machine: Machine = object(&input["machine"])?;
        let nodes: Vec<Node> = plains(&input["nodes"])?;
        let wanted = machine.status.as_ref().and_then(|it| it.node_ref.as_ref()).and_then(|it| it.name.clone());
        let node = nodes.iter().find(|node| wanted.is_some() && node.metadata.name == wanted);
        let now: Timestamp = NOW.parse().map_err(|error: jiff::Error| error.to_string())?;
        let snapshot = Snapshot::from_objects(&machine, [], LinkedNode::of(&machine, node), now);
        Ok(Pass { input, snapshot, calls: Vec::new(), events: Vec::new(), node_deleted: false, gone: false }.run(now))
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn difference(&self, expected: &Value, ours: &Value) -> Option<String> {
        let by_type = |output: &Value| {
            let mut output = output.clone();
            output["status"]["conditions"] = same::as_set(&output["status"]["conditions"]);
            output
        };
        same::object_difference(&by_type(expected), &by_type(ours))
    }
}

/// One reconcile, with the vector's responses as the provider. Planned writes are applied to the Machine in memory.
struct Pass<'a> {
    input: &'a Value,
    snapshot: Snapshot,
    calls: Vec<&'static str>,
    events: Vec<String>,
    node_deleted: bool,
    gone: bool,
}

impl Pass<'_> {
    fn run(mut self, now: Timestamp) -> Value {
        loop {
            let plan = plan(&self.snapshot);
            plan.actions.iter().for_each(|action| self.carry_out(action));
            self.snapshot.machine.status = Some(plan.status);
            match plan.next {
                Next::Ask(call) => self.ask(call),
                ended => return self.outcome(&ended, now),
            }
        }
    }

    fn carry_out(&mut self, action: &Action) {
        let metadata = &mut self.snapshot.machine.metadata;
        match action {
            Action::AddFinalizer => metadata.finalizers.get_or_insert_default().push(MACHINE_FINALIZER.to_owned()),
            Action::RemoveFinalizer => {
                let finalizers = metadata.finalizers.get_or_insert_default();
                finalizers.retain(|finalizer| finalizer != MACHINE_FINALIZER);
                self.gone = finalizers.is_empty();
            }
            // Upstream has no such record, so the vectors do not contain it.
            Action::RecordIntent(_) => {}
            Action::Amend(amendment) => {
                metadata.annotations.get_or_insert_default().extend(amendment.annotations.clone());
                if amendment.provider_id.is_some() {
                    self.snapshot.machine.spec.provider_id.clone_from(&amendment.provider_id);
                }
            }
            Action::DeleteNode { .. } => self.node_deleted = true,
            Action::Event { warning, reason, message } => {
                let kind = if *warning { "Warning" } else { "Normal" };
                self.events.push(format!("{kind} {reason} {message}"));
            }
        }
    }

    fn ask(&mut self, call: Call) {
        let provider = &self.input["provider"];
        let instance = self.instance();
        match call {
            Call::Look => {
                self.calls.push("Exists");
                let found = if provider["exists"] == json!(true) { vec![instance] } else { Vec::new() };
                self.snapshot.sighting = Some(refusal(provider, "existsError").map_or(Ok(found), Err));
            }
            Call::Create(_) => {
                self.calls.push("Create");
                let answer = refusal(provider, "create").map_or(Ok(instance), Err);
                self.snapshot.answer = Some(Answer::Created(answer));
            }
            Call::Update(_) => {
                self.calls.push("Update");
                let id = provider["updateSetsProviderID"].as_str().map(str::to_owned);
                let instance = Instance { provider_id: id.or(instance.provider_id.clone()), ..instance };
                let answer = refusal(provider, "update").map_or(Ok(instance), Err);
                self.snapshot.answer = Some(Answer::Updated(answer));
            }
            Call::Delete => {
                self.calls.push("Delete");
                let answer = refusal(provider, "delete").map_or(Ok(Deletion::Requested), Err);
                self.snapshot.answer = Some(Answer::Deleted(answer));
            }
        }
    }

    /// The vector's instance contains nothing beyond what the Machine already has.
    fn instance(&self) -> Instance {
        let Machine { spec, status, .. } = &self.snapshot.machine;
        let status = status.clone().unwrap_or_default();
        Instance {
            provider_id: spec.provider_id.clone(),
            state: State::Running,
            addresses: status.addresses,
            provider_status: status.provider_status,
            ..Instance::default()
        }
    }

    fn outcome(self, next: &Next, now: Timestamp) -> Value {
        let Self { input: _, snapshot, calls, events, node_deleted, gone } = self;
        if gone {
            return json!({"machineGone": true, "nodeDeleted": node_deleted, "providerCalls": calls});
        }
        let Machine { metadata, status, .. } = snapshot.machine;
        let mut status = untimed(json!(status));
        let is_now = status["lastUpdated"].as_str().and_then(|time| time.parse().ok()) == Some(now);
        status["lastUpdatedIsNow"] = json!(is_now);
        // The vectors omit these.
        for key in ["lastUpdated", "addresses", "nodeRef"] {
            status[key] = Value::Null;
        }
        let mut output = json!({
            "annotations": metadata.annotations,
            "events": events,
            "finalizers": metadata.finalizers,
            "nodeDeleted": node_deleted,
            "providerCalls": calls,
            "status": status,
        });
        match next {
            Next::After(_, Waiting::Provider(error))
                if error.retry_after().is_none() && calls.last() != Some(&"Update") =>
            {
                output["error"] = json!(error.to_string());
            }
            Next::After(delay, waiting) => {
                output["requeueAfterSeconds"] = json!(delay.as_secs_f64());
                output["requeue"] = json!(matches!(waiting, Waiting::Provider(error) if error.retry_after().is_some()));
            }
            Next::OnChange(Waiting::Invalid(problem)) => output["error"] = json!(problem.to_string()),
            Next::OnChange(_) | Next::Ask(_) => {}
        }
        output
    }
}

/// Maps the vector's error to our kind of error.
fn refusal(provider: &Value, call: &str) -> Option<Error> {
    let word = provider[call].as_str()?;
    let (kind, message) = match word {
        "InvalidConfiguration" | "WrappedInvalidConfiguration" => (ErrorKind::InvalidSpec, format!("bad spec: {call}")),
        "CreateError" => (ErrorKind::NoCapacity, "no capacity".to_owned()),
        word => match word.strip_prefix("RequeueAfter ") {
            Some(delay) => {
                let seconds = delay.trim_end_matches('s').parse().unwrap_or(0);
                let kind = ErrorKind::Throttled { retry_after: Some(SignedDuration::from_secs(seconds)) };
                (kind, format!("requeue in: {delay}"))
            }
            None => (ErrorKind::Other, word.to_owned()),
        },
    };
    Some(Error::new(kind, message))
}

const RULES: &[Rule] = &[
    // Upstream only publishes an event about an invalid machine, and does not delete it either.
    Rule { name: "an-invalid-machine-can-be-deleted", covers: is_deleting, answer: deletable },
    Rule { name: "an-invalid-machine-says-so", covers: |input| !is_deleting(input), answer: invalid },
    Rule { name: "what-came-of-a-creation-is-told", covers: |input| !is_deleting(input), answer: created },
    Rule { name: "a-failed-update-is-told", covers: |input| !is_deleting(input), answer: updated },
    Rule { name: "what-a-deletion-was-forgiven-for-does-not-stop-it", covers: is_deleting, answer: forgiven },
    Rule { name: "a-failed-deletion-is-told", covers: is_deleting, answer: deleted },
    Rule { name: "the-provider-says-when-to-come-back", covers: |_| true, answer: honoured },
    Rule { name: "a-running-machine-does-not-begin-anew", covers: |_| true, answer: stays_running },
    Rule { name: "a-node-that-is-gone-is-told", covers: |input| !is_deleting(input), answer: node_gone },
    Rule {
        name: "a-node-that-is-not-cordoned-is-not-drained",
        covers: |input| is_deleting(input) && is_uncordoned_since(input),
        answer: not_gone_yet,
    },
];

fn not_gone_yet(_: &Value, expected: Expected) -> Expected {
    match &expected {
        Expected::Output(output) if output["machineGone"] == json!(true) => Expected::Checked(Check(|_, ours| {
            (ours["machineGone"] == json!(true)).then(|| "the machine goes before its node is drained".to_owned())
        })),
        _ => expected,
    }
}

fn is_deleting(input: &Value) -> bool {
    !input["machine"]["metadata"]["deletionTimestamp"].is_null()
}

fn calls(output: &Value) -> Vec<&str> {
    list(&output["providerCalls"]).filter_map(Value::as_str).collect()
}

fn is_invalid(output: &Value) -> bool {
    output["error"].as_str().is_some_and(|error| error.contains("machine validation failed"))
}

fn word<'a>(input: &'a Value, call: &str) -> &'a str {
    input["provider"][call].as_str().unwrap_or_default()
}

/// Maps the vector's error to our reason.
fn reason(word: &str) -> &'static str {
    match word {
        "CreateError" => "NoCapacity",
        "InvalidConfiguration" | "WrappedInvalidConfiguration" => "InvalidSpec",
        word if word.starts_with("RequeueAfter") => "Throttled",
        _ => "Other",
    }
}

fn text(word: &str, call: &str) -> String {
    match reason(word) {
        "InvalidSpec" => format!("bad spec: {call}"),
        "NoCapacity" => "no capacity".to_owned(),
        "Throttled" => word.replace("RequeueAfter ", "requeue in: "),
        _ => word.to_owned(),
    }
}

fn set(output: &mut Value, condition: Value) {
    let conditions = &mut output["status"]["conditions"];
    let mut others: Vec<_> = list(conditions).filter(|other| other["type"] != condition["type"]).cloned().collect();
    others.push(condition);
    *conditions = json!(others);
}

fn set_trouble(output: &mut Value, type_: &str, word: &str, call: &str) {
    let (reason, message) = (reason(word), text(word, call));
    let condition =
        json!({"type": type_, "status": "False", "severity": "Warning", "reason": reason, "message": message});
    set(output, condition);
}

/// Sets the conditions that every status write includes.
fn set_hooks(input: &Value, output: &mut Value) {
    for (type_, hooks, operation) in [("Drainable", "preDrain", "Drain"), ("Terminable", "preTerminate", "Terminate")] {
        let hooks: Vec<_> = list(&input["machine"]["spec"]["lifecycleHooks"][hooks])
            .map(|hook| {
                format!(
                    "{{Name:{} Owner:{}}}",
                    hook["name"].as_str().unwrap_or(""),
                    hook["owner"].as_str().unwrap_or("")
                )
            })
            .collect();
        let condition = if hooks.is_empty() {
            json!({"type": type_, "status": "True"})
        } else {
            let message = format!("{operation} operation currently blocked by: [{}]", hooks.join(" "));
            json!({"type": type_, "status": "False", "severity": "Warning", "reason": "HookPresent", "message": message})
        };
        set(output, condition);
    }
}

/// Updates `lastUpdated` if this write changes one of the fields it stands for.
fn restamp(input: &Value, output: &mut Value) {
    let before = untimed(input["machine"]["status"].clone());
    let after = &output["status"];
    let parts = |status: &Value| {
        same::without_zero(&json!([
            status["phase"],
            status["errorReason"],
            status["errorMessage"],
            same::as_set(&status["conditions"])
        ]))
    };
    output["status"]["lastUpdatedIsNow"] = json!(parts(&before) != parts(after));
}

fn deletable(_: &Value, expected: Expected) -> Expected {
    match &expected {
        Expected::Output(output) if is_invalid(output) => {
            Expected::Checked(Check(|_, ours| is_invalid(ours).then(|| "the machine cannot be deleted".to_owned())))
        }
        _ => expected,
    }
}

fn invalid(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    if is_invalid(&output) {
        let condition = json!({
            "type": "Valid", "status": "False", "severity": "Warning", "reason": "InvalidConfiguration",
            "message": output["error"],
        });
        set(&mut output, condition);
        if output["status"]["phase"] != json!("Failed") {
            output["status"]["errorReason"] = Value::Null;
            output["status"]["errorMessage"] = Value::Null;
        }
        restamp(input, &mut output);
    }
    Expected::Output(output)
}

fn created(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    if calls(&output).last() != Some(&"Create") {
        return Expected::Output(output);
    }
    if output["status"]["phase"] == json!("Failed") {
        set_trouble(&mut output, "InstanceCreated", word(input, "create"), "create");
        return Expected::Output(output);
    }
    set_hooks(input, &mut output);
    match word(input, "create") {
        "" => set(&mut output, json!({"type": "InstanceExists", "status": "True"})),
        refusal => {
            let condition = json!({
                "type": "InstanceExists", "status": "False", "severity": "Warning", "reason": "InstanceNotCreated",
                "message": "Instance has not been created",
            });
            set(&mut output, condition);
            set_trouble(&mut output, "InstanceCreated", refusal, "create");
        }
    }
    output["status"]["errorReason"] = Value::Null;
    output["status"]["errorMessage"] = Value::Null;
    restamp(input, &mut output);
    Expected::Output(output)
}

fn updated(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let refusal = word(input, "update");
    if calls(&output).last() == Some(&"Update") && !refusal.is_empty() {
        set_trouble(&mut output, "InstanceUpdated", refusal, "update");
        restamp(input, &mut output);
    }
    Expected::Output(output)
}

fn deleted(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let last = calls(&output).last().map(|call| (*call).to_owned());
    let (refusal, call) = match last.as_deref() {
        Some("Delete") => (word(input, "delete"), "delete"),
        Some("Exists") => (word(input, "existsError"), "existsError"),
        _ => ("", ""),
    };
    if !refusal.is_empty() && output["machineGone"] != json!(true) {
        set_trouble(&mut output, "InstanceDeleted", refusal, call);
        restamp(input, &mut output);
    }
    Expected::Output(output)
}

/// Upstream allows a deletion with an invalid spec, but then fails at the lookup with the same spec.
fn forgiven(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(output) = &expected else { return expected };
    let is_invalid = |call: &str| reason(word(input, call)) == "InvalidSpec";
    let machine = &input["machine"];
    let hints = [&machine["spec"]["providerID"], &machine["status"]["addresses"], &machine["status"]["providerStatus"]];
    let no_hint = hints.iter().all(|hint| same::without_zero(&json!({"hint": hint})) == json!({}));
    if calls(output) != ["Delete", "Exists"] || !is_invalid("delete") || !is_invalid("existsError") || !no_hint {
        return expected;
    }
    let node = &machine["status"]["nodeRef"]["name"];
    let node_deleted = list(&input["nodes"]).any(|other| other["metadata"]["name"] == *node);
    Expected::Output(json!({"machineGone": true, "nodeDeleted": node_deleted, "providerCalls": ["Delete", "Exists"]}))
}

/// Upstream requeues after the time that a failed lookup or update requests.
fn honoured(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let refusal = match calls(&output).last() {
        Some(&"Exists") => word(input, "existsError"),
        Some(&"Update") => word(input, "update"),
        _ => "",
    };
    if let Some(delay) =
        refusal.strip_prefix("RequeueAfter ").and_then(|delay| delay.trim_end_matches('s').parse::<f64>().ok())
        && output["machineGone"] != json!(true)
    {
        output["requeueAfterSeconds"] = json!(delay);
        output["requeue"] = json!(true);
        output["error"] = Value::Null;
    }
    Expected::Output(output)
}

fn stays_running(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    if input["machine"]["status"]["phase"] == json!("Running") && output["status"]["phase"] == json!("Provisioned") {
        output["status"]["phase"] = json!("Running");
        restamp(input, &mut output);
    }
    Expected::Output(output)
}

fn node_gone(input: &Value, expected: Expected) -> Expected {
    let Expected::Output(mut output) = expected else { return expected };
    let wanted = &input["machine"]["status"]["nodeRef"]["name"];
    let is_there = list(&input["nodes"]).any(|node| node["metadata"]["name"] == *wanted);
    if output["status"]["phase"] == json!("Running")
        && calls(&output).last() == Some(&"Update")
        && word(input, "update").is_empty()
        && wanted.is_string()
        && !is_there
    {
        let message = format!("node {} is gone", wanted.as_str().unwrap_or_default());
        let condition = json!({"type": "NodeExists", "status": "False", "severity": "Warning", "reason": "NodeMissing", "message": message});
        set(&mut output, condition);
        restamp(input, &mut output);
    }
    Expected::Output(output)
}
