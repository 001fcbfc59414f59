//! `machinist dashboard`: the fleet as a web page.

use std::net::SocketAddr;
use std::process::ExitCode;

use ::dashboard::{Dashboard, Entry, Settings};
use clap::Args;

use crate::gather::{self, Cluster};
use crate::output;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// Where to serve; other addresses than loopback show the fleet to whoever can read along
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9652")]
    listen: SocketAddr,
    /// Let people in by a token of the cluster instead of a link: each sees what the API lets them list
    #[arg(long)]
    with_tokens: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(serve(arguments))
}

async fn serve(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    if !arguments.listen.ip().is_loopback() {
        output::warn([format!("{} is not loopback, and pages are sent in the clear", arguments.listen)].iter());
    }
    let entry = if arguments.with_tokens { Entry::Token } else { Entry::Link };
    let mut dashboard = Dashboard::start(client, &Settings { listen: arguments.listen, entry }).await?;
    output::print(&match entry {
        Entry::Link => format!("The dashboard is at {}\nThe link works once; stop with Ctrl-C.\n", dashboard.link()),
        Entry::Token => format!(
            "The dashboard is at http://{}/\nPeople sign in with a token of the cluster; stop with Ctrl-C.\n",
            dashboard.address()
        ),
    })?;
    tokio::select! {
        () = dashboard.ended() => Ok(ExitCode::FAILURE),
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::SUCCESS),
    }
}
