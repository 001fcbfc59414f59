//! An alert that fires: a real Prometheus reads the metrics of a controller whose drain is blocked, by the rules that the
//! operator writes.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use api::annotations;
use controllers::Settings;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams};
use operate::{Facts, Installation};
use sandbox::fleet::Behaviour;
use serde_json::{Value, json};
use testkit::objects::file_config;
use testkit::{Kind, needs, wait_until};

use super::draining::guarded_pod;
use super::stage::Stage;

/// Ends with the test.
struct Prometheus {
    process: Child,
    address: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The groups of rules that the operator writes where the Prometheus operator is.
fn rules() -> Value {
    let facts = Facts { has_prometheus_rules: true, ..Facts::default() };
    let objects = operate::found(&Installation::default(), &facts);
    let rules = objects.into_iter().find(|one| one.object["kind"] == "PrometheusRule").unwrap().object;
    json!({"groups": rules["spec"]["groups"]})
}

impl Prometheus {
    /// Reads the metrics at `target` each second.
    fn start(folder: &Path, target: SocketAddr) -> Self {
        let address = free_port();
        // JSON is YAML too.
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{
                "job_name": "machine-config-controller", "static_configs": [{"targets": [target.to_string()]}],
            }],
        });
        std::fs::write(folder.join("prometheus.yaml"), config.to_string()).unwrap();
        std::fs::write(folder.join("rules.yaml"), rules().to_string()).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", folder.join("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, address }
    }

    /// The alerts of this name, as Prometheus has them now; nothing while it does not answer.
    async fn alerts(&self, name: &str) -> Option<Vec<Value>> {
        let answer = reqwest::get(format!("http://{}/api/v1/alerts", self.address)).await.ok()?;
        let answer: Value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
        let alerts = answer["data"]["alerts"].as_array()?.clone();
        Some(alerts.into_iter().filter(|alert| alert["labels"]["alertname"] == name).collect())
    }
}

#[tokio::test]
async fn a_drain_that_is_blocked_for_an_hour_raises_an_alert_that_names_the_node_and_ends_with_it() {
    if !needs::program("prometheus", "install Debian's prometheus") {
        return;
    }
    let listen = free_port();
    let settings = Settings { listen: Some(listen), ..Settings::default() };
    let behaviour = Behaviour { drains: true, ..Behaviour::default() };
    let Some(stage) = Stage::start_with(Kind::Embedded, behaviour, settings).await else { return };
    let first = stage.settled_pool("worker", &["a"]).await;
    guarded_pod(&stage).await;
    let folder = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(folder.path(), listen);
    stage.write(&file_config("50-more", "worker", "/etc/more", "more")).await;
    stage.event("DrainBlocked", &["default/shop-stays"]).await;
    let quiet = wait_until("Prometheus to have looked", || prometheus.alerts("MCCDrainError")).await;
    assert_eq!(quiet, [] as [Value; 0], "a drain that has just begun is nobody's alarm");

    // As if it had begun two hours ago.
    let began = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2);
    stage.annotate("a", json!({ annotations::DRAIN_STARTED: began.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() })).await;
    let firing = wait_until("the alert to fire", || async {
        let alerts = prometheus.alerts("MCCDrainError").await?;
        alerts.into_iter().find(|alert| alert["state"] == "firing")
    })
    .await;
    assert_eq!((&firing["labels"]["node"], &firing["labels"]["severity"]), (&json!("a"), &json!("warning")));
    let text = firing["annotations"]["description"].as_str().unwrap();
    assert!(text.contains("`machinist why node a` names the pod"), "{text}");

    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), "default");
    budgets.delete("shop-stays", &DeleteParams::default()).await.unwrap();
    stage.updated("worker", &first, 1).await;
    wait_until("the alert to end", || async { prometheus.alerts("MCCDrainError").await.filter(Vec::is_empty) }).await;
}
