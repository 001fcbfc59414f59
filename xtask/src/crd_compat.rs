//! Not built yet.

use std::path::Path;

pub(crate) fn run(_folder: &Path) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
