//! Limit ranges: defaults, bounds and ratios of containers, pods and claims.

use serde_json::{Value, json};

use super::{Scenario, container, core, patch, pod, post, range, requests, with};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![defaults(), containers(), sums(), several(), storage()]
}

fn both_sides(requests: Value, limits: Value) -> Value {
    json!({"requests": requests, "limits": limits})
}

/// Containers that say nothing, something or everything.
fn defaults() -> Scenario {
    let pods = core("pods");
    let limits = json!([
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "250m"}},
        {"type": "Pod", "max": {"cpu": "10"}},
    ]);
    let with_init = with(
        pod("init", &[json!({})]),
        json!({"initContainers": [container("i", requests(json!({"memory": "1Mi"})))]}),
    );
    let noted = json!({"metadata": {"annotations": {"mine": "yes"}, "labels": {"a": "b"}}});
    let mut applied = pod("applied", &[json!({})]);
    applied["metadata"]["labels"] = json!({"x": "y"});
    let mut annotated = pod("annotated", &[json!({})]);
    annotated["metadata"]["annotations"] = json!({"mine": "yes"});
    let steps = vec![
        post(&core("limitranges"), range("defaults", limits)),
        post(&pods, pod("silent", &[json!({})])),
        post(&pods, pod("limited", &[json!({"limits": {"cpu": "2"}})])),
        post(&pods, pod("asking", &[requests(json!({"cpu": "500m", "memory": "10Mi"}))])),
        post(&pods, pod("odd", &[requests(json!({"cpu": "2"}))])),
        post(
            &pods,
            pod("saying", &[both_sides(json!({"cpu": "1", "memory": "1Mi"}), json!({"cpu": "1", "memory": "1Mi"}))]),
        ),
        post(&pods, pod("two", &[json!({}), json!({"limits": {"memory": "2Mi"}})])),
        post(&pods, with_init),
        post(&pods, annotated),
        post(&format!("{pods}?dryRun=All"), pod("dry", &[json!({})])),
        super::Step::Ask(reqwest::Method::PATCH, format!("{pods}/applied?fieldManager=me"), super::APPLY, applied),
        post(
            &pods,
            with(pod("whole", &[json!({})]), json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}})),
        ),
        patch(&format!("{pods}/silent"), noted),
    ];
    Scenario { name: "limits-defaults", steps }
}

/// Each bound of containers, from both sides.
fn containers() -> Scenario {
    let pods = core("pods");
    let limits = json!([{"type": "Container", "min": {"cpu": "100m"}, "max": {"memory": "1Gi"},
        "default": {"memory": "512Mi"}, "defaultRequest": {"cpu": "100m", "memory": "256Mi"},
        "maxLimitRequestRatio": {"memory": "2"}}]);
    let mut steps = vec![post(&core("limitranges"), range("containers", limits))];
    for (name, resources) in [
        ("fits", json!({})),
        ("low", requests(json!({"cpu": "50m"}))),
        ("low-limit", json!({"limits": {"cpu": "50m"}, "requests": {"cpu": "0"}})),
        ("lowest", requests(json!({"cpu": "99999u"}))),
        ("high", json!({"limits": {"memory": "2Gi"}})),
        ("far", both_sides(json!({"memory": "100Mi"}), json!({"memory": "300Mi"}))),
        ("near", both_sides(json!({"memory": "100Mi"}), json!({"memory": "200Mi"}))),
        ("zero", both_sides(json!({"memory": "0"}), json!({"memory": "200Mi"}))),
        ("all", both_sides(json!({"cpu": "1m", "memory": "1Gi"}), json!({"memory": "3Gi"}))),
        ("exact", both_sides(json!({"cpu": "0.1", "memory": "1024Mi"}), json!({"memory": "1Gi"}))),
    ] {
        steps.push(post(&pods, pod(name, &[resources])));
    }
    let twice = [requests(json!({"cpu": "1m"})), requests(json!({"cpu": "1m"}))];
    steps.push(post(&pods, pod("said-once", &twice)));
    let init = json!({"initContainers": [container("i", json!({"limits": {"memory": "4Gi"}}))]});
    steps.push(post(&pods, with(pod("init", &[json!({})]), init)));
    // A pod that is there already is not judged again.
    steps.push(patch(&format!("{pods}/fits"), json!({"metadata": {"labels": {"a": "b"}}})));
    Scenario { name: "limits-containers", steps }
}

/// What a whole pod comes to.
fn sums() -> Scenario {
    let pods = core("pods");
    let limits = json!([{"type": "Pod", "min": {"memory": "100Mi"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "1500m"}}]);
    let fine = || both_sides(json!({"cpu": "1", "memory": "100Mi"}), json!({"cpu": "1"}));
    let sidecar = |resources: Value| {
        let mut sidecar = container("side", resources);
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    };
    let init = |list: Value| json!({"initContainers": list});
    let mut steps = vec![
        post(&core("limitranges"), range("sums", limits)),
        post(&pods, pod("fits", &[fine(), fine()])),
        post(&pods, pod("three", &[fine(), fine(), fine()])),
        post(&pods, pod("silent", &[json!({})])),
        post(
            &pods,
            pod(
                "small",
                &[
                    both_sides(json!({"cpu": "1", "memory": "1Mi"}), json!({"cpu": "1"})),
                    requests(json!({"memory": "2Mi"})),
                ],
            ),
        ),
        post(&pods, pod("apart", &[both_sides(json!({"cpu": "1", "memory": "100Mi"}), json!({"cpu": "1700m"}))])),
    ];
    for (name, list) in [
        ("init-fits", json!([container("a", both_sides(json!({"cpu": "2"}), json!({"cpu": "2"})))])),
        ("init-high", json!([container("a", both_sides(json!({"cpu": "3"}), json!({"cpu": "3"})))])),
        ("sidecar-fits", json!([sidecar(both_sides(json!({"cpu": "1"}), json!({"cpu": "1"})))])),
        (
            "sidecar-high",
            json!([
                sidecar(both_sides(json!({"cpu": "1"}), json!({"cpu": "1"}))),
                container("a", both_sides(json!({"cpu": "1500m"}), json!({"cpu": "1500m"}))),
            ]),
        ),
        (
            "sidecar-late",
            json!([
                container("a", both_sides(json!({"cpu": "1500m"}), json!({"cpu": "1500m"}))),
                sidecar(both_sides(json!({"cpu": "1"}), json!({"cpu": "1"}))),
            ]),
        ),
    ] {
        steps.push(post(&pods, with(pod(name, &[fine()]), init(list))));
    }
    let whole = |requests: Value, limits: Value| json!({"resources": both_sides(requests, limits)});
    steps.push(post(
        &pods,
        with(pod("whole", &[fine()]), whole(json!({"cpu": "2", "memory": "1Gi"}), json!({"cpu": "2"}))),
    ));
    steps.push(post(
        &pods,
        with(pod("whole-high", &[fine()]), whole(json!({"cpu": "3", "memory": "1Gi"}), json!({"cpu": "3"}))),
    ));
    Scenario { name: "limits-sums", steps }
}

/// Several limits in one range, whose complaints come in their order, and nothing that says anything.
fn several() -> Scenario {
    let pods = core("pods");
    let limits = json!([
        {"type": "Pod", "max": {"memory": "1Gi"}},
        {"type": "Container", "min": {"memory": "10Mi"}, "max": {"ephemeral-storage": "1Gi"}},
        {"type": "Pod", "min": {"cpu": "1"}},
    ]);
    let big = both_sides(json!({"memory": "1Mi", "cpu": "1m"}), json!({"memory": "2Gi", "ephemeral-storage": "2Gi"}));
    let steps = vec![
        post(&core("limitranges"), range("several", limits)),
        post(&pods, pod("all", std::slice::from_ref(&big))),
        post(&pods, pod("twice", &[big.clone(), big])),
        post(&pods, pod("silent", &[json!({})])),
        post(&pods, pod("bad-name-", &[json!({})])),
    ];
    Scenario { name: "limits-several", steps }
}

/// Claims are judged when they are made and whenever they change.
fn storage() -> Scenario {
    let claims = core("persistentvolumeclaims");
    let claim = |name: &str, storage: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}})
    };
    let limits = json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
        {"type": "Container", "max": {"cpu": "1"}}]);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let steps = vec![
        post(&claims, claim("before", "10Gi")),
        post(&core("limitranges"), range("storage", limits)),
        post(&claims, claim("small", "1Mi")),
        post(&claims, claim("large", "3Gi")),
        post(&claims, claim("fits", "1.5Gi")),
        patch(&format!("{claims}/before"), label.clone()),
        patch(&format!("{claims}/fits"), label),
        patch(&format!("{claims}/before/status"), json!({"status": {"phase": "Lost"}})),
    ];
    Scenario { name: "limits-storage", steps }
}
