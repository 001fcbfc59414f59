//! The root file system that all nodes start from.

use std::path::PathBuf;

/// Returns the base root and creates it if necessary. Other test processes wait for it.
pub(crate) fn base() -> PathBuf {
    containers::Base::of_user().make().unwrap()
}
