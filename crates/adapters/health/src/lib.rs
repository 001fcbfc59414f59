//! Serves `/healthz`, `/readyz` and `/metrics` of a process that leads or stands by.
//!
//! Callers of [`Health::set`] decide how ready the process is; this crate only reports it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The readiness of a process, with reasons for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Another process leads. A standby is ready, because it could take over.
    Standby,
    /// The process leads but cannot do all of its work, or not yet; each reason is a sentence.
    Hindered(Vec<String>),
    Leading,
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; choose another address with --listen")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

#[derive(Clone)]
pub struct Health {
    readiness: watch::Sender<Readiness>,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

impl Health {
    /// `metrics` returns the text for Prometheus.
    pub fn new(metrics: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { readiness: watch::channel(Readiness::Standby).0, metrics: Arc::new(metrics) }
    }

    pub fn set(&self, readiness: Readiness) {
        self.readiness.send_replace(readiness);
    }

    /// Starts serving as one of `tasks`, if there is an address to listen on.
    pub async fn serve_in(&self, tasks: &mut JoinSet<()>, address: Option<SocketAddr>) -> Result<(), ListenError> {
        let Some(address) = address else { return Ok(()) };
        let (bound, serve) = self.serve(address).await.map_err(|source| ListenError { address, source })?;
        tracing::info!(%bound, "serving health and metrics");
        tasks.spawn(serve);
        Ok(())
    }

    /// Binds `address` and returns it with the future that serves.
    async fn serve(&self, address: SocketAddr) -> std::io::Result<(SocketAddr, impl Future<Output = ()> + use<>)> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        let router = Router::new()
            .route("/healthz", get(async || "ok"))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self.clone());
        let serve = async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the health server ended");
            }
        };
        Ok((bound, serve))
    }
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    match &*health.readiness.borrow() {
        Readiness::Standby => (StatusCode::OK, "ok: another process leads\n".to_owned()),
        Readiness::Leading => (StatusCode::OK, "ok: leading\n".to_owned()),
        Readiness::Hindered(troubles) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", troubles.join("\n"))),
    }
}

async fn metrics(State(health): State<Health>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], (health.metrics)())
}
