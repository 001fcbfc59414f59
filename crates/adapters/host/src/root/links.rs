//! Follows symbolic links beneath a root, but only those that root made.
//!
//! A link in a place that a user can write is that user's: following it would let them choose what root writes, or gives
//! away. Nobody but root can make a link that is root's. Every step is taken from an open descriptor, so what was looked at
//! is what is followed, however fast somebody swaps it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::Errno;

/// As many as Linux follows.
const LINKS: usize = 40;

/// How paths are opened without following links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By `openat2`, which Linux has since 5.6.
    AtOnce,
    /// One name after the other.
    OneByOne,
}

impl Way {
    /// What this kernel can do.
    pub(super) fn of(root: BorrowedFd<'_>) -> Self {
        match open_at_once(root, OsStr::new("."), OFlags::PATH | OFlags::CLOEXEC) {
            // Containers of that time answer EPERM to calls they do not know.
            Err(Errno::NOSYS | Errno::PERM) => Way::OneByOne,
            _ => Way::AtOnce,
        }
    }

    /// Opens `relative` as the host itself would from `/`. `Errno::LOOP` for a link that must not be followed.
    pub(super) fn open(self, root: BorrowedFd<'_>, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let relative = if relative.is_empty() { "." } else { relative };
        match self.open_plain(root, OsStr::new(relative), flags) {
            Err(Errno::LOOP) => self.walk(root, relative, flags),
            opened => opened,
        }
    }

    /// Without following any link: `Errno::LOOP` where there is one, or where only [`Way::walk`] can tell.
    fn open_plain(self, folder: BorrowedFd<'_>, path: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Way::AtOnce => open_at_once(folder, path, flags),
            Way::OneByOne if path.as_bytes().contains(&b'/') => Err(Errno::LOOP),
            Way::OneByOne => open_one(folder, path, flags),
        }
    }

    fn walk(self, root: BorrowedFd<'_>, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
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
            let entry = self.open_plain(folder, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
            let is_last = todo.is_empty();
            if FileType::from_raw_mode(rustix::fs::fstat(&entry)?.st_mode) != FileType::Symlink {
                if is_last {
                    return self.open_plain(folder, &name, flags);
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
        self.open_plain(above.last().map_or(root, AsFd::as_fd), OsStr::new("."), flags)
    }
}

fn open_at_once(folder: BorrowedFd<'_>, path: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve)
}

fn open_one(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let is_link = |mode| FileType::from_raw_mode(mode) == FileType::Symlink;
    let opened = match rustix::fs::openat(folder, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
        // Where a folder is wanted, a link is said to be none.
        Err(Errno::NOTDIR) => {
            let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            return Err(if is_link(stat.st_mode) { Errno::LOOP } else { Errno::NOTDIR });
        }
        opened => opened?,
    };
    // With PATH a link itself is opened, which only those want who said NOFOLLOW.
    let is_wanted = flags.contains(OFlags::NOFOLLOW) || !is_link(rustix::fs::fstat(&opened)?.st_mode);
    if is_wanted { Ok(opened) } else { Err(Errno::LOOP) }
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
