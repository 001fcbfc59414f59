//! Mutating policies that work together, with parameters, with conditions, and on other requests than creations.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Value, json};

use super::{
    ADMISSION, Server,
    mutations::{binding, mutation, object, outcome, policy},
};
use crate::{
    behaviours::hook::{Hook, Reply},
    waiting::{Look, eventually},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// A few policies for the objects of one label, and what is asked of the server.
pub(super) struct Story {
    name: &'static str,
    policies: Vec<(Value, Value)>,
    before: Vec<(&'static str, String, Value)>,
    requests: Vec<(&'static str, String, Value)>,
}

impl Story {
    fn new(name: &'static str) -> Story {
        Story { name, policies: Vec::new(), before: Vec::new(), requests: Vec::new() }
    }

    /// A policy that differs from a plain one in its specification, and its binding in its own.
    fn policy(mut self, spec: Value, bound: Value) -> Story {
        let name = format!("{}-{}", self.name, self.policies.len());
        let mut plain = policy(&name, "A", "Object{data: {'mutated': 'yes'}}");
        plain["spec"]["matchConstraints"]["objectSelector"]["matchLabels"]["case"] = self.name.into();
        plain["spec"]["paramKind"].take();
        let changed = |object: &Value, spec: Value| schema::patch::merge(object, &json!({ "spec": spec }));
        self.policies.push((changed(&plain, spec), changed(&binding(&name), bound)));
        self
    }

    fn before(mut self, method: &'static str, path: &str, body: Value) -> Story {
        self.before.push((method, path.to_owned(), body));
        self
    }

    fn ask(mut self, method: &'static str, path: &str, body: Value) -> Story {
        self.requests.push((method, path.to_owned(), body));
        self
    }

    /// Creates an object of a kind, with the story's label.
    fn create(self, kind: &str) -> Story {
        let (path, object) = object(kind, self.name);
        self.ask("POST", &format!("{path}?dryRun=All"), object)
    }

    pub(super) async fn begin(&self, server: &Server) {
        for (method, path, body) in &self.before {
            let (code, answer) = server.send(method, path, body).await;
            assert!(code < 300, "{}: {path}: {answer}", self.name);
        }
        for (policy, binding) in &self.policies {
            let (code, answer) = server.install(self.name, policy.clone(), binding.clone()).await;
            assert_eq!(code, 201, "{}: {answer}", self.name);
        }
    }

    pub(super) async fn tell(&self, server: &Server, answers: &mut BTreeMap<String, Value>) {
        for (number, (method, path, body)) in self.requests.iter().enumerate() {
            let (code, answer, warnings) = server.send_and_listen(method, path, body).await;
            let told = json!({"answer": outcome(code, &answer), "warnings": warnings});
            answers.insert(format!("story {} {number}", self.name), told);
        }
        if self.name == HOOKED {
            hooked(server, answers).await;
        }
    }
}

fn merged(expressions: &[&str]) -> Value {
    expressions.iter().map(|expression| mutation("A", expression)).collect()
}

/// Parameters of a name, with a label.
fn params(name: &str, label: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"params": label}}})
}

const APPEND: &str = "Object{data: {'a': object.data.a + 'p'}}";

pub(super) fn all() -> Vec<Story> {
    // Nothing else here has parameters of this kind: the real server forgets a kind once nobody wants it any more, and
    // does not learn of its objects again.
    let secret = json!({"apiVersion": "v1", "kind": "Secret"});
    let with_params = |expression: &str| json!({"paramKind": secret, "mutations": merged(&[expression])});
    let from_params = "Object{data: {'of-' + params.metadata.name: params.metadata.namespace}}";
    let named = |name: &str, action: &str| json!({"paramRef": {"name": name, "namespace": "default", "parameterNotFoundAction": action}});
    let conditions = |list: &[&str]| -> Value {
        let named =
            list.iter().enumerate().map(|(at, expression)| json!({"name": format!("c{at}"), "expression": expression}));
        named.collect()
    };
    let rules = |group: &str, resource: &str, operations: Value| {
        json!({"matchConstraints": {"resourceRules": [{"apiGroups": [group], "apiVersions": ["v1"],
            "operations": operations, "resources": [resource]}], "objectSelector": {"matchLabels": null}}})
    };
    let mut all = vec![
        Story::new("each-sees-the-last")
            .policy(json!({"mutations": merged(&[APPEND, APPEND, "Object{data: {'b': object.data.a}}"])}), json!({}))
            .create("cm"),
        Story::new("both-kinds-of-patches")
            .policy(json!({"mutations": [mutation("A", APPEND),
                mutation("J", "[JSONPatch{op: 'copy', from: '/data/a', path: '/data/copied'}]"), mutation("A", APPEND)]}), json!({}))
            .create("cm"),
        Story::new("what-fails-is-passed-over")
            .policy(json!({"failurePolicy": "Ignore", "mutations": merged(&["Object{data: {'a': object.none}}", APPEND])}), json!({}))
            .create("cm"),
        Story::new("what-does-not-fit-is-passed-over")
            .policy(json!({"failurePolicy": "Ignore", "mutations": merged(&["Object{nothing: 1}", "Object{data: {'a': 5}}"])}), json!({}))
            .create("cm"),
        Story::new("all-failures-are-told")
            .policy(json!({"mutations": merged(&["Object{data: {'a': object.none}}", APPEND, "Object{x: 1}"])}), json!({}))
            .create("cm"),
        Story::new("an-internal-error-is-never-ignored")
            .policy(json!({"failurePolicy": "Ignore", "mutations": [mutation("J", "[JSONPatch{op: 'add', path: '/x', value: 1}]")]}), json!({}))
            .create("cm"),
        Story::new("spaces-around-an-expression")
            .policy(json!({"mutations": merged(&["  Object{data: {'a': object.none}}  "])}), json!({}))
            .create("cm"),
        Story::new("conditions-are-met")
            .policy(json!({"matchConditions": conditions(&["true", "request.operation == 'CREATE'", "namespaceObject == null"])}), json!({}))
            .create("cm"),
        Story::new("a-condition-is-not-met")
            .policy(json!({"matchConditions": conditions(&["true", "has(object.data.none)"])}), json!({}))
            .create("cm"),
        Story::new("a-condition-fails")
            .policy(json!({"matchConditions": conditions(&["true", " object.data.none == 'x' "])}), json!({}))
            .create("cm"),
        Story::new("two-conditions-fail")
            .policy(json!({"matchConditions": conditions(&["object.x == 1", "object.y == 1", "object.x == 1"])}), json!({}))
            .create("cm"),
        Story::new("no-outweighs-failures")
            .policy(json!({"matchConditions": conditions(&["object.x == 1", "false"])}), json!({}))
            .create("cm"),
        Story::new("failing-conditions-are-ignored")
            .policy(json!({"failurePolicy": "Ignore", "matchConditions": conditions(&["object.x == 1"])}), json!({}))
            .create("cm"),
        Story::new("conditions-ask-for-rights")
            .policy(json!({"matchConditions": conditions(&["authorizer.requestResource.check('create').allowed()",
                "authorizer.group('').resource('pods').namespace('x').check('get').allowed()"])}), json!({}))
            .create("cm"),
        Story::new("variables-use-variables")
            .policy(json!({"variables": [{"name": "x", "expression": "object.data.a"}, {"name": "y", "expression": "variables.x + variables.x"}],
                "mutations": merged(&["Object{data: {'a': variables.y}}", "Object{data: {'b': variables.y}}"])}), json!({}))
            .create("cm"),
        Story::new("never-again")
            .policy(json!({"mutations": merged(&[APPEND])}), json!({}))
            .create("cm"),
        Story::new("again-if-needed")
            .policy(json!({"reinvocationPolicy": "IfNeeded", "mutations": merged(&[APPEND])}), json!({}))
            .create("cm"),
        Story::new("again-although-nothing-changed")
            .policy(json!({"reinvocationPolicy": "IfNeeded", "mutations": merged(&["Object{data: {'a': '1'}}"])}), json!({}))
            .policy(json!({"reinvocationPolicy": "IfNeeded", "mutations": [mutation("J",
                "[JSONPatch{op: 'add', path: '/data/turns', value: (has(object.data.turns) ? object.data.turns : '') + 't'}]")]}), json!({}))
            .create("cm"),
        Story::new("one-again-the-other-not")
            .policy(json!({"reinvocationPolicy": "IfNeeded", "mutations": merged(&[APPEND])}), json!({}))
            .policy(json!({"mutations": merged(&["Object{data: {'b': object.data.b + 'q'}}"])}), json!({}))
            .create("cm"),
        Story::new("conditions-are-asked-again")
            .policy(json!({"reinvocationPolicy": "IfNeeded", "matchConditions": conditions(&["object.data.a == '1'"]),
                "mutations": merged(&[APPEND])}), json!({}))
            .create("cm"),
        Story::new("named-parameters")
            .before("POST", SECRETS, params("mutating-params", "one"))
            .policy(with_params(from_params), named("mutating-params", "Deny"))
            .create("cm"),
        Story::new("selected-parameters")
            .before("POST", SECRETS, params("mutating-two-a", "two"))
            .before("POST", SECRETS, params("mutating-two-b", "two"))
            .policy(with_params(from_params), json!({"paramRef": {"selector": {"matchLabels": {"params": "two"}},
                "namespace": "default", "parameterNotFoundAction": "Deny"}}))
            .create("cm"),
        Story::new("parameters-of-the-own-namespace")
            .before("POST", SECRETS, params("mutating-own", "own"))
            .policy(with_params(from_params), json!({"paramRef": {"name": "mutating-own", "parameterNotFoundAction": "Deny"}}))
            .create("cm"),
        Story::new("no-parameters-denied").policy(with_params(from_params), named("nowhere", "Deny")).create("cm"),
        Story::new("no-parameters-allowed").policy(with_params(from_params), named("nowhere", "Allow")).create("cm"),
        Story::new("no-parameters-ignored")
            .policy(json!({"failurePolicy": "Ignore", "paramKind": secret}), named("nowhere", "Deny"))
            .create("cm"),
        Story::new("nothing-selected")
            .policy(with_params(from_params), json!({"paramRef": {"selector": {"matchLabels": {"params": "none"}},
                "namespace": "default", "parameterNotFoundAction": "Deny"}}))
            .create("cm"),
        Story::new("parameters-without-reference")
            .policy(with_params("Object{data: {'a': params == null ? 'none' : 'some'}}"), json!({}))
            .create("cm"),
        Story::new("a-reference-without-parameters")
            .policy(json!({}), named("nowhere", "Deny"))
            .create("cm"),
        Story::new("parameters-do-not-say-their-kind")
            .before("POST", SECRETS, params("mutating-kind", "kind"))
            .policy(with_params("Object{data: {'a': has(params.kind) ? 'kind' : 'no kind', 'b': has(params.apiVersion) ? 'v' : 'no v'}}"),
                named("mutating-kind", "Deny"))
            .create("cm"),
        Story::new("an-unknown-kind-of-parameters")
            .policy(json!({"paramKind": {"apiVersion": "nowhere.dev/v1", "kind": "Nothing"}}), named("x", "Deny"))
            .create("cm"),
        Story::new("an-unknown-kind-of-parameters-ignored")
            .policy(json!({"failurePolicy": "Ignore", "paramKind": {"apiVersion": "v1", "kind": "Nothing"}}), named("x", "Deny"))
            .create("cm"),
        Story::new("wide-parameters-in-a-namespace")
            .policy(json!({"paramKind": {"apiVersion": "v1", "kind": "Namespace"}}), named("default", "Deny"))
            .create("cm"),
        Story::new("wide-parameters")
            .policy(json!({"paramKind": {"apiVersion": "v1", "kind": "Namespace"}, "mutations": merged(&["Object{data: {'a': params.metadata.name}}"])}),
                json!({"paramRef": {"name": "default", "parameterNotFoundAction": "Deny"}}))
            .create("cm"),
        Story::new("a-binding-for-less")
            .policy(json!({}), json!({"matchResources": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["*"], "resources": ["configmaps"]}], "objectSelector": {"matchLabels": {"none": "x"}}}}))
            .create("cm"),
        Story::new("a-binding-for-a-namespace")
            .policy(json!({}), json!({"matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}}))
            .create("cm"),
        Story::new("what-is-excluded")
            .policy(json!({"matchConstraints": {"excludeResourceRules": [{"apiGroups": [""], "apiVersions": ["*"],
                "operations": ["*"], "resources": ["configmaps"], "resourceNames": ["what-is-excluded"]}]}}), json!({}))
            .create("cm"),
        Story::new("a-binding-to-nothing").policy(json!({}), json!({"policyName": "nowhere"})).create("cm"),
        Story::new("tracked-fields")
            .policy(json!({"mutations": merged(&["Object{data: {'mutated': 'yes'}, metadata: Object.metadata{labels: {'l': 'm'}}}"])}), json!({}))
            .ask("POST", &format!("{CONFIG_MAPS}?dryRun=All&fieldManager=somebody"), object("cm", "tracked-fields").1)
            .ask("PATCH", &format!("{CONFIG_MAPS}/tracked-fields?dryRun=All&fieldManager=somebody"), object("cm", "tracked-fields").1),
    ];
    all.extend(on_other_requests(&rules));
    all.push(of_authors());
    all.push(
        Story::new(HOOKED).policy(json!({"reinvocationPolicy": "IfNeeded", "mutations": merged(&[APPEND])}), json!({})),
    );
    all
}

fn on_other_requests(rules: &dyn Fn(&str, &str, Value) -> Value) -> Vec<Story> {
    let of = |rules: Value, expression: &str, name: &str| {
        let mut spec = rules;
        spec["mutations"] = merged(&[expression]);
        spec["matchConstraints"]["resourceRules"][0]["resourceNames"] = json!([name]);
        spec
    };
    let stored = |name: &str, kind: &str| {
        let (path, mut object) = object(kind, name);
        object["metadata"]["labels"]["case"] = "none".into();
        (path, object)
    };
    let (path, updated) = stored("updated", "cm");
    let (deployments, scaled) = stored("scaled", "deploy");
    let (_, patched) = stored("patched", "deploy");
    let patch = |path: &str, value: &str, name: &str| {
        let mut spec = of(rules("apps", "deployments/scale", json!(["UPDATE"])), "", name);
        spec["mutations"] =
            json!([mutation("J", &format!("[JSONPatch{{op: 'add', path: '/{path}', value: {value}}}]"))]);
        spec
    };
    let (pods, evicted) = stored("evicted", "pod");
    let (patches, versioned) = object("sample", "other-version");
    let mut other = versioned.clone();
    other["apiVersion"] = "mutations.dev/v2".into();
    let version = |policy: &str| {
        json!({"matchConstraints": {"matchPolicy": policy, "resourceRules": [{"apiGroups": ["mutations.dev"],
        "apiVersions": ["v1"], "operations": ["*"], "resources": ["patches"]}]},
        "mutations": merged(&["Object{spec: Object.spec{text: object.apiVersion + ' ' + request.kind.version + ' ' + request.requestKind.version}}"])})
    };
    let mut exact = other.clone();
    exact["metadata"]["labels"]["case"] = "exact-version".into();
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "scaled", "namespace": "default"},
        "spec": {"replicas": 3}});
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted", "namespace": "default"}});
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mutated", "labels": {"own": "label"}}});
    vec![
        Story::new("updates")
            .before("POST", path, updated.clone())
            .policy(of(rules("", "configmaps", json!(["UPDATE"])),
                "Object{data: {'old': string(oldObject.data.a), 'new': string(object.data.a), 'operation': request.operation}}", "updated"), json!({}))
            .ask("PATCH", &format!("{path}/updated?dryRun=All"), json!({"data": {"a": "9"}}))
            .ask("PATCH", &format!("{path}/updated?dryRun=All&fieldManager=me&force=true"), updated.clone())
            .ask("PUT", &format!("{path}/updated?dryRun=All"), updated)
            .ask("DELETE", &format!("{path}/updated?dryRun=All"), json!({})),
        Story::new("a-status")
            .before("POST", pods, evicted)
            .policy(of(rules("", "pods/status", json!(["UPDATE"])), "Object{status: Object.status{message: 'by ' + request.subResource}}", "evicted"), json!({}))
            .ask("PATCH", &format!("{pods}/evicted/status?dryRun=All"), json!({"status": {"phase": "Running"}}))
            .ask("PATCH", &format!("{pods}/evicted?dryRun=All"), json!({"metadata": {"labels": {"x": "y"}}})),
        Story::new("a-scale")
            .before("POST", deployments, scaled)
            .policy(of(rules("apps", "deployments/scale", json!(["UPDATE"])), "Object{spec: Object.spec{replicas: object.spec.replicas * 2}}", "scaled"), json!({}))
            .ask("PUT", &format!("{deployments}/scaled/scale?dryRun=All"), scale)
            .ask("PATCH", &format!("{deployments}/scaled/scale?dryRun=All"), json!({"spec": {"replicas": 9}})),
        Story::new("a-patched-scale")
            .before("POST", deployments, patched)
            .policy(patch("spec/replicas", "6", "patched"), json!({}))
            .policy(patch("spec/foo", "6", "misfit"), json!({}))
            .ask("PATCH", &format!("{deployments}/patched/scale?dryRun=All"), json!({"spec": {"replicas": 9}})),
        Story::new("an-eviction")
            .policy(of(rules("", "pods/eviction", json!(["CREATE"])), "Object{spec: object.kind}", "evicted"), json!({}))
            .ask("POST", &format!("{pods}/evicted/eviction?dryRun=All"), eviction),
        Story::new("a-namespace")
            .policy(of(rules("", "namespaces", json!(["CREATE"])),
                "Object{metadata: Object.metadata{annotations: {'namespace': request.namespace, 'object': namespaceObject == null ? 'none' : 'some'}}}", "mutated"),
                json!({"matchResources": {"namespaceSelector": {"matchLabels": {"own": "label"}}}}))
            .ask("POST", "/api/v1/namespaces?dryRun=All", namespace),
        Story::new("wide-objects-have-no-parameters")
            .policy({
                let mut spec = of(rules("", "namespaces", json!(["CREATE"])), "Object{}", "wide");
                spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
                spec
            }, json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}}))
            .ask("POST", "/api/v1/namespaces?dryRun=All", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "wide"}})),
        Story::new("objects-in-no-namespace-have-no-parameters")
            .policy({
                let mut spec = of(rules("scheduling.k8s.io", "priorityclasses", json!(["CREATE"])), "Object{}", "classy");
                spec["paramKind"] = json!({"apiVersion": "v1", "kind": "Secret"});
                spec
            }, json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}}))
            .ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All",
                json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "classy"}, "value": 5})),
        Story::new("other-version")
            .policy(version("Equivalent"), json!({}))
            .ask("POST", &format!("{patches}?dryRun=All"), versioned)
            .ask("POST", &format!("{}?dryRun=All", patches.replace("/v1/", "/v2/")), other),
        Story::new("exact-version")
            .policy(version("Exact"), json!({}))
            .ask("POST", &format!("{}?dryRun=All", patches.replace("/v1/", "/v2/")), exact),
        Story::new("changed-policies")
            .policy(json!({}), json!({}))
            .ask("PATCH", &format!("{ADMISSION}/mutatingadmissionpolicies/changed-policies-0?dryRun=All"), json!({"metadata": {"labels": {"a": "b"}}}))
            .ask("PATCH", &format!("{ADMISSION}/mutatingadmissionpolicies/changed-policies-0?dryRun=All"), json!({"spec": {"reinvocationPolicy": "IfNeeded"}}))
            .ask("PATCH", &format!("{ADMISSION}/mutatingadmissionpolicies/changed-policies-0?dryRun=All"), json!({"spec": {"mutations": []}}))
            .ask("PATCH", &format!("{ADMISSION}/mutatingadmissionpolicybindings/changed-policies-0?dryRun=All"), json!({"spec": {"policyName": "x"}}))
            .ask("PUT", &format!("{ADMISSION}/mutatingadmissionpolicies/changed-policies-0?dryRun=All"), policy("changed-policies-0", "A", "Object{}"))
            .ask("PUT", &format!("{ADMISSION}/mutatingadmissionpolicybindings/changed-policies-0?dryRun=All"), binding("changed-policies-0"))
            .ask("PUT", &format!("{ADMISSION}/mutatingadmissionpolicies/absent?dryRun=All"), policy("absent", "A", "Object{}"))
            .ask("GET", &format!("{ADMISSION}/mutatingadmissionpolicies/changed-policies-0/status"), Value::Null),
    ]
}

/// What somebody may write who may write policies, but not read everything.
fn of_authors() -> Story {
    const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"], "resourceNames": ["one"]}]);
    let kind = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": name, "metadata": {"name": "authors"}});
    let mut role = kind("ClusterRole");
    role["rules"] = rules;
    let mut bound = kind("ClusterRoleBinding");
    bound["subjects"] = json!([{"kind": "User", "name": "author", "apiGroup": "rbac.authorization.k8s.io"}]);
    bound["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "authors"});
    let mut story = Story::new("authors").before("POST", &format!("{GROUP}/clusterroles"), role).before(
        "POST",
        &format!("{GROUP}/clusterrolebindings"),
        bound,
    );
    for family in ["mutating", "validating"] {
        let policies = format!("{ADMISSION}/{family}admissionpolicies");
        let bindings = format!("{ADMISSION}/{family}admissionpolicybindings");
        let policy = |version: &str, kind: &str| {
            let name = format!("of-{}", kind.to_lowercase());
            let param_kind = json!({"apiVersion": version, "kind": kind});
            let mut policy = match family {
                "mutating" => policy(&name, "A", "Object{}"),
                _ => super::policy(&name, "{}"),
            };
            policy["spec"]["paramKind"] = param_kind;
            policy
        };
        let binding = |name: &str, reference: &Value| {
            let mut binding = match family {
                "mutating" => binding("author"),
                _ => super::binding("author", "{}"),
            };
            binding["spec"]["policyName"] = name.into();
            binding["spec"]["paramRef"] = reference.clone();
            binding["spec"]["matchResources"] = json!({"objectSelector": {"matchLabels": {"of": "nobody"}}});
            binding
        };
        for (version, kind) in
            [("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "Service"), ("v1", "Nothing"), ("nowhere.dev/v1", "Nothing")]
        {
            story = story.ask("POST as author", &format!("{policies}?dryRun=All"), policy(version, kind));
        }
        for kind in ["ConfigMap", "Secret", "Service", "Nothing"] {
            story = story.before("POST", &policies, policy("v1", kind));
        }
        let bare = |labels: Value| json!({"metadata": {"labels": labels}});
        let change = |kind: &str| json!({"spec": {"paramKind": {"kind": kind}}});
        story = story
            .ask("PATCH as author", &format!("{policies}/of-configmap?dryRun=All"), bare(json!({"a": "b"})))
            .ask("PATCH as author", &format!("{policies}/of-configmap?dryRun=All"), change("Secret"))
            .ask("PATCH as author", &format!("{policies}/of-secret?dryRun=All"), change("ConfigMap"))
            .ask("PATCH as author", &format!("{policies}/of-secret?dryRun=All"), json!({"spec": {"paramKind": null}}));
        let deny = "Deny";
        let references = [
            json!({"name": "one", "parameterNotFoundAction": deny}),
            json!({"name": "two", "namespace": "default", "parameterNotFoundAction": deny}),
            json!({"selector": {}, "parameterNotFoundAction": deny}),
        ];
        for name in ["of-configmap", "of-secret", "of-service", "of-nothing", "absent"] {
            for reference in &references {
                story = story.ask("POST as author", &format!("{bindings}?dryRun=All"), binding(name, reference));
            }
        }
        let stored = binding("of-configmap", &references[0]);
        story = story
            .before("POST", &bindings, stored)
            .ask("PATCH as author", &format!("{bindings}/author?dryRun=All"), bare(json!({"a": "b"})))
            .ask(
                "PATCH as author",
                &format!("{bindings}/author?dryRun=All"),
                json!({"spec": {"policyName": "of-secret"}}),
            )
            .ask("PATCH as author", &format!("{bindings}/author?dryRun=All"), json!({"spec": {"paramRef": null}}));
    }
    story
}

const HOOKED: &str = "before-and-after-webhooks";

/// Appends a letter to what it is shown.
fn judge(_: &str, review: &Value) -> Reply {
    let request = &review["request"];
    let shown = request["object"]["data"]["a"].as_str().unwrap_or_default();
    let patch = json!([{"op": "replace", "path": "/data/a", "value": format!("{shown}w")}]).to_string();
    let patch = base64::engine::general_purpose::STANDARD.encode(patch);
    let response = json!({"uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": patch});
    Reply::Review(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// Policies are asked before webhooks, and both again as they want it.
async fn hooked(server: &Server, answers: &mut BTreeMap<String, Value>) {
    let hook = Hook::start(&[], judge).await.unwrap();
    let configurations = format!("{ADMISSION}/mutatingwebhookconfigurations");
    let (path, object) = object("cm", HOOKED);
    for again in ["Never", "IfNeeded"] {
        let own = format!("/{}", again.to_lowercase());
        let rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
        let webhook = json!({"name": "append.example.com", "rules": [rule], "sideEffects": "None",
            "clientConfig": {"url": hook.url(&own), "caBundle": hook.authority}, "admissionReviewVersions": ["v1"],
            "reinvocationPolicy": again, "objectSelector": {"matchLabels": {"case": HOOKED}}});
        let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "hooked"}, "webhooks": [webhook]});
        let (code, answer) = server.send("POST", &configurations, &body).await;
        assert_eq!(code, 201, "{answer}");
        let answer = eventually("the webhook to be asked", || async {
            let before = hook.seen(&own).len();
            let (code, answer) = server.send("POST", &format!("{path}?dryRun=All"), &object).await;
            let seen = hook.seen(&own).split_off(before);
            let shown: Vec<Value> =
                seen.iter().map(|review| review["request"]["object"]["data"]["a"].clone()).collect();
            let told = json!({"outcome": outcome(code, &answer), "shown": shown});
            Ok(if shown.is_empty() { Look::NotYet(answer.to_string()) } else { Look::There(told) })
        })
        .await
        .unwrap();
        answers.insert(format!("story {HOOKED} {again}"), answer);
        server.send("DELETE", &format!("{configurations}/hooked"), &Value::Null).await;
        eventually("the webhook to be forgotten", || async {
            let before = hook.seen(&own).len();
            let (_, answer) = server.send("POST", &format!("{path}?dryRun=All"), &object).await;
            let quiet = hook.seen(&own).len() == before;
            Ok(if quiet { Look::There(()) } else { Look::NotYet(answer.to_string()) })
        })
        .await
        .unwrap();
    }
}
