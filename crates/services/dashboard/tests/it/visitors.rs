//! Visitors with real tokens: an administrator, one with rights to one namespace, and strangers.

use dashboard::{Dashboard, Entry, Settings};
use reqwest::{Client, StatusCode};
use serde_json::json;
use testkit::{ControlPlane, Kind, wait_until};

/// What the fleet consists of: a pool with a node, and Machines in two namespaces.
const FLEET: &str = r#"
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  configuration: {name: rendered-worker-1}
---
apiVersion: v1
kind: Node
metadata: {name: worker-1, labels: {node-role.kubernetes.io/worker: ""}}
---
apiVersion: v1
kind: Namespace
metadata: {name: mine}
---
apiVersion: v1
kind: Namespace
metadata: {name: theirs}
---
apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata: {name: my-machine, namespace: mine, labels: {machine.openshift.io/zone: zone-a}}
spec: {}
---
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: my-check, namespace: mine}
spec:
  selector: {matchLabels: {machine.openshift.io/zone: zone-a}}
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]
  maxUnhealthy: 40%
---
apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata: {name: their-machine, namespace: theirs}
spec: {}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: rendered-worker-1}
spec:
  config:
    ignition: {version: 3.5.0}
    storage:
      files:
      - {path: /etc/motd, mode: 420, contents: {source: "data:,%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E"}}
      - {path: /etc/key, mode: 384, contents: {source: "data:,hidden-word"}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: admin, namespace: mine}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: narrow, namespace: mine}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: admin, namespace: mine}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: machines, namespace: mine}
rules: [{apiGroups: [machine.openshift.io], resources: [machines], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: machines, namespace: mine}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: machines}
subjects: [{kind: ServiceAccount, name: narrow, namespace: mine}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: pools, namespace: mine}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pools}
rules: [{apiGroups: [machineconfiguration.openshift.io], resources: [machineconfigpools, machineconfigs], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pools}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pools}
subjects: [{kind: ServiceAccount, name: pools, namespace: mine}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nodes, namespace: mine}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes}
subjects: [{kind: ServiceAccount, name: nodes, namespace: mine}]
"#;

/// Somebody with a browser.
struct Visitor {
    client: Client,
    address: String,
    cookie: Option<String>,
}

pub(crate) async fn story(kind: Kind) {
    let Some(control_plane) = testkit::control_plane(kind).await else { return };
    control_plane.install().await;
    control_plane.apply(FLEET);
    let settings = Settings { listen: ([127, 0, 0, 1], 0).into(), entry: Entry::Token };
    let dashboard = Dashboard::start(control_plane.client().await, &settings).await.unwrap();
    let address = format!("http://{}", dashboard.address());

    nobody_gets_in_without_a_token(&address).await;
    an_administrator_sees_everything_and_no_secret(&control_plane, &address).await;
    one_with_a_namespace_sees_no_more(&control_plane, &address).await;
    what_is_hidden_is_not_shown_as_none(&control_plane, &address).await;
}

async fn nobody_gets_in_without_a_token(address: &str) {
    let stranger = Visitor::new(address);
    for path in ["/", "/fleet.json", "/node/worker-1", "/config/rendered-worker-1", "/plan", "/?token=0"] {
        let (status, page) = stranger.get(path).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
        // The form keeps the address that was asked for.
        assert!(!page.replace(path, "").contains("worker-1"), "{page}");
    }
    let (status, _, page) = stranger.sign_in("no-such-token").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(page.contains("does not know this token") && !page.contains("no-such-token"), "{page}");
    // An open page whose session has ended learns where a new one begins, and comes back to where it was.
    let look = stranger.client.head(format!("{address}/events")).send().await.unwrap();
    assert_eq!((look.status(), look.headers()["machinist-entry"].to_str().unwrap()), (StatusCode::FORBIDDEN, "token"));
    let (_, form) = stranger.get("/login?ended=1&next=%2Fnode%2Fworker-1").await;
    assert!(form.contains("Your session has ended") && form.contains(r#"value="/node/worker-1""#), "{form}");
    let foreign = stranger.client.post(format!("{address}/login")).header("sec-fetch-site", "cross-site");
    assert_eq!(foreign.body("token=x").send().await.unwrap().status(), StatusCode::FORBIDDEN);
}

async fn an_administrator_sees_everything_and_no_secret(control_plane: &ControlPlane, address: &str) {
    let admin = Visitor::new(address).signed_in(&token(control_plane, "admin")).await;
    let page = admin.sees("/", "worker-1").await;
    assert!(page.contains("system:serviceaccount:mine:admin"), "the page says who is signed in");
    let machines = admin.sees("/machines", "mine/my-machine").await;
    assert!(machines.contains("theirs/their-machine"));
    assert!(machines.contains(r#"data-zone="zone-a""#) && machines.contains(r#"data-check="my-check""#), "{machines}");
    let check = machines.split("my-check").last().unwrap();
    assert!(
        check.contains("Ready is Unknown for 300s") && check.contains("40%") && check.contains("not held"),
        "{check}"
    );
    let config = admin.sees("/config/rendered-worker-1", "/etc/").await;
    assert!(config.contains("&lt;script&gt;window.hit=1") && !config.contains("<script>window.hit"), "{config}");
    assert!(config.contains("&lt;masked, 11 bytes&gt;") && !config.contains("hidden-word"), "{config}");
    let (_, found) = admin.get("/config/rendered-worker-1?q=motd").await;
    assert!(found.contains("1 of 2 parts"), "{found}");
    let (_, same) = admin.get("/compare?a=rendered-worker-1&b=rendered-worker-1").await;
    assert!(same.contains("No difference."), "{same}");
    let (status, plan) = admin.post("/plan", "manifest=kind%3A+Secret").await;
    assert_eq!(status, StatusCode::OK);
    assert!(plan.contains("the manifest, document 1: apiVersion is not set"), "{plan}");
    let set = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "extra", "namespace": "mine"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}},
    });
    let (_, plan) = admin.post("/plan", &format!("manifest={set}")).await;
    assert_eq!(plan.matches("is created by MachineSet extra").count(), 2, "{plan}");
    // A session ends when its owner says so.
    let (_, _) = admin.post("/logout", "").await;
    assert_eq!(admin.get("/").await.0, StatusCode::FORBIDDEN);
}

async fn one_with_a_namespace_sees_no_more(control_plane: &ControlPlane, address: &str) {
    let narrow = Visitor::new(address).signed_in(&token(control_plane, "narrow")).await;
    let machines = narrow.sees("/machines", "mine/my-machine").await;
    assert!(!machines.contains("their-machine"), "{machines}");
    assert!(machines.contains("not shown: machineconfigpools, nodes"), "what is hidden is told: {machines}");
    for path in ["/", "/fleet.json", "/doctor", "/configs", "/plan"] {
        let (status, page) = narrow.get(path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert!(!page.contains("worker-1") && !page.contains("their-machine"), "{path}: {page}");
    }
    for path in ["/node/worker-1", "/node/worker-1/sentence", "/config/rendered-worker-1"] {
        let (status, page) = narrow.get(path).await;
        assert!(status == StatusCode::NOT_FOUND || status == StatusCode::FORBIDDEN, "{path}: {status}");
        assert!(!page.contains("motd"), "{path}: {page}");
    }
    let manifest = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "a", "labels": {"machineconfiguration.openshift.io/role": "worker"}}, "spec": {},
    });
    let (_, plan) = narrow.post("/plan", &format!("manifest={manifest}")).await;
    assert!(plan.contains("A plan needs the right to list machineconfigpools"), "{plan}");
    let machine =
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": "a"}, "spec": {}});
    let (_, plan) = narrow.post("/plan", &format!("manifest={machine}")).await;
    assert!(plan.contains("A plan of machines needs the right to list machines, machinesets"), "{plan}");
}

async fn what_is_hidden_is_not_shown_as_none(control_plane: &ControlPlane, address: &str) {
    let pools = Visitor::new(address).signed_in(&token(control_plane, "pools")).await;
    let page = pools.sees("/", "its nodes are not known: you may not list nodes").await;
    assert!(!page.contains("it has no nodes") && page.contains("not counted"), "{page}");
    assert!(page.contains("They are not shown: you may not list nodes"), "{page}");
    let (_, history) = pools.get("/rollout/worker").await;
    assert!(history.contains("needs the right to list nodes, machineconfignodes"), "{history}");
    let (_, doctor) = pools.get("/doctor").await;
    assert!(!doctor.contains("Nothing is wrong that we know of"), "{doctor}");
    // Configs may be listed, and what decides how much a change disrupts may not.
    let (_, compared) = pools.get("/compare?a=rendered-worker-1&b=rendered-worker-1").await;
    assert!(
        compared.contains("A comparison needs the right to list clustersettings, machineconfigurations"),
        "{compared}"
    );
    let manifest = "apiVersion: v1\nkind: MachineConfig\nmetadata: {name: a}\n";
    let (_, plan) = pools.post("/plan", &format!("manifest={manifest}")).await;
    assert!(
        plan.contains("right to list nodes, machineconfignodes, poolledgers, poolpolicies, controllerconfigs"),
        "{plan}"
    );

    let nodes = Visitor::new(address).signed_in(&token(control_plane, "nodes")).await;
    let page = nodes.sees("/", "which pool it follows is not known: you may not list machineconfigpools").await;
    assert!(page.contains("Pool not known") && !page.contains("follow no pool"), "{page}");
    let (_, cells) = nodes.get("/fleet.json").await;
    assert!(cells.contains(r#""states":"q""#), "{cells}");
}

/// A token as `kubectl create token` asks for it.
fn token(control_plane: &ControlPlane, account: &str) -> String {
    control_plane.kubectl(&["create", "token", account, "--namespace", "mine"]).trim().to_owned()
}

impl Visitor {
    fn new(address: &str) -> Self {
        Self { client: Client::new(), address: address.to_owned(), cookie: None }
    }

    async fn sign_in(&self, token: &str) -> (StatusCode, Option<String>, String) {
        let request = self.client.post(format!("{}/login", self.address)).body(format!("token={token}"));
        let answer = request.send().await.unwrap();
        let cookie = answer.headers().get("set-cookie").map(|cookie| cookie.to_str().unwrap().to_owned());
        (answer.status(), cookie, answer.text().await.unwrap())
    }

    async fn signed_in(mut self, token: &str) -> Self {
        let (status, cookie, page) = self.sign_in(token).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let cookie = cookie.unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert!(!cookie.contains(token), "the token is not kept");
        self.cookie = cookie.split(';').next().map(str::to_owned);
        self
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let request = self.client.get(format!("{}{path}", self.address));
        let answer = request.header("cookie", self.cookie.clone().unwrap_or_default()).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    async fn post(&self, path: &str, body: &str) -> (StatusCode, String) {
        let request = self.client.post(format!("{}{path}", self.address)).body(body.to_owned());
        let answer = request.header("cookie", self.cookie.clone().unwrap_or_default()).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// Waits until a page has a text, and returns the page.
    async fn sees(&self, path: &str, text: &str) -> String {
        wait_until(&format!("{path} to show {text}"), || async {
            let (status, page) = self.get(path).await;
            (status == StatusCode::OK && page.contains(text)).then_some(page)
        })
        .await
    }
}
