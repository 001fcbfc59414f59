//! What the server says about itself: versions, groups, resources, schemas, health.

use serde_json::Value;

use super::definitions::{crd, establish};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

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
}
