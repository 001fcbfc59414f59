//! Mistakes of clients, and the exact words they are answered with.

use anyhow::Result;
use reqwest::Method;

use serde_json::json;

use super::definitions::{crd, establish};
use super::wire::{APPLY, Answer, MERGE, Scope, config_map};

const YAML: &str = "application/yaml";

/// The refusal of a list of config maps with this query.
async fn list(s: &Scope, query: &str) -> Result<String> {
    s.get(&format!("{}?{query}", s.core("configmaps"))).await?.refused(400, "BadRequest")
}

async fn post_yaml(s: &Scope, text: &str) -> Result<String> {
    let body = text.as_bytes().to_vec();
    s.send(Method::POST, &s.core("configmaps"), &[("Content-Type", YAML)], body).await?.refused(400, "BadRequest")
}

async fn apply(s: &Scope, text: &str) -> Result<String> {
    let path = s.core("configmaps/a?fieldManager=me");
    let body = text.as_bytes().to_vec();
    s.send(Method::PATCH, &path, &[("Content-Type", APPLY)], body).await?.refused(400, "BadRequest")
}

/// The texts of all warnings of an answer, sorted.
fn warnings(answer: &Answer) -> Vec<String> {
    let texts = answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
    let mut texts: Vec<String> = texts.map(|text| text.trim_start_matches("299 - \"").replace("\\\"", "\"")).collect();
    for text in &mut texts {
        text.pop();
    }
    texts.sort();
    texts
}

behaviours! {
    yaml_that_does_not_parse_is_refused(s) {
        let message = post_yaml(&s, "a: [1").await?;
        holds!(message.starts_with("the object provided is unrecognized (must be of type ConfigMap): yaml: line 1: ") && message.ends_with(" (613a205b31)"), "{message}");
        let message = post_yaml(&s, "a:\n\t- b").await?;
        holds!(message.starts_with("the object provided is unrecognized (must be of type ConfigMap): yaml: line 2: "), "{message}");
    }
    yaml_that_is_no_object_is_refused(s) {
        let message = post_yaml(&s, "- a").await?;
        same!(message, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (2d2061)");
        let message = post_yaml(&s, "just text").await?;
        holds!(message.contains("json: cannot unmarshal string into Go value of type struct"), "{message}");
    }
    applied_yaml_that_does_not_parse_is_refused(s) {
        let message = apply(&s, "a: [1").await?;
        holds!(message.starts_with("error decoding YAML: error converting YAML to JSON: yaml: line 1: "), "{message}");
    }
    applied_yaml_that_is_no_object_is_refused(s) {
        same!(apply(&s, "- 1").await?, "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}");
    }
    a_wrong_kind_is_told_with_what_else_is_wrong(s) {
        let (group, plural) = establish(&s, crd(&s, json!({"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}}))).await?;
        let path = s.path(&format!("{group}/v1"), &plural);
        let object = |kind: &str, spec| json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        let wrong = object("Wrong", json!({"set": ["a", "a"], "size": "no", "unknown": 1}));
        let answer = s.post(&path, &wrong).await?;
        same!(answer.header("warning"), "");
        let message = answer.refused(422, "Invalid")?;
        holds!(message.starts_with("Wrong.") && message.contains("kind: Invalid value: \"Wrong\": must be Widget") && message.contains("Duplicate value: \"a\"") && !message.contains("size"), "{message}");
        let right = s.post(&path, &object("Widget", json!({}))).await?.expect(201)?;
        let mut wrong = object("Wrong", json!({"set": ["a", "a"]}));
        wrong["metadata"]["resourceVersion"] = super::wire::version(&right).into();
        wrong["metadata"]["labels"] = json!({"bad key!": "v"});
        let message = s.put(&format!("{path}/a"), &wrong).await?.refused(422, "Invalid")?;
        holds!(message.contains("must be Widget") && message.contains("Duplicate value: \"a\"") && message.contains("bad key!"), "{message}");
    }
    containers_that_cannot_have_their_ports_are_refused(s) {
        let ports = json!([{"containerPort": 80, "name": "web"}, {"containerPort": 81, "name": "web"}, {"containerPort": 70000, "hostPort": -1},
            {"containerPort": 82, "name": "-A--bcdefghijklmn", "protocol": "tcp"}, {"containerPort": 0}]);
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]}});
        let message = s.post(&s.core("pods?dryRun=All"), &pod).await?.refused(422, "Invalid")?;
        same!(message, "Pod \"a\" is invalid: [spec.containers[0].ports[1].name: Duplicate value: \"web\", \
            spec.containers[0].ports[2].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive, \
            spec.containers[0].ports[2].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive, \
            spec.containers[0].ports[3].name: Invalid value: \"-A--bcdefghijklmn\": must be no more than 15 characters, \
            spec.containers[0].ports[3].name: Invalid value: \"-A--bcdefghijklmn\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), \
            spec.containers[0].ports[3].name: Invalid value: \"-A--bcdefghijklmn\": must not contain consecutive hyphens, \
            spec.containers[0].ports[3].name: Invalid value: \"-A--bcdefghijklmn\": must not begin or end with a hyphen, \
            spec.containers[0].ports[3].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\", \
            spec.containers[0].ports[4].containerPort: Required value]");
    }
    a_name_with_dots_is_no_label(s) {
        let message = s.post("/api/v1/namespaces", &json!({"metadata": {"name": "a.b"}})).await?.refused(422, "Invalid")?;
        same!(message, "Namespace \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": must not contain dots");
    }
    odd_pods_come_with_warnings(s) {
        let ports = json!([{"containerPort": 80, "name": "web"}, {"containerPort": 80, "hostPort": 80}, {"containerPort": 90, "hostPort": 90},
            {"containerPort": 90, "hostPort": 90, "hostIP": "10.0.0.1"}, {"containerPort": 91, "hostIP": "10.0.0.1"}]);
        let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)3"}]);
        let spec = json!({"terminationGracePeriodSeconds": -1, "imagePullSecrets": [{"name": "a"}, {"name": "a"}],
            "nodeSelector": {"beta.kubernetes.io/os": "linux"}, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
            "containers": [{"name": "c", "image": "i", "ports": ports, "env": env, "resources": {"limits": {"memory": "0.5"}}},
                {"name": "d", "image": "i", "ports": [{"containerPort": 92, "name": "web"}]}]});
        let pod = json!({"metadata": {"name": "a.b", "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}}, "spec": spec});
        let answer = s.post(&s.core("pods?dryRun=All"), &pod).await?;
        same!(answer.clone().expect(201)?["spec"]["terminationGracePeriodSeconds"], 1);
        same!(warnings(&answer), [
            "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[3]: dangerously ambiguous port definition with spec.containers[0].ports[2]",
            "spec.containers[0].ports[4]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:91 Protocol:TCP HostIP:10.0.0.1}",
            "spec.containers[0].resources.limits[memory]: fractional byte value \"500m\" is invalid, must be an integer",
            "spec.containers[0].resources.requests[memory]: fractional byte value \"500m\" is invalid, must be an integer",
            "spec.containers[1].ports[0]: duplicate port name \"web\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]",
            "spec.hostAliases[1].ip: duplicate ip \"10.0.0.1\"",
            "spec.imagePullSecrets[1].name: duplicate name \"a\"",
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        ]);
    }
    odd_templates_come_with_warnings_when_they_change(s) {
        let template = |env: &str| json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": env}, {"name": "A", "value": "2"}]}]}});
        let odd = "containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply";
        for kind in ["Deployment", "DaemonSet"] {
            let path = s.path("apps/v1", &format!("{}s", kind.to_lowercase()));
            let object = json!({"kind": kind, "apiVersion": "apps/v1", "metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template("1")}});
            let answer = s.post(&path, &object).await?;
            same!(warnings(&answer), [format!("spec.template.spec.{odd}")]);
            let path = format!("{path}/a");
            same!(warnings(&s.patch(&path, MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await?), [""; 0]);
            let of_spec = s.patch(&path, MERGE, &json!({"spec": {"minReadySeconds": 1}})).await?;
            same!(warnings(&of_spec).len(), usize::from(kind == "Deployment"));
            same!(warnings(&s.patch(&path, MERGE, &json!({"spec": {"template": template("3")}})).await?), [format!("spec.template.spec.{odd}")]);
        }
        let impatient = s.patch(&s.path("apps/v1", "deployments/a"), MERGE, &json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": -1}}}})).await?;
        same!(warnings(&impatient)[1], "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1");
        let job = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": template("1")["spec"]["containers"]}}}});
        same!(warnings(&s.post(&s.path("batch/v1", "jobs"), &job).await?), [format!("spec.template.spec.{odd}")]);
        let cron = json!({"metadata": {"name": "a"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job["spec"]}}});
        same!(warnings(&s.post(&s.path("batch/v1", "cronjobs"), &cron).await?), [format!("spec.jobTemplate.spec.template.spec.{odd}")]);
    }
    a_set_that_does_not_end_is_refused(s) {
        same!(list(&s, "labelSelector=a%20in%20(").await?, "unable to parse requirement: found '', expected: ',', ')' or identifier");
    }
    a_comparison_with_too_many_signs_is_refused(s) {
        same!(list(&s, "labelSelector=a%3D%3D%3Db").await?, "unable to parse requirement: found '=', expected: identifier");
    }
    a_selector_of_a_label_that_cannot_be_is_refused(s) {
        let message = list(&s, "labelSelector=-bad").await?;
        holds!(message.starts_with("unable to parse requirement: <nil>: Invalid value: \"-bad\": name part must consist of"), "{message}");
    }
    a_field_without_a_comparison_is_refused(s) {
        same!(list(&s, "fieldSelector=metadata.name").await?, "invalid selector: 'metadata.name'; can't understand 'metadata.name'");
    }
    a_field_that_config_maps_do_not_have_is_refused(s) {
        same!(list(&s, "fieldSelector=x%3Dy").await?, "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    }
    a_limit_that_is_no_number_is_refused(s) {
        same!(list(&s, "limit=x").await?, "strconv.ParseInt: parsing \"x\": invalid syntax");
    }
    a_limit_below_zero_is_none(s) {
        s.config_map("a").await?;
        let list = s.get(&s.core("configmaps?limit=-1&fieldSelector=metadata.name%3Da")).await?.expect(200)?;
        same!(list["items"].as_array().map(Vec::len), Some(1));
    }
    a_timeout_that_is_no_number_is_refused(s) {
        same!(list(&s, "timeoutSeconds=x").await?, "strconv.ParseInt: parsing \"x\": invalid syntax");
        same!(list(&s, "watch=true&timeoutSeconds=x").await?, "strconv.ParseInt: parsing \"x\": invalid syntax");
    }
    a_token_that_is_no_base64_is_refused(s) {
        same!(list(&s, "continue=!!!").await?, "invalid continue token: continue key is not valid: illegal base64 data at input byte 0");
    }
    a_version_below_zero_is_refused(s) {
        same!(list(&s, "resourceVersion=-1").await?, "invalid resource version: resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": invalid syntax");
    }
    any_version_is_no_exact_version(s) {
        let path = s.core("configmaps?resourceVersion=0&resourceVersionMatch=Exact");
        let message = s.get(&path).await?.refused(422, "Invalid")?;
        same!(message, "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
    a_watch_from_the_future_waits_for_it(s) {
        let future = s.core("configmaps?watch=true&resourceVersion=99999999&timeoutSeconds=2");
        let mut watch = s.watch(&future).await?;
        s.config_map("a").await?;
        same!(watch.next().await?, None);
    }
    a_watch_of_one_object_hears_of_no_other(s) {
        let made = s.config_map("a").await?;
        let path = format!("configmaps?watch=true&fieldSelector=metadata.name%3Da&resourceVersion={}", super::wire::version(&made));
        let mut watch = s.watch(&s.core(&path)).await?;
        s.config_map("b").await?;
        s.patch(&s.core("configmaps/a"), MERGE, &serde_json::json!({"data": {"x": "y"}})).await?.expect(200)?;
        same!(watch.expect("MODIFIED").await?["data"]["x"], "y");
        s.delete(&s.core("configmaps/a")).await?.expect(200)?;
        same!(watch.expect("DELETED").await?["metadata"]["name"], "a");
        s.config_map("a").await?;
        same!(watch.expect("ADDED").await?["metadata"]["name"], "a");
    }
    a_watch_of_one_object_hears_what_happened_since(s) {
        let made = s.config_map("a").await?;
        s.patch(&s.core("configmaps/a"), MERGE, &serde_json::json!({"data": {"x": "1"}})).await?.expect(200)?;
        s.config_map("b").await?;
        s.patch(&s.core("configmaps/a"), MERGE, &serde_json::json!({"data": {"x": "2"}})).await?.expect(200)?;
        let path = format!("configmaps?watch=true&fieldSelector=metadata.name%3Da&resourceVersion={}", super::wire::version(&made));
        let mut watch = s.watch(&s.core(&path)).await?;
        same!(watch.expect("MODIFIED").await?["data"]["x"], "1");
        same!(watch.expect("MODIFIED").await?["data"]["x"], "2");
    }
    an_object_without_the_namespace_it_needs_is_nowhere(s) {
        s.config_map("a").await?;
        for path in ["/api/v1/configmaps/a", "/api/v1/pods/a/log", "/api/v1/pods/a/status", "/apis/rbac.authorization.k8s.io/v1/roles/a"] {
            let message = s.get(path).await?.refused(404, "NotFound")?;
            same!(message, "the server could not find the requested resource");
        }
        s.delete("/api/v1/configmaps/a").await?.refused(404, "NotFound")?;
        s.post("/api/v1/configmaps", &config_map("b")).await?.refused(405, "MethodNotAllowed")?;
        s.delete("/api/v1/configmaps").await?.refused(405, "MethodNotAllowed")?;
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        for path in [format!("/apis/{group}/v1/{plural}/a"), format!("/apis/{group}/v1/{plural}/a/status")] {
            let answer = s.get(&path).await?;
            same!((answer.code, answer.text.trim()), (404, "404 page not found"));
        }
        let answer = s.post(&format!("/apis/{group}/v1/{plural}"), &json!({})).await?;
        same!((answer.code, answer.text.trim()), (404, "404 page not found"));
    }
}
