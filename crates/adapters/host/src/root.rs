//! Real files beneath a root folder, for the directory host and the real host alike.
//!
//! Every path is opened beneath the root by the kernel itself (`openat2` with `RESOLVE_IN_ROOT`; name by name on kernels
//! without it), and the last name is then handled relative to that open folder. Links are followed beneath the root only,
//! and only those that root made. It decides nothing about what to write.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use change::host::{Attributes, Entry, EntryKind, Error, ErrorKind, Files, HostPath, READ_LIMIT};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatVfsMountFlags, Uid};
use rustix::io::Errno;

mod links;

use links::Way;

/// Folders that wait for their fsync. Each holds a descriptor, so their number is kept small.
const WAITING_FOLDERS: usize = 64;

/// Parents that are made on the way, as other programs make them: everybody may enter.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// On a host whose `/usr` is read-only, these are what survives an OS update and can be written.
const ALWAYS_WRITABLE: [&str; 5] = ["/etc", "/var", "/run", "/tmp", "/boot"];

#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    path: PathBuf,
    way: Way,
    usr_is_read_only: bool,
    waiting: Mutex<Vec<(u64, u64, OwnedFd)>>,
}

impl Root {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let folder = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| failure("open", &path.display().to_string(), errno))?;
        // The kernel names what is open without links in it, which is what resolved paths are compared with.
        let path = descriptor_path(&folder).unwrap_or_else(|| path.to_owned());
        let way = Way::of(folder.as_fd());
        let mut root = Self { folder, path, way, usr_is_read_only: false, waiting: Mutex::default() };
        root.usr_is_read_only = root.is_read_only_mount("usr");
        Ok(root)
    }

    /// As on an image-based OS, whatever this folder's mounts say.
    pub fn with_read_only_usr(mut self) -> Self {
        self.usr_is_read_only = true;
        self
    }

    /// As on a kernel before 5.6, which has no `openat2`.
    pub fn on_old_kernel(mut self) -> Self {
        self.way = Way::OneByOne;
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_read_only_mount(&self, relative: &str) -> bool {
        let Ok(folder) = self.open_beneath(relative, OFlags::PATH | OFlags::DIRECTORY) else { return false };
        rustix::fs::fstatvfs(&folder).is_ok_and(|info| info.f_flag.contains(StatVfsMountFlags::RDONLY))
    }

    fn open_beneath(&self, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.way.open(self.folder.as_fd(), relative, flags)
    }

    /// The open folder that holds `path`. `None` when it does not exist.
    fn parent(&self, path: &HostPath, action: &'static str) -> Result<Option<OwnedFd>, Error> {
        let parent = path.parent();
        let relative = parent.as_ref().map_or("", HostPath::relative);
        match self.open_beneath(relative, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failure(action, path.as_str(), errno)),
        }
    }

    /// The open folder that holds `path`, made with its parents where missing.
    fn parent_made(&self, path: &HostPath, action: &'static str) -> Result<OwnedFd, Error> {
        if let Some(folder) = self.parent(path, action)? {
            return Ok(folder);
        }
        let parent = path.parent().ok_or_else(|| failure(action, path.as_str(), Errno::NOENT))?;
        self.ensure_folder(&parent, action)
    }

    fn ensure_folder(&self, path: &HostPath, action: &'static str) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match self.open_beneath(path.relative(), flags) {
            Ok(folder) => return Ok(folder),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failure(action, path.as_str(), errno)),
        }
        let above = self.parent_made(path, action)?;
        let is_made = match rustix::fs::mkdirat(&above, path.file_name(), FOLDER_MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(failure(action, path.as_str(), errno)),
        };
        self.fsync_later(above);
        let opened = self.open_beneath(path.relative(), flags);
        let folder = opened.map_err(|errno| failure(action, path.as_str(), errno))?;
        if is_made {
            // The process's umask has taken bits away.
            rustix::fs::fchmod(&folder, FOLDER_MODE).map_err(|errno| failure(action, path.as_str(), errno))?;
        }
        Ok(folder)
    }

    /// An open regular file, links followed. `None` when there is nothing.
    fn open_file(&self, path: &HostPath) -> Result<Option<File>, Error> {
        // Without NONBLOCK, opening a pipe that nobody writes to would wait for ever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match self.open_beneath(path.relative(), flags) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failure("read", path.as_str(), errno)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|errno| failure("read", path.as_str(), errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::new(ErrorKind::Refused, "read", path.as_str(), "it is not a regular file"));
        }
        Ok(Some(file))
    }

    fn fsync_later(&self, folder: OwnedFd) {
        let Ok(stat) = rustix::fs::fstat(&folder) else { return };
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = (stat.st_dev, stat.st_ino);
        if waiting.iter().any(|(device, inode, _)| (*device, *inode) == key) {
            return;
        }
        if waiting.len() >= WAITING_FOLDERS {
            // Only earlier than it must be; an error would come again in `flush`, from the same folder.
            let (_, _, oldest) = waiting.remove(0);
            let _ = rustix::fs::fsync(&oldest);
        }
        waiting.push((key.0, key.1, folder));
    }

    /// Writes a temporary neighbour, makes it durable and gives it the name. An empty file has nothing to lose but its name,
    /// which its folder's fsync keeps: the many stamps of a host's first config need not wait for the disk one by one.
    fn replace(
        &self,
        path: &HostPath,
        action: &'static str,
        is_empty: bool,
        fill: impl FnOnce(&mut File) -> Result<(), Errno>,
    ) -> Result<(), Error> {
        let folder = self.parent_made(path, action)?;
        self.refuse_folder(&folder, path, action)?;
        let temporary = temporary_name(path.file_name());
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&folder, &temporary, flags, Mode::from(0o600));
        let mut file = File::from(opened.map_err(|errno| failure(action, path.as_str(), errno))?);
        let result = fill(&mut file)
            .and_then(|()| keep_label(&folder, path.file_name(), &file))
            .and_then(|()| if is_empty { Ok(()) } else { rustix::fs::fsync(&file) })
            .and_then(|()| rustix::fs::renameat(&folder, &temporary, &folder, path.file_name()));
        self.settle(path, action, folder, &temporary, result)
    }

    fn settle(
        &self,
        path: &HostPath,
        action: &'static str,
        folder: OwnedFd,
        temporary: &str,
        result: Result<(), Errno>,
    ) -> Result<(), Error> {
        match result {
            Ok(()) => {
                self.fsync_later(folder);
                Ok(())
            }
            Err(errno) => {
                let _ = rustix::fs::unlinkat(&folder, temporary, AtFlags::empty());
                Err(failure(action, path.as_str(), errno))
            }
        }
    }

    fn refuse_folder(&self, folder: &OwnedFd, path: &HostPath, action: &'static str) -> Result<(), Error> {
        match rustix::fs::statat(folder, path.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                Err(Error::new(ErrorKind::Refused, action, path.as_str(), "a folder is in its place"))
            }
            _ => Ok(()),
        }
    }

    /// The deepest folder that exists on the way to `folder` (`None` is the root), and which one it is.
    pub(crate) fn nearest_folder(&self, folder: Option<HostPath>) -> Option<(OwnedFd, Option<HostPath>)> {
        let mut wanted = folder;
        loop {
            let relative = wanted.as_ref().map_or("", HostPath::relative);
            if let Ok(open) = self.open_beneath(relative, OFlags::PATH | OFlags::DIRECTORY) {
                return Some((open, wanted));
            }
            wanted = wanted?.parent();
        }
    }

    /// Where `path` would really be written: its deepest existing ancestor, links followed.
    fn resolved_ancestor(&self, path: &HostPath) -> Option<(OwnedFd, String)> {
        let mut ancestor = path.parent();
        loop {
            let relative = ancestor.as_ref().map_or("", HostPath::relative);
            if let Ok(folder) = self.open_beneath(relative, OFlags::PATH | OFlags::DIRECTORY) {
                let real = descriptor_path(&folder)?;
                let beneath = real.strip_prefix(&self.path).ok()?;
                let rest = &path.as_str()[ancestor.as_ref().map_or(0, |path| path.as_str().len())..];
                return Some((folder, format!("/{}{rest}", beneath.display()).replace("//", "/")));
            }
            ancestor = ancestor?.parent();
        }
    }
}

impl Files for Root {
    fn look(&self, path: &HostPath) -> Result<Option<Entry>, Error> {
        let Some(folder) = self.parent(path, "look at")? else { return Ok(None) };
        match rustix::fs::statat(&folder, path.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => entry(&folder, path, &stat).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failure("look at", path.as_str(), errno)),
        }
    }

    fn read(&self, path: &HostPath) -> Result<Option<Vec<u8>>, Error> {
        let Some(file) = self.open_file(path)? else { return Ok(None) };
        let mut contents = Vec::new();
        let read = file.take(READ_LIMIT + 1).read_to_end(&mut contents);
        read.map_err(|error| failure("read", path.as_str(), errno_of(&error)))?;
        if contents.len() as u64 > READ_LIMIT {
            return Err(Error::new(ErrorKind::Refused, "read", path.as_str(), "it is larger than 32 MiB"));
        }
        Ok(Some(contents))
    }

    fn open(&self, path: &HostPath) -> Result<Option<Box<dyn Read>>, Error> {
        Ok(self.open_file(path)?.map(|file| Box::new(file) as Box<dyn Read>))
    }

    fn list(&self, folder: &HostPath) -> Result<Vec<String>, Error> {
        let open = match self.open_beneath(folder.relative(), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(open) => open,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(failure("list", folder.as_str(), errno)),
        };
        let entries = rustix::fs::Dir::new(open).map_err(|errno| failure("list", folder.as_str(), errno))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|errno| failure("list", folder.as_str(), errno))?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn put(&self, path: &HostPath, contents: &[u8], attributes: &Attributes) -> Result<(), Error> {
        self.replace(path, "write", contents.is_empty(), |file| {
            file.write_all(contents).map_err(|error| errno_of(&error))?;
            give(file, attributes)
        })
    }

    fn put_from(&self, path: &HostPath, contents: &mut dyn Read, attributes: &Attributes) -> Result<(), Error> {
        self.replace(path, "write", false, |file| {
            std::io::copy(contents, file).map_err(|error| errno_of(&error))?;
            give(file, attributes)
        })
    }

    fn link(&self, path: &HostPath, target: &str) -> Result<(), Error> {
        let folder = self.parent_made(path, "link")?;
        self.refuse_folder(&folder, path, "link")?;
        let temporary = temporary_name(path.file_name());
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        let result = rustix::fs::symlinkat(target, &folder, &temporary)
            .and_then(|()| rustix::fs::renameat(&folder, &temporary, &folder, path.file_name()));
        self.settle(path, "link", folder, &temporary, result)
    }

    fn make_folder(&self, path: &HostPath, attributes: &Attributes) -> Result<(), Error> {
        let folder = self.ensure_folder(path, "make folder")?;
        chown(&folder, attributes)
            .and_then(|()| rustix::fs::fchmod(&folder, Mode::from(attributes.mode)))
            .map_err(|errno| failure("make folder", path.as_str(), errno))?;
        self.fsync_later(folder);
        Ok(())
    }

    fn copy(&self, from: &HostPath, to: &HostPath) -> Result<(), Error> {
        let missing = || failure("copy", from.as_str(), Errno::NOENT);
        let entry = self.look(from)?.ok_or_else(missing)?;
        match entry.kind {
            EntryKind::Link(target) => self.link(to, &target),
            EntryKind::File => {
                let source = self.open_beneath(from.relative(), OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK);
                let mut source = File::from(source.map_err(|errno| failure("copy", from.as_str(), errno))?);
                self.replace(to, "copy to", entry.size == 0, |file| {
                    std::io::copy(&mut source, file).map_err(|error| errno_of(&error))?;
                    copy_extended_attributes(&source, file);
                    chown(&*file, &Attributes { mode: 0, user: entry.user, group: entry.group })?;
                    rustix::fs::fchmod(&*file, Mode::from(entry.mode))
                })
            }
            EntryKind::Folder | EntryKind::Special => {
                Err(Error::new(ErrorKind::Refused, "copy", from.as_str(), "it is neither a file nor a link"))
            }
        }
    }

    fn remove(&self, path: &HostPath) -> Result<(), Error> {
        let Some(folder) = self.parent(path, "remove")? else { return Ok(()) };
        let result = match rustix::fs::unlinkat(&folder, path.file_name(), AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) if self.is_folder(&folder, path) => {
                rustix::fs::unlinkat(&folder, path.file_name(), AtFlags::REMOVEDIR)
            }
            other => other,
        };
        match result {
            Ok(()) => {
                self.fsync_later(folder);
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failure("remove", path.as_str(), errno)),
        }
    }

    fn flush(&self) -> Result<(), Error> {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for (_, _, folder) in waiting {
            rustix::fs::fsync(&folder).map_err(|errno| failure("flush", "folder", errno))?;
        }
        Ok(())
    }

    fn refuses(&self, path: &HostPath) -> Option<String> {
        let parent = path.parent();
        let relative = parent.as_ref().map_or("", HostPath::relative);
        if let Err(Errno::LOOP) = self.open_beneath(relative, OFlags::PATH | OFlags::DIRECTORY) {
            return Some(format!("\"{path}\" leads through a symbolic link that is not root's, or in a circle"));
        }
        let Some((folder, resolved)) = self.resolved_ancestor(path) else {
            return Some(format!("\"{path}\" does not resolve to a place beneath the root"));
        };
        if self.usr_is_read_only && !ALWAYS_WRITABLE.iter().any(|place| is_beneath(&resolved, place)) {
            return Some(format!(
                "\"{path}\" resolves to \"{resolved}\", and this host is read-only outside /etc and /var"
            ));
        }
        let read_only = rustix::fs::fstatvfs(&folder).is_ok_and(|info| info.f_flag.contains(StatVfsMountFlags::RDONLY));
        if read_only {
            return Some(format!("\"{path}\" resolves to \"{resolved}\", which is on a read-only file system"));
        }
        None
    }
}

impl Root {
    fn is_folder(&self, folder: &OwnedFd, path: &HostPath) -> bool {
        rustix::fs::statat(folder, path.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

fn is_beneath(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn descriptor_path(descriptor: &OwnedFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).ok()
}

fn entry(folder: &OwnedFd, path: &HostPath, stat: &Stat) -> Result<Entry, Error> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, path.file_name(), Vec::new())
                .map_err(|errno| failure("look at", path.as_str(), errno))?;
            EntryKind::Link(target.to_string_lossy().into_owned())
        }
        _ => EntryKind::Special,
    };
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    Ok(Entry { kind, mode: stat.st_mode & 0o7777, user: stat.st_uid, group: stat.st_gid, size })
}

/// The owner first: changing it clears setuid and setgid.
fn give(file: &File, attributes: &Attributes) -> Result<(), Errno> {
    chown(file, attributes)?;
    rustix::fs::fchmod(file, Mode::from(attributes.mode))
}

/// Only root can give files away; as another user the file must already be meant for that user.
fn chown<F: AsFd>(file: F, attributes: &Attributes) -> Result<(), Errno> {
    let owner = (Some(Uid::from_raw(attributes.user)), Some(Gid::from_raw(attributes.group)));
    match rustix::fs::fchown(file, owner.0, owner.1) {
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => Ok(()),
        other => other,
    }
}

/// A file that is replaced keeps its SELinux label; a new one gets its folder's.
fn keep_label(folder: &OwnedFd, name: &str, file: &File) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(old) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { return Ok(()) };
    copy_extended_attribute(&old, file, "security.selinux");
    Ok(())
}

fn copy_extended_attribute<A: AsFd, B: AsFd>(from: A, to: B, name: &str) {
    let mut value = vec![0_u8; 4096];
    if let Ok(length) = rustix::fs::fgetxattr(from, name, &mut value[..]) {
        let _ = rustix::fs::fsetxattr(to, name, &value[..length], rustix::fs::XattrFlags::empty());
    }
}

fn copy_extended_attributes(from: &File, to: &File) {
    let mut names = vec![0_u8; 16 * 1024];
    let Ok(length) = rustix::fs::flistxattr(from, &mut names[..]) else { return };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        copy_extended_attribute(from, to, &String::from_utf8_lossy(name));
    }
}

/// One fixed name per file: what a crash leaves behind is replaced by the next try and cannot pile up. Long names are cut, and
/// told apart by a number.
fn temporary_name(name: &str) -> String {
    const LENGTH: usize = 60;
    if name.chars().count() <= LENGTH {
        return format!(".{name}.machinist");
    }
    let short: String = name.chars().take(LENGTH).collect();
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!(".{short}.{:016x}.machinist", hasher.finish())
}

fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

fn failure(action: &'static str, subject: &str, errno: Errno) -> Error {
    let kind = match errno {
        Errno::NOSPC | Errno::DQUOT => ErrorKind::NoSpace,
        Errno::ROFS => ErrorKind::ReadOnly,
        Errno::PERM | Errno::ACCESS => ErrorKind::Denied,
        Errno::XDEV | Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => ErrorKind::Refused,
        _ => ErrorKind::Failed,
    };
    if errno == Errno::LOOP {
        let detail = "it leads through a symbolic link that is not root's, to a process, or in a circle";
        return Error::new(kind, action, subject, detail);
    }
    let message = std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string();
    let detail = message.split(" (os error").next().unwrap_or_default().to_lowercase();
    Error::new(kind, action, subject, detail)
}
