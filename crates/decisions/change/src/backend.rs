//! Which steps the host's way of updating its operating system can do.

use api::machineconfiguration::MachineConfigSpec;

use crate::content::KernelType;
use crate::host::Backend;
use crate::step::Step;
use crate::target::Target;

/// How a daemon says that its host cannot update its operating system at all.
const NONE: &str = "none";
const BOOTC: &str = "bootc";
const RPM_OSTREE: &str = "rpm-ostree";

/// How a daemon tells others what its host can do.
pub fn word(backend: Option<Backend>) -> &'static str {
    match backend {
        None => NONE,
        Some(Backend::Bootc) => BOOTC,
        Some(Backend::RpmOstree) => RPM_OSTREE,
    }
}

/// Whether the word of a daemon says that its host cannot do everything.
pub fn is_limited(word: &str) -> bool {
    matches!(word, NONE | BOOTC)
}

/// Whether a config asks for anything that not every host can do.
pub fn asks(spec: &MachineConfigSpec) -> bool {
    !steps(&MachineConfigSpec::default(), spec).is_empty()
}

/// Why a host cannot go from one config to another, as far as the word of its daemon tells; nothing where it can, or where
/// that is not known.
pub fn refusal(word: &str, from: &MachineConfigSpec, to: &MachineConfigSpec) -> Option<String> {
    let backend = match word {
        NONE => None,
        BOOTC => Some(Backend::Bootc),
        RPM_OSTREE => Some(Backend::RpmOstree),
        _ => return None,
    };
    // Its architecture is not told, and the daemon judges that itself.
    let problems = problems(backend, "aarch64", &steps(from, to));
    (!problems.is_empty()).then(|| problems.join("; "))
}

fn steps(from: &MachineConfigSpec, to: &MachineConfigSpec) -> Vec<Step> {
    crate::plan::system(&system(from), &system(to))
}

/// What a config says about the operating system.
fn system(spec: &MachineConfigSpec) -> Target {
    Target {
        kernel_arguments: spec.kernel_arguments.clone(),
        kernel_type: KernelType::read(spec.kernel_type.as_deref()).as_str().to_owned(),
        extensions: spec.extensions.clone(),
        os_image: spec.os_image_url.clone().unwrap_or_default(),
        ..Target::default()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(arguments: &[&str], image: &str) -> MachineConfigSpec {
        MachineConfigSpec {
            kernel_arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            os_image_url: Some(image.to_owned()),
            ..MachineConfigSpec::default()
        }
    }

    #[test]
    fn what_a_host_cannot_do_is_told_from_the_word_of_its_daemon() {
        let (plain, arguments, image) = (spec(&[], ""), spec(&["nosmt"], ""), spec(&[], "quay.io/os"));
        let cannot = "kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree";
        assert_eq!(refusal("none", &plain, &arguments).as_deref(), Some(cannot));
        assert!(refusal("bootc", &plain, &arguments).is_some_and(|why| why.contains("bootc alone")));
        assert_eq!(refusal("bootc", &plain, &image), None);
        assert_eq!(refusal("rpm-ostree", &plain, &arguments), None);
        assert_eq!(refusal("a word of tomorrow", &plain, &arguments), None, "the daemon tries");
        assert_eq!(refusal("none", &arguments, &arguments), None, "nothing of it changes");
    }

    #[test]
    fn few_configs_ask_for_what_not_every_host_can_do() {
        assert!(!asks(&spec(&[], "")));
        assert!(asks(&spec(&["nosmt"], "")) && asks(&spec(&[], "quay.io/os")));
        let extensions = MachineConfigSpec { extensions: vec!["usbguard".to_owned()], ..MachineConfigSpec::default() };
        assert!(asks(&extensions));
        let kernel = MachineConfigSpec { kernel_type: Some("realtime".to_owned()), ..MachineConfigSpec::default() };
        assert!(asks(&kernel));
        let kernel = MachineConfigSpec { kernel_type: Some("default".to_owned()), ..MachineConfigSpec::default() };
        assert!(!asks(&kernel));
    }

    #[test]
    fn a_word_stands_for_each_backend() {
        assert_eq!([None, Some(Backend::Bootc), Some(Backend::RpmOstree)].map(word), ["none", "bootc", "rpm-ostree"]);
    }
}
