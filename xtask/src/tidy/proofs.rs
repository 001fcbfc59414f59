//! Claims about safety name the test that proves them, in a comment `<!-- test: PATH NAME -->` beside the claim. They stand
//! in sections of their own, in which every bullet and every row of a table must name one.
//!
//! This checks that the test exists, not that it proves the claim.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::workspace;

const OPENING: &str = "<!-- test: ";
/// The page that proves claims about speed or size.
const MEASURED: &str = "docs/benchmarks.md";

/// Sections in which every bullet and row is such a claim.
const SECTIONS: &[(&str, &str)] = &[("README.md", "## Why"), ("docs/differences.md", "## Safety")];

pub(super) fn problems(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let read = |path: &Path| {
        std::fs::read_to_string(workspace::root().join(path)).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut problems = Vec::new();
    for page in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = read(page)?;
        problems.extend(in_page(page, &text, |path| read(path).ok()));
        for (_, heading) in SECTIONS.iter().filter(|(name, _)| page == Path::new(name)) {
            problems.extend(unproven(page, &text, heading));
        }
    }
    Ok(problems)
}

/// Returns the comments that name a test that does not exist.
fn in_page(page: &Path, text: &str, read: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for comment in line.split(OPENING).skip(1).filter_map(|rest| rest.split(" -->").next()) {
            let (path, name) = comment.split_once(' ').unwrap_or((comment, ""));
            if !read(Path::new(path)).is_some_and(|source| has_test(&source, name)) {
                problems.push(format!("{}:{}: there is no test {name:?} in {path}", page.display(), index + 1));
            }
        }
    }
    problems
}

/// Whether a source has this test: a function with an attribute that makes it one, or a story that `on_both!` makes two of.
fn has_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")).filter(|_| !name.is_empty()) else {
        return false;
    };
    // The first line from the end is the beginning of the function's own.
    let above = before.lines().rev().map(str::trim).skip(usize::from(!before.ends_with('\n')));
    let mut above = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let is_attribute = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    above.any(is_attribute) || stories(source).any(|story| story == name)
}

/// The stories that a source hands to `on_both!`.
fn stories(source: &str) -> impl Iterator<Item = &str> {
    let lists = source.split("on_both!").skip(1).filter_map(|rest| rest.trim_start().strip_prefix(['(', '{', '[']));
    let lists = lists.filter_map(|rest| rest.split([')', '}', ']']).next());
    lists.flat_map(|list| list.split(',')).map(str::trim)
}

/// Returns the bullets and rows of a section that name neither a test nor the benchmarks, or the section if it is not there:
/// its claims would be checked no more.
fn unproven(page: &Path, text: &str, heading: &str) -> Vec<String> {
    let Some((_, section)) = text.split_once(&format!("{heading}\n")) else {
        return vec![format!("{}: there is no section {heading:?}", page.display())];
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    // The first two lines of a table are its heading.
    let tables = section.split("\n|---").skip(1);
    let rows = tables.flat_map(|table| table.lines().skip(1).take_while(|line| line.starts_with('|')));
    let claims = section.split("\n- ").skip(1).chain(rows);
    let unproven = claims.filter(|claim| !claim.contains(OPENING) && !claim.contains(MEASURED));
    let first = |claim: &str| claim.lines().next().unwrap_or_default().to_owned();
    unproven.map(|claim| format!("{}: names no test: {}", page.display(), first(claim))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_names_a_test_that_exists() {
        let source =
            "#[tokio::test(flavor = \"multi_thread\")]\n// Slow.\nasync fn it_holds() {}\n\nfn it_helps() {}\n";
        let read = |path: &Path| (path == Path::new("a.rs")).then(|| source.to_owned());
        let check = |text: &str| in_page(Path::new("p.md"), text, read).join("\n");
        assert_eq!(check("Safe. <!-- test: a.rs it_holds -->"), "");
        assert_eq!(check("Safe. <!-- test: a.rs it_hold -->"), "p.md:1: there is no test \"it_hold\" in a.rs");
        assert_eq!(check("Safe. <!-- test: a.rs it_helps -->"), "p.md:1: there is no test \"it_helps\" in a.rs");
        assert_eq!(check("\n<!-- test: b.rs it_holds -->"), "p.md:2: there is no test \"it_holds\" in b.rs");
    }

    #[test]
    fn a_function_is_a_test_by_its_attribute_or_as_a_story_on_both_servers() {
        assert!(has_test("    #[test]\n    #[should_panic]\n    fn one() {}\n", "one"));
        assert!(!has_test("#[test]\nfn one() {}\nfn two() {}\n", "two"), "the attribute is another function's");
        assert!(has_test("on_both!(\n    one,\n    two,\n);\nasync fn two(kind: Kind) {}\n", "two"));
        assert!(!has_test("on_both!(one);\nasync fn two(kind: Kind) {}\n", "two"));
        assert!(!has_test("#[test]\nfn one() {}\n", ""));
    }

    #[test]
    fn every_bullet_of_a_section_names_one() {
        let text = "## Why\n- **One.** x\n  y <!-- test: a b -->\n- **Two.** z\n\n## Next\n- three\n";
        assert_eq!(unproven(Path::new("p.md"), text, "## Why"), ["p.md: names no test: **Two.** z"]);
    }

    #[test]
    fn every_row_of_a_sections_table_names_one() {
        let text = "## Safety\nWords.\n\n| a | b |\n|---|---|\n| one | x <!-- test: a b --> |\n| two | y |\n\n## Next\n| c |\n";
        assert_eq!(unproven(Path::new("p.md"), text, "## Safety"), ["p.md: names no test: | two | y |"]);
        let gone = unproven(Path::new("p.md"), "## Other\n", "## Safety");
        assert_eq!(gone, ["p.md: there is no section \"## Safety\""]);
    }
}
