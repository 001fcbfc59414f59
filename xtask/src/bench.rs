//! Runs the benchmarks, prints each figure with its target, and writes the newest results to `docs/benchmarks.md`.
//!
//! A benchmark is a `[[bench]]` target of any crate. It prints lines `bench: what | figure | target`; this command
//! measures nothing itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::workspace;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The benchmarks to run; all if none is named.
    names: Vec<String>,
    /// The parts to run of a benchmark that has several; the other figures in its table are kept.
    #[arg(last = true)]
    parts: Vec<String>,
}

/// One line of a benchmark's output.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    what: String,
    figure: String,
    target: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let known = benches()?;
    if let Some(unknown) = arguments.names.iter().find(|name| !known.contains_key(*name)) {
        let names: Vec<_> = known.keys().map(String::as_str).collect();
        bail!("no benchmark is called {unknown}; there are: {}", names.join(", "));
    }
    // Built together, including the binaries: building one package alone would select other features of the
    // dependencies and recompile most of them.
    let mut build = vec!["bench", "--quiet", "--locked", "--workspace", "--no-run"];
    build.extend(known.keys().flat_map(|name| ["--bench", name]));
    workspace::run("cargo", &build)?;
    let page = page_path();
    let mut sections = parse(&std::fs::read_to_string(&page).unwrap_or_default());
    for (name, package) in known {
        if !arguments.names.is_empty() && !arguments.names.contains(&name) {
            continue;
        }
        println!("== {name} ({package})");
        let figures = run_one(&name, &arguments.parts)?;
        print!("{}", aligned(&figures));
        match sections.get_mut(&name) {
            Some(known) if !arguments.parts.is_empty() => renew(known, figures),
            _ => drop(sections.insert(name, figures)),
        }
        std::fs::write(&page, render(&sections)).with_context(|| format!("cannot write {}", page.display()))?;
    }
    Ok(())
}

fn page_path() -> PathBuf {
    workspace::root().join("docs/benchmarks.md")
}

/// Returns the package of each benchmark, from `cargo metadata`.
fn benches() -> anyhow::Result<BTreeMap<String, String>> {
    let metadata: Value =
        serde_json::from_str(&workspace::capture("cargo", &["metadata", "--format-version", "1", "--no-deps"])?)?;
    let mut benches = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let is_bench = target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bench"));
            if let (true, Some(name), Some(package)) = (is_bench, target["name"].as_str(), package["name"].as_str()) {
                benches.insert(name.to_owned(), package.to_owned());
            }
        }
    }
    Ok(benches)
}

fn run_one(name: &str, parts: &[String]) -> anyhow::Result<Vec<Figure>> {
    let mut command = vec!["bench", "--quiet", "--locked", "--workspace", "--bench", name, "--"];
    command.extend(parts.iter().map(String::as_str));
    let mut child = workspace::command("cargo", &command)
        .env("MACHINIST_BUILT", "1")
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let output = child.stdout.take().expect("the output is piped");
    let mut figures = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        match figure(&line) {
            Some(figure) => figures.push(figure),
            None => println!("{line}"),
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("benchmark {name} failed ({status})");
    }
    Ok(figures)
}

/// Replaces figures by newer ones with the same name, and appends the rest.
fn renew(known: &mut Vec<Figure>, figures: Vec<Figure>) {
    for figure in figures {
        match known.iter_mut().find(|old| old.what == figure.what) {
            Some(old) => *old = figure,
            None => known.push(figure),
        }
    }
}

/// Parses `bench: what | figure | target`.
fn figure(line: &str) -> Option<Figure> {
    let mut cells = line.strip_prefix("bench: ")?.splitn(3, '|').map(|cell| cell.trim().to_owned());
    Some(Figure { what: cells.next()?, figure: cells.next()?, target: cells.next().unwrap_or_else(|| "-".to_owned()) })
}

fn aligned(figures: &[Figure]) -> String {
    let width = |cell: fn(&Figure) -> &str| figures.iter().map(|line| cell(line).chars().count()).max().unwrap_or(0);
    let (what, figure) = (width(|line| &line.what), width(|line| &line.figure));
    let mut text = String::new();
    for line in figures {
        let _ = writeln!(text, "  {:what$}  {:>figure$}  target {}", line.what, line.figure, line.target);
    }
    text
}

fn render(sections: &BTreeMap<String, Vec<Figure>>) -> String {
    let mut page = String::from(
        "# Benchmarks\n\nWritten by `cargo xtask bench`: the newest run of each benchmark, on whatever machine ran it last \
         (two cores in CI).\n",
    );
    for (name, figures) in sections {
        let _ = write!(page, "\n## {name}\n\n| what | figure | target |\n|---|---|---|\n");
        for line in figures {
            let _ = writeln!(page, "| {} | {} | {} |", line.what, line.figure, line.target);
        }
    }
    page
}

/// Parses a page that `render` wrote, so that running one benchmark keeps the figures of the others.
fn parse(page: &str) -> BTreeMap<String, Vec<Figure>> {
    let mut sections: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
    let mut section = None;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            section = Some(name.to_owned());
            sections.entry(name.to_owned()).or_default();
        } else if let (Some(name), Some(row)) = (&section, line.strip_prefix("| ")) {
            let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
            if let [what, figure, target] = cells[..]
                && what != "what"
            {
                let figure = Figure { what: what.to_owned(), figure: figure.to_owned(), target: target.to_owned() };
                sections.entry(name.clone()).or_default().push(figure);
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_benchmark_has_three_cells_and_other_output_is_not_a_figure() {
        let expected =
            Figure { what: "corpus".to_owned(), figure: "1.2 ms".to_owned(), target: "at most 1.5 ms".to_owned() };
        assert_eq!(figure("bench: corpus | 1.2 ms | at most 1.5 ms"), Some(expected));
        assert_eq!(figure("running 3 tests"), None);
    }

    #[test]
    fn the_page_keeps_the_sections_that_were_not_run_again() {
        let mut sections = BTreeMap::new();
        for name in ["render", "rollout"] {
            sections.insert(name.to_owned(), vec![figure("bench: all | 1 s | 2 s").expect("a figure")]);
        }
        assert_eq!(parse(&render(&sections)), sections);
    }

    #[test]
    fn a_part_run_alone_changes_its_own_lines() {
        let figures = |lines: &[&str]| lines.iter().filter_map(|line| figure(line)).collect::<Vec<_>>();
        let mut known = figures(&["bench: a | 1 | -", "bench: b | 1 | -"]);
        renew(&mut known, figures(&["bench: b | 2 | -", "bench: c | 2 | -"]));
        assert_eq!(known, figures(&["bench: a | 1 | -", "bench: b | 2 | -", "bench: c | 2 | -"]));
    }
}
