//! Built-in kinds: their defaults, their own rules, their subresources.

use serde_json::{Value, json};

use super::wire::{JSON_PATCH, MERGE, STRATEGIC, version};

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

behaviours! {
    a_pod_is_pending_with_its_defaults(s) {
        let pod = s.post(&s.core("pods"), &pod("a")).await?.expect(201)?;
        same!((&pod["status"]["phase"], &pod["status"]["qosClass"]), (&json!("Pending"), &json!("BestEffort")));
        let spec = &pod["spec"];
        same!((&spec["restartPolicy"], &spec["dnsPolicy"], &spec["terminationGracePeriodSeconds"]), (&json!("Always"), &json!("ClusterFirst"), &json!(30)));
        same!((&spec["containers"][0]["imagePullPolicy"], &spec["schedulerName"]), (&json!("Always"), &json!("default-scheduler")));
        same!(spec["containers"][0]["terminationMessagePath"], "/dev/termination-log");
    }
    a_pod_needs_a_container(s) {
        let mut body = pod("a");
        body["spec"]["containers"] = json!([]);
        let message = s.post(&s.core("pods"), &body).await?.refused(422, "Invalid")?;
        same!(message, "Pod \"a\" is invalid: spec.containers: Required value");
    }
    a_running_pod_cannot_be_rewritten(s) {
        s.post(&s.core("pods"), &pod("a")).await?.expect(201)?;
        let message = s.patch(&s.core("pods/a"), MERGE, &json!({"spec": {"restartPolicy": "Never"}})).await?.refused(422, "Invalid")?;
        holds!(message.contains("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"), "{message}");
    }
    binding_puts_a_pod_on_a_node(s) {
        s.post(&s.core("pods"), &pod("a")).await?.expect(201)?;
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}});
        let status = s.post(&s.core("pods/a/binding"), &binding).await?.expect(201)?;
        same!(status["status"], "Success");
        let bound = s.get(&s.core("pods/a")).await?.expect(200)?;
        same!(bound["spec"]["nodeName"], "node-1");
        same!((&bound["status"]["conditions"][0]["type"], &bound["status"]["conditions"][0]["status"]), (&json!("PodScheduled"), &json!("True")));
        same!(s.post(&s.core("pods/a/binding"), &binding).await?.code, 409);
    }
    text_in_a_secret_becomes_data(s) {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "hello"}});
        let secret = s.post(&s.core("secrets"), &body).await?.expect(201)?;
        same!((&secret["data"]["k"], &secret["type"]), (&json!("aGVsbG8="), &json!("Opaque")));
        same!(secret["stringData"], Value::Null);
    }
    a_secret_may_hold_nothing(s) {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": ""}});
        same!(s.post(&s.core("secrets"), &body).await?.expect(201)?["data"], json!({"k": ""}));
    }
    the_type_of_a_secret_cannot_change(s) {
        s.post(&s.core("secrets"), &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})).await?.expect(201)?;
        let message = s.patch(&s.core("secrets/a"), MERGE, &json!({"type": "example.com/x"})).await?.refused(422, "Invalid")?;
        same!(message, "Secret \"a\" is invalid: type: Invalid value: \"example.com/x\": field is immutable");
    }
    secret_data_must_be_encoded(s) {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "%%%"}});
        let message = s.post(&s.core("secrets"), &body).await?.refused(400, "BadRequest")?;
        holds!(message.contains("illegal base64 data at input byte 0"), "{message}");
    }
    a_deployment_is_completed(s) {
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let created = s.post(&s.path("apps/v1", "deployments"), &body).await?.expect(201)?;
        let spec = &created["spec"];
        same!((&spec["replicas"], &spec["strategy"]["type"], &spec["revisionHistoryLimit"]), (&json!(1), &json!("RollingUpdate"), &json!(10)));
        same!(spec["strategy"]["rollingUpdate"], json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
    }
    a_selector_must_match_its_template(s) {
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "other"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let message = s.post(&s.path("apps/v1", "deployments"), &body).await?.refused(422, "Invalid")?;
        holds!(message.contains("spec.template.metadata.labels: Invalid value: {\"a\":\"other\"}: `selector` does not match template `labels`"), "{message}");
    }
    a_selector_of_a_deployment_cannot_change(s) {
        let body = |value: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": value}}, "template": {"metadata": {"labels": {"a": value}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        s.post(&s.path("apps/v1", "deployments"), &body("b")).await?.expect(201)?;
        let message = s.put(&s.path("apps/v1", "deployments/a"), &body("c")).await?.refused(422, "Invalid")?;
        holds!(message.ends_with("field is immutable"), "{message}");
    }
    a_lease_keeps_microseconds(s) {
        let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.123456Z"}});
        let lease = s.post(&s.path("coordination.k8s.io/v1", "leases"), &body).await?.expect(201)?;
        same!(lease["spec"]["renewTime"], "2026-01-02T03:04:05.123456Z");
    }
    a_lease_lasts_longer_than_nothing(s) {
        let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 0}});
        let message = s.post(&s.path("coordination.k8s.io/v1", "leases"), &body).await?.refused(422, "Invalid")?;
        holds!(message.contains("spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"), "{message}");
    }
    events_are_found_by_what_they_are_about(s) {
        for (name, about) in [("a", "x"), ("b", "y")] {
            let body = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": about, "namespace": s.namespace}, "reason": "Because", "message": "m", "type": "Normal"});
            s.post(&s.core("events"), &body).await?.expect(201)?;
        }
        let list = s.get(&format!("{}?fieldSelector=involvedObject.name=x,involvedObject.kind=Pod", s.core("events"))).await?.expect(200)?;
        same!((list["items"].as_array().map(Vec::len), &list["items"][0]["metadata"]["name"]), (Some(1), &json!("a")));
    }
    both_groups_show_the_same_events(s) {
        let body = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "eventTime": "2026-01-02T03:04:05.000000Z", "regarding": {"kind": "Pod", "name": "x", "namespace": s.namespace},
            "reason": "Because", "note": "n", "type": "Normal", "action": "Do", "reportingController": "example.com/me", "reportingInstance": "me-1"});
        s.post(&s.path("events.k8s.io/v1", "events"), &body).await?.expect(201)?;
        let event = s.get(&s.core("events/a")).await?.expect(200)?;
        same!((&event["involvedObject"]["name"], &event["message"]), (&json!("x"), &json!("n")));
        same!((&event["reportingComponent"], &event["apiVersion"]), (&json!("example.com/me"), &json!("v1")));
    }
    a_node_is_cordoned_and_released(s) {
        let name = s.unique("node");
        s.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await?.expect(201)?;
        let path = format!("/api/v1/nodes/{name}");
        let node = s.patch(&path, STRATEGIC, &json!({"spec": {"unschedulable": true}})).await?.expect(200)?;
        same!(node["spec"]["unschedulable"], true);
        let list = s.get(&format!("/api/v1/nodes?fieldSelector=spec.unschedulable=true,metadata.name={name}")).await?.expect(200)?;
        same!(list["items"].as_array().map(Vec::len), Some(1));
    }
    a_new_node_is_tainted_until_it_is_ready(s) {
        let name = s.unique("node");
        let node = s.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await?.expect(201)?;
        same!(node["spec"]["taints"], json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
    }
    a_nodes_status_is_written_apart(s) {
        let name = s.unique("node");
        s.post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"phase": "Running"}})).await?.expect(201)?;
        let path = format!("/api/v1/nodes/{name}");
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.34.0"}}});
        let node = s.patch(&format!("{path}/status"), STRATEGIC, &status).await?.expect(200)?;
        same!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.34.0");
        let table = s.get_as(&path, super::wire::TABLE).await?.expect(200)?;
        same!((&table["rows"][0]["cells"][1], &table["rows"][0]["cells"][4]), (&json!("Ready"), &json!("v1.34.0")));
    }
    a_service_account_gets_a_token(s) {
        s.post(&s.core("serviceaccounts"), &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})).await?.expect(201)?;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
        let answer = s.post(&s.core("serviceaccounts/robot/token"), &request).await?.expect(201)?;
        holds!(answer["status"]["token"].as_str().is_some_and(|token| token.split('.').count() == 3), "{answer}");
        holds!(answer["status"]["expirationTimestamp"].is_string(), "{answer}");
    }
    every_namespace_has_a_default_service_account(s) {
        s.until(&s.core("serviceaccounts/default"), "the default account", |answer| answer.code == 200).await?;
    }
    every_namespace_has_the_root_certificate(s) {
        let answer = s.until(&s.core("configmaps/kube-root-ca.crt"), "the certificate", |answer| answer.code == 200).await?;
        holds!(answer.body["data"]["ca.crt"].as_str().is_some_and(|text| text.contains("BEGIN CERTIFICATE")), "{answer:?}");
    }
    a_config_map_key_must_be_a_name(s) {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"not/good": "x"}});
        let message = s.post(&s.core("configmaps"), &body).await?.refused(422, "Invalid")?;
        holds!(message.contains("data[not/good]: Invalid value: \"not/good\": a valid config key must consist of"), "{message}");
    }
    a_role_binding_cannot_change_its_role(s) {
        let body = |role: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "a"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}, "subjects": [{"kind": "User", "name": "x", "apiGroup": "rbac.authorization.k8s.io"}]});
        s.post(&s.path("rbac.authorization.k8s.io/v1", "rolebindings"), &body("one")).await?.expect(201)?;
        let message = s.put(&s.path("rbac.authorization.k8s.io/v1", "rolebindings/a"), &body("two")).await?.refused(422, "Invalid")?;
        holds!(message.contains("cannot change roleRef"), "{message}");
    }
    a_priority_class_cannot_be_revalued(s) {
        let name = s.unique("priority");
        let body = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 10});
        s.post("/apis/scheduling.k8s.io/v1/priorityclasses", &body).await?.expect(201)?;
        let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
        s.patch(&path, MERGE, &json!({"value": 11})).await?.refused(422, "Invalid")?;
    }
    versions_grow_across_all_kinds(s) {
        let map = s.config_map("a").await?;
        let secret = s.post(&s.core("secrets"), &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})).await?.expect(201)?;
        holds!(version(&secret).parse::<u64>()? > version(&map).parse::<u64>()?, "{} then {}", version(&map), version(&secret));
    }
    a_container_for_debugging_is_added_to_a_pod(s) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let pod = s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let path = s.core("pods/a/ephemeralcontainers");
        let add = json!({"metadata": {"labels": {"not": "this"}}, "spec": {"activeDeadlineSeconds": 7, "ephemeralContainers": [{"name": "d", "image": "i", "targetContainerName": "c"}]}});
        let added = s.patch(&path, STRATEGIC, &add).await?.expect(200)?;
        same!((&added["kind"], &added["metadata"]["labels"], &added["spec"]["activeDeadlineSeconds"]), (&"Pod".into(), &Value::Null, &Value::Null));
        same!((&pod["metadata"]["generation"], &added["metadata"]["generation"]), (&1.into(), &2.into()));
        same!(added["spec"]["ephemeralContainers"], json!([{"name": "d", "image": "i", "targetContainerName": "c", "imagePullPolicy": "Always",
            "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]));
        same!(s.get(&path).await?.expect(200)?["spec"], added["spec"]);
        let more = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "other"}]}});
        let message = s.patch(&path, STRATEGIC, &more).await?.refused(422, "Invalid")?;
        holds!(message.contains("spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be changed\n"), "{message}");
        let none = json!([{"op": "remove", "path": "/spec/ephemeralContainers"}]);
        let message = s.patch(&path, JSON_PATCH, &none).await?.refused(422, "Invalid")?;
        same!(message, "Pod \"a\" is invalid: spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n");
    }
    a_container_for_debugging_has_a_name_of_its_own_and_no_ports(s) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let path = s.core("pods/a/ephemeralcontainers");
        let add = json!({"spec": {"ephemeralContainers": [{"name": "c", "image": "i", "targetContainerName": "x", "ports": [{"containerPort": 80, "protocol": "TCP"}]}, {"name": "d"}]}});
        let message = s.patch(&path, STRATEGIC, &add).await?.refused(422, "Invalid")?;
        for part in [
            "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
            "spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"",
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers[1].image: Required value",
        ] {
            holds!(message.contains(part), "{message} has no {part}");
        }
    }
    a_container_for_debugging_is_added_only_by_its_own_way(s) {
        let debugger = json!([{"name": "d", "image": "i"}]);
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let add = json!({"spec": {"ephemeralContainers": debugger}});
        let message = s.patch(&s.core("pods/a"), STRATEGIC, &add).await?.refused(422, "Invalid")?;
        holds!(message.contains("pod updates may not change fields other than"), "{message}");
        pod["metadata"]["name"] = "b".into();
        pod["spec"]["ephemeralContainers"] = debugger;
        let message = s.post(&s.core("pods"), &pod).await?.refused(422, "Invalid")?;
        same!(message, "Pod \"b\" is invalid: spec.ephemeralContainers: Forbidden: cannot be set on create");
    }
    a_binding_may_name_its_pod_alone(s) {
        s.until(&s.core("serviceaccounts/default"), "the account of pods", |answer| answer.code == 200).await?;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "homeless"},
            "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]}});
        s.post(&s.core("pods"), &pod).await?.expect(201)?;
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "homeless"}, "target": {"kind": "Node", "name": "home"}});
        let answer = s.post(&s.core("bindings"), &binding).await?.expect(201)?;
        same!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Success")));
        same!(s.get(&s.core("pods/homeless")).await?.body["spec"]["nodeName"], "home");
        let message = s.post(&s.core("bindings"), &binding).await?.refused(409, "Conflict")?;
        holds!(message.contains("is already assigned to node \"home\""), "{message}");
        same!(s.get(&s.core("bindings")).await?.code, 405);
    }
    a_flow_schema_says_whether_its_level_exists(s) {
        const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
        let name = s.unique("level");
        let schema = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": name},
            "spec": {"priorityLevelConfiguration": {"name": name}, "rules": []}});
        s.post(&format!("{GROUP}/flowschemas"), &schema).await?.expect(201)?;
        let path = format!("{GROUP}/flowschemas/{name}");
        let is = |status: &'static str| move |answer: &super::wire::Answer| answer.body["status"]["conditions"][0]["status"] == status;
        let seen = s.until(&path, "it to dangle", is("True")).await?.body;
        same!(seen["status"]["conditions"][0]["reason"], "NotFound");
        same!(seen["status"]["conditions"][0]["message"], format!("This FlowSchema references the PriorityLevelConfiguration object named {name:?} but there is no such object"));
        let level = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": name},
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}});
        s.post(&format!("{GROUP}/prioritylevelconfigurations"), &level).await?.expect(201)?;
        let seen = s.until(&path, "it to have a level", is("False")).await?.body;
        same!(seen["status"]["conditions"][0]["reason"], "Found");
        for path in [path, format!("{GROUP}/prioritylevelconfigurations/{name}")] {
            s.delete(&path).await?.expect(200)?;
        }
    }
    a_version_that_is_not_served_of_a_group_that_is(s) {
        for path in ["/apis/batch/v1beta1/cronjobs", "/apis/batch/v1beta1", "/api/v2/pods", "/api/v2"] {
            same!(s.get(path).await?.refused(404, "NotFound")?, "the server could not find the requested resource");
        }
    }
}
