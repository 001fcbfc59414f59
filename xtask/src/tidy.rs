//! Not built yet.

pub(crate) fn run() -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
