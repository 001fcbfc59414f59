//! `reconcilable`: whether a running node can change from one config to another and, if not, why.

use change::content::{Content, Section};
use change::diff::Diff;
use change::policy::Settings;
use change::reconcilable::{Allowances, reconcilable};
use serde_json::Value;

use super::judge::{Expected, Judge, Rule};
use super::{ignition_convert, machine_config};

pub(crate) struct Reconcilable;

impl Judge for Reconcilable {
    fn file(&self) -> &'static str {
        "reconcilable"
    }

    /// Ours reports every obstacle, upstream only the first.
    fn answer(&self, input: &Value) -> Result<Value, String> {
        answer(input)
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn phrases(&self, error: &str) -> Vec<String> {
        // Upstream swaps the two names before the reason; ours does not.
        match error.split_once("is not reconcilable against \"new\": ") {
            Some((_, reason)) => vec![reason.to_owned()],
            None => ignition_convert::phrases(error.split_once(" failed: ").map_or(error, |(_, finding)| finding)),
        }
    }
}

fn answer(input: &Value) -> Result<Value, String> {
    let (old, new) = machine_config::contents(input)?;
    let diff = Diff::between(&old, &new);
    let verdict = reconcilable(&diff, &new, ("old", "new"), &Settings::default(), &Allowances::default());
    verdict.map(|()| Value::Bool(true)).map_err(|error| error.to_string())
}

const RULES: &[Rule] = &[
    Rule {
        name: "spec-2-other-filesystem",
        covers: machine_config::either_on_other_filesystem,
        answer: machine_config::refuse_filesystem,
    },
    Rule { name: "folders-and-links-in-place", covers: changes_folders_or_links, answer: without_folders_and_links },
    Rule { name: "same-effect", covers: |input| compared(input).is_some(), answer: without_same_effect },
    Rule { name: "hard-links-are-refused", covers: changes_hard_links, answer: |_, e| refuse(e, "is a hard link") },
    Rule { name: "luks-is-refused", covers: changes_luks, answer: |_, e| refuse(e, "luks section contains changes") },
    Rule { name: "contents-must-decode", covers: cannot_be_written, answer: |_, e| refuse(e, "cannot be decoded") },
];

fn compared(input: &Value) -> Option<(Diff, Content)> {
    let (old, new) = machine_config::contents(input).ok()?;
    Some((Diff::between(&old, &new), new))
}

/// Our daemon creates, changes and removes folders and symbolic links itself.
fn changes_folders_or_links(input: &Value) -> bool {
    compared(input).is_some_and(|(diff, _)| !diff.directories.is_empty() || !diff.links.is_empty())
}

/// Upstream reports the folders and stops; our result is the same as without them.
fn without_folders_and_links(input: &Value, expected: Expected) -> Expected {
    match expected {
        Expected::Refusal(phrases) if mentions(&phrases, &["directories section", "links section"]) => {
            beneath(input, &["/spec/config/storage/directories", "/spec/config/storage/links"])
        }
        other => other,
    }
}

/// A section that differs only in form is not a change; other obstacles still count.
fn without_same_effect(input: &Value, expected: Expected) -> Expected {
    let (Expected::Refusal(phrases), Some((diff, _))) = (&expected, compared(input)) else { return expected };
    let same = |section: Section| !diff.first_boot.contains(&section);
    let sections = [
        ("directories section", diff.directories.is_empty(), "/spec/config/storage/directories"),
        ("links section", diff.links.is_empty(), "/spec/config/storage/links"),
        ("passwd user section", diff.users.is_empty(), "/spec/config/passwd/users"),
        ("Passwd Groups section", same(Section::Groups), "/spec/config/passwd/groups"),
        ("kargs section", same(Section::KernelArguments), "/spec/config/kernelArguments"),
        ("disks section", same(Section::Disks), "/spec/config/storage/disks"),
        ("filesystems section", same(Section::Filesystems), "/spec/config/storage/filesystems"),
        ("raid section", same(Section::Raid), "/spec/config/storage/raid"),
    ];
    let unchanged = sections.iter().find(|(words, same, _)| *same && mentions(phrases, &[words]));
    unchanged.map_or(expected.clone(), |(_, _, pointer)| beneath(input, &[pointer]))
}

/// Returns our result for the input without these parts of its two configs.
fn beneath(input: &Value, pointers: &[&str]) -> Expected {
    let mut input = input.clone();
    for pointer in pointers {
        for side in ["old", "new"] {
            if let Some(part) = input[side].pointer_mut(pointer) {
                *part = Value::Null;
            }
        }
    }
    match answer(&input) {
        Ok(output) => Expected::Output(output),
        Err(refusal) => Expected::Refusal(vec![refusal]),
    }
}

fn mentions(phrases: &[String], words: &[&str]) -> bool {
    phrases.iter().any(|phrase| words.iter().any(|words| phrase.contains(words)))
}

/// Only a result becomes a refusal: inputs that upstream refuses are refused for that reason too.
fn refuse(expected: Expected, phrase: &str) -> Expected {
    match expected {
        Expected::Output(_) => Expected::Refusal(vec![phrase.to_owned()]),
        other => other,
    }
}

/// A hard link cannot be removed from a file that is in use under another name.
fn changes_hard_links(input: &Value) -> bool {
    let Some((diff, _)) = compared(input) else { return false };
    diff.links.iter().any(|change| change.before.iter().chain(&change.after).any(|link| link.hard))
}

/// An encrypted volume cannot be recreated under a running system.
fn changes_luks(input: &Value) -> bool {
    compared(input).is_some_and(|(diff, _)| diff.first_boot.contains(&Section::Luks))
}

/// Contents that are not inline, or are encoded incorrectly, can never be written.
fn cannot_be_written(input: &Value) -> bool {
    let Some((diff, _)) = compared(input) else { return false };
    diff.files.iter().filter_map(|change| change.after.as_ref()).any(|file| file.contents.bytes().is_err())
}
