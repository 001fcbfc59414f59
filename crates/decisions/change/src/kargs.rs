//! Kernel arguments: how a MachineConfig's list becomes single arguments, and how they compare with a booted line.
//!
//! Double quotes keep spaces together, on both sides: in the config's entries and in the booted command line.

mod overlay;

pub use overlay::Overlay;

/// Splits at white space outside double quotes. A quote that never closes reaches to the end of its entry.
pub fn split(entry: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    for character in entry.chars() {
        match character {
            '"' => {
                quoted = !quoted;
                current.push(character);
            }
            space if space.is_whitespace() && !quoted => {
                if !current.is_empty() {
                    arguments.push(std::mem::take(&mut current));
                }
            }
            other => current.push(other),
        }
    }
    if !current.is_empty() {
        arguments.push(current);
    }
    arguments
}

/// All single arguments of a config's list, in order.
pub fn split_all(entries: &[String]) -> Vec<String> {
    entries.iter().flat_map(|entry| split(entry)).collect()
}

/// What `rpm-ostree kargs` must be told to come from one list to the other: every old argument goes, every new one comes.
pub fn rpm_ostree_arguments(old: &[String], new: &[String]) -> Vec<String> {
    let deletions = split_all(old).into_iter().map(|argument| format!("--delete-if-present={argument}"));
    let additions = split_all(new).into_iter().map(|argument| format!("--append={argument}"));
    deletions.chain(additions).collect()
}

/// Those wanted arguments that a booted command line lacks.
pub fn missing(wanted: &[String], booted: &str) -> Vec<String> {
    let present = booted_arguments(booted);
    split_all(wanted).into_iter().filter(|argument| !present.contains(argument)).collect()
}

/// Those wanted arguments that the line of the running kernel lacks. Boot loaders move quotes or drop them: what was written
/// as `p="1 2"` may be `"p=1 2"` there, and `q="all"` may be `q=all`, which the kernel reads alike.
pub fn missing_in_kernel(wanted: &[String], line: &str) -> Vec<String> {
    let present: Vec<String> = booted_arguments(line).iter().map(|argument| plain(argument)).collect();
    split_all(wanted).into_iter().filter(|argument| !present.contains(&plain(argument))).collect()
}

/// An argument as the kernel understands it: without quotes.
pub fn plain(argument: &str) -> String {
    argument.replace('"', "")
}

/// Those requested entries that are on the booted command line, in boot order. Entries are taken whole, as they were written.
pub fn running(requested: &[String], booted: &str) -> Vec<String> {
    split(booted.trim_end()).into_iter().filter(|argument| requested.contains(argument)).collect()
}

/// A booted line in single arguments. A quote that never closes may belong to the last argument or be a slip in the middle,
/// so such a line is read both ways.
fn booted_arguments(booted: &str) -> Vec<String> {
    let mut arguments = split(booted.trim_end());
    if booted.matches('"').count() % 2 == 1 {
        arguments.extend(booted.split_whitespace().map(str::to_owned));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn a_quoted_argument_with_a_space_is_found_on_the_booted_line() {
        assert!(missing(&list(&["p=\"1 2\" q"]), "root=UUID=1 p=\"1 2\" q rw\n").is_empty());
        assert_eq!(missing(&list(&["p=\"1 3\""]), "p=\"1 2\""), ["p=\"1 3\""]);
    }

    #[test]
    fn quotes_that_the_boot_loader_has_moved_or_dropped_are_no_difference() {
        let wanted = list(&["p=\"1 2\"", "q=\"all\" r"]);
        assert_eq!(missing_in_kernel(&wanted, "ro \"p=1 2\" q=all r\n"), [""; 0]);
        assert_eq!(missing_in_kernel(&wanted, "ro p=1 2 q=none\n"), ["p=\"1 2\"", "q=\"all\"", "r"]);
    }

    #[test]
    fn every_old_argument_goes_and_every_new_one_comes() {
        assert_eq!(
            rpm_ostree_arguments(&list(&["a", "b=1 c"]), &list(&["tab\tsep"])),
            [
                "--delete-if-present=a",
                "--delete-if-present=b=1",
                "--delete-if-present=c",
                "--append=tab",
                "--append=sep"
            ]
        );
    }
}
