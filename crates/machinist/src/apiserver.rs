//! `machinist apiserver`: the embedded Kubernetes API alone, kept in a folder.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder for objects, certificates and the admin's kubeconfig; made if absent
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    port: u16,
    /// Address to listen on; anything but a loopback address opens the API to the network
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: IpAddr,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    crate::log::start("info")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(serve(arguments))
}

async fn serve(Arguments { data, port, address }: Arguments) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let server = apiserver::Server::builder().data(&data).address(address).port(port).start().await?;
    anstream::println!("Serving {}", server.server());
    anstream::println!("Use it:  export KUBECONFIG={}", data.join("kubeconfig").display());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    server.shutdown().await;
    Ok(ExitCode::SUCCESS)
}
