//! Which steps the host's way of updating its operating system can do.

use api::machineconfiguration::MachineConfigSpec;

use crate::content::KernelType;
use crate::host::{Backend, BootLoader};
use crate::step::Step;
use crate::target::Target;

/// How a daemon says that its host cannot update its operating system at all.
const NONE: &str = "none";

/// Every way that a host may have of updating its operating system.
const BACKENDS: [Backend; 6] = [
    Backend::Bootc,
    Backend::RpmOstree,
    Backend::BootLoader(BootLoader::Grubby),
    Backend::BootLoader(BootLoader::Grub),
    Backend::BootLoader(BootLoader::KernelInstall),
    Backend::BootLoader(BootLoader::Entries),
];

/// How a daemon tells others what its host can do.
pub fn word(backend: Option<Backend>) -> &'static str {
    backend.map_or(NONE, Backend::name)
}

/// The backend that a word stands for; nothing for a word of a newer daemon.
fn backend_of(word: &str) -> Option<Option<Backend>> {
    if word == NONE {
        return Some(None);
    }
    BACKENDS.into_iter().find(|backend| backend.name() == word).map(Some)
}

/// Whether the word of a daemon says that its host cannot do everything.
pub fn is_limited(word: &str) -> bool {
    backend_of(word).is_some_and(|backend| backend != Some(Backend::RpmOstree))
}

/// Whether a config asks for anything that not every host can do.
pub fn asks(spec: &MachineConfigSpec) -> bool {
    !steps(&MachineConfigSpec::default(), spec).is_empty()
}

/// Why a host cannot go from one config to another, as far as the word of its daemon tells; nothing where it can, or where
/// that is not known.
pub fn refusal(word: &str, from: &MachineConfigSpec, to: &MachineConfigSpec) -> Option<String> {
    let backend = backend_of(word)?;
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
    if loader == BootLoader::Grubby && argument.contains(['&', '*', '?', '[', '$', '`', '|']) {
        return because("grubby hands it to programs that read `& * ? [ $ ` |` as something else");
    }
    None
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

    #[test]
    fn what_a_host_cannot_do_is_told_from_the_word_of_its_daemon() {
        let (plain, arguments, image) = (spec(&[], ""), spec(&["nosmt"], ""), spec(&[], "quay.io/os"));
        let cannot = "kernel arguments cannot be changed on a host with neither bootc nor rpm-ostree";
        assert!(refusal("none", &plain, &arguments).is_some_and(|why| why.starts_with(cannot)));
        assert_eq!(refusal("update-grub", &plain, &arguments), None);
        assert!(refusal("update-grub", &plain, &image).is_some_and(|why| why.contains("made of packages")));
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
        for backend in BACKENDS {
            assert_eq!(backend_of(word(Some(backend))), Some(Some(backend)));
        }
    }
}
