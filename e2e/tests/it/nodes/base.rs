//! The root file system all nodes start from.

use std::path::PathBuf;

/// The base root, made now if there is none. Other test processes wait for it.
pub(crate) fn base() -> PathBuf {
    containers::Base::of_user().make().unwrap()
}
