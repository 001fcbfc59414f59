//! Claims about safety name the test that proves them, in a comment `<!-- test: PATH NAME -->` beside the claim.
//!
//! This checks that the test exists, not that it proves the claim.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::workspace;

const OPENING: &str = "<!-- test: ";
/// The page that proves claims about speed or size.
const MEASURED: &str = "docs/benchmarks.md";

/// Sections in which every bullet is such a claim.
const SECTIONS: &[(&str, &str)] = &[("README.md", "## Why")];

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
            let has = |source: &String| !name.is_empty() && source.contains(&format!("fn {name}("));
            if !read(Path::new(path)).is_some_and(|source| has(&source)) {
                problems.push(format!("{}:{}: there is no test {name:?} in {path}", page.display(), index + 1));
            }
        }
    }
    problems
}

/// Returns the bullets of a section that name neither a test nor the benchmarks.
fn unproven(page: &Path, text: &str, heading: &str) -> Vec<String> {
    let section = text.split_once(heading).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let bullets =
        section.split("\n- ").skip(1).filter(|bullet| !bullet.contains(OPENING) && !bullet.contains(MEASURED));
    let first = |bullet: &str| bullet.lines().next().unwrap_or_default().to_owned();
    bullets.map(|bullet| format!("{}: names no test: {}", page.display(), first(bullet))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_names_a_test_that_exists() {
        let read = |path: &Path| (path == Path::new("a.rs")).then(|| "async fn it_holds(kind: Kind) {".to_owned());
        let check = |text: &str| in_page(Path::new("p.md"), text, read).join("\n");
        assert_eq!(check("Safe. <!-- test: a.rs it_holds -->"), "");
        assert_eq!(check("Safe. <!-- test: a.rs it_hold -->"), "p.md:1: there is no test \"it_hold\" in a.rs");
        assert_eq!(check("\n<!-- test: b.rs it_holds -->"), "p.md:2: there is no test \"it_holds\" in b.rs");
    }

    #[test]
    fn every_bullet_of_a_section_names_one() {
        let text = "## Why\n- **One.** x\n  y <!-- test: a b -->\n- **Two.** z\n\n## Next\n- three\n";
        assert_eq!(unproven(Path::new("p.md"), text, "## Why"), ["p.md: names no test: **Two.** z"]);
    }
}
