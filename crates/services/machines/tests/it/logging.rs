//! What the log tells at its usual level. People follow it with `kubectl logs -f`.

use std::io::Write;
use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use testkit::{Kind, wait_until};
use tracing_subscriber::EnvFilter;

use crate::on_both;
use crate::stage::{Stage, set_ready};

on_both!(the_log_follows_a_machine_from_its_creation_to_its_replacement);

/// Everything that any test of this process logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

static LOG: std::sync::LazyLock<Log> = std::sync::LazyLock::new(|| {
    let log = Log::default();
    let writer = log.clone();
    let builder = tracing_subscriber::fmt().with_ansi(false).with_env_filter(EnvFilter::new("off,machines=info"));
    builder.with_writer(move || writer.clone()).init();
    log
});

async fn the_log_follows_a_machine_from_its_creation_to_its_replacement(kind: Kind) {
    let log = LOG.clone();
    let Some(stage) = Stage::start(kind).await else { return };
    let _controllers = stage.control();
    stage.create_set("worker", 2).await;
    stage.available("worker", 2).await;
    crate::health::check(&stage, json!({})).await;
    let sick = stage.machines.list(&ListParams::default()).await.unwrap().items[0].name_any();
    set_ready(&stage.nodes, &sick, "False").await;
    for words in [
        "creating a machine",
        "creating the instance",
        "created the instance",
        "has unhealthy node",
        "has been remediated by requesting to delete",
        "draining the node",
        "the node is drained",
        "the instance is gone",
        "the machine is deleted",
    ] {
        let told = async || {
            let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
            log.lines().any(|line| line.contains(words) && line.contains(&sick)).then_some(())
        };
        wait_until(&format!("{words:?} about {sick} in the log"), told).await;
    }
}
