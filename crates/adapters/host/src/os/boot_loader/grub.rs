//! GRUB on Debian and Ubuntu: a file of ours in `/etc/default/grub.d`, and `update-grub`.
//!
//! Files there are shell, read one after the other after `/etc/default/grub`. Arguments go to the end of
//! `GRUB_CMDLINE_LINUX_DEFAULT`, which GRUB's recovery entries leave out: they are the way out of an argument with which a
//! machine does not boot.

use std::fmt::Write as _;

use change::host::{Attributes, Error, Files};
use change::kargs::{self, Overlay};

use super::{Arguments, UPDATE_GRUB, advised, known, text, unmet};

pub(super) const DEFAULTS: &str = "/etc/default/grub";
/// Distributions and cloud images number theirs lower.
pub(crate) const FILE: &str = "/etc/default/grub.d/99-machinist.cfg";
pub(crate) const CONFIG: &str = "/boot/grub/grub.cfg";

const ADVICE: &str = "run update-grub on the host to see what it says";

pub(super) fn lay(arguments: &Arguments<'_>, earlier: &Overlay, wanted: &Overlay) -> Result<(), Error> {
    let (files, file) = (arguments.files, known(FILE)?);
    match shell(wanted) {
        Some(shell) => files.put(&file, shell.as_bytes(), &Attributes::root(0o644))?,
        None => files.remove(&file)?,
    }
    files.flush()?;
    if wanted.mismatch(earlier, &line(files)?).is_none() && is_in_order(wanted, &line(files)?) {
        return Ok(());
    }
    arguments.program(&UPDATE_GRUB, &[]).map_err(|error| advised(error, ADVICE))?;
    arguments.sync(&[CONFIG, "/boot/grub"])?;
    // What is still there of an earlier change is not from our file any more, so somebody else wants it too.
    match wanted.mismatch(&Overlay::default(), &line(files)?) {
        None => Ok(()),
        Some(mismatch) => Err(unmet(
            CONFIG,
            format!(
                "update-grub has written its first entry {mismatch}; look for a file in /etc/default/grub.d that sets \
                 GRUB_CMDLINE_LINUX_DEFAULT anew after 99-machinist.cfg, and let it append instead"
            ),
        )),
    }
}

fn is_in_order(wanted: &Overlay, line: &[String]) -> bool {
    let added: Vec<String> = wanted.added.iter().map(|argument| kargs::plain(argument)).collect();
    let present: Vec<&String> = line.iter().filter(|argument| added.contains(argument)).collect();
    present.into_iter().eq(&added)
}

/// The arguments of the first entry, without quotes. Empty where GRUB has no configuration yet.
pub(super) fn line(files: &dyn Files) -> Result<Vec<String>, Error> {
    let config = text(files, CONFIG)?.unwrap_or_default();
    let of_line = |line: &str| {
        let mut all = words(line).into_iter();
        let is_linux = all.next().is_some_and(|word| ["linux", "linux16", "linuxefi"].contains(&word.as_str()));
        // The kernel's own path comes first.
        (is_linux && all.next().is_some()).then(|| all.collect())
    };
    Ok(config.lines().find_map(of_line).unwrap_or_default())
}

/// Words as GRUB takes them: quotes go, and keep spaces together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, space) if space.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    all.push(std::mem::take(&mut word));
                }
                continue;
            }
            (Some(open), close) if open == close => quote = None,
            (None, open @ ('"' | '\'')) => quote = Some(open),
            (None | Some('"'), '\\') => word.extend(characters.next()),
            (_, other) => word.push(other),
        }
        is_word = true;
    }
    if is_word {
        all.push(word);
    }
    all
}

/// What `/etc/default/grub.d` is to have of us, as shell; nothing where the host's arguments are as they were.
pub(crate) fn shell(overlay: &Overlay) -> Option<String> {
    let mut text = "# Written by machinistd: the kernel arguments of this node's MachineConfig.\n".to_owned();
    let removed: Vec<String> = overlay.removed.iter().map(|argument| kargs::plain(argument)).collect();
    // In quotes of the shell there is no way to write a quote; nor has GRUB one.
    let removed: Vec<&String> = removed.iter().filter(|argument| !argument.contains('\'')).collect();
    if overlay.added.is_empty() && removed.is_empty() {
        return None;
    }
    if !removed.is_empty() {
        let quoted: Vec<String> = removed.iter().map(|argument| format!("'{argument}'")).collect();
        text.push_str(&LEAVE_OUT.replace("WORDS", &quoted.join(" ")));
    }
    if !overlay.added.is_empty() {
        let added: Vec<String> = overlay.added.iter().map(|argument| grub_word(argument)).collect();
        let added = added.join(" ").replace('$', "\\$").replace('`', "\\`");
        let _ = writeln!(text, "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {added}\"");
    }
    Some(text)
}

/// An argument as GRUB's own language has it. GRUB drops quotes, and puts them back around arguments with spaces.
fn grub_word(argument: &str) -> String {
    let plain = kargs::plain(argument);
    let is_bare = |character: char| character.is_ascii_alphanumeric() || "_.,:=/+@%-".contains(character);
    if plain.chars().all(is_bare) { plain } else { format!("'{plain}'") }
}

/// Takes words out of both lists, for any POSIX shell with `set -e`.
const LEAVE_OUT: &str = r#"for machinist_list in GRUB_CMDLINE_LINUX GRUB_CMDLINE_LINUX_DEFAULT; do
  eval "machinist_line=\" \${$machinist_list:-} \""
  for machinist_word in WORDS; do
    while :; do
      case $machinist_line in
        *" $machinist_word "*) ;;
        *) break ;;
      esac
      machinist_line=${machinist_line%%" $machinist_word "*}" "${machinist_line#*" $machinist_word "}
    done
  done
  eval "$machinist_list=\$machinist_line"
done
"#;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    fn list(text: &[&str]) -> Vec<String> {
        text.iter().map(|argument| (*argument).to_owned()).collect()
    }

    /// Reads the file as `grub-mkconfig` does, and gives what would stand on the line.
    fn sourced(overlay: &Overlay, linux: &str, default: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("99-machinist.cfg");
        std::fs::write(&file, shell(overlay).unwrap_or_default()).unwrap();
        let script = format!(
            "set -e\nGRUB_CMDLINE_LINUX='{linux}'\nGRUB_CMDLINE_LINUX_DEFAULT='{default}'\n. {}\n\
             printf '%s|%s' \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"",
            file.display()
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn arguments_reach_grub_through_the_shell_as_they_are() {
        let odd = list(&["nosmt", "p=\"1 2\"", "q=\"all\"", "a=$HOME", "b=`id`", "c=x;y", "console=ttyS0,115200"]);
        let overlay = Overlay { added: odd, ..Overlay::default() };
        let line = sourced(&overlay, "net.ifnames=0", "quiet");
        assert_eq!(line, "net.ifnames=0|quiet nosmt 'p=1 2' q=all 'a=$HOME' 'b=`id`' 'c=x;y' console=ttyS0,115200");
        let config = line.replace('|', " ");
        assert_eq!(words(&config)[2..5], ["nosmt", "p=1 2", "q=all"]);
    }

    #[test]
    fn what_is_left_out_is_left_out_of_both_lists_and_nothing_else_is() {
        let overlay = Overlay { removed: list(&["quiet", "a=*"]), added: list(&["b"]), ..Overlay::default() };
        let line = sourced(&overlay, "quiet quietly a=1", "splash quiet quiet a=*");
        let lists: Vec<Vec<&str>> = line.split('|').map(|list| list.split_whitespace().collect()).collect();
        assert_eq!(lists, [vec!["quietly", "a=1"], vec!["splash", "b"]]);
        assert_eq!(shell(&Overlay { own: list(&["x"]), ..Overlay::default() }), None);
    }
}
