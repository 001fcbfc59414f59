//! What a host's configs have done to the kernel arguments that it has by itself.
//!
//! A host with packages has one line of arguments, from its distribution and its administrators, and nobody but us knows
//! which of them came from a config. So that is written down: what was added, what is left out, and what was there anyway.
//! Every answer here is the same however often it is asked, because the power may go at any point of a change.

use serde::{Deserialize, Serialize};

use super::plain;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overlay {
    /// Appended to the host's line, in the order of the config.
    pub added: Vec<String>,
    /// Left out of the host's line: a config had them and has them no longer.
    pub removed: Vec<String>,
    /// The host had these before a config wanted them, so they stay when it no longer does.
    pub own: Vec<String>,
    /// Left out before, and wanted again: to be left out again when no config wants them.
    pub again: Vec<String>,
    /// Arguments of the host that `grubby` puts ours in the place of, because they set the same thing. They come back.
    pub replaced: Vec<String>,
}

impl Overlay {
    /// What is to be laid over the arguments that the `host` has by itself, once those in `delete` have gone and those in
    /// `append` have come.
    ///
    /// As with `rpm-ostree kargs --delete-if-present --append-if-missing`, an argument is there once however often it is
    /// asked for. Unlike there, an argument that the host had before a config wanted it stays.
    #[must_use]
    pub fn change(&self, host: &[String], delete: &[String], append: &[String]) -> Overlay {
        let mut next = self.clone();
        next.own.retain(|argument| has(host, argument));
        for argument in delete.iter().filter(|argument| !has(append, argument)) {
            next.delete(host, argument);
        }
        next.added.retain(|argument| !has(append, argument));
        for argument in append {
            next.append(host, argument, has(delete, argument));
        }
        next
    }

    fn delete(&mut self, host: &[String], argument: &str) {
        let was_added = has(&self.added, argument);
        drop_from(&mut self.added, argument);
        if was_added || has(&self.own, argument) || has(&self.removed, argument) || !has(host, argument) {
            return;
        }
        drop_from(&mut self.again, argument);
        self.removed.push(argument.to_owned());
    }

    fn append(&mut self, host: &[String], argument: &str, was_wanted: bool) {
        if has(&self.removed, argument) {
            drop_from(&mut self.removed, argument);
            self.again.push(argument.to_owned());
        } else if !has(host, argument) {
            if !has(&self.added, argument) {
                self.added.push(argument.to_owned());
            }
        } else if !was_wanted && !has(&self.again, argument) && !has(&self.own, argument) {
            self.own.push(argument.to_owned());
        }
    }

    /// Remembers the host's arguments that a program puts ours in the place of.
    pub fn remember_replaced(&mut self, host: &[String]) {
        let replaced: Vec<String> = host.iter().filter(|argument| self.sets_the_same(argument)).cloned().collect();
        for argument in replaced {
            if !has(&self.replaced, &argument) {
                self.replaced.push(argument);
            }
        }
    }

    /// Forgets those that are back in their place.
    pub fn forget_replaced(&mut self) {
        let replaced = std::mem::take(&mut self.replaced);
        self.replaced = replaced.into_iter().filter(|argument| self.sets_the_same(argument)).collect();
    }

    /// With what another one has on or off the line, for a line of which nobody knows which of the two was laid over it.
    #[must_use]
    pub fn or(&self, other: &Overlay) -> Overlay {
        let mut both = self.clone();
        for (all, more) in [
            (&mut both.added, &other.added),
            (&mut both.removed, &other.removed),
            (&mut both.replaced, &other.replaced),
        ] {
            for argument in more {
                if !has(all, argument) {
                    all.push(argument.clone());
                }
            }
        }
        both
    }

    /// The arguments that the host has by itself, given the whole `line` of its next boot. `earlier` is what may have been
    /// laid over the line before, and still be there after a crash.
    #[must_use]
    pub fn host_arguments(&self, earlier: &Overlay, line: &[String]) -> Vec<String> {
        let laid = self.or(earlier);
        let mut host: Vec<String> = line.iter().filter(|argument| !has(&laid.added, argument)).cloned().collect();
        for argument in laid.removed.into_iter().chain(laid.replaced) {
            if !has(&host, &argument) {
                host.push(argument);
            }
        }
        host
    }

    /// The line with this laid over it. What was left out and comes back stands at the end of the host's own.
    #[must_use]
    pub fn line(&self, earlier: &Overlay, line: &[String]) -> Vec<String> {
        let mut wanted = self.host_arguments(earlier, line);
        wanted.retain(|argument| !has(&self.removed, argument));
        wanted.extend(self.added.iter().cloned());
        wanted
    }

    /// Why a `line` is not as this wants it, if it is not.
    #[must_use]
    pub fn mismatch(&self, earlier: &Overlay, line: &[String]) -> Option<String> {
        let missing: Vec<&str> =
            self.added.iter().filter(|argument| !has(line, argument)).map(String::as_str).collect();
        let gone = self.removed.iter().chain(&earlier.added).filter(|argument| !has(&self.added, argument));
        let left: Vec<&str> = gone.filter(|argument| has(line, argument)).map(String::as_str).collect();
        match (missing.is_empty(), left.is_empty()) {
            (true, true) => None,
            (false, _) => Some(format!("without {}", missing.join(" "))),
            (true, false) => Some(format!("still with {}", left.join(" "))),
        }
    }

    /// Whether one of ours sets the same thing as an argument of the host, to another value.
    pub fn sets_the_same(&self, argument: &str) -> bool {
        let key = |argument: &str| plain(argument).split_once('=').map(|(key, _)| key.to_owned());
        let Some(wanted) = key(argument) else { return false };
        self.added.iter().any(|other| key(other).as_ref() == Some(&wanted) && !is_same(other, argument))
    }
}

fn drop_from(arguments: &mut Vec<String>, argument: &str) {
    arguments.retain(|other| !is_same(other, argument));
}

fn has(arguments: &[String], argument: &str) -> bool {
    arguments.iter().any(|other| is_same(other, argument))
}

fn is_same(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// A host that goes from one list of a config to the next, and the line it boots after each.
    struct Host {
        line: Vec<String>,
        overlay: Overlay,
        config: Vec<String>,
    }

    impl Host {
        fn with(line: &str) -> Self {
            Self { line: list(line), overlay: Overlay::default(), config: Vec::new() }
        }

        /// A host that was born with its config's arguments on its line.
        fn born(line: &str, config: &str) -> Self {
            Self { config: list(config), ..Self::with(line) }
        }

        fn go(&mut self, config: &str) -> String {
            let (delete, append) = (std::mem::replace(&mut self.config, list(config)), list(config));
            let host = self.overlay.host_arguments(&self.overlay, &self.line);
            let next = self.overlay.change(&host, &delete, &append);
            assert_eq!(next.change(&host, &delete, &append), next, "asked again");
            self.line = next.line(&self.overlay, &self.line);
            assert_eq!(next.line(&self.overlay, &self.line), self.line, "written again");
            assert_eq!(next.mismatch(&self.overlay, &self.line), None);
            self.overlay = next;
            self.line.join(" ")
        }
    }

    #[test]
    fn arguments_come_go_and_leave_those_of_the_host_alone() {
        let mut host = Host::with("ro quiet");
        assert_eq!(host.go("nosmt audit=0"), "ro quiet nosmt audit=0");
        assert_eq!(host.go("audit=0"), "ro quiet audit=0");
        assert_eq!(host.go(""), "ro quiet");
        assert_eq!(host.overlay, Overlay::default());
        let wanted = Overlay { added: list("a b"), ..Overlay::default() };
        assert_eq!(wanted.mismatch(&Overlay::default(), &list("ro b")).as_deref(), Some("without a"));
        assert_eq!(Overlay::default().mismatch(&wanted, &list("ro b")).as_deref(), Some("still with b"));
    }

    #[test]
    fn an_argument_that_is_asked_for_twice_is_there_once_and_goes_at_once() {
        let mut host = Host::with("ro");
        assert_eq!(host.go("dup dup a"), "ro dup a");
        assert_eq!(host.go("a"), "ro a");
    }

    #[test]
    fn arguments_follow_the_order_of_the_config() {
        let mut host = Host::with("ro");
        assert_eq!(host.go("console=tty0 console=ttyS0 a"), "ro console=tty0 console=ttyS0 a");
        assert_eq!(host.go("a console=ttyS0 console=tty0"), "ro a console=ttyS0 console=tty0");
    }

    #[test]
    fn an_argument_that_the_host_had_before_the_config_stays_when_the_config_goes() {
        let mut host = Host::with("ro nosmt");
        assert_eq!(host.go("nosmt a"), "ro nosmt a");
        assert_eq!(host.go("a"), "ro nosmt a");
        assert_eq!(host.go("nosmt"), "ro nosmt");
        assert_eq!(host.go(""), "ro nosmt");
    }

    #[test]
    fn an_argument_that_a_host_was_born_with_goes_with_its_config_and_comes_back_with_it() {
        let mut host = Host::born("ro nosmt quiet", "nosmt");
        assert_eq!(host.go("a"), "ro quiet a");
        assert_eq!(host.overlay.removed, ["nosmt"]);
        assert_eq!(host.go("nosmt"), "ro quiet nosmt");
        assert_eq!(host.overlay.removed, [""; 0]);
        assert_eq!(host.go(""), "ro quiet");
        assert_eq!(host.overlay.removed, ["nosmt"]);
        let mut host = Host::born("ro nosmt", "nosmt");
        assert_eq!(host.go("nosmt a"), "ro nosmt a");
        assert_eq!(host.go("a"), "ro a");
    }

    #[test]
    fn quotes_do_not_make_another_argument() {
        let mut host = Host::with("ro cgroup_no_v1=all");
        assert_eq!(host.go("cgroup_no_v1=\"all\""), "ro cgroup_no_v1=all");
    }

    #[test]
    fn an_argument_of_the_host_that_sets_the_same_thing_is_remembered_until_it_is_back() {
        let mut overlay = Overlay { added: list("audit=0"), ..Overlay::default() };
        overlay.remember_replaced(&list("ro audit=1"));
        assert_eq!(overlay.replaced, ["audit=1"]);
        // This is what grubby makes of it.
        let line = list("ro audit=0");
        let host = overlay.host_arguments(&Overlay::default(), &line);
        let mut back = overlay.change(&host, &list("audit=0"), &[]);
        assert_eq!(back.line(&overlay, &line), list("ro audit=1"));
        back.forget_replaced();
        assert_eq!(back, Overlay::default());
    }

    fn arguments() -> impl Strategy<Value = Vec<String>> {
        let one = prop::sample::select(vec!["a", "b", "c", "k=1", "k=2", "q=\"x\"", "q=x"]);
        prop::collection::vec(one.prop_map(str::to_owned), 0..5)
    }

    proptest! {
        /// Wherever the power goes, asking again gives the same; and what a trial takes back is as it was.
        #[test]
        fn a_change_is_idempotent_and_its_reverse_restores_the_line(
            host in arguments(), born in arguments(), first in arguments(), second in arguments(), third in arguments(),
        ) {
            let all = |line: &[String]| line.iter().map(|argument| plain(argument)).collect::<BTreeSet<String>>();
            let mut line = [host, born.clone()].concat();
            let (mut overlay, mut config) = (Overlay::default(), born);
            for next_config in [first, second, third] {
                let own = overlay.host_arguments(&overlay, &line);
                let next = overlay.change(&own, &config, &next_config);
                let after = next.line(&overlay, &line);
                prop_assert_eq!(next.mismatch(&overlay, &after), None);
                // The notes were written and the line was not.
                let own_then = next.host_arguments(&overlay, &line);
                prop_assert_eq!(&next.change(&own_then, &config, &next_config), &next);
                prop_assert_eq!(next.line(&overlay, &after), after.clone());
                let missing = crate::kargs::missing_in_kernel(&next_config, &after.join(" "));
                prop_assert!(missing.is_empty(), "{:?} is not in {:?}", missing, after);

                let own_after = next.host_arguments(&next, &after);
                let back = next.change(&own_after, &next_config, &config);
                prop_assert_eq!(all(&back.line(&next, &after)), all(&line), "{:?} to {:?}", next_config, config);
                (line, overlay, config) = (after, next, next_config);
            }
        }
    }
}
