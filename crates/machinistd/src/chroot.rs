//! `chroot ROOT [COMMAND…]`: runs a command of another root, such as that of the node in the daemon's pod.
//!
//! The image has no base, and runbooks call this by name. Only what they use is here: no options, no other user.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// The exit codes of the program that everybody knows: it failed itself, the command could not be run, there is no such command.
const FAILED: u8 = 125;
const NOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Becomes the command; returns only when that fails.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(root) = arguments.next() else {
        eprintln!("chroot: missing operand; use `chroot ROOT [COMMAND [ARGUMENT…]]`");
        return ExitCode::from(FAILED);
    };
    if root.to_string_lossy().starts_with('-') {
        eprintln!("chroot: {}: options are not supported here; use `chroot ROOT [COMMAND…]`", root.display());
        return ExitCode::from(FAILED);
    }
    // The working folder goes into the new root too; otherwise the command would still stand outside it.
    if let Err(error) = rustix::process::chroot(&root).and_then(|()| rustix::process::chdir("/")) {
        eprintln!("chroot: cannot change root directory to '{}': {error}", root.display());
        return ExitCode::from(FAILED);
    }
    let command = arguments.next().unwrap_or_else(|| "/bin/sh".into());
    let error = Command::new(&command).args(arguments).exec();
    eprintln!("chroot: failed to run command '{}': {error}", command.display());
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}
