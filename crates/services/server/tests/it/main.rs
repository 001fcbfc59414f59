//! The config server over the network, from a folder of manifests and from a cluster on the embedded API.

#![allow(clippy::unwrap_used)]

mod bootstrap;
mod daemon;
mod refusals;
mod tokens;
mod town;
mod world;

use std::sync::{Arc, Mutex};

/// Captures our own log output at the most verbose level.
fn logs() -> Arc<Mutex<Vec<u8>>> {
    #[derive(Clone)]
    struct Shared(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let logs = Shared(Arc::default());
    let writer = logs.clone();
    let filter = "debug,server=trace,serving=trace,cluster=trace";
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone()).finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
    logs.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_valid_tokens_are_admitted_and_no_secret_is_logged() {
    let logs = logs();
    let secrets = tokens::story(testkit::Kind::Embedded).await;
    let logged = String::from_utf8_lossy(&logs.lock().unwrap()).into_owned();
    assert!(logged.contains("a machine was refused"), "the log is captured");
    for secret in secrets {
        assert!(!logged.contains(&secret), "a secret is in the log: {secret}");
    }
}
