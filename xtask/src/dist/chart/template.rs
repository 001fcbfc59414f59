//! Puts two answers of `install` together: where they differ, a template of helm chooses between them.

use anyhow::ensure;
use similar::{DiffOp, TextDiff};

/// A value of the chart that need not be given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Option_ {
    pub(super) name: &'static str,
    /// What `install` writes where the value would stand.
    pub(super) default: Option<&'static str>,
    pub(super) is_switch: bool,
    /// Whether objects that only come with the value belong to the chart.
    pub(super) brings_objects: bool,
}

/// Lines of a document that are others with a value.
#[derive(Debug)]
pub(super) struct Hunk {
    option: Option_,
    start: usize,
    end: usize,
    lines: Vec<String>,
}

impl Option_ {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, default: None, is_switch: false, brings_objects: true }
    }

    pub(super) const fn with_default(name: &'static str, default: &'static str) -> Self {
        Self { default: Some(default), ..Self::new(name) }
    }

    pub(super) const fn switch(name: &'static str) -> Self {
        Self { is_switch: true, ..Self::new(name) }
    }

    pub(super) const fn without_objects(self) -> Self {
        Self { brings_objects: false, ..self }
    }

    /// The text that stands for the value while the chart is made.
    pub(super) fn stand_in(&self) -> String {
        format!("xx-{}-xx", self.name.to_lowercase())
    }

    /// A document that only comes with the value.
    pub(super) fn guarded(&self, text: &str) -> String {
        format!("{{{{- if .Values.{} }}}}\n{}{{{{- end }}}}\n", self.name, self.filled(text))
    }

    fn filled(&self, text: &str) -> String {
        text.replace(&self.stand_in(), &format!("{{{{ .Values.{} }}}}", self.name))
    }
}

/// Where a document differs from the one with a value.
pub(super) fn hunks(option: Option_, plain: &str, chosen: &str) -> Vec<Hunk> {
    let lines: Vec<&str> = chosen.split_inclusive('\n').collect();
    let difference = TextDiff::from_lines(plain, chosen);
    let operations = difference.ops().iter().filter(|operation| !matches!(operation, DiffOp::Equal { .. }));
    operations
        .map(|operation| {
            let (old, new) = (operation.old_range(), operation.new_range());
            let lines = lines[new].iter().map(|line| (*line).to_owned()).collect();
            Hunk { option, start: old.start, end: old.end, lines }
        })
        .collect()
}

/// The document with a template for each hunk. Two values may add lines at one place, but not change the same line.
pub(super) fn merge(plain: &str, mut hunks: Vec<Hunk>) -> anyhow::Result<String> {
    let lines: Vec<&str> = plain.split_inclusive('\n').collect();
    // A stable sort: what is added at one place stays in the order of the values.
    hunks.sort_by_key(|hunk| (hunk.start, hunk.end));
    let (mut text, mut at) = (String::new(), 0);
    for hunk in hunks {
        ensure!(
            hunk.start >= at,
            "the values change line {} twice, the second time by {}",
            hunk.start + 1,
            hunk.option.name
        );
        text.extend(lines[at..hunk.start].iter().copied());
        text += &one(&hunk, &lines[hunk.start..hunk.end]);
        at = hunk.end;
    }
    text.extend(lines[at..].iter().copied());
    Ok(text)
}

fn one(hunk: &Hunk, plain: &[&str]) -> String {
    let Option_ { name, default, .. } = hunk.option;
    // Where only the value itself differs, a default within the line is shorter.
    if let Some(default) = default {
        let back: Vec<String> = hunk.lines.iter().map(|line| line.replace(&hunk.option.stand_in(), default)).collect();
        if back == plain {
            let filled = format!("{{{{ .Values.{name} | default {} }}}}", literal(default));
            return hunk.lines.iter().map(|line| line.replace(&hunk.option.stand_in(), &filled)).collect();
        }
    }
    let with: String = hunk.lines.iter().map(|line| hunk.option.filled(line)).collect();
    let without = plain.concat();
    let or_else = if without.is_empty() { String::new() } else { format!("{{{{- else }}}}\n{without}") };
    format!("{{{{- if .Values.{name} }}}}\n{with}{or_else}{{{{- end }}}}\n")
}

/// A default that is itself another value, or text.
fn literal(default: &str) -> String {
    match default {
        super::NAMESPACE => ".Values.namespace".to_owned(),
        super::IMAGE => ".Values.image".to_owned(),
        text => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_that_come_with_a_value_are_guarded_by_it_and_a_default_stays_within_its_line() {
        let plain = "args:\n- a\n- --in=here\n";
        let user = Option_::new("user");
        let place = Option_::with_default("place", "here");
        let all = [
            hunks(user, plain, "args:\n- a\n- --user=xx-user-xx\n- --in=here\n"),
            hunks(place, plain, "args:\n- a\n- --in=xx-place-xx\n"),
        ];
        let merged = merge(plain, all.into_iter().flatten().collect()).unwrap();
        assert_eq!(
            merged,
            "args:\n- a\n{{- if .Values.user }}\n- --user={{ .Values.user }}\n{{- end }}\n\
             - --in={{ .Values.place | default \"here\" }}\n"
        );
    }

    #[test]
    fn two_values_that_change_one_line_are_refused() {
        let plain = "a\n";
        let change = |name| hunks(Option_::new(name), plain, &format!("{name}\n"));
        let error = merge(plain, change("b").into_iter().chain(change("c")).collect()).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.ends_with('c'), "{error}");
    }
}
