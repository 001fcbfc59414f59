//! What the server says about itself: versions, groups, resources, schemas, health.

use serde_json::{Value, json};

use super::definitions::{crd, establish};
use super::wire::{AGGREGATED, MERGE, TABLE};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Groups that both servers have, as discovery lists them.
const ORDER: [&str; 16] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| item["name"] == name)
}

behaviours! {
    the_version_has_major_minor_and_git_version(s) {
        let version = s.get("/version").await?.expect(200)?;
        same!(version["major"], "1");
        holds!(version["gitVersion"].as_str().is_some_and(|v| v.starts_with("v1.")), "{version}");
        holds!(version["minor"].is_string() && version["platform"].is_string(), "{version}");
    }
    health_endpoints_answer_ok(s) {
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = s.get(path).await?;
            same!((answer.code, answer.text.as_str()), (200, "ok"));
        }
    }
    verbose_readiness_lists_its_checks(s) {
        let answer = s.get("/readyz?verbose").await?;
        same!(answer.code, 200);
        holds!(answer.text.contains("[+]ping ok") && answer.text.contains("readyz check passed"), "{answer:?}");
    }
    the_core_group_has_version_v1(s) {
        let versions = s.get("/api").await?.expect(200)?;
        same!(versions["kind"], "APIVersions");
        same!(versions["versions"][0], "v1");
    }
    groups_are_listed_with_their_preferred_version(s) {
        let list = s.get("/apis").await?.expect(200)?;
        same!(list["kind"], "APIGroupList");
        let apps = named(&list["groups"], "apps").cloned().unwrap_or_default();
        same!(apps["preferredVersion"]["groupVersion"], "apps/v1");
        for group in ["policy", "coordination.k8s.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io", "events.k8s.io"] {
            holds!(named(&list["groups"], group).is_some(), "{group} is missing");
        }
    }
    a_group_is_described_alone(s) {
        let group = s.get("/apis/apps").await?.expect(200)?;
        same!(group["kind"], "APIGroup");
        same!(group["versions"][0]["groupVersion"], "apps/v1");
    }
    core_resources_are_listed_with_verbs_and_short_names(s) {
        let list = s.get("/api/v1").await?.expect(200)?;
        same!(list["kind"], "APIResourceList");
        let pods = named(&list["resources"], "pods").cloned().unwrap_or_default();
        same!((&pods["namespaced"], &pods["kind"], &pods["shortNames"][0]), (&true.into(), &"Pod".into(), &"po".into()));
        holds!(pods["verbs"].as_array().is_some_and(|verbs| verbs.len() == 8), "{pods}");
        let nodes = named(&list["resources"], "nodes").cloned().unwrap_or_default();
        same!(nodes["namespaced"], false);
        for sub in ["pods/status", "pods/eviction", "pods/binding", "nodes/status", "serviceaccounts/token"] {
            holds!(named(&list["resources"], sub).is_some(), "{sub} is missing");
        }
    }
    group_resources_have_their_subresources(s) {
        let list = s.get("/apis/apps/v1").await?.expect(200)?;
        for name in ["deployments", "deployments/scale", "deployments/status", "daemonsets", "replicasets"] {
            holds!(named(&list["resources"], name).is_some(), "{name} is missing");
        }
    }
    aggregated_discovery_tells_everything_at_once(s) {
        let answer = s.get_as("/apis", AGGREGATED).await?;
        holds!(answer.header("content-type").contains("as=APIGroupDiscoveryList"), "{:?}", answer.headers);
        let list = answer.expect(200)?;
        same!(list["kind"], "APIGroupDiscoveryList");
        let apps = list["items"].as_array().into_iter().flatten().find(|group| group["metadata"]["name"] == "apps");
        let resources = apps.map(|apps| apps["versions"][0]["resources"].clone()).unwrap_or_default();
        let deployments = resources.as_array().into_iter().flatten().find(|r| r["resource"] == "deployments");
        let deployments = deployments.cloned().unwrap_or_default();
        same!(deployments["scope"], "Namespaced");
        same!(deployments["responseKind"]["kind"], "Deployment");
        holds!(deployments["subresources"].as_array().is_some_and(|list| list.len() == 2), "{deployments}");
    }
    the_core_group_has_aggregated_discovery_too(s) {
        let list = s.get_as("/api", AGGREGATED).await?.expect(200)?;
        same!(list["kind"], "APIGroupDiscoveryList");
        same!(list["items"][0]["versions"][0]["version"], "v1");
    }
    an_unknown_group_is_not_found(s) {
        let answer = s.get("/apis/nobody.example.com").await?;
        same!((answer.code, answer.text.trim()), (404, "404 page not found"));
        let answer = s.get("/apis/nobody.example.com/v1/things").await?;
        same!((answer.code, answer.text.trim()), (404, "404 page not found"));
    }
    an_unknown_resource_of_a_known_group_is_not_found(s) {
        let message = s.get(&s.core("widgets")).await?.refused(404, "NotFound")?;
        same!(message, "the server could not find the requested resource");
    }
    an_unknown_path_is_not_found(s) {
        same!(s.get("/nowhere").await?.code, 404);
    }
    schemas_are_indexed_with_a_hash(s) {
        let index = s.get("/openapi/v3").await?.expect(200)?;
        for path in ["api/v1", "apis/apps/v1"] {
            let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap_or_default();
            holds!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        }
    }
    a_schema_names_its_group_version_and_kind(s) {
        let schema = s.get("/openapi/v3/api/v1").await?.expect(200)?;
        let pod = &schema["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
        same!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
        same!(pod["properties"]["spec"]["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.core.v1.PodSpec");
    }
    operations_tell_kubectl_about_field_validation(s) {
        let schema = s.get("/openapi/v3/apis/apps/v1").await?.expect(200)?;
        let patch = &schema["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        same!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        holds!(named(&patch["parameters"], "fieldValidation").is_some(), "{}", patch["parameters"]);
        holds!(named(&patch["parameters"], "dryRun").is_some(), "{}", patch["parameters"]);
    }
    a_schema_that_is_known_is_not_sent_again(s) {
        let first = s.get("/openapi/v3/apis/apps/v1").await?;
        let tag = first.header("etag").to_owned();
        holds!(!tag.is_empty(), "{:?}", first.headers);
        let again = s.send(reqwest::Method::GET, "/openapi/v3/apis/apps/v1", &[("If-None-Match", &tag)], Vec::new()).await?;
        same!((again.code, again.text.as_str()), (304, ""));
    }
    a_custom_kind_appears_in_discovery_and_schemas(s) {
        let (group, plural) = establish(&s, crd(&s, serde_json::json!({}))).await?;
        let list = s.until(&format!("/apis/{group}/v1"), "the resource", |answer| answer.code == 200).await?.body;
        let found = named(&list["resources"], &plural).cloned().unwrap_or_default();
        same!((&found["kind"], &found["namespaced"]), (&"Widget".into(), &true.into()));
        same!(found["shortNames"][0], "wd");
        s.until("/openapi/v3", "the schema", |answer| answer.text.contains(&format!("apis/{group}/v1"))).await?;
        let schema = s.get(&format!("/openapi/v3/apis/{group}/v1")).await?.expect(200)?;
        holds!(schema["components"]["schemas"].to_string().contains("\"kind\":\"Widget\""), "no Widget in the schema");
    }
    a_custom_kind_leaves_discovery_when_its_definition_goes(s) {
        let (group, plural) = establish(&s, crd(&s, serde_json::json!({}))).await?;
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}");
        s.delete(&path).await?.expect(200)?;
        s.until(&format!("/apis/{group}/v1"), "the group to go", |answer| answer.code == 404).await?;
    }
    each_group_version_is_listed_as_an_api_service(s) {
        let list = s.get(SERVICES).await?.expect(200)?;
        same!(list["kind"], "APIServiceList");
        let order = |name: &str| {
            let found = list["items"].as_array().into_iter().flatten().find(|item| item["metadata"]["name"] == name);
            found.map(|found| (found["spec"]["groupPriorityMinimum"].clone(), found["spec"]["versionPriority"].clone()))
        };
        for (name, group, version) in [
            ("v1.", 18000, 1), ("v1.apps", 17800, 15), ("v1.events.k8s.io", 17750, 15), ("v1.authentication.k8s.io", 17700, 15),
            ("v1.authorization.k8s.io", 17600, 15), ("v1.batch", 17400, 15), ("v1.certificates.k8s.io", 17300, 15),
            ("v1.networking.k8s.io", 17200, 15), ("v1.policy", 17100, 15), ("v1.rbac.authorization.k8s.io", 17000, 15),
            ("v1.storage.k8s.io", 16800, 15), ("v1.admissionregistration.k8s.io", 16700, 15), ("v1.apiextensions.k8s.io", 16700, 15),
            ("v1.scheduling.k8s.io", 16600, 15), ("v1.coordination.k8s.io", 16500, 15), ("v1.discovery.k8s.io", 16200, 15),
        ] {
            same!((name, order(name)), (name, Some((group.into(), version.into()))));
        }
        same!(order("v1.apiregistration.k8s.io"), None);
    }
    an_api_service_of_the_server_is_local_and_available(s) {
        let service = s.get(&format!("{SERVICES}/v1.batch")).await?.expect(200)?;
        same!(service["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}));
        same!(service["spec"], json!({"group": "batch", "version": "v1", "groupPriorityMinimum": 17400, "versionPriority": 15}));
        let mut condition = service["status"]["conditions"][0].clone();
        condition["lastTransitionTime"].take();
        same!(condition, json!({"type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available", "lastTransitionTime": null}));
    }
    groups_are_ordered_by_priority(s) {
        let known = |list: Vec<&Value>| -> Vec<String> {
            let names = list.into_iter().filter_map(|name| name.as_str());
            names.filter(|name| ORDER.contains(name)).map(str::to_owned).collect()
        };
        let list = s.get("/apis").await?.expect(200)?;
        same!(known(list["groups"].as_array().into_iter().flatten().map(|group| &group["name"]).collect()), ORDER);
        let list = s.get_as("/apis", AGGREGATED).await?.expect(200)?;
        same!(known(list["items"].as_array().into_iter().flatten().map(|group| &group["metadata"]["name"]).collect()), ORDER);
    }
    the_api_service_of_a_definition_comes_and_goes_with_it(s) {
        let (group, plural) = establish(&s, crd(&s, json!({}))).await?;
        let path = format!("{SERVICES}/v1.{group}");
        let service = s.until(&path, "the APIService", |answer| answer.code == 200).await?.body;
        same!(service["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "true"}));
        same!(service["spec"], json!({"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100}));
        s.delete(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}")).await?.expect(200)?;
        s.until(&path, "it to go", |answer| answer.code == 404).await?;
    }
    the_api_service_of_a_definition_is_put_back(s) {
        let (group, _) = establish(&s, crd(&s, json!({}))).await?;
        let path = format!("{SERVICES}/v1.{group}");
        let first = s.until(&path, "the APIService", |answer| answer.code == 200).await?.body;
        let deleted = s.delete(&path).await?.expect(200)?;
        same!((&deleted["kind"], &deleted["details"]["kind"]), (&"Status".into(), &"apiservices".into()));
        let again = s.until(&path, "another one", |answer| answer.code == 200 && answer.body["metadata"]["uid"] != first["metadata"]["uid"]).await?;
        same!(again.body["spec"], first["spec"]);
        s.patch(&path, MERGE, &json!({"spec": {"versionPriority": 7}, "metadata": {"labels": {"own": "kept"}}})).await?.expect(200)?;
        let again = s.until(&path, "its order", |answer| answer.body["spec"]["versionPriority"] == 100).await?;
        same!(again.body["metadata"]["labels"]["own"], "kept");
    }
    an_api_service_is_named_by_its_group_and_version(s) {
        let body = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "x"}});
        let message = s.post(SERVICES, &body).await?.refused(422, "Invalid")?;
        same!(message, "APIService.apiregistration.k8s.io \"x\" is invalid: [metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \".\", spec.group: Required value: only v1 may have an empty group and it better be legacy kube, spec.version: Invalid value: \"\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'), spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000, spec.versionPriority: Invalid value: 0: must be positive and less than 1000]");
        let local = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.near.example.com"},
            "spec": {"group": "near.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true, "caBundle": "YWI="}});
        let message = s.post(SERVICES, &local).await?.refused(422, "Invalid")?;
        holds!(message.contains("spec.caBundle: Invalid value: \"2 bytes\": local APIServices may not have a caBundle"), "{message}");
        holds!(message.contains("spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"), "{message}");
    }
    an_api_service_of_an_absent_service_is_unavailable(s) {
        let group = format!("{}.example.com", s.unique("far"));
        let body = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{group}")},
            "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
                "service": {"name": "far", "namespace": s.namespace}}});
        let made = s.post(SERVICES, &body).await?.expect(201)?;
        same!(made["spec"]["service"]["port"], 443);
        let path = format!("{SERVICES}/v1.{group}");
        let seen = s.until(&path, "a condition", |answer| answer.body["status"]["conditions"][0]["status"] == "False").await?.body;
        same!(seen["status"]["conditions"][0]["reason"], "ServiceNotFound");
        same!(seen["status"]["conditions"][0]["message"], format!("service/far in {:?} is not present", s.namespace));
        let table = s.get_as(&path, TABLE).await?.expect(200)?;
        same!(table["rows"][0]["cells"][1], format!("{}/far", s.namespace));
        same!(table["rows"][0]["cells"][2], "False (ServiceNotFound)");
        let answer = s.until(&format!("/apis/{group}/v1/things"), "nobody", |answer| answer.code == 503).await?;
        same!(answer.text.trim(), "service unavailable");
        s.delete(&path).await?.expect(200)?;
        s.until(&format!("/apis/{group}/v1/things"), "nothing", |answer| answer.code == 404).await?;
    }
    an_api_service_that_changed_is_not_overwritten(s) {
        let mut service = s.get(&format!("{SERVICES}/v1.policy")).await?.expect(200)?;
        service["metadata"]["resourceVersion"].take();
        let message = s.put(&format!("{SERVICES}/v1.policy"), &service).await?.refused(422, "Invalid")?;
        holds!(message.contains("metadata.resourceVersion: Invalid value: 0: must be specified for an update"), "{message}");
    }
}
