//! The table of runbooks: which were followed by the tests, where, and to which end.
//!
//! The stories of `e2e` note each runbook of the guide as a line `R8<TAB>machinist up<TAB>passed`; later lines overrule earlier ones.
//! Runbooks that no page has are named too, so that the table never looks complete when it is not.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The variable that names the file of notes.
pub(super) const NOTES: &str = "MACHINIST_RUNBOOKS";

/// How many runbooks there are, numbered from one.
const ALL: u8 = 28;

/// Draws the table; nothing where no story was run.
pub(super) fn table(notes: &str) -> String {
    let mut results: BTreeMap<u8, BTreeMap<&str, &str>> = BTreeMap::new();
    for line in notes.lines() {
        let mut fields = line.split('\t');
        let (Some(number), Some(place), Some(result)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let Some(number) = number.strip_prefix('R').and_then(|digits| digits.parse().ok()) else { continue };
        results.entry(number).or_default().insert(place, result);
    }
    if results.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:<9}{:<16}result\n", "runbook", "ran on");
    for (number, places) in &results {
        for (place, result) in places {
            let _ = writeln!(text, "{:<9}{place:<16}{result}", format!("R{number}"));
        }
    }
    let missing: Vec<String> =
        (1..=ALL).filter(|number| !results.contains_key(number)).map(|number| format!("R{number}")).collect();
    if !missing.is_empty() {
        let _ = writeln!(text, "no story: {}", missing.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_note_about_a_runbook_counts_and_missing_ones_are_named() {
        let notes = "R2\tmachinist up\tnot reached\nR10\tkube-apiserver\tfailed\nR2\tmachinist up\tpassed\nR2\tkube-apiserver\tpassed\n";
        let table = table(notes);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "runbook  ran on          result");
        assert_eq!(lines[2], "R2       kube-apiserver  passed");
        assert_eq!(lines[3], "R2       machinist up    passed");
        assert_eq!(lines[4], "R10      kube-apiserver  failed");
        assert!(
            lines[5].starts_with("no story: R1, R3, R4, ")
                && lines[5].ends_with(
                    ", R9, R11, R12, R13, R14, R15, R16, R17, R18, R19, R20, R21, R22, R23, R24, R25, R26, R27, R28"
                )
        );
    }

    #[test]
    fn nothing_is_said_where_no_story_was_run() {
        assert_eq!(table(""), "");
    }
}
