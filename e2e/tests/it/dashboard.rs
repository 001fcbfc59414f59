//! The dashboard in a real browser, on a real fleet, during a real rollout.

mod browser;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use browser::Browser;
use serde_json::{Value, json};
use testkit::binaries::binary;
use testkit::process::Process;
use testkit::{needs, wait_until};

/// A change that restarts each node.
const CHANGE: &str = r#"
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-dashboard
  labels: {machineconfiguration.openshift.io/role: worker}
spec:
  config:
    ignition: {version: 3.5.0}
    storage:
      files:
      - {path: /etc/seen-by-the-dashboard, mode: 420, contents: {source: "data:,%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E"}}
      - {path: /etc/a-secret, mode: 384, contents: {source: "data:,hidden-word"}}
"#;

/// A fleet, its dashboard and a browser.
struct Scene {
    browser: Browser,
    dashboard: Process,
    address: String,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    /// The text of axe-core.
    axe: Option<String>,
    _fleet: Process,
}

impl Scene {
    async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if !needs::kubectl() {
            return None;
        }
        let browser = Browser::start(folder.path()).await?;
        let data = folder.path().join("fleet");
        let log = folder.path().join("up.log");
        let arguments = ["up".to_owned(), "--data".to_owned(), data.display().to_string()];
        let mut fleet = Process::start(&binary("machinist"), &arguments, &[], &log).unwrap();
        wait_until("the fleet to be up", || {
            assert!(fleet.is_running(), "machinist up ended: {}", fleet.output());
            let is_up = fleet.output().contains("Your fleet is up");
            async move { is_up.then_some(()) }
        })
        .await;
        let kubeconfig = data.join("kubeconfig");
        let (dashboard, link) = serve(&kubeconfig, folder.path(), "127.0.0.1:0").await;
        browser.open(&link).await;
        let address = link.split("/?").next().unwrap().to_owned();
        Some(Self { browser, dashboard, address, kubeconfig, folder, axe: browser::axe_core(), _fleet: fleet })
    }

    fn kubectl(&self, arguments: &[&str], input: &str) {
        use std::io::Write as _;
        let mut kubectl = Command::new("kubectl");
        kubectl.args(arguments).env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut kubectl = kubectl.spawn().unwrap();
        kubectl.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert!(kubectl.wait().unwrap().success(), "kubectl {arguments:?}");
    }

    /// What `machinist status` says at this moment.
    fn status(&self) -> Value {
        let mut status = Command::new(binary("machinist"));
        status.args(["status", "-o", "json"]).env("KUBECONFIG", &self.kubeconfig);
        serde_json::from_slice(&status.output().unwrap().stdout).unwrap()
    }

    async fn go(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.address)).await;
    }

    /// What axe finds on the page; nothing where this machine has no axe.
    async fn is_accessible(&self, page: &str) {
        let Some(axe) = &self.axe else { return };
        let found = self.browser.axe(axe).await;
        assert_eq!(found, json!([]), "axe on {page}");
    }

    async fn picture(&self, name: &str) {
        let folder = binary("machinist").parent().unwrap().join("../dashboard");
        self.browser.picture(&folder.join(format!("{name}.png"))).await;
    }
}

/// Starts a dashboard and waits for its link.
async fn serve(kubeconfig: &Path, folder: &Path, listen: &str) -> (Process, String) {
    let log = folder.join("dashboard.log");
    let _ = std::fs::remove_file(&log);
    let arguments = ["dashboard", "--listen", listen, "--kubeconfig"].map(str::to_owned);
    let arguments = [&arguments[..], &[kubeconfig.display().to_string()]].concat();
    let process = Process::start(&binary("machinist"), &arguments, &[], &log).unwrap();
    let link = wait_until("the dashboard's link", || {
        let said = process.output();
        async move { said.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned) }
    })
    .await;
    (process, link)
}

#[tokio::test]
async fn a_rollout_is_seen_live_in_a_browser_and_everything_strange_is_text() {
    let Some(scene) = Scene::start().await else { return };
    let browser = &scene.browser;

    // Nobody gets in without the link, and the link works once.
    let stranger = reqwest::Client::new();
    for path in ["/", "/fleet.json", "/events", "/node/worker-1", "/?token=0000"] {
        let answer = stranger.get(format!("{}{path}", scene.address)).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{path}");
    }
    let rebound = stranger.get(&scene.address).header("host", "evil.example").send().await.unwrap();
    assert_eq!(rebound.status(), 421, "a name that points at loopback is not ours");

    // The page says what `status` says.
    browser.sees("document.documentElement.dataset.contact === 'live'").await;
    browser.sees("[...document.querySelectorAll('canvas')].some((it) => !it.hidden && it.height > 0)").await;
    let rows = browser
        .ask("Object.fromEntries([...document.querySelectorAll('[data-node]')].map((row) => [row.dataset.node, row.querySelector('.state').textContent.trim().split(' ').pop()]))")
        .await;
    let status = scene.status();
    let said: serde_json::Map<String, Value> = status["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["name"].as_str().unwrap().to_owned(), node["state"].clone()))
        .collect();
    assert_eq!(rows, Value::Object(said));
    scene.is_accessible("fleet").await;
    scene.picture("fleet-light").await;

    // What the change would do is shown first, and nothing is applied.
    scene.go("/plan").await;
    let fill = format!("(document.querySelector('textarea').value = {}, true)", json!(CHANGE));
    browser.ask(&fill).await;
    browser.ask("(document.querySelector('form.plan button').click(), true)").await;
    browser.sees("document.querySelectorAll('[data-pool-plan=worker] [data-node-plan]').length === 3").await;
    browser.sees("document.querySelector('#plan').textContent.includes('machinist apply change.plan')").await;
    browser.sees("document.querySelector('#plan').textContent.includes('<masked, 11 bytes>')").await;
    assert_eq!(browser.ask("document.body.textContent.includes('hidden-word')").await, json!(true), "only in the form");
    assert_eq!(browser.ask("document.querySelector('#plan').textContent.includes('hidden-word')").await, json!(false));
    scene.is_accessible("plan").await;
    scene.picture("plan").await;
    assert!(!scene.status().to_string().contains("Updating"), "nothing was applied");

    // A rollout goes by without a reload.
    scene.go("/").await;
    browser.sees("document.documentElement.dataset.contact === 'live'").await;
    browser.ask("(window.stayed = true)").await;
    scene.kubectl(&["apply", "-f", "-"], CHANGE);
    browser
        .sees("document.querySelector('[data-pool=worker] [data-field=state]').textContent.includes('Updating')")
        .await;
    browser
        .sees("document.querySelector('[data-pool=worker] [data-field=count]').textContent.startsWith('1 of')")
        .await;
    scene.picture("fleet-during-a-rollout").await;
    browser
        .sees("document.querySelector('[data-pool=worker] [data-field=state]').textContent.includes('Updated')")
        .await;
    browser.sees("document.querySelector('#nodes').textContent.includes('Updated')").await;
    assert_eq!(browser.ask("window.stayed").await, json!(true));
    scene.go("/rollout/worker").await;
    browser.sees("document.querySelectorAll('svg.bars rect').length >= 3").await;
    browser.sees("document.querySelector('#pool').textContent.includes('It took')").await;
    scene.is_accessible("rollout").await;
    scene.picture("rollout").await;

    // The config that was rolled out: each file with its fragment, a hostile one as text, a secret one masked.
    scene.go("/configs").await;
    browser.sees("document.querySelectorAll('#configs th a').length >= 3").await;
    scene.is_accessible("configs").await;
    scene.go("/rollout/worker").await;
    browser.ask("(document.querySelector('#pool dl a').click(), true)").await;
    browser.sees("document.querySelector('[data-part=\"/etc/seen-by-the-dashboard\"]') !== null").await;
    let part = "document.querySelector('[data-part=\"/etc/seen-by-the-dashboard\"]').textContent";
    browser.sees(&format!("{part}.includes('from 50-dashboard')")).await;
    browser.sees(&format!("{part}.includes('<script>window.hit=1</script>')")).await;
    assert_eq!(browser.ask("document.body.textContent.includes('hidden-word')").await, json!(false));
    browser.ask("(document.querySelectorAll('details').forEach((it) => { it.open = true; }), true)").await;
    scene.is_accessible("config").await;
    scene.picture("config").await;
    scene.go("/rollout/worker").await;
    browser.ask("(document.querySelector('section a[href^=\"/compare\"]').click(), true)").await;
    browser.sees("document.body.textContent.includes('added file /etc/seen-by-the-dashboard')").await;
    scene.is_accessible("compare").await;
    scene.picture("compare").await;

    // A node that is not Ready any more, and what a hostile text does.
    scene.kubectl(
        &[
            "annotate",
            "node",
            "worker-1",
            "--overwrite",
            "machineconfiguration.openshift.io/reason=<script>window.hit=1</script><img src=x onerror=window.hit=1>",
        ],
        "",
    );
    scene.go("/node/worker-1").await;
    // The daemon may have written its own reason again by now; a config shows the same text above.
    browser.sees("document.querySelector('#node') !== null").await;
    assert_eq!(browser.ask("window.hit === undefined").await, json!(true));
    scene.picture("node").await;
    for page in ["/machines", "/doctor", "/?state=Degraded&q=worker", "/node/none", "/rollout/none", "/nothing"] {
        scene.go(page).await;
        browser.sees("document.querySelector('main') !== null").await;
        scene.is_accessible(page).await;
    }

    // Dark, and as narrow as a phone: nothing is wider than the window.
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.command("Emulation.setEmulatedMedia", dark).await;
    browser.size(420, 900).await;
    let pages = [("/", "fleet"), ("/node/worker-1", "node"), ("/rollout/worker", "rollout"), ("/plan", "plan")];
    for (path, name) in pages {
        scene.go(path).await;
        browser.sees("document.documentElement.scrollWidth <= window.innerWidth").await;
        scene.is_accessible(name).await;
        scene.picture(&format!("{name}-dark-narrow")).await;
    }

    // A dashboard that ends is told of, and one that was started again lets nobody in without its link.
    let Scene { browser, mut dashboard, address, kubeconfig, folder, .. } = scene;
    browser.sees("document.documentElement.dataset.contact === 'live'").await;
    dashboard.kill();
    browser.sees("document.documentElement.dataset.contact === 'lost'").await;
    let (_again, link) = serve(&kubeconfig, folder.path(), address.trim_start_matches("http://")).await;
    browser.sees("document.querySelector('#contact').textContent.includes('open the link')").await;
    browser.open(&link).await;
    browser.sees("document.documentElement.dataset.contact === 'live'").await;
}
