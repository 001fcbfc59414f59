//! Not built yet.

#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
