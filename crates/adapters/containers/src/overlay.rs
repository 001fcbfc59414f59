//! A machine's own root, as an overlay over the shared base.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, cannot};

/// A mounted root. It is unmounted when dropped; the machine's files stay in its folder.
#[derive(Debug)]
pub struct Overlay {
    root: PathBuf,
}

impl Overlay {
    /// Mounts `FOLDER/root` over `base`. A mount left there by an earlier process is removed first.
    ///
    /// # Errors
    /// If a folder cannot be created, or the kernel refuses the mount.
    pub fn mount(base: &Path, folder: &Path) -> Result<Self, Error> {
        let part = |name: &str| folder.join(name);
        for name in ["root", "upper", "work"] {
            fs::create_dir_all(part(name)).map_err(cannot("make", &part(name)))?;
        }
        let root = part("root");
        unmount_beneath(&root)?;
        let layer =
            |path: &Path| path.display().to_string().replace('\\', r"\\").replace(',', r"\,").replace(':', r"\:");
        let options =
            format!("lowerdir={},upperdir={},workdir={}", layer(base), layer(&part("upper")), layer(&part("work")));
        let mut command = Command::new("mount");
        command.args(["-t", "overlay", "overlay", "-o", &options]).arg(&root);
        run(&mut command).map_err(|said| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Error::Mount { name, said }
        })?;
        Ok(Self { root })
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.root
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("-l").arg(&self.root));
    }
}

/// Unmounts everything at or below a path, the last mount first. Processes that still use such a root are killed
/// before: a container survives if both this process and systemd-nspawn were killed.
///
/// # Errors
/// If the mounts cannot be read, or one of them cannot be removed.
pub fn unmount_beneath(path: &Path) -> Result<(), Error> {
    let Ok(path) = path.canonicalize() else { return Ok(()) };
    let table = Path::new("/proc/self/mountinfo");
    let text = fs::read_to_string(table).map_err(cannot("read", table))?;
    for point in points_beneath(&text, &path).into_iter().rev() {
        end_processes(&point);
        run(Command::new("umount").arg("-l").arg(&point)).map_err(|said| Error::Io {
            what: "unmount",
            path: point,
            source: std::io::Error::other(said),
        })?;
    }
    Ok(())
}

/// Kills every process whose root is this folder, and waits briefly until they are gone.
fn end_processes(root: &Path) {
    let place = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let Some(wanted) = place(root).filter(|root| Some(*root) != place(Path::new("/"))) else { return };
    let all = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let here = all.filter(|process| place(&process.path().join("root")) == Some(wanted));
    let ids: Vec<i32> = here.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect();
    for id in ids.iter().filter_map(|id| Pid::from_raw(*id)) {
        let _ = kill_process(id, Signal::KILL);
    }
    let is_there = |id: &i32| Path::new("/proc").join(id.to_string()).join("root").exists();
    for _ in 0..200 {
        if !ids.iter().any(is_there) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the mount points in a `mountinfo` table that are at or below a path, in mount order.
fn points_beneath(table: &str, path: &Path) -> Vec<PathBuf> {
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(|point| PathBuf::from(unescape(point)));
    points.filter(|point| point.starts_with(path)).collect()
}

/// The kernel escapes space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(part.get(3..).unwrap_or_default());
            }
            None => plain.push_str(part),
        }
    }
    plain
}

/// Runs a command; the error is its output.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().unwrap_or("it did not say why").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_beneath_a_path_are_found_whatever_its_name() {
        let table = "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     60 24 0:50 / /tmp/a\\040b/root rw - overlay overlay rw\n\
                     61 60 0:51 / /tmp/a\\040b/root/proc rw - proc proc rw\n\
                     62 24 0:52 / /tmp/a\\040bc rw - tmpfs tmpfs rw\n";
        let found = points_beneath(table, Path::new("/tmp/a b"));
        assert_eq!(found, [PathBuf::from("/tmp/a b/root"), PathBuf::from("/tmp/a b/root/proc")]);
    }
}
