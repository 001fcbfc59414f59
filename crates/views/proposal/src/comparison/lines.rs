//! A comparison line by line, for whoever draws it: a terminal or a page.

use change::content::{File, Unit, User};
use change::diff::{Change, Changed, Diff, Kind};
use similar::{ChangeTag, TextDiff};

use super::contents::{Shown, describe_directory, describe_file, describe_link, describe_unit, shown};
use crate::secrets::Secrets;

/// Longer contents are cut: the reader wants the change, not the file.
const LINES: usize = 400;

/// One thing that came, went or differs.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    /// Such as `file /etc/motd` or `kernel arguments`.
    pub what: String,
    /// Mode, owner and the like, where they are worth a word; else empty.
    pub attributes: String,
    pub lines: Vec<Line>,
}

/// A line of a change, with the sign that a unified diff gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub tag: Tag,
    pub text: String,
}

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    Added,
    Removed,
    /// The place of what follows.
    Place,
    Context,
}

/// Everything that differs, in the order in which people look for it.
#[must_use]
pub fn entries(diff: &Diff, secrets: Secrets) -> Vec<Entry> {
    let mut all: Vec<Entry> = diff.files.iter().map(|change| file(change, secrets)).collect();
    let folders = diff.directories.iter();
    all.extend(folders.map(|change| entry(change, "folder", attributes(change, describe_directory), Vec::new())));
    let links = diff.links.iter();
    all.extend(links.map(|change| entry(change, "link", attributes(change, describe_link), Vec::new())));
    all.extend(diff.units.iter().map(|change| unit(change, secrets)));
    all.extend(diff.users.iter().map(|change| user(change, secrets)));
    all.extend(settings(diff, secrets));
    all
}

fn entry<T>(change: &Change<T>, noun: &str, attributes: String, lines: Vec<Line>) -> Entry {
    Entry { kind: change.kind(), what: format!("{noun} {}", change.name), attributes, lines }
}

fn file(change: &Change<File>, secrets: Secrets) -> Entry {
    let contents = |side: &Option<File>| side.as_ref().map(|file| shown(&change.name, file, secrets));
    let lines = match (contents(&change.before), contents(&change.after)) {
        (Some(Shown::Text(before)), Some(Shown::Text(after))) if before == after => {
            let differs = change.before.as_ref().map(|f| &f.contents) != change.after.as_ref().map(|f| &f.contents);
            if differs { vec![unseen()] } else { Vec::new() }
        }
        (Some(Shown::Text(before)), Some(Shown::Text(after))) => unified(&before, &after),
        (None, Some(Shown::Text(after))) => unified("", &after),
        (Some(Shown::Text(before)), None) => unified(&before, ""),
        (before, after) => {
            let differs = change.before.as_ref().map(|f| &f.contents) != change.after.as_ref().map(|f| &f.contents);
            let summary = |side: Option<Shown>| side.as_ref().map(Shown::summary);
            if differs { both(summary(before), summary(after)) } else { Vec::new() }
        }
    };
    entry(change, "file", attributes(change, describe_file), lines)
}

fn unit(change: &Change<Unit>, secrets: Secrets) -> Entry {
    let nothing = Unit::default();
    let (before, after) = (change.before.as_ref().unwrap_or(&nothing), change.after.as_ref().unwrap_or(&nothing));
    let mut lines = text_change(&before.contents, &after.contents, secrets);
    let names = before.dropins.keys().chain(after.dropins.keys());
    for name in names.collect::<std::collections::BTreeSet<_>>() {
        let text = |unit: &Unit| unit.dropins.get(name).cloned().unwrap_or_default();
        if text(before) != text(after) || before.dropins.contains_key(name) != after.dropins.contains_key(name) {
            lines.push(Line { tag: Tag::Context, text: format!("drop-in {name}") });
            lines.extend(text_change(&text(before), &text(after), secrets));
        }
    }
    entry(change, "unit", attributes(change, describe_unit), lines)
}

fn text_change(before: &str, after: &str, secrets: Secrets) -> Vec<Line> {
    let lines = unified(&secrets.text(before), &secrets.text(after));
    if lines.is_empty() && before != after { vec![unseen()] } else { lines }
}

/// Stands for a change of which nothing may be shown.
fn unseen() -> Line {
    Line { tag: Tag::Context, text: "only masked values differ".to_owned() }
}

fn user(change: &Change<User>, secrets: Secrets) -> Entry {
    let nothing = User::default();
    let (before, after) = (change.before.as_ref().unwrap_or(&nothing), change.after.as_ref().unwrap_or(&nothing));
    let mut lines = lines_change(&before.keys, &after.keys);
    if before.password_hash != after.password_hash {
        let hash =
            |user: &User| user.password_hash.as_deref().map(|hash| format!("password {}", secrets.password(hash)));
        lines.extend(both(hash(before), hash(after)));
    }
    let fields = |user: &User| -> Vec<String> {
        user.other.iter().map(|(k, v)| secrets.text(&format!("{k}: {v}")).into_owned()).collect()
    };
    lines.extend(lines_change(&fields(before), &fields(after)));
    entry(change, "user", String::new(), lines)
}

fn settings(diff: &Diff, secrets: Secrets) -> Vec<Entry> {
    let changed =
        |what: String, lines: Vec<Line>| Entry { kind: Kind::Updated, what, attributes: String::new(), lines };
    let mut all = Vec::new();
    for (name, change) in [("kernel arguments", &diff.kernel_arguments), ("extensions", &diff.extensions)] {
        if let Some(Changed { before, after }) = change {
            let shown = |values: &[String]| -> Vec<String> {
                values.iter().map(|value| secrets.text(value).into_owned()).collect()
            };
            let lines = lines_change(&shown(before), &shown(after));
            all.push(changed(name.to_owned(), if lines.is_empty() { vec![unseen()] } else { lines }));
        }
    }
    let text = |change: &Option<Changed<String>>| change.as_ref().map(|c| (c.before.clone(), c.after.clone()));
    let kernel = diff.kernel_type.as_ref();
    let scalars = [
        ("kernel type", kernel.map(|c| (c.before.as_str().to_owned(), c.after.as_str().to_owned()))),
        ("FIPS mode", diff.fips.as_ref().map(|c| (c.before.to_string(), c.after.to_string()))),
        ("OS image", text(&diff.os_image)),
        ("extensions image", text(&diff.extensions_image)),
    ];
    for (name, change) in scalars {
        if let Some((before, after)) = change {
            let set = |text: String| Some(text).filter(|text| !text.is_empty());
            all.push(changed(name.to_owned(), both(set(before), set(after))));
        }
    }
    let first_boot = diff.first_boot.iter();
    let first_boot = first_boot.map(|section| format!("ignition {section} (only a machine's first boot reads it)"));
    all.extend(first_boot.map(|what| changed(what, Vec::new())));
    all
}

/// The attributes of the side that is there, or those that differ.
fn attributes<T>(change: &Change<T>, describe: impl Fn(&T) -> Vec<(&'static str, String)>) -> String {
    let texts: Vec<String> = match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            let pairs = describe(before).into_iter().zip(describe(after));
            let differing = pairs.filter(|(one, two)| one.1 != two.1);
            differing.map(|((name, one), (_, two))| format!("{name} {one} -> {two}")).collect()
        }
        (one, two) => {
            let fields = one.as_ref().or(two.as_ref()).map(describe).unwrap_or_default();
            fields.into_iter().filter(|(_, value)| value != "unset").map(|(n, v)| format!("{n} {v}")).collect()
        }
    };
    texts.join(", ")
}

fn unified(before: &str, after: &str) -> Vec<Line> {
    if before == after {
        return Vec::new();
    }
    let text = TextDiff::from_lines(before, after).unified_diff().context_radius(3).to_string();
    let total = text.lines().count();
    let line = |text: &str| {
        let tag = match text.as_bytes().first() {
            Some(b'+') => Tag::Added,
            Some(b'-') => Tag::Removed,
            Some(b'@') => Tag::Place,
            _ => Tag::Context,
        };
        Line { tag, text: text.to_owned() }
    };
    let mut lines: Vec<Line> = text.lines().take(LINES).map(line).collect();
    if total > LINES {
        lines.push(Line { tag: Tag::Context, text: format!("… {} more lines", total - LINES) });
    }
    lines
}

/// Entries of a list that came or went, in their order.
fn lines_change(before: &[String], after: &[String]) -> Vec<Line> {
    let text = |items: &[String]| items.iter().fold(String::new(), |text, item| text + item + "\n");
    let (before, after) = (text(before), text(after));
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    let changes = diff.iter_all_changes().filter_map(|change| {
        let item = change.value().trim_end_matches('\n');
        match change.tag() {
            ChangeTag::Delete => Some(minus(item)),
            ChangeTag::Insert => Some(plus(item)),
            ChangeTag::Equal => None,
        }
    });
    changes.collect()
}

fn both(before: Option<String>, after: Option<String>) -> Vec<Line> {
    before.as_deref().map(minus).into_iter().chain(after.as_deref().map(plus)).collect()
}

fn minus(text: &str) -> Line {
    Line { tag: Tag::Removed, text: format!("-{text}") }
}

fn plus(text: &str) -> Line {
    Line { tag: Tag::Added, text: format!("+{text}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use api::machineconfiguration::MachineConfig;
    use change::content::Content;
    use serde_json::json;

    use super::*;

    fn config(secret: &str) -> MachineConfig {
        let escaped = format!("data:,user%3A%20me%0Apassword%3A%20{secret}%0A");
        serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": secret},
            "spec": {
                "kernelArguments": [format!("proxy=http://me:{secret}@host")],
                "config": {
                    "ignition": {"version": "3.5.0"},
                    "storage": {"files": [
                        {"path": "/etc/a.yaml", "mode": 0o644, "contents": {"source": escaped}},
                        {"path": "/etc/b", "mode": 0o640, "contents": {"source": format!("data:,{secret}")}},
                    ]},
                    "systemd": {"units": [{"name": "a.service",
                        "contents": format!("[Service]\nEnvironment=HTTPS_PROXY=http://me:{secret}@host\n")}]},
                },
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_change_of_masked_values_is_told_without_them() {
        let (old, new) = (config("one-word"), config("another-word"));
        let (before, after) = Content::read_both(&old, &new).unwrap();
        let entries = entries(&Diff::between(&before, &after), Secrets::Masked);
        let told = format!("{entries:?}");
        assert!(!told.contains("one-word") && !told.contains("another-word"), "{told}");
        assert_eq!(entries.len(), 4, "{told}");
        assert_eq!(told.matches("only masked values differ").count(), 3, "{told}");
        let added = super::entries(&Diff::between(&Content::default(), &after), Secrets::Masked);
        assert!(!format!("{added:?}").contains("another-word"), "{added:?}");
        let parts = crate::config::parts(&new, None, Secrets::Masked).unwrap();
        for part in parts {
            let Some(Shown::Text(text) | Shown::Summary(text)) = part.contents else { continue };
            assert!(!text.contains("another-word") && text.contains("<masked"), "{}: {text}", part.name);
        }
    }
}
