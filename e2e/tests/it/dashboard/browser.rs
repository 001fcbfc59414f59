//! A real Chromium, driven by the W3C WebDriver protocol of Debian's chromedriver.

use std::path::Path;

use serde_json::{Value, json};
use testkit::needs;
use testkit::process::Process;
use testkit::wait_until;

/// An open browser window; the browser ends with it.
pub(super) struct Browser {
    session: String,
    client: reqwest::Client,
    _driver: Process,
}

impl Browser {
    /// Starts one, if this machine has Chromium and its driver.
    pub(super) async fn start(folder: &Path) -> Option<Self> {
        let there = needs::program("chromedriver", "install Debian's chromium-driver")
            && needs::program("chromium", "install Debian's chromium");
        if !there {
            return None;
        }
        let log = folder.join("chromedriver.log");
        let driver = Process::start(Path::new("chromedriver"), &["--port=0".to_owned()], &[], &log).unwrap();
        let port = wait_until("the driver to listen", || {
            let said = driver.output();
            async move {
                said.split("on port ")
                    .nth(2)
                    .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>())
            }
        })
        .await;
        // Other tests do the same, and this one may be the first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let options = json!({"args": arguments, "binary": "/usr/bin/chromium"});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let base = format!("http://127.0.0.1:{port}/session");
        let answer: Value = client.post(&base).json(&wanted).send().await.unwrap().json().await.unwrap();
        let id = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}"));
        Some(Self { session: format!("{base}/{id}"), client, _driver: driver })
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let request = self.client.post(format!("{}/{path}", self.session)).json(&body);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert!(answer["value"].get("error").is_none(), "{path} {body}: {answer}");
        answer["value"].clone()
    }

    pub(super) async fn open(&self, address: &str) {
        self.post("url", json!({"url": address})).await;
    }

    /// What a script in the page returns.
    pub(super) async fn ask(&self, script: &str) -> Value {
        self.post("execute/sync", json!({"script": format!("return {script}"), "args": []})).await
    }

    /// Waits until a script in the page returns true.
    pub(super) async fn sees(&self, script: &str) {
        wait_until(&format!("the page to show: {script}"), || async {
            (self.ask(script).await == json!(true)).then_some(())
        })
        .await;
    }

    /// One of Chromium's own commands, such as another colour scheme.
    pub(super) async fn command(&self, name: &str, parameters: Value) {
        self.post("goog/cdp/execute", json!({"cmd": name, "params": parameters})).await;
    }

    /// Every violation that axe finds on the page. It is put into the page by the debugger, which no content policy binds.
    pub(super) async fn axe(&self, axe: &str) -> Value {
        self.command("Runtime.evaluate", json!({"expression": format!("{axe};0")})).await;
        let script = "const done = arguments[0]; axe.run().then((found) => done(found.violations.map((it) => \
                      it.id + ': ' + it.nodes.map((node) => node.target.join(' ') + ' ' + node.failureSummary).join(' | '))))";
        self.post("execute/async", json!({"script": script, "args": []})).await
    }

    pub(super) async fn size(&self, width: u32, height: u32) {
        self.post("window/rect", json!({"width": width, "height": height})).await;
    }

    /// Keeps a picture of the page for people to look at.
    pub(super) async fn picture(&self, file: &Path) {
        use base64::Engine as _;
        let answer: Value =
            self.client.get(format!("{}/screenshot", self.session)).send().await.unwrap().json().await.unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(answer["value"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
}

/// Axe-core from npm, in the cache folder of tests; nothing where npm is missing.
pub(super) fn axe_core() -> Option<String> {
    const VERSION: &str = "4.10.3";
    if !needs::program("npm", "install Debian's npm") {
        return None;
    }
    let folder = std::env::temp_dir().join(format!("machinist-axe-core-{VERSION}"));
    let file = folder.join("node_modules/axe-core/axe.min.js");
    if !file.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let mut npm = std::process::Command::new("npm");
        npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
        let done = npm.arg(format!("axe-core@{VERSION}")).stdout(std::process::Stdio::null()).status().unwrap();
        assert!(done.success(), "npm install axe-core@{VERSION}");
    }
    Some(std::fs::read_to_string(file).unwrap())
}
