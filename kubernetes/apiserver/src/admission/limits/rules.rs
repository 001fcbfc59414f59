//! What one limit range gives to the containers of a pod, and what it has against a pod or a claim to storage.
//!
//! Nothing here looks anything up; the words of the complaints are the real server's.

use builtin::amounts::{self, Amounts, Side, list};
use schema::quantity::Quantity;
use serde_json::{Value, json};

use crate::object::text;

pub(super) const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Amounts up to this are compared in thousandths.
const MOST_IN_THOUSANDTHS: i64 = i64::MAX / 1000;

/// Fills in what containers do not say, and notes on the pod what it filled in.
pub(super) fn default(range: &Value, pod: &mut Value) {
    let of_containers = || list(&range["limits"]).filter(|limit| limit["type"] == "Container");
    // Of several limits, the last one that names a resource stands.
    let gather = |field: &str| {
        let named = of_containers().flat_map(|limit| limit[field].as_object().into_iter().flatten());
        named.map(|(name, amount)| (name.clone(), amount.clone())).collect::<serde_json::Map<_, _>>()
    };
    let (limits, requests) = (gather("default"), gather("defaultRequest"));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    let mut notes = Vec::new();
    for (field, title) in [("containers", "container"), ("initContainers", "init container")] {
        for container in pod["spec"].get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = text(&container["name"]).to_owned();
            for (side, word, amounts) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let own = &container["resources"][side];
                let missing: Vec<_> = amounts.iter().filter(|(resource, _)| own.get(resource).is_none()).collect();
                if missing.is_empty() {
                    continue;
                }
                let names: Vec<&str> = missing.iter().map(|(resource, _)| resource.as_str()).collect();
                notes.push(format!("{} {word} for {title} {name}", names.join(", ")));
                for (resource, amount) in missing {
                    container["resources"][side][resource] = amount.clone();
                }
            }
        }
    }
    if !notes.is_empty() {
        if !pod["metadata"]["annotations"].is_object() {
            pod["metadata"]["annotations"] = json!({});
        }
        pod["metadata"]["annotations"][ANNOTATION] = format!("LimitRanger plugin set: {}", notes.join("; ")).into();
    }
}

/// What a range has against a pod, in the order in which the real server says it.
pub(super) fn pod(range: &Value, pod: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    for limit in list(&range["limits"]) {
        match text(&limit["type"]) {
            "Container" => {
                for container in list(&pod["spec"]["containers"]).chain(list(&pod["spec"]["initContainers"])) {
                    let [requests, limits] =
                        ["requests", "limits"].map(|side| amounts::read(&container["resources"][side]));
                    judge(limit, &requests, &limits, &mut complaints);
                }
            }
            "Pod" => {
                let [requests, limits] = [Side::Requests, Side::Limits].map(|side| amounts::asked(pod, side));
                judge(limit, &requests, &limits, &mut complaints);
            }
            _ => {}
        }
    }
    complaints
}

/// What a range has against a claim to storage, of which only requests count.
pub(super) fn claim(range: &Value, claim: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    let requests = amounts::read(&claim["spec"]["resources"]["requests"]);
    for limit in list(&range["limits"]).filter(|limit| limit["type"] == "PersistentVolumeClaim") {
        for (name, least) in amounts::read(&limit["min"]) {
            complaints.extend(too_little(limit, &name, &least, requests.get(&name), None));
        }
        for (name, most) in amounts::read(&limit["max"]) {
            let start = format!("maximum {name} usage per {} is {most}", text(&limit["type"]));
            let [asked, _, enforced] = compared([requests.get(&name), None, Some(&most)]);
            match requests.get(&name) {
                None => complaints.push(format!("{start}.  No request is specified")),
                Some(request) if asked > enforced => complaints.push(format!("{start}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
    complaints
}

fn judge(limit: &Value, requests: &Amounts, limits: &Amounts, complaints: &mut Vec<String>) {
    for (name, least) in amounts::read(&limit["min"]) {
        complaints.extend(too_little(limit, &name, &least, requests.get(&name), limits.get(&name)));
    }
    for (name, most) in amounts::read(&limit["max"]) {
        complaints.extend(too_much(limit, &name, &most, requests.get(&name), limits.get(&name)));
    }
    for (name, ratio) in amounts::read(&limit["maxLimitRequestRatio"]) {
        complaints.extend(too_far_apart(limit, &name, &ratio, requests.get(&name), limits.get(&name)));
    }
}

fn too_little(
    of: &Value,
    name: &str,
    least: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let start = format!("minimum {name} usage per {} is {least}", text(&of["type"]));
    let [asked, allowed, enforced] = compared([request, limit, Some(least)]);
    match (request, limit) {
        (None, _) => Some(format!("{start}.  No request is specified")),
        (Some(request), _) if asked < enforced => Some(format!("{start}, but request is {request}")),
        (_, Some(limit)) if allowed < enforced => Some(format!("{start}, but limit is {limit}")),
        _ => None,
    }
}

fn too_much(
    of: &Value,
    name: &str,
    most: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let start = format!("maximum {name} usage per {} is {most}", text(&of["type"]));
    let [asked, allowed, enforced] = compared([request, limit, Some(most)]);
    match (limit, request) {
        (None, _) => Some(format!("{start}.  No limit is specified")),
        (Some(limit), _) if allowed > enforced => Some(format!("{start}, but limit is {limit}")),
        (_, Some(request)) if asked > enforced => Some(format!("{start}, but request is {request}")),
        _ => None,
    }
}

fn too_far_apart(
    of: &Value,
    name: &str,
    ratio: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let start = format!("{name} max limit to request ratio per {} is {ratio}", text(&of["type"]));
    let [asked, allowed, _] = compared([request, limit, Some(ratio)]);
    if asked == 0 {
        return Some(format!("{start}, but no request is specified or request is 0"));
    }
    if allowed == 0 {
        return Some(format!("{start}, but no limit is specified or limit is 0"));
    }
    // The real server calculates in floating point here, too.
    let found = allowed as f64 / asked as f64;
    let (compared, most) = match ratio.in_units(0) {
        whole if whole <= MOST_IN_THOUSANDTHS => (found * 1000.0, ratio.in_units(-3) as f64),
        whole => (found, whole as f64),
    };
    (compared > most).then(|| format!("{start}, but provided ratio is {found:.6}"))
}

/// Amounts as numbers that can be compared with each other; what is absent is nothing.
fn compared(amounts: [Option<&Quantity>; 3]) -> [i64; 3] {
    let at = |power: i32| amounts.map(|amount| amount.map_or(0, |amount| amount.in_units(power)));
    let whole = at(0);
    if whole.iter().all(|value| *value <= MOST_IN_THOUSANDTHS) { at(-3) } else { whole }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn pod_of(resources: &[Value]) -> Value {
        let containers: Vec<Value> = resources
            .iter()
            .enumerate()
            .map(|(at, resources)| json!({"name": format!("c{at}"), "resources": resources}))
            .collect();
        json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})
    }

    #[track_caller]
    fn check(limits: &Value, object: &Value, of: fn(&Value, &Value) -> Vec<String>, expected: &Expect) {
        expected.assert_eq(&of(&json!({"limits": limits}), object).join("\n"));
    }

    #[test]
    fn containers_get_what_they_do_not_say_and_the_pod_tells_so() {
        let range = json!({"limits": [{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "500m"}}, {"type": "Pod", "default": {"cpu": "9"}}]});
        let mut pod = pod_of(&[json!({}), json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}})]);
        pod["spec"]["initContainers"] = json!([{"name": "i", "resources": {"limits": {"memory": "2Gi"}}}]);
        default(&range, &mut pod);
        let expected = expect![[r#"
            {"containers":[{"name":"c0","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m"}}},{"name":"c1","resources":{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"2"}}}],"initContainers":[{"name":"i","resources":{"limits":{"cpu":"1","memory":"2Gi"},"requests":{"cpu":"500m"}}}]}
            "LimitRanger plugin set: cpu request for container c0; cpu, memory limit for container c0; memory limit for container c1; cpu request for init container i; cpu limit for init container i""#]];
        expected.assert_eq(&format!("{}\n{}", pod["spec"], pod["metadata"]["annotations"][ANNOTATION]));
        // Nothing is left to fill in, so the note stays.
        let before = pod.clone();
        default(&range, &mut pod);
        assert_eq!(pod, before);
    }

    #[test]
    fn each_bound_has_its_words() {
        let limits = json!([{"type": "Container", "min": {"cpu": "1"}, "max": {"memory": "1Gi"},
            "maxLimitRequestRatio": {"cpu": "1500m"}}]);
        check(
            &limits,
            &pod_of(&[json!({})]),
            pod,
            &expect![[r#"
            minimum cpu usage per Container is 1.  No request is specified
            maximum memory usage per Container is 1Gi.  No limit is specified
            cpu max limit to request ratio per Container is 1500m, but no request is specified or request is 0"#]],
        );
        let low = json!({"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": "900m", "memory": "1Gi"}});
        check(
            &limits,
            &pod_of(&[low]),
            pod,
            &expect![[r#"
            minimum cpu usage per Container is 1, but request is 500m
            maximum memory usage per Container is 1Gi, but request is 2Gi
            cpu max limit to request ratio per Container is 1500m, but provided ratio is 1.800000"#]],
        );
        let odd = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "500m", "memory": "2Gi"}});
        check(
            &limits,
            &pod_of(&[odd]),
            pod,
            &expect![[r#"
            minimum cpu usage per Container is 1, but limit is 500m
            maximum memory usage per Container is 1Gi, but limit is 2Gi"#]],
        );
        let fits = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1500m", "memory": "1Gi"}});
        check(&limits, &pod_of(&[fits]), pod, &expect![""]);
    }

    #[test]
    fn a_pod_is_judged_by_its_sum() {
        let limits = json!([{"type": "Pod", "max": {"cpu": "1500m"}}]);
        let one = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}});
        check(
            &limits,
            &pod_of(&[one.clone(), one]),
            pod,
            &expect!["maximum cpu usage per Pod is 1500m, but limit is 2"],
        );
    }

    #[test]
    fn claims_are_judged_by_their_requests() {
        let limits = json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}]);
        let of = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        check(
            &limits,
            &of("1Mi"),
            claim,
            &expect!["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"],
        );
        check(
            &limits,
            &of("3Gi"),
            claim,
            &expect!["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"],
        );
        check(&limits, &of("2Gi"), claim, &expect![""]);
    }

    #[test]
    fn amounts_beyond_thousandths_are_compared_whole() {
        let limits = json!([{"type": "Container", "max": {"memory": "16Ei"}}]);
        let huge = json!({"limits": {"memory": "8Ei"}});
        check(&limits, &pod_of(&[huge]), pod, &expect![""]);
    }
}
