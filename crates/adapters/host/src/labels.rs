//! SELinux labels, by the host's own tools and policy.
//!
//! A file that replaces another keeps its label and a new one gets its folder's; some paths have a label of their own, which
//! only the policy knows.

use std::path::Path;

use change::host::{Error, HostPath};

use crate::os::Run;

/// A command line has room for this many paths on any kernel.
const BATCH: usize = 200;

/// Whether the kernel at this root enforces or at least knows labels.
pub fn are_on(root: &Path) -> bool {
    root.join("sys/fs/selinux/enforce").exists()
}

/// Gives each path its label. Paths that are not there any more are not worth a word.
pub fn restore(tools: &dyn Run, paths: &[HostPath]) -> Result<(), Error> {
    paths.chunks(BATCH).try_for_each(|paths| restorecon(tools, "-i", paths).map(drop))
}

/// The paths that `restore` would change.
pub fn wrong(tools: &dyn Run, paths: &[HostPath]) -> Result<Vec<HostPath>, Error> {
    let mut wrong = Vec::new();
    for paths in paths.chunks(BATCH) {
        let answer = restorecon(tools, "-inv", paths)?;
        // `Would relabel /etc/a from … to …`
        let named: Vec<&str> = answer.lines().filter_map(|line| line.strip_prefix("Would relabel ")).collect();
        let is_named = |path: &&HostPath| named.iter().any(|line| line.starts_with(&format!("{path} from ")));
        wrong.extend(paths.iter().filter(is_named).cloned());
    }
    Ok(wrong)
}

fn restorecon(tools: &dyn Run, options: &str, paths: &[HostPath]) -> Result<String, Error> {
    let mut arguments = vec![options.to_owned(), "--".to_owned()];
    arguments.extend(paths.iter().map(|path| path.as_str().to_owned()));
    tools.run("restorecon", &arguments)
}
