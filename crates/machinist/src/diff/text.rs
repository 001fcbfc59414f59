//! Prints a comparison as people read it: what changed, line by line, then what it would do to a node.

use change::diff::Kind;
use change::policy::Action;
use owo_colors::OwoColorize as _;
use proposal::comparison::{Comparison, Entry, Tag, because, entries, verb};
use proposal::secrets::Secrets;

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
    for it in entries(&comparison.diff, secrets) {
        entry(&mut out, &it);
    }
    verdict(&mut out, comparison);
    out
}

fn entry(out: &mut String, entry: &Entry) {
    let word = verb(entry.kind);
    let word = match entry.kind {
        Kind::Added => word.green().to_string(),
        Kind::Removed => word.red().to_string(),
        Kind::Updated => word.yellow().to_string(),
    };
    let attributes = if entry.attributes.is_empty() { String::new() } else { format!(" ({})", entry.attributes) };
    line(out, &format!("{word} {}{attributes}", entry.what));
    for it in &entry.lines {
        let text = match it.tag {
            Tag::Added => it.text.green().to_string(),
            Tag::Removed => it.text.red().to_string(),
            Tag::Place => it.text.cyan().to_string(),
            Tag::Context => it.text.clone(),
        };
        line(out, &format!("    {text}"));
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

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}
