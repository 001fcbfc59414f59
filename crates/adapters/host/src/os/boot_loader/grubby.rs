//! Boot entries that `grubby` edits: RHEL, CentOS Stream, Fedora.
//!
//! It knows each family's places (entries, `grubenv`, `/etc/default/grub` for kernels to come). It also replaces an argument
//! that sets the same thing, so what it has replaced is remembered and put back.

use change::host::Error;
use change::kargs::{self, Overlay};

use super::{Arguments, GRUBBY, advised, unmet};

const ADVICE: &str = "run `grubby --info=ALL` on the host to see its boot entries";

pub(super) fn lay(arguments: &Arguments<'_>, earlier: &Overlay, wanted: &Overlay) -> Result<(), Error> {
    let mut changes = Changes::default();
    for line in info(arguments, "ALL")? {
        changes.note(earlier, wanted, &line);
        changes.order(wanted, &line);
    }
    if changes.is_empty() {
        return Ok(());
    }
    let (remove, add) =
        (format!("--remove-args={}", changes.remove.join(" ")), format!("--args={}", changes.add.join(" ")));
    let mut command = vec!["--update-kernel=ALL"];
    command.extend((!changes.remove.is_empty()).then_some(remove.as_str()));
    command.extend((!changes.add.is_empty()).then_some(add.as_str()));
    arguments.program(&GRUBBY, &command).map_err(|error| advised(error, ADVICE))?;
    arguments.sync(&[])?;
    for line in info(arguments, "ALL")? {
        if let Some(mismatch) = wanted.mismatch(earlier, &line) {
            return Err(unmet("the boot entries", format!("grubby has left an entry {mismatch}; {ADVICE}")));
        }
        let mut changes = Changes::default();
        changes.note(earlier, wanted, &line);
        if !changes.is_empty() {
            let (remove, add) = (changes.remove.join(" "), changes.add.join(" "));
            let detail = format!("grubby has left an entry without {add:?}, or with {remove:?}; {ADVICE}");
            return Err(unmet("the boot entries", detail));
        }
    }
    Ok(())
}

/// Of the entry that boots by default.
pub(super) fn line(arguments: &Arguments<'_>) -> Result<Vec<String>, Error> {
    Ok(info(arguments, "DEFAULT")?.into_iter().next().unwrap_or_default())
}

#[derive(Default)]
struct Changes {
    remove: Vec<String>,
    add: Vec<String>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty()
    }

    /// What an entry with these arguments has too much and what it lacks.
    fn note(&mut self, earlier: &Overlay, wanted: &Overlay, line: &[String]) {
        let (before, after) = (plain(line), plain(&wanted.line(earlier, line)));
        let ours = plain(&wanted.added);
        push_all(&mut self.remove, before.iter().filter(|argument| !after.contains(argument)));
        // grubby would let them push ours out again.
        let is_kept_out = |argument: &String| !ours.contains(argument) && wanted.sets_the_same(argument);
        let come = after.iter().filter(|argument| !before.contains(argument));
        push_all(&mut self.add, come.filter(|argument| !is_kept_out(argument)));
    }

    /// If those of ours that are there are not the first ones, all go and come again. An argument that took the place of
    /// another stands elsewhere for good, so this is a wish and no demand.
    fn order(&mut self, wanted: &Overlay, line: &[String]) {
        let ours = plain(&wanted.added);
        let present: Vec<String> = plain(line).into_iter().filter(|argument| ours.contains(argument)).collect();
        if !ours.starts_with(&present) {
            push_all(&mut self.remove, present.iter());
            self.add.retain(|argument| !ours.contains(argument));
            self.add.extend(ours);
        }
    }
}

fn push_all<'a>(list: &mut Vec<String>, more: impl Iterator<Item = &'a String>) {
    for argument in more {
        if !list.contains(argument) {
            list.push(argument.clone());
        }
    }
}

fn plain(arguments: &[String]) -> Vec<String> {
    arguments.iter().map(|argument| kargs::plain(argument)).collect()
}

/// The arguments of each entry.
fn info(arguments: &Arguments<'_>, which: &str) -> Result<Vec<Vec<String>>, Error> {
    let answer = arguments.program(&GRUBBY, &[&format!("--info={which}")]).map_err(|error| advised(error, ADVICE))?;
    let of_line = |line: &str| Some(kargs::split(line.strip_prefix("args=\"")?.trim_end().strip_suffix('"')?));
    Ok(answer.lines().filter_map(of_line).collect())
}
