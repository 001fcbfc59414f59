//! Which steps the host's way of updating its operating system can do.

use crate::host::Backend;
use crate::step::Step;

/// Why a host with this backend, on this architecture (as Rust names it), cannot take the steps.
pub fn problems(backend: Option<Backend>, architecture: &str, steps: &[Step]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut needs = |what: &str, bootc_can: bool| match backend {
        None => problems.push(format!("{what} cannot be changed on a host with neither bootc nor rpm-ostree")),
        Some(Backend::Bootc) if !bootc_can => {
            problems.push(format!("{what} cannot be changed on a host with bootc alone; it needs rpm-ostree"));
        }
        Some(Backend::Bootc | Backend::RpmOstree) => {}
    };
    let mut wrong_kernel = false;
    for step in steps {
        match step {
            Step::StageImage { .. } => needs("the OS image", true),
            Step::KernelArguments { .. } => needs("kernel arguments", false),
            Step::Packages { install, uninstall, kernel, .. } => {
                if let Some((_, to)) = kernel {
                    needs("the kernel type", false);
                    wrong_kernel |= to == "64k-pages" && architecture != "aarch64";
                }
                if !install.is_empty() || !uninstall.is_empty() {
                    needs("extensions", false);
                }
            }
            _ => {}
        }
    }
    if wrong_kernel {
        problems.push("64k-pages is only supported for aarch64 architecture".into());
    }
    problems
}
