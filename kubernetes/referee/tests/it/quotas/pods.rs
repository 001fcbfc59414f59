//! Quotas of pods: what they ask for, which scopes they are in, and when they cost nothing any more.

use serde_json::{Value, json};

use super::{Scenario, Step, container, core, delete, patch, pod, post, quota, requests, scoped, with};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![compute(), lives(), demands(), scopes(), classes(), neighbours(), forms(), changes()]
}

fn sized(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}})
}

/// Requests and limits add up to the last bit.
fn compute() -> Scenario {
    let pods = core("pods");
    let hard =
        json!({"pods": "3", "requests.cpu": "2", "requests.memory": "1Gi", "limits.cpu": "3", "limits.memory": "2Gi"});
    let used = |pods: &str, cpu: &str, memory: &str| json!({"pods": pods, "requests.cpu": cpu, "requests.memory": memory, "limits.cpu": cpu, "limits.memory": memory});
    let init = json!({"initContainers": [container("i", sized("1500m", "1Mi"))]});
    let steps = vec![
        post(&core("resourcequotas"), quota("compute", hard)),
        Step::Settled("compute", used("0", "0", "0")),
        post(&pods, pod("silent", &[json!({})])),
        post(&pods, pod("half", &[sized("1", "1Mi"), requests(json!({"cpu": "1"}))])),
        post(
            &pods,
            with(pod("init-silent", &[sized("1", "1Mi")]), json!({"initContainers": [container("i", json!({}))]})),
        ),
        post(&pods, pod("first", &[sized("500m", "512Mi")])),
        Step::Settled("compute", used("1", "500m", "512Mi")),
        post(&pods, pod("large", &[sized("2", "512Mi")])),
        post(&pods, pod("larger", &[sized("4", "4Gi")])),
        post(&format!("{pods}?dryRun=All"), pod("dry", &[sized("500m", "1Mi")])),
        post(&format!("{pods}?dryRun=All"), pod("dry", &[sized("5", "1Mi")])),
        post(&pods, with(pod("init", &[sized("500m", "1Mi")]), init)),
        Step::Settled("compute", used("2", "2", "513Mi")),
        post(&pods, pod("none", &[sized("0", "0")])),
        post(&pods, pod("fourth", &[sized("0", "0")])),
        post(&pods, pod("fourth", &[sized("1", "0")])),
        Step::Settled("compute", used("3", "2", "513Mi")),
        delete(&format!("{pods}/init")),
        Step::Settled("compute", used("2", "500m", "512Mi")),
        post(&pods, pod("again", &[sized("1500m", "512Mi")])),
        Step::Settled("compute", used("3", "2", "1Gi")),
    ];
    Scenario { name: "quota-compute", steps }
}

/// A pod that is over costs nothing but its place; a name that is taken is given back.
fn lives() -> Scenario {
    let pods = core("pods");
    let used = |pods: &str, count: &str| json!({"pods": pods, "count/pods": count});
    let steps = vec![
        post(&core("resourcequotas"), quota("lives", json!({"pods": "2", "count/pods": "3"}))),
        Step::Settled("lives", used("0", "0")),
        post(&pods, pod("a", &[json!({})])),
        // It is charged for its name being taken, and gets that back at the latest when somebody goes.
        post(&pods, pod("a", &[json!({})])),
        patch(&format!("{pods}/a/status"), json!({"status": {"phase": "Succeeded"}})),
        Step::Settled("lives", used("0", "1")),
        post(&pods, pod("b", &[json!({})])),
        Step::Settled("lives", used("1", "2")),
        patch(&format!("{pods}/b/status"), json!({"status": {"phase": "Failed"}})),
        Step::Settled("lives", used("0", "2")),
        post(&pods, pod("c", &[json!({})])),
        post(&pods, pod("d", &[json!({})])),
        delete(&format!("{pods}/a")),
        Step::Settled("lives", used("1", "2")),
        post(&pods, pod("d", &[json!({})])),
        post(&pods, pod("e", &[json!({})])),
        Step::Settled("lives", used("2", "3")),
    ];
    Scenario { name: "quota-lives", steps }
}

/// What containers have to say depends on what the quota counts.
fn demands() -> Scenario {
    let pods = core("pods");
    let hard = json!({"cpu": "4", "memory": "1Gi", "limits.memory": "1Gi", "requests.ephemeral-storage": "1Gi"});
    let used = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory, "limits.memory": memory, "requests.ephemeral-storage": "0"});
    let whole = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let steps = vec![
        post(&core("resourcequotas"), quota("demands", hard)),
        Step::Settled("demands", used("0", "0")),
        post(&pods, pod("nothing", &[json!({}), json!({})])),
        post(&pods, pod("some", &[requests(json!({"cpu": "1"})), json!({"limits": {"memory": "1Mi"}})])),
        post(&pods, pod("all", &[sized("1", "1Mi")])),
        // Who says it for the whole pod need not say it for each container.
        post(&pods, with(pod("whole", &[json!({})]), whole("2"))),
        Step::Settled("demands", used("3", "1Mi")),
        post(&pods, with(pod("whole-large", &[json!({})]), whole("5"))),
        post(
            &pods,
            pod(
                "scratch",
                &[json!({"requests": {"cpu": "1", "memory": "1Mi", "ephemeral-storage": "2Gi"},
            "limits": {"memory": "1Mi"}})],
            ),
        ),
    ];
    Scenario { name: "quota-demands", steps }
}

/// Of the scopes that exclude each other, each pod is in one.
fn scopes() -> Scenario {
    let (pods, quotas) = (core("pods"), core("resourcequotas"));
    let ending = |name: &str, seconds: i64| with(pod(name, &[json!({})]), json!({"activeDeadlineSeconds": seconds}));
    let one = |name: &'static str, count: &str| Step::Settled(name, json!({"pods": count}));
    let scope = |name: &str, scope: &str, hard: &str| scoped(name, json!({"pods": hard}), json!({"scopes": [scope]}));
    let steps = vec![
        post(&quotas, scope("ending", "Terminating", "1")),
        post(&quotas, scope("lasting", "NotTerminating", "3")),
        one("ending", "0"),
        one("lasting", "0"),
        post(&pods, pod("a", &[json!({})])),
        post(&pods, ending("b", 60)),
        post(&pods, ending("c", 60)),
        one("ending", "1"),
        one("lasting", "1"),
        // Who comes to have an end changes the scope.
        patch(&format!("{pods}/a"), json!({"spec": {"activeDeadlineSeconds": 90}})),
        patch(&format!("{pods}/b"), json!({"spec": {"activeDeadlineSeconds": 50}})),
        delete(&format!("{pods}/b")),
        one("ending", "0"),
        patch(&format!("{pods}/a"), json!({"spec": {"activeDeadlineSeconds": 90}})),
        one("ending", "1"),
        one("lasting", "0"),
        post(&quotas, scope("poor", "BestEffort", "2")),
        post(&quotas, scope("rich", "NotBestEffort", "1")),
        one("poor", "1"),
        one("rich", "0"),
        post(&pods, pod("d", &[requests(json!({"cpu": "1"}))])),
        post(&pods, pod("e", &[requests(json!({"cpu": "1"}))])),
        post(&pods, pod("f", &[requests(json!({"ephemeral-storage": "1Mi"}))])),
        post(&pods, pod("g", &[json!({})])),
        one("poor", "2"),
        one("rich", "1"),
        one("lasting", "2"),
    ];
    Scenario { name: "quota-scopes", steps }
}

/// Priority classes by name, and their absence.
fn classes() -> Scenario {
    let (pods, quotas) = (core("pods"), core("resourcequotas"));
    let selector = |operator: &str, values: &[&str]| {
        let mut own = json!({"scopeName": "PriorityClass", "operator": operator});
        if !values.is_empty() {
            own["values"] = json!(values);
        }
        json!({"scopeSelector": {"matchExpressions": [own]}})
    };
    let high = |name: &str| with(pod(name, &[json!({})]), json!({"priorityClassName": "high"}));
    let one = |name: &'static str, count: &str| Step::Settled(name, json!({"pods": count}));
    let steps = vec![
        post(&quotas, scoped("high", json!({"pods": "1"}), selector("In", &["high", "other"]))),
        one("high", "0"),
        post(&pods, pod("plain", &[json!({})])),
        post(&pods, high("first")),
        one("high", "1"),
        post(&pods, high("second")),
        post(&quotas, scoped("any", json!({"pods": "2"}), json!({"scopes": ["PriorityClass"]}))),
        post(&quotas, scoped("none", json!({"pods": "2"}), selector("DoesNotExist", &[]))),
        post(&quotas, scoped("others", json!({"pods": "2"}), selector("NotIn", &["high"]))),
        one("any", "1"),
        one("none", "1"),
        one("others", "1"),
        post(&pods, pod("second", &[json!({})])),
        one("none", "2"),
        one("others", "2"),
        one("any", "1"),
        delete(&format!("{quotas}/others")),
        post(&pods, pod("third", &[json!({})])),
    ];
    Scenario { name: "quota-classes", steps }
}

/// Pods that look at pods of other namespaces.
fn neighbours() -> Scenario {
    let (pods, quotas) = (core("pods"), core("resourcequotas"));
    let term = |extra: Value| {
        let mut term = json!({"topologyKey": "zone", "labelSelector": {}});
        extra.as_object().unwrap().iter().for_each(|(key, value)| term[key] = value.clone());
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    let steps = vec![
        post(&quotas, scoped("across", json!({"pods": "1"}), json!({"scopes": ["CrossNamespacePodAffinity"]}))),
        Step::Settled("across", json!({"pods": "0"})),
        post(&pods, with(pod("own", &[json!({})]), term(json!({})))),
        post(&pods, with(pod("named", &[json!({})]), term(json!({"namespaces": ["other"]})))),
        post(&pods, with(pod("selected", &[json!({})]), term(json!({"namespaceSelector": {}})))),
        Step::Settled("across", json!({"pods": "1"})),
    ];
    Scenario { name: "quota-neighbours", steps }
}

/// Amounts keep the form in which they are written, and resources of others have names of their own.
fn forms() -> Scenario {
    let pods = core("pods");
    let hard = json!({"requests.cpu": "1.5", "requests.memory": "2G", "requests.example.com/gpu": "3", "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "8Mi", "limits.ephemeral-storage": "1e9"});
    let used = |cpu: &str, memory: &str, gpu: &str, pages: &str, scratch: &str| {
        json!({"requests.cpu": cpu, "requests.memory": memory, "requests.example.com/gpu": gpu, "hugepages-2Mi": pages,
            "requests.hugepages-2Mi": pages, "limits.ephemeral-storage": scratch})
    };
    let odd = json!({"requests": {"cpu": "0.25", "memory": "1000000Ki", "example.com/gpu": "2", "hugepages-2Mi": "2Mi"},
        "limits": {"example.com/gpu": "2", "hugepages-2Mi": "2Mi", "ephemeral-storage": "500M"}});
    let greedy = |amounts: Value| json!({"requests": amounts, "limits": {"example.com/gpu": "2"}});
    let steps = vec![
        post(&core("resourcequotas"), quota("forms", hard)),
        Step::Settled("forms", used("0", "0", "0", "0", "0")),
        post(&pods, pod("odd", &[odd])),
        Step::Settled("forms", used("250m", "1000000Ki", "2", "2Mi", "500M")),
        post(&pods, pod("gpu", &[greedy(json!({"cpu": "1", "memory": "1M", "example.com/gpu": "2"}))])),
        post(&pods, pod("memory", &[requests(json!({"cpu": "10m", "memory": "976600Ki"}))])),
        post(&pods, pod("cpu", &[requests(json!({"cpu": "1251m", "memory": "0"}))])),
        post(
            &pods,
            pod(
                "pages",
                &[
                    json!({"requests": {"cpu": "1m", "memory": "1", "hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}),
                ],
            ),
        ),
        post(
            &pods,
            pod(
                "scratch",
                &[json!({"requests": {"cpu": "1m", "memory": "1"}, "limits": {"ephemeral-storage": "600M"}})],
            ),
        ),
        post(&pods, pod("rest", &[requests(json!({"cpu": "1250m", "memory": "1"}))])),
        delete(&format!("{pods}/odd")),
        Step::Settled("forms", used("1250m", "1", "0", "0", "0")),
    ];
    Scenario { name: "quota-forms", steps }
}

/// A quota that changes is counted anew; one that says nothing of what is used lets nobody in.
fn changes() -> Scenario {
    let (pods, quotas) = (core("pods"), core("resourcequotas"));
    let own = format!("{quotas}/changes");
    let steps = vec![
        post(&quotas, quota("changes", json!({"pods": "1"}))),
        Step::Settled("changes", json!({"pods": "0"})),
        post(&pods, pod("a", &[json!({})])),
        post(&pods, pod("b", &[json!({})])),
        patch(&own, json!({"spec": {"hard": {"pods": "2", "secrets": "5"}}})),
        Step::Settled("changes", json!({"pods": "1", "secrets": "0"})),
        post(&pods, pod("b", &[json!({})])),
        patch(&own, json!({"spec": {"hard": {"pods": "1", "secrets": null}}})),
        Step::Settled("changes", json!({"pods": "2"})),
        post(&pods, pod("c", &[json!({})])),
        patch(&format!("{own}/status"), json!({"status": {"used": null}})),
        post(&pods, pod("c", &[json!({})])),
        patch(&own, json!({"spec": {"hard": {"pods": "9", "count/events": "1", "count/nothing.example.com": "1"}}})),
        Step::Settled("changes", json!({"pods": "2"})),
        post(&quotas, quota("empty", json!({}))),
        delete(&own),
        post(&pods, pod("c", &[json!({})])),
    ];
    Scenario { name: "quota-changes", steps }
}
