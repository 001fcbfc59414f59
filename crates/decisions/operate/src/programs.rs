//! The programs of the image, and the other names they answer to.
//!
//! Scripts and runbooks of upstream call one program for each process. Here these names are links to two binaries, which look at
//! the name they were called by.

/// What we call our own binaries.
pub const MACHINIST: &str = "machinist";
pub const MACHINISTD: &str = "machinistd";

/// Another name of a binary, and the verb that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub name: &'static str,
    /// The binary that the link leads to.
    pub program: &'static str,
    /// What would be typed instead of the name; empty where the binary itself knows the name.
    pub verb: &'static str,
    /// Upstream's programs have a verb `start`, which ours is not always split into.
    pub drops_start: bool,
}

const fn of_machinist(name: &'static str, verb: &'static str, drops_start: bool) -> Link {
    Link { name, program: MACHINIST, verb, drops_start }
}

const fn of_machinistd(name: &'static str) -> Link {
    Link { name, program: MACHINISTD, verb: "", drops_start: false }
}

pub const LINKS: [Link; 8] = [
    of_machinist("machine-config-operator", "operator", true),
    of_machinist("machine-config-controller", "controller", true),
    of_machinist("machine-config-server", "server", true),
    of_machinist("machine-api-operator", "machine-api-operator", false),
    of_machinist("machine-api-controllers", "machines", true),
    of_machinist("kubectl-machinist", "", false),
    of_machinistd("machine-config-daemon"),
    of_machinistd(CHROOT),
];

/// Runbooks run `chroot /rootfs COMMAND` in the daemon's pod, and the image has no base that would bring it.
pub const CHROOT: &str = "chroot";

/// A command line in the words of `machinist`: the name by which it was called becomes a verb.
pub fn spelled<T: From<&'static str> + PartialEq<str>>(name: &str, arguments: Vec<T>) -> Vec<T> {
    let Some(link) = LINKS.iter().find(|link| link.name == name && !link.verb.is_empty()) else { return arguments };
    let is_dropped = link.drops_start && arguments.first().is_some_and(|first| first == "start");
    let rest = arguments.into_iter().skip(usize::from(is_dropped));
    [T::from(link.verb)].into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let spelled = spelled(name, words.map(str::to_owned).collect::<Vec<String>>());
        assert_eq!(spelled.join(" "), expected, "{line}");
    }

    #[test]
    fn upstreams_programs_are_verbs_and_their_start_is_understood() {
        check("machine-api-operator start --images-json F", "machine-api-operator start --images-json F");
        check("machine-config-operator start --namespace a", "operator --namespace a");
        check("machine-config-server bootstrap --cert F", "server bootstrap --cert F");
        check("machine-config-server start", "server");
        check("machine-api-controllers --provider aws", "machines --provider aws");
    }

    #[test]
    fn every_other_name_is_machinist_itself() {
        for name in ["machinist", "kubectl-machinist", "machinist-0.1.0"] {
            check(&format!("{name} status --watch"), "status --watch");
        }
    }
}
