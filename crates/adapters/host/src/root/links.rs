//! Follows symbolic links beneath a root, but only those that root made.
//!
//! A link in a place that a user can write is that user's: following it would let them choose what root writes, or gives
//! away. Nobody but root can make a link that is root's. Every step is taken from an open descriptor, so what was looked at
//! is what is followed, however fast somebody swaps it.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::Errno;

/// As many as Linux follows.
const LINKS: usize = 40;

/// Opens `relative` as the host itself would from `/`. `Errno::LOOP` for a link that must not be followed.
pub(super) fn open(root: BorrowedFd<'_>, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let relative = if relative.is_empty() { "." } else { relative };
    match open_plain(root, relative.into(), flags) {
        Err(Errno::LOOP) => walk(root, relative, flags),
        opened => opened,
    }
}

/// Without following any link.
fn open_plain(folder: BorrowedFd<'_>, path: OsString, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve)
}

fn walk(root: BorrowedFd<'_>, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    // Open folders from the root down, for `..`.
    let mut above: Vec<OwnedFd> = Vec::new();
    let mut todo = names(relative.as_bytes());
    let mut links = 0;
    while let Some(name) = todo.pop() {
        if name == ".." {
            above.pop();
            continue;
        }
        let folder = above.last().map_or(root, AsFd::as_fd);
        let entry = open_plain(folder, name.clone(), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
        let is_last = todo.is_empty();
        if FileType::from_raw_mode(rustix::fs::fstat(&entry)?.st_mode) != FileType::Symlink {
            if is_last {
                return open_plain(folder, name, flags);
            }
            above.push(entry);
            continue;
        }
        if is_last && flags.contains(OFlags::NOFOLLOW) {
            return if flags.contains(OFlags::PATH) { Ok(entry) } else { Err(Errno::LOOP) };
        }
        links += 1;
        if links > LINKS || !is_trusted(&entry)? {
            return Err(Errno::LOOP);
        }
        let target = rustix::fs::readlinkat(&entry, "", Vec::new())?.into_bytes();
        if target.starts_with(b"/") {
            above.clear();
        }
        todo.extend(names(&target));
    }
    open_plain(above.last().map_or(root, AsFd::as_fd), ".".into(), flags)
}

/// Whether root made this link, or whoever runs this program, and the kernel did not.
fn is_trusted(link: &OwnedFd) -> Result<bool, Errno> {
    let owner = rustix::fs::fstat(link)?.st_uid;
    let is_ours = owner == 0 || owner == rustix::process::geteuid().as_raw();
    Ok(is_ours && rustix::fs::fstatfs(link)?.f_type != PROC_SUPER_MAGIC)
}

/// The components of a path, last first.
fn names(path: &[u8]) -> Vec<OsString> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let mut names: Vec<OsString> = parts.map(|part| OsString::from_vec(part.to_vec())).collect();
    names.reverse();
    names
}
