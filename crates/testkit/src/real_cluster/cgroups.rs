//! Cgroups for the nodes of one cluster: a subtree of its own beneath the group that this process is in.
//!
//! Without one, all kubelets of the machine would share `/kubepods`. Nothing outside the subtree is ever written to.
//! Only machines whose controllers are on cgroup v1 can have such a subtree: on v2 a group with processes of its own, as
//! this one is, cannot hand controllers on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The controllers that a kubelet accounts pods with.
const NEEDED: [&str; 4] = ["cpu", "memory", "pids", "cpuset"];

/// The subtree of one cluster in each hierarchy.
#[derive(Clone, Debug)]
pub(super) struct Cgroups {
    hierarchies: Vec<Hierarchy>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// `cpu,cpuacct`, `name=systemd`, or nothing for the unified one.
    controllers: String,
    folder: PathBuf,
}

impl Cgroups {
    /// The subtree for a cluster, which is not made yet.
    pub(super) fn of(id: &str) -> Result<Self> {
        let mut hierarchies = own()?;
        for hierarchy in &mut hierarchies {
            hierarchy.folder.push(format!("{}{id}", super::network::PREFIX));
        }
        Ok(Self { hierarchies })
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.hierarchies.iter().map(|hierarchy| hierarchy.folder.as_path())
    }

    /// Makes a node's groups.
    pub(super) fn make(&self, node: &str) -> Result<()> {
        for hierarchy in &self.hierarchies {
            for folder in [hierarchy.folder.clone(), hierarchy.folder.join(node)] {
                fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                if hierarchy.controllers == "cpuset" {
                    inherit_cpuset(&folder)?;
                }
            }
        }
        Ok(())
    }

    /// Removes what a node's last boot has left in its groups: cAdvisor would wait three seconds for each container's group
    /// that no longer has a container.
    pub(super) fn clear(&self, node: &str) -> io::Result<()> {
        for folder in self.folders() {
            for group in fs::read_dir(folder.join(node))?.filter_map(Result::ok) {
                if group.file_type()?.is_dir() {
                    remove(&group.path())?;
                }
            }
        }
        Ok(())
    }

    /// Words that start the command after them in a node's groups.
    pub(super) fn launcher(&self, node: &str) -> Vec<String> {
        let script = r#"while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@""#;
        let groups = self.folders().map(|folder| folder.join(node).display().to_string());
        let words = ["sh", "-c", script, "sh"].map(str::to_owned);
        words.into_iter().chain(groups).chain(["--".to_owned()]).collect()
    }
}

/// Removes a group with all groups beneath it; one that is not there is fine.
pub(super) fn remove(group: &Path) -> io::Result<()> {
    let children = match fs::read_dir(group) {
        Ok(children) => children,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for child in children.filter_map(Result::ok) {
        if child.file_type()?.is_dir() {
            remove(&child.path())?;
        }
    }
    // The files in it are the kernel's and go with it.
    fs::remove_dir(group)
}

/// Why this machine cannot have kubelets of ours.
pub(crate) fn obstacle() -> Option<String> {
    let has = |own: &[Hierarchy], needed: &str| own.iter().any(|one| one.controllers.split(',').any(|c| c == needed));
    match own() {
        Ok(own) => {
            let missing: Vec<&str> = NEEDED.into_iter().filter(|needed| !has(&own, needed)).collect();
            (!missing.is_empty()).then(|| format!("the controllers {} are not on cgroup v1", missing.join(", ")))
        }
        Err(error) => Some(format!("{error:#}")),
    }
}

/// The groups that this process is in.
fn own() -> Result<Vec<Hierarchy>> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
    Ok(parse(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?))
}

/// Finds the folder of each line of `/proc/self/cgroup`; a hierarchy that is mounted nowhere is left out.
fn parse(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if let Some(folder) = mounts.lines().find_map(|mount| mounted(mount, controllers, path)) {
            found.push(Hierarchy { controllers: controllers.to_owned(), folder });
        }
    }
    found
}

/// Where a mount shows a group of a hierarchy, if it does.
fn mounted(mount: &str, controllers: &str, path: &str) -> Option<PathBuf> {
    let (place, system) = mount.split_once(" - ")?;
    let place: Vec<&str> = place.split(' ').collect();
    let (root, point) = (place.get(3)?, place.get(4)?);
    let mut system = system.split(' ');
    let (kind, options) = (system.next()?, system.nth(1)?);
    let has_all = || controllers.split(',').all(|wanted| options.split(',').any(|option| option == wanted));
    let is_it = if controllers.is_empty() { kind == "cgroup2" } else { kind == "cgroup" && has_all() };
    let within = Path::new(path).strip_prefix(root).ok()?;
    is_it.then(|| Path::new(point).join(within))
}

/// A new cpuset has no processors and no memory, and nothing can run in it.
fn inherit_cpuset(folder: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let parent = folder.parent().context("a group has a parent")?.join(file);
        let value = fs::read(&parent).with_context(|| format!("cannot read {}", parent.display()))?;
        fs::write(folder.join(file), value).with_context(|| format!("cannot write {file} of {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_process_are_found_in_every_mounted_hierarchy() {
        let groups = "4:memory:/a/b\n3:cpu,cpuacct:/\n2:pids:/\n1:name=systemd:/c\n0::/d\n";
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 - cgroup cgroup rw,cpu,cpuacct\n\
                      32 25 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
                      33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found: Vec<String> = parse(groups, mounts).iter().map(|one| one.folder.display().to_string()).collect();
        let expected = ["memory/a/b", "cpu,cpuacct/", "systemd/c", "unified/d"];
        assert_eq!(found, expected.map(|path| format!("/sys/fs/cgroup/{path}")), "pids is mounted nowhere");
    }

    #[test]
    fn a_mount_that_shows_part_of_a_hierarchy_leads_to_the_group_in_it() {
        let mount = "30 25 0:26 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        assert_eq!(mounted(mount, "memory", "/box/a"), Some("/sys/fs/cgroup/memory/a".into()));
        assert_eq!(mounted(mount, "memory", "/elsewhere"), None);
    }
}
