//! Which steps the host's way of updating its operating system can do.

use crate::host::{Backend, BootLoader};
use crate::step::Step;

/// Why a host with this backend, on this architecture (as Rust names it), cannot take the steps.
pub fn problems(backend: Option<Backend>, architecture: &str, steps: &[Step]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut needs = |what: &str, needs: Needs| problems.extend(missing(backend, what, needs));
    let mut wrong_kernel = false;
    for step in steps {
        match step {
            Step::StageImage { .. } => needs("the OS image", Needs::Image),
            Step::KernelArguments { .. } => needs("kernel arguments", Needs::Arguments),
            Step::Packages { install, uninstall, kernel, .. } => {
                if let Some((_, to)) = kernel {
                    needs("the kernel type", Needs::Packages);
                    wrong_kernel |= to == "64k-pages" && architecture != "aarch64";
                }
                if !install.is_empty() || !uninstall.is_empty() {
                    needs("extensions", Needs::Packages);
                }
            }
            _ => {}
        }
    }
    if let Some(Backend::BootLoader(loader)) = backend {
        let appended = steps.iter().filter_map(|step| match step {
            Step::KernelArguments { append, .. } => Some(append),
            _ => None,
        });
        problems.extend(appended.flatten().filter_map(|argument| unwritable(loader, argument)));
    }
    if wrong_kernel {
        problems.push("64k-pages is only supported for aarch64 architecture".into());
    }
    problems
}

#[derive(Clone, Copy, PartialEq)]
enum Needs {
    Arguments,
    Image,
    Packages,
}

fn missing(backend: Option<Backend>, what: &str, needs: Needs) -> Option<String> {
    match (backend, needs) {
        (Some(Backend::RpmOstree), _)
        | (Some(Backend::Bootc), Needs::Image)
        | (Some(Backend::BootLoader(_)), Needs::Arguments) => None,
        (Some(Backend::Bootc), Needs::Arguments | Needs::Packages) => {
            Some(format!("{what} cannot be changed on a host with bootc alone; it needs rpm-ostree"))
        }
        (Some(Backend::BootLoader(_)), Needs::Image) => Some(format!(
            "{what} cannot be changed on a host whose system is made of packages; it needs bootc or rpm-ostree"
        )),
        (Some(Backend::BootLoader(_)), Needs::Packages) => {
            Some(format!("{what} cannot be changed on a host whose system is made of packages; it needs rpm-ostree"))
        }
        (None, Needs::Arguments) => Some(format!(
            "{what} cannot be changed on a host with neither bootc nor rpm-ostree, and with neither GRUB (grubby, \
             update-grub) nor systemd-boot"
        )),
        (None, Needs::Image | Needs::Packages) => {
            Some(format!("{what} cannot be changed on a host with neither bootc nor rpm-ostree"))
        }
    }
}

/// Why an argument would not reach the kernel as it is written. Each boot loader has its own idea of quotes.
fn unwritable(loader: BootLoader, argument: &str) -> Option<String> {
    let because = |why: &str| {
        Some(format!(
            "kernel argument {argument:?} cannot be written for {}: {why}",
            Backend::BootLoader(loader).name()
        ))
    };
    if argument.matches('"').count() % 2 == 1 {
        return because("it has a double quote that never closes");
    }
    if argument.chars().any(char::is_control) {
        return because("it has a control character");
    }
    let is_grub = matches!(loader, BootLoader::Grub | BootLoader::Grubby);
    if is_grub && argument.contains(['\\', '\'']) {
        return because("GRUB puts a backslash before each backslash and single quote, and the kernel would see it");
    }
    if loader == BootLoader::Grubby && argument.contains(char::is_whitespace) {
        return because("grubby takes it apart at its spaces");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADERS: [BootLoader; 4] =
        [BootLoader::Grubby, BootLoader::Grub, BootLoader::KernelInstall, BootLoader::Entries];

    fn told(backend: Option<Backend>, step: Step) -> Vec<String> {
        problems(backend, "x86_64", &[step])
    }

    fn append(argument: &str) -> Step {
        Step::KernelArguments { delete: Vec::new(), append: vec![argument.to_owned()] }
    }

    fn packages(install: &[&str], kernel: Option<(String, String)>) -> Step {
        let install = install.iter().map(|package| (*package).to_owned()).collect();
        Step::Packages { install, uninstall: Vec::new(), kernel, image: String::new() }
    }

    #[test]
    fn a_host_made_of_packages_takes_kernel_arguments_and_refuses_the_rest_with_a_sentence() {
        for loader in LOADERS {
            let backend = Some(Backend::BootLoader(loader));
            assert_eq!(told(backend, append("nosmt")), [""; 0]);
            let image = told(backend, Step::StageImage { image: "os".into() });
            assert_eq!(
                image,
                [
                    "the OS image cannot be changed on a host whose system is made of packages; it needs bootc or rpm-ostree"
                ]
            );
            let kernel = told(backend, packages(&[], Some(("default".into(), "realtime".into()))));
            assert_eq!(
                kernel,
                ["the kernel type cannot be changed on a host whose system is made of packages; it needs rpm-ostree"]
            );
            assert!(told(backend, packages(&["usbguard"], None))[0].starts_with("extensions cannot be changed"));
        }
    }

    #[test]
    fn an_argument_that_would_not_reach_the_kernel_as_written_is_refused() {
        let is_refused = |loader, argument| !told(Some(Backend::BootLoader(loader)), append(argument)).is_empty();
        for loader in LOADERS {
            assert!(is_refused(loader, "open=\"never closed"));
            assert!(is_refused(loader, "a=\u{7}"));
            assert!(!is_refused(loader, "console=ttyS0,115200"));
            assert!(!is_refused(loader, "cgroup_no_v1=\"all\""));
        }
        let path = "dyndbg=file\\x";
        assert_eq!(LOADERS.map(|loader| is_refused(loader, path)), [true, true, false, false]);
        let spaced = "p=\"1 2\"";
        assert_eq!(LOADERS.map(|loader| is_refused(loader, spaced)), [true, false, false, false]);
        assert_eq!(
            told(Some(Backend::BootLoader(BootLoader::Grubby)), append(spaced)),
            ["kernel argument \"p=\\\"1 2\\\"\" cannot be written for grubby: grubby takes it apart at its spaces"]
        );
    }
}
