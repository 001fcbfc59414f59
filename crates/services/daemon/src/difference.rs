//! `machinistd diff`: what differs between this host and the config it runs, and who wrote it last, as far as that is known.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use change::host::Host;

use crate::engine::{self, Error};
use crate::store::Store;
use crate::verify::{self, Mismatch};

/// The config on disk and every mismatch.
pub fn difference(host: &dyn Host) -> Result<(String, Vec<Mismatch>), Error> {
    let config = Store::new(host.files()).current()?.unwrap_or_default();
    let target = engine::read(&config)?;
    Ok((engine::name(&config), verify::verify(host, &target)))
}

/// One paragraph for people. The file system knows a file's owner and when it last changed, and no more.
pub fn describe(root: &Path, mismatch: &Mismatch) -> String {
    let mut text = mismatch.message.clone();
    if let Some(detail) = &mismatch.detail {
        text.extend(detail.lines().map(|line| format!("\n    {line}")));
    }
    let path = root.join(mismatch.subject.trim_start_matches('/'));
    if mismatch.subject.starts_with('/')
        && let Ok(metadata) = std::fs::symlink_metadata(path)
    {
        let changed = jiff::Timestamp::from_second(metadata.ctime()).map(|time| time.to_string()).unwrap_or_default();
        text.push_str(&format!("\n    last changed {changed}, owner {}:{}", metadata.uid(), metadata.gid()));
    }
    text
}
