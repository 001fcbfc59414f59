//! Prints a comparison as people read it: what changed, line by line, then what it would do to a node.

use std::fmt::Write as _;

use change::content::{Directory, File, Link, Unit, User};
use change::diff::{Change, Changed, Kind};
use change::disruption::Reason;
use change::policy::Action;
use change::target::Owner;
use owo_colors::OwoColorize as _;
use similar::TextDiff;

use super::Comparison;
use crate::secrets::{Secrets, mask};

/// Longer contents are cut: the reader wants the change, not the file. `-o json` has everything.
const LINES: usize = 400;

/// The whole report on one pair of configs.
pub(super) fn report(comparison: &Comparison, secrets: Secrets) -> String {
    let mut out = String::new();
    let title = format!("{} -> {}", comparison.old, comparison.new);
    match &comparison.pool {
        Some(pool) => line(&mut out, &format!("{}  {title}", pool.bold())),
        None => line(&mut out, &title.bold().to_string()),
    }
    if comparison.diff.is_empty() {
        line(&mut out, "  no difference");
        return out;
    }
    entries(&mut out, comparison, secrets);
    settings(&mut out, comparison);
    verdict(&mut out, comparison);
    out
}

fn entries(out: &mut String, comparison: &Comparison, secrets: Secrets) {
    let diff = &comparison.diff;
    for change in &diff.files {
        file(out, change, secrets);
    }
    for change in &diff.directories {
        heading(out, change, "folder", &attributes(change, describe_directory));
    }
    for change in &diff.links {
        heading(out, change, "link", &attributes(change, describe_link));
    }
    for change in &diff.units {
        unit(out, change, secrets);
    }
    for change in &diff.users {
        user(out, change, secrets);
    }
}

fn file(out: &mut String, change: &Change<File>, secrets: Secrets) {
    heading(out, change, "file", &attributes(change, describe_file));
    let contents = |side: &Option<File>| side.as_ref().map(|file| shown(&change.name, file, secrets));
    let (before, after) = (contents(&change.before), contents(&change.after));
    match (before, after) {
        (Some(Shown::Text(before)), Some(Shown::Text(after))) => unified(out, &before, &after),
        (None, Some(Shown::Text(after))) => unified(out, "", &after),
        (Some(Shown::Text(before)), None) => unified(out, &before, ""),
        (before, after) => {
            let differs = change.before.as_ref().map(|f| &f.contents) != change.after.as_ref().map(|f| &f.contents);
            if differs {
                minus(out, before.as_ref().map(Shown::summary).as_deref());
                plus(out, after.as_ref().map(Shown::summary).as_deref());
            }
        }
    }
}

/// What may be shown of a file's contents.
pub(super) enum Shown {
    Text(String),
    /// Contents that are no text, or must not be shown: only what can be said about them.
    Summary(String),
}

impl Shown {
    fn summary(&self) -> String {
        match self {
            Shown::Text(text) => format!("<{} bytes of text>", text.len()),
            Shown::Summary(summary) => summary.clone(),
        }
    }
}

pub(super) fn shown(path: &str, file: &File, secrets: Secrets) -> Shown {
    match file.contents.bytes() {
        Err(error) => Shown::Summary(format!("<{error}>")),
        Ok(bytes) if secrets.hides_file(path, file.mode, &bytes) => Shown::Summary(mask(&bytes)),
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => Shown::Text(text.to_owned()),
            Err(_) => Shown::Summary(format!("<binary, {} bytes>", bytes.len())),
        },
    }
}

fn unit(out: &mut String, change: &Change<Unit>, secrets: Secrets) {
    heading(out, change, "unit", &attributes(change, describe_unit));
    let nothing = Unit::default();
    let (before, after) = (change.before.as_ref().unwrap_or(&nothing), change.after.as_ref().unwrap_or(&nothing));
    text_change(out, &before.contents, &after.contents, secrets);
    let names = before.dropins.keys().chain(after.dropins.keys());
    for name in names.collect::<std::collections::BTreeSet<_>>() {
        let text = |unit: &Unit| unit.dropins.get(name).cloned().unwrap_or_default();
        if text(before) != text(after) || before.dropins.contains_key(name) != after.dropins.contains_key(name) {
            line(out, &format!("    drop-in {name}"));
            text_change(out, &text(before), &text(after), secrets);
        }
    }
}

fn text_change(out: &mut String, before: &str, after: &str, secrets: Secrets) {
    if secrets.hides_text(before) || secrets.hides_text(after) {
        if before != after {
            minus(out, Some(&mask(before.as_bytes())));
            plus(out, Some(&mask(after.as_bytes())));
        }
    } else {
        unified(out, before, after);
    }
}

fn user(out: &mut String, change: &Change<User>, secrets: Secrets) {
    heading(out, change, "user", "");
    let nothing = User::default();
    let (before, after) = (change.before.as_ref().unwrap_or(&nothing), change.after.as_ref().unwrap_or(&nothing));
    lines_change(out, &before.keys, &after.keys);
    if before.password_hash != after.password_hash {
        let hash =
            |user: &User| user.password_hash.as_deref().map(|hash| format!("password {}", secrets.password(hash)));
        minus(out, hash(before).as_deref());
        plus(out, hash(after).as_deref());
    }
    let fields = |user: &User| -> Vec<String> { user.other.iter().map(|(k, v)| format!("{k}: {v}")).collect() };
    lines_change(out, &fields(before), &fields(after));
}

fn settings(out: &mut String, comparison: &Comparison) {
    let diff = &comparison.diff;
    if let Some(Changed { before, after }) = &diff.kernel_arguments {
        line(out, &format!("{} kernel arguments", "changed".yellow()));
        lines_change(out, before, after);
    }
    if let Some(Changed { before, after }) = &diff.extensions {
        line(out, &format!("{} extensions", "changed".yellow()));
        lines_change(out, before, after);
    }
    let mut scalar = |name: &str, change: Option<(String, String)>| {
        if let Some((before, after)) = change {
            line(out, &format!("{} {name}", "changed".yellow()));
            minus(out, Some(&before).filter(|text| !text.is_empty()).map(String::as_str));
            plus(out, Some(&after).filter(|text| !text.is_empty()).map(String::as_str));
        }
    };
    let text = |change: &Option<Changed<String>>| change.as_ref().map(|c| (c.before.clone(), c.after.clone()));
    let kernel = diff.kernel_type.as_ref();
    scalar("kernel type", kernel.map(|c| (c.before.as_str().to_owned(), c.after.as_str().to_owned())));
    scalar("FIPS mode", diff.fips.as_ref().map(|c| (c.before.to_string(), c.after.to_string())));
    scalar("OS image", text(&diff.os_image));
    scalar("extensions image", text(&diff.extensions_image));
    for section in &diff.first_boot {
        line(out, &format!("{} ignition {section} (only a machine's first boot reads it)", "changed".yellow()));
    }
}

fn verdict(out: &mut String, comparison: &Comparison) {
    line(out, "");
    if comparison.obstacles.is_empty() {
        line(out, "in place    yes");
    } else {
        line(out, &format!("in place    {}", "no".red()));
        for obstacle in &comparison.obstacles {
            line(out, &format!("    {obstacle}"));
        }
    }
    let disruption = &comparison.disruption;
    let class = disruption.class().to_string();
    let drain = if disruption.drain { ", after the node is drained" } else { "" };
    line(out, &format!("disruption  {}{drain}", class.bold()));
    let width = disruption.reasons.iter().map(|reason| reason.subject.to_string().len()).max().unwrap_or(0);
    for reason in &disruption.reasons {
        let subject = reason.subject.to_string();
        line(out, &format!("    {subject:width$}  {}", because(reason)));
    }
    let actions: Vec<String> = disruption.actions.iter().map(Action::to_string).collect();
    if !actions.is_empty() {
        line(out, &format!("actions     {}", actions.join(", ")));
    }
}

fn because(reason: &Reason) -> String {
    let actions: Vec<String> = reason.actions.iter().map(Action::to_string).collect();
    let mut text = actions.join(", ");
    match (&reason.policy, &reason.subject) {
        (Some(policy), _) => {
            let _ = write!(text, " (policy on {policy})");
        }
        (None, change::disruption::Subject::Path(_) | change::disruption::Subject::Unit(_)) => {
            text.push_str(" (no policy covers it)");
        }
        (None, _) => {}
    }
    if let Some(note) = &reason.note {
        let _ = write!(text, ", drain: {note}");
    }
    text
}

fn heading<T>(out: &mut String, change: &Change<T>, noun: &str, attributes: &str) {
    let verb = match change.kind() {
        Kind::Added => "added".green().to_string(),
        Kind::Removed => "removed".red().to_string(),
        Kind::Updated => "changed".yellow().to_string(),
    };
    let attributes = if attributes.is_empty() { String::new() } else { format!(" ({attributes})") };
    line(out, &format!("{verb} {noun} {}{attributes}", change.name));
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

fn describe_file(file: &File) -> Vec<(&'static str, String)> {
    vec![("mode", octal(file.mode)), ("user", owner(&file.user)), ("group", owner(&file.group))]
}

fn describe_directory(directory: &Directory) -> Vec<(&'static str, String)> {
    vec![("mode", octal(directory.mode)), ("user", owner(&directory.user)), ("group", owner(&directory.group))]
}

fn describe_link(link: &Link) -> Vec<(&'static str, String)> {
    vec![("target", link.target.clone()), ("hard", link.hard.to_string())]
}

fn describe_unit(unit: &Unit) -> Vec<(&'static str, String)> {
    let flag = |value: Option<bool>| value.map_or("unset".to_owned(), |value| value.to_string());
    vec![("enabled", flag(unit.enabled)), ("mask", flag(unit.mask))]
}

pub(super) fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

pub(super) fn owner(owner: &Owner) -> String {
    match owner {
        Owner::Id(id) => id.to_string(),
        Owner::Name(name) => name.clone(),
    }
}

fn unified(out: &mut String, before: &str, after: &str) {
    if before == after {
        return;
    }
    let diff = TextDiff::from_lines(before, after);
    let text = diff.unified_diff().context_radius(3).to_string();
    let total = text.lines().count();
    for text in text.lines().take(LINES) {
        let coloured = match text.as_bytes().first() {
            Some(b'+') => text.green().to_string(),
            Some(b'-') => text.red().to_string(),
            Some(b'@') => text.cyan().to_string(),
            _ => text.to_owned(),
        };
        line(out, &format!("    {coloured}"));
    }
    if total > LINES {
        line(out, &format!("    … {} more lines", total - LINES));
    }
}

/// Entries of a list that came or went, in their order.
fn lines_change(out: &mut String, before: &[String], after: &[String]) {
    let text = |items: &[String]| items.iter().fold(String::new(), |text, item| text + item + "\n");
    let (before, after) = (text(before), text(after));
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    for change in diff.iter_all_changes() {
        let item = change.value().trim_end_matches('\n');
        match change.tag() {
            similar::ChangeTag::Delete => minus(out, Some(item)),
            similar::ChangeTag::Insert => plus(out, Some(item)),
            similar::ChangeTag::Equal => {}
        }
    }
}

fn minus(out: &mut String, text: Option<&str>) {
    if let Some(text) = text {
        line(out, &format!("    {}", format!("-{text}").red()));
    }
}

fn plus(out: &mut String, text: Option<&str>) {
    if let Some(text) = text {
        line(out, &format!("    {}", format!("+{text}").green()));
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}
