//! Expressions on the real server and on the embedded one: what is refused, what is warned of, and what comes out.
//!
//! Every line of the files is one change to a plain policy or binding, or one expression. Both servers are asked, and what
//! they answer must be the same.

mod mutations;
mod stories;

use std::collections::BTreeMap;

use http::Request;
use kube::{Client, client::Body};
use referee::{ControlPlane, Kind, control_plane};
use serde_json::{Value, json};

use crate::waiting::{Look, eventually};

const POLICIES: &str = include_str!("expressions/policies.txt");
const BINDINGS: &str = include_str!("expressions/bindings.txt");
const TYPED: &str = include_str!("expressions/typed.txt");
const RUNS: &str = include_str!("expressions/runs.txt");
const VALUES: &str = include_str!("expressions/values.txt");
/// How many expressions warn of one write; the server cuts what is longer.
const RUN_AT_ONCE: usize = 12;
/// How many expressions are asked for with one object.
const AT_ONCE: usize = 160;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn expressions_are_judged_and_evaluated_as_by_the_real_server() {
    let (Some(real), Some(embedded)) = (control_plane(Kind::Real).await, control_plane(Kind::Embedded).await) else {
        return;
    };
    let (theirs, ours) = tokio::join!(answers(&real), answers(&embedded));
    let differences: Vec<String> = theirs
        .iter()
        .filter(|(question, theirs)| ours.get(*question) != Some(theirs))
        .map(|(question, theirs)| {
            let ours = ours.get(question).cloned().unwrap_or_default();
            format!("{question}\nreal: {theirs:#}\nours: {ours:#}")
        })
        .collect();
    assert_eq!(theirs.len(), ours.len());
    println!("{} answers of both servers were compared", theirs.len());
    assert!(
        differences.is_empty(),
        "{} of {} answers differ:\n{}",
        differences.len(),
        theirs.len(),
        differences.join("\n\n")
    );
}

/// What one server answers to everything.
async fn answers(control_plane: &ControlPlane) -> BTreeMap<String, Value> {
    let server = Server(control_plane.client().await);
    let mut answers = BTreeMap::new();
    server.send("POST", DEFINITIONS, &definition()).await;
    server.refusals(&mut answers).await;
    server.changes(&mut answers).await;
    server.warnings(&mut answers).await;
    server.runs(&mut answers).await;
    let all: Vec<&str> = lines(VALUES).collect();
    for (number, some) in all.chunks(AT_ONCE).enumerate() {
        server.values(number, some, &mut answers).await;
    }
    mutations::answers(&server, &mut answers).await;
    answers
}

struct Server(Client);

impl Server {
    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (code, answer, _) = self.send_and_listen(method, path, body).await;
        (code, answer)
    }

    /// The code, the answer and the warnings.
    ///
    /// `POST as bob` is asked in the name of somebody else.
    async fn send_and_listen(&self, method: &str, path: &str, body: &Value) -> (u16, Value, Vec<String>) {
        let (method, user) = method.split_once(" as ").map_or((method, None), |(method, user)| (method, Some(user)));
        let media = match method {
            "PATCH" if path.contains("fieldManager=") => "application/apply-patch+yaml",
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder().method(method).uri(path).header("content-type", media);
        if let Some(user) = user {
            request = request.header("impersonate-user", user).header("impersonate-group", "authors");
        }
        let request = request.body(Body::from(body.to_string().into_bytes())).unwrap();
        let answer = self.0.send(request).await.expect("the server answers");
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("warning");
        let warnings = warnings.iter().map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned()).collect();
        let bytes = answer.into_body().collect_bytes().await.expect("the answer is whole");
        (code, serde_json::from_slice(&bytes).unwrap_or_default(), warnings)
    }

    /// What expressions of policies say about a write: each policy warns of what a few of them give.
    async fn runs(&self, answers: &mut BTreeMap<String, Value>) {
        let all: Vec<&str> = lines(RUNS).collect();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "run", "labels": {"run": "yes"}},
            "data": {"a": "1"}});
        let params = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "params", "labels": {"params": "yes"}},
            "data": {"most": "3"}});
        self.send("POST", "/api/v1/namespaces/default/configmaps", &params).await;
        for (number, some) in all.chunks(RUN_AT_ONCE).enumerate() {
            let name = format!("runs-{number}");
            let validations: Vec<Value> = some
                .iter()
                .enumerate()
                .map(|(at, expression)| {
                    // A warning that was given is not given again, so each is made another.
                    let shown = format!("'{at}: <%s>'.format([{expression}])");
                    json!({"expression": format!("{shown} == ''"), "messageExpression": shown, "message": format!("{at}: (none)")})
                })
                .collect();
            let rule =
                json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]});
            let variables = json!([{"name": "one", "expression": "1"}, {"name": "bad", "expression": "object.data.none"},
                {"name": "sum", "expression": "variables.one + 1"},
                {"name": "may0", "expression": "authorizer.requestResource.check('create').allowed()"},
                {"name": "may1", "expression": "authorizer.group('').resource('pods').namespace('default').check('get').allowed()"},
                {"name": "may2", "expression": "authorizer.group('').resource('pods').check('get').errored()"},
                {"name": "may3", "expression": "authorizer.path('/healthz').check('get').allowed()"},
                {"name": "may4", "expression": "authorizer.serviceAccount('default', 'default').group('').resource('secrets').namespace('default').check('get').allowed()"}
            ]);
            let spec = json!({"validations": validations, "variables": variables,
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConditions": [{"name": "mine", "expression": "request.name == 'run'"}],
                "matchConstraints": {"resourceRules": [rule], "objectSelector": {"matchLabels": {"run": "yes"}}}});
            let (code, answer) = self
                .send(
                    "POST",
                    &format!("{ADMISSION}/validatingadmissionpolicies"),
                    &policy(&name, &json!({"spec": spec}).to_string()),
                )
                .await;
            assert_eq!(code, 201, "{answer}");
            // Every second binding selects its parameters instead of naming them.
            let mut reference = json!({"namespace": "default", "parameterNotFoundAction": "Deny"});
            match number % 2 {
                0 => reference["name"] = "params".into(),
                _ => reference["selector"] = json!({"matchLabels": {"params": "yes"}}),
            }
            let bound = json!({"spec": {"policyName": name, "validationActions": ["Warn"], "paramRef": reference}});
            let path = format!("{ADMISSION}/validatingadmissionpolicybindings");
            let (code, answer) = self.send("POST", &path, &binding(&name, &bound.to_string())).await;
            assert_eq!(code, 201, "{answer}");
            // A policy takes effect a moment after it is bound.
            let heard = eventually("the policy to warn", || async {
                let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
                let (code, answer, warnings) = self.send_and_listen("POST", path, &object).await;
                assert_eq!(code, 201, "{answer}");
                let own = |text: &String| text.contains(&format!("'{name}'"));
                let heard: Vec<String> = warnings.into_iter().filter(own).collect();
                Ok(if heard.len() == some.len() { Look::There(heard) } else { Look::NotYet(format!("{heard:?}")) })
            })
            .await
            .unwrap();
            for (expression, warning) in some.iter().zip(&heard) {
                answers.insert(format!("run {expression}"), warning.as_str().into());
            }
            self.send("DELETE", &format!("{ADMISSION}/validatingadmissionpolicybindings/{name}"), &Value::Null).await;
        }
    }

    /// Policies and bindings that are only tried.
    async fn refusals(&self, answers: &mut BTreeMap<String, Value>) {
        for line in lines(POLICIES) {
            let path = format!("{ADMISSION}/validatingadmissionpolicies?dryRun=All");
            let (code, answer) = self.send("POST", &path, &policy("tried", line)).await;
            answers.insert(format!("policy {line}"), told(code, &answer));
        }
        for line in lines(BINDINGS) {
            let path = format!("{ADMISSION}/validatingadmissionpolicybindings?dryRun=All");
            let (code, answer) = self.send("POST", &path, &binding("tried", line)).await;
            answers.insert(format!("binding {line}"), told(code, &answer));
        }
        for expression in ["object.x", "params.x == 1", "variables.x", "request.name != ''", "1 == 'a'"] {
            let path = format!("{ADMISSION}/validatingwebhookconfigurations?dryRun=All");
            let (code, answer) = self.send("POST", &path, &webhook(expression)).await;
            answers.insert(format!("webhook {expression}"), told(code, &answer));
        }
    }

    /// What passed once, and what of it is looked at again.
    async fn changes(&self, answers: &mut BTreeMap<String, Value>) {
        let path = format!("{ADMISSION}/validatingadmissionpolicies");
        let start = r#"{"spec":{"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"matchConditions":[{"name":"a","expression":"params.x == 1"}],"validations":[{"expression":"params.y == 1"}]}}"#;
        let (code, answer) = self.send("POST", &path, &policy("changed", start)).await;
        answers.insert("change: create".to_owned(), told(code, &answer));
        // The status is written once, and not in the middle of what follows.
        self.until(&format!("{path}/changed"), |answer| answer["status"]["observedGeneration"] == 1).await;
        for change in [
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"spec": {"paramKind": null}}),
            json!({"spec": {"paramKind": null, "validations": [{"expression": "true"}]}}),
            json!({"spec": {"matchConditions": [{"name": "a", "expression": "params.x == 1 && 1 == 'a'"}]}}),
            json!({"status": {"observedGeneration": 7}}),
        ] {
            let path = format!("{path}/changed");
            let (_, stored) = self.send("GET", &path, &Value::Null).await;
            let stored = schema::patch::merge(&stored, &change);
            let (code, answer) = self.send("PUT", &format!("{path}?dryRun=All"), &stored).await;
            answers.insert(format!("change: {change}"), told(code, &answer));
        }
    }

    /// What the types of stored policies are found to be.
    async fn warnings(&self, answers: &mut BTreeMap<String, Value>) {
        // Types are known from the document of their group, which the real server publishes a while after the kind.
        self.until("/openapi/v3/apis/expressions.dev/v1", |answer| {
            answer["components"]["schemas"]["dev.expressions.v1.Sample"].is_object()
        })
        .await;
        for (number, line) in lines(TYPED).enumerate() {
            let name = format!("typed-{number}");
            let path = format!("{ADMISSION}/validatingadmissionpolicies");
            let (code, answer) = self.send("POST", &path, &policy(&name, line)).await;
            assert_eq!(code, 201, "{line}: {answer}");
        }
        for (number, line) in lines(TYPED).enumerate() {
            let path = format!("{ADMISSION}/validatingadmissionpolicies/typed-{number}");
            let answer = self.until(&path, |answer| answer["status"]["observedGeneration"] == 1).await;
            let managers: Vec<Value> = answer["metadata"]["managedFields"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|entry| entry["subresource"] == "status")
                .map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]]))
                .collect();
            let status = without_numbers(&answer["status"].to_string());
            answers.insert(format!("typed {line}"), json!({"status": status, "managers": managers}));
        }
    }

    /// What expressions give: each is a rule that an object breaks, and what it gives is the message.
    async fn values(&self, number: usize, expressions: &[&str], answers: &mut BTreeMap<String, Value>) {
        let mut left = expressions.to_vec();
        let (code, refused) = self.send("POST", &format!("{DEFINITIONS}?dryRun=All"), &rules(number, &left)).await;
        if code == 422 {
            // Those that do not compile are told apart by their place, and the rest is asked for without them.
            for cause in refused["details"]["causes"].as_array().into_iter().flatten().rev() {
                let field = cause["field"].as_str().unwrap_or_default();
                let place = field.split("validations[").nth(1).and_then(|rest| rest.split(']').next());
                // The sum of all costs has no place.
                let Some(place) = place.and_then(|place| place.parse::<usize>().ok()) else { continue };
                let answer = without_numbers(&json!({"refused": cause["message"]}).to_string());
                answers.insert(format!("value {}", expressions[place]), answer.into());
                left.retain(|own| *own != expressions[place]);
            }
        }
        let (code, answer) = self.send("POST", DEFINITIONS, &rules(number, &left)).await;
        assert_eq!(code, 201, "{answer}");
        let path = format!("/apis/values.dev/v1/values{number}s");
        self.until(&path, |answer| answer["items"].is_array()).await;
        let object = json!({"apiVersion": "values.dev/v1", "kind": format!("Value{number}"), "metadata": {"name": "a"},
            "spec": sample()});
        let (_, answer) = self.send("POST", &path, &object).await;
        let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
        assert_eq!(causes.len(), left.len(), "{answer}");
        for (expression, cause) in left.iter().zip(causes) {
            answers.insert(format!("value {expression}"), cause["message"].clone());
        }
    }

    async fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(path, || async {
            let (_, answer) = self.send("GET", path, &Value::Null).await;
            Ok(if is(&answer) { Look::There(answer) } else { Look::NotYet(answer.to_string()) })
        })
        .await
        .unwrap()
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty())
}

/// A plain object with the change of a line.
fn changed(object: Value, line: &str) -> Value {
    let change: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    schema::patch::merge(&object, &change)
}

fn policy(name: &str, line: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]});
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec});
    changed(object, line)
}

fn binding(name: &str, line: &str) -> Value {
    let spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": spec});
    changed(object, line)
}

fn webhook(expression: &str) -> Value {
    let hook = json!({"name": "a.example.com", "clientConfig": {"url": "https://localhost/x"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "matchConditions": [{"name": "a", "expression": expression}]});
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "tried"}, "webhooks": [hook]})
}

fn definition() -> Value {
    let spec = json!({"type": "object", "properties": {"number": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "samples.expressions.dev"},
        "spec": {"group": "expressions.dev", "scope": "Cluster",
            "names": {"plural": "samples", "singular": "sample", "kind": "Sample", "listKind": "SampleList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// A kind whose objects break a rule for each expression.
fn rules(number: usize, expressions: &[&str]) -> Value {
    let text = json!({"type": "string", "maxLength": 20});
    let items = json!({"type": "object", "properties": {"name": text, "v": {"type": "integer"}}, "required": ["name"]});
    let list = |items: Value| json!({"type": "array", "maxItems": 5, "items": items});
    let mut set = list(text.clone());
    set["x-kubernetes-list-type"] = "set".into();
    let mut keyed = list(items);
    keyed["x-kubernetes-list-type"] = "map".into();
    keyed["x-kubernetes-list-map-keys"] = json!(["name"]);
    let validations: Vec<Value> = expressions
        .iter()
        .map(|expression| {
            let shown = format!("'<%s>'.format([{expression}])");
            json!({"rule": format!("{shown} == ''"), "messageExpression": shown, "message": "(none)"})
        })
        .collect();
    let properties = json!({
        "i": {"type": "integer"}, "d": {"type": "number"}, "s": text, "bad": text, "fmt": text, "u": {"type": "integer"},
        "bytes": {"type": "string", "format": "byte", "maxLength": 20}, "t": {"type": "string", "format": "date-time"},
        "date": {"type": "string", "format": "date"}, "dur": {"type": "string", "format": "duration"},
        "ios": {"x-kubernetes-int-or-string": true}, "list": list(text.clone()), "ints": list(json!({"type": "integer"})),
        "empty": list(json!({"type": "integer"})), "set": set, "keyed": keyed, "a-b": text, "namespace": text,
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": text},
        "o": {"type": "object", "properties": {"a": text, "b": text}},
    });
    let spec = json!({"type": "object", "properties": properties, "x-kubernetes-validations": validations});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let (plural, kind) = (format!("values{number}s"), format!("Value{number}"));
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.values.dev")},
        "spec": {"group": "values.dev", "scope": "Cluster",
            "names": {"plural": plural, "singular": format!("value{number}"), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn sample() -> Value {
    json!({"i": 7, "u": 3, "d": 0.1, "s": "text", "bad": "[", "fmt": "%d%d", "bytes": "aGVsbG8=", "t": "2021-03-04T05:06:07.5+01:00",
        "date": "2021-03-04", "dur": "1h30m", "ios": "5%", "list": ["a", "b"], "ints": [1, 2, 3], "empty": [],
        "set": ["a", "b"], "keyed": [{"name": "a", "v": 1}, {"name": "b", "v": 2}], "a-b": "dash", "namespace": "ns",
        "m": {"k": "v"}, "o": {"a": "A"}})
}

/// The code and what was refused, or what would be stored.
fn told(code: u16, answer: &Value) -> Value {
    if answer["kind"] == "Status" {
        return json!({"code": code, "message": answer["message"], "causes": answer["details"]["causes"]});
    }
    json!({"code": code, "spec": answer["spec"], "webhooks": answer["webhooks"], "generation": answer["metadata"]["generation"]})
}

/// The real server numbers the types it makes up, differently each time.
pub(super) fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let digits = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        out.push_str(before);
        if !(before.ends_with(|c: char| c.is_ascii_alphabetic()) && digits > 3) {
            out.push_str(&from[..digits]);
        }
        rest = &from[digits..];
    }
    out + rest
}
