//! Amounts of resources by name, and what a pod asks for and may use at most, all its containers together.

use std::collections::BTreeMap;

use schema::quantity::Quantity;
use serde_json::{Map, Value};

use crate::text;

pub type Amounts = BTreeMap<String, Quantity>;

/// A field that holds amounts. What is no amount is not there: it was refused long before.
pub fn read(value: &Value) -> Amounts {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), parse(amount)?))).collect()
}

fn parse(amount: &Value) -> Option<Quantity> {
    match amount {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

pub fn write(amounts: &Amounts) -> Value {
    let entries = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(entries.collect::<Map<_, _>>())
}

pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(known) => *known = known.plus(amount),
            None => drop(total.insert(name.clone(), amount.clone())),
        }
    }
}

/// Makes each amount the larger of both.
pub fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|known| amount > known) {
            total.insert(name.clone(), amount.clone());
        }
    }
}

/// Which side of what containers say about resources.
#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    Requests,
    Limits,
}

impl Side {
    fn field(self) -> &'static str {
        match self {
            Side::Requests => "requests",
            Side::Limits => "limits",
        }
    }
}

/// What a pod was written to need: limit ranges judge that.
pub fn asked(pod: &Value, side: Side) -> Amounts {
    let spec = &pod["spec"];
    let mut total = of_all(spec, side);
    for (name, amount) in read(&spec["resources"][side.field()]) {
        if matches!(name.as_str(), "cpu" | "memory") {
            total.insert(name, amount);
        }
    }
    total
}

/// What a pod takes from others: also what running it costs, and what it still has while it is being resized.
pub fn taken(pod: &Value, side: Side) -> Amounts {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let infeasible = list(&status["conditions"])
        .find(|condition| condition["type"] == "PodResizePending")
        .is_some_and(|condition| condition["reason"] == "Infeasible");
    let mut total = of_containers(spec, |container| {
        let written = read(&container["resources"][side.field()]);
        let statuses = list(&status["containerStatuses"]).chain(list(&status["initContainerStatuses"]));
        let mut known = statuses.filter(|status| status["name"] == container["name"]);
        match known.next_back().filter(|status| status["resources"].is_object()) {
            Some(status) if !is_in(spec, "initContainers", container) || is_sidecar(container) => {
                let mut amounts = if infeasible { Amounts::new() } else { written };
                raise(&mut amounts, &read(&status["resources"][side.field()]));
                if side == Side::Requests {
                    raise(&mut amounts, &read(&status["allocatedResources"]));
                }
                amounts
            }
            _ => written,
        }
    });
    if of_whole_pod(spec, side) {
        let own = read(&spec["resources"][side.field()]);
        total.extend(own.into_iter().filter(|(name, _)| is_of_whole_pod(name)));
    }
    let mut overhead = read(&spec["overhead"]);
    if side == Side::Limits {
        // What has no limit has none with its overhead either.
        overhead.retain(|name, _| total.get(name).is_some_and(|limit| !limit.is_zero()));
    }
    add(&mut total, &overhead);
    total
}

/// What the containers of a pod come to, whatever the pod says for itself.
pub fn of_all(spec: &Value, side: Side) -> Amounts {
    of_containers(spec, |container| read(&container["resources"][side.field()]))
}

/// Nobody asks for less than thousandths: what is finer is rounded up.
pub fn round(list: &mut Value) {
    for amount in list.as_object_mut().into_iter().flat_map(|list| list.values_mut()) {
        if let Some(rounded) = parse(amount).map(|parsed| parsed.rounded(-3).to_string())
            && *amount != rounded
        {
            *amount = rounded.into();
        }
    }
}

/// Whether a pod says for itself, and not only for its containers, what it needs.
pub fn is_set_for_whole_pod(spec: &Value) -> bool {
    [Side::Requests, Side::Limits].into_iter().any(|side| of_whole_pod(spec, side))
}

fn of_whole_pod(spec: &Value, side: Side) -> bool {
    spec["resources"][side.field()].as_object().is_some_and(|own| own.keys().any(|name| is_of_whole_pod(name)))
}

pub fn is_of_whole_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

pub fn list(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn is_in(spec: &Value, field: &str, container: &Value) -> bool {
    list(&spec[field]).any(|own| std::ptr::eq(own, container))
}

/// One that starts before the others and stays.
fn is_sidecar(container: &Value) -> bool {
    text(&container["restartPolicy"]) == "Always"
}

/// Containers run together, so they add up; those that prepare the pod run one after the other beside the sidecars that
/// came before them, so that the hungriest moment counts.
fn of_containers(spec: &Value, of_one: impl Fn(&Value) -> Amounts) -> Amounts {
    let (mut total, mut sidecars, mut hungriest) = (Amounts::new(), Amounts::new(), Amounts::new());
    list(&spec["containers"]).for_each(|container| add(&mut total, &of_one(container)));
    for container in list(&spec["initContainers"]) {
        let own = of_one(container);
        let moment = if is_sidecar(container) {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            sidecars.clone()
        } else {
            let mut moment = own;
            add(&mut moment, &sidecars);
            moment
        };
        raise(&mut hungriest, &moment);
    }
    raise(&mut total, &hungriest);
    total
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pod: &Value, expected: &Expect) {
        let sides = [Side::Requests, Side::Limits];
        let [asked, taken] = [asked, taken].map(|of| sides.map(|side| write(&of(pod, side)).to_string()).join(" / "));
        expected.assert_eq(&format!("asked {asked}\ntaken {taken}\n"));
    }

    fn container(name: &str, requests: Value, limits: Value) -> Value {
        json!({"name": name, "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn containers_add_up_and_the_hungriest_preparation_counts() {
        let mut sidecar = container("side", json!({"cpu": "100m"}), json!({}));
        sidecar["restartPolicy"] = "Always".into();
        let pod = json!({"spec": {
            "containers": [
                container("a", json!({"cpu": "500m", "memory": "1Gi"}), json!({"memory": "1Gi"})),
                container("b", json!({"cpu": "500m"}), json!({"memory": "512Mi"})),
            ],
            "initContainers": [
                container("big", json!({"memory": "2Gi"}), json!({"memory": "2Gi"})),
                sidecar,
                container("busy", json!({"cpu": "2"}), json!({})),
            ],
        }});
        check(
            &pod,
            &expect![[r#"
            asked {"cpu":"2100m","memory":"2Gi"} / {"memory":"2Gi"}
            taken {"cpu":"2100m","memory":"2Gi"} / {"memory":"2Gi"}
        "#]],
        );
    }

    #[test]
    fn what_the_whole_pod_says_stands_and_overhead_comes_on_top() {
        let pod = json!({"spec": {
            "containers": [container("a", json!({"cpu": "1", "hugepages-2Mi": "2Mi"}), json!({"cpu": "2"}))],
            "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}, "limits": {"memory": "1Gi"}},
            "overhead": {"cpu": "250m", "memory": "64Mi"},
        }});
        check(
            &pod,
            &expect![[r#"
            asked {"cpu":"3","hugepages-2Mi":"2Mi"} / {"cpu":"2","memory":"1Gi"}
            taken {"cpu":"3250m","hugepages-2Mi":"4Mi","memory":"64Mi"} / {"cpu":"2250m","memory":"1088Mi"}
        "#]],
        );
    }

    #[test]
    fn a_pod_that_is_being_resized_takes_the_most_of_before_and_after() {
        let mut pod = json!({
            "spec": {"containers": [container("a", json!({"cpu": "2"}), json!({"cpu": "2"}))]},
            "status": {"containerStatuses": [{
                "name": "a", "allocatedResources": {"cpu": "4"},
                "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}},
            }]},
        });
        check(
            &pod,
            &expect![[r#"
            asked {"cpu":"2"} / {"cpu":"2"}
            taken {"cpu":"4"} / {"cpu":"3"}
        "#]],
        );
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9".into();
        pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        check(
            &pod,
            &expect![[r#"
            asked {"cpu":"9"} / {"cpu":"2"}
            taken {"cpu":"4"} / {"cpu":"3"}
        "#]],
        );
    }
}
