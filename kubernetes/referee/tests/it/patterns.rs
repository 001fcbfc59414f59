//! Regular expressions against Go's own: what is refused, in which words, and where the others match.
//!
//! Patterns are put together from a seed, so that the odd corners of the notation meet. `PATTERN_SEEDS=1000..100000` looks
//! longer than every run does.

use serde_json::json;

use super::{dice::Dice, oracle::Oracle};

/// How many patterns are asked about at once.
const AT_ONCE: u64 = 500;

/// Patterns that people wrote, and corners that were wrong once.
const KNOWN: &[&str] = &[
    r#"^(?i)(x-[^][ ()\\<>@,;:"/?.=\x00-\x1F\x7F]+|application|audio|font|text)/([a-z0-9.+-]+)$"#,
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
    r"^(([1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])\.)+$",
    r"^((?:[0-9]{1,3}\.){3}[0-9]{1,3})/(3[0-2]|[12]?[0-9])$",
    r"^sha256:[a-fA-F0-9]{64}$",
    r"^0*(0|1(\.0+)?)%?$",
    r"^(?:0|(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$",
    r"^\p{Lu}\p{^Greek}\P{L}$",
    r"[[:^alpha:][:punct:]]{2,3}?",
    r"\Qa.b\E{2}|\x{1F600}|\07",
    "a(?i)*b",
    "[a-",
    r"[\d-z]",
    r"\p",
    "((a{0,}){1000}){2}",
    "(?P<n>a)(?P<n>b)",
];

/// What random patterns are made of.
const PIECES: &[&str] = &[
    "a",
    "B",
    "é",
    "-",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "|",
    "^",
    "$",
    ".",
    "*",
    "+",
    "?",
    "a{2}",
    "{1,}",
    "{0,3}",
    "{,2}",
    "{02}",
    "(?:",
    "(?i)",
    "(?-i:",
    "(?s:",
    "(?U)",
    "(?m)",
    "(?P<n>",
    "(?<n>",
    "(?x)",
    r"\d",
    r"\D",
    r"\s",
    r"\S",
    r"\w",
    r"\W",
    r"\b",
    r"\B",
    r"\A",
    r"\z",
    r"\pL",
    r"\PN",
    r"\p{Lu}",
    r"\p{^Han}",
    r"\p{greek}",
    r"\p{Sc}",
    r"\Q",
    r"\E",
    r"\x41",
    r"\x{e9}",
    r"\x{D800}",
    r"\101",
    r"\1",
    r"\n",
    r"\t",
    r"\_",
    r"\.",
    r"\[",
    r"\]",
    r"\C",
    "[a-c]",
    "[^a]",
    "[]a]",
    "[a[b]",
    "[&&a]",
    "[ --]",
    "[~~a]",
    "[[:alpha:]]",
    "[[:^digit:]x]",
    r"[\d\-z]",
    r"[^\W_]",
    r"[\p{Ll}A]",
    "[b-a]",
    r"[\x00-\x1F]",
    "[a-",
    "[[:x:]]",
    "&&",
    "~~",
    "#",
    " ",
];

/// What they are tried on.
const TEXTS: &[&str] = &[
    "",
    "a",
    "aa",
    "AB",
    "a b",
    "aéB-c",
    "[a]",
    "a&&b",
    "a--b~",
    "x-y/z",
    "αβγ",
    "1٣",
    "Ω½$",
    "a\nb",
    "\ta_1",
    "a.b{2}",
    "\u{212a}k\u{17f}s",
    "é",
    "a\u{7}\\",
    "漢字",
    "{,2}",
    "A(1)",
];

#[test]
fn regular_expressions_are_read_as_go_reads_them() {
    let Some(mut oracle) = Oracle::start() else { return };
    let mut differences = compare(&mut oracle, KNOWN.iter().map(ToString::to_string).collect());
    let seeds = seeds();
    for first in seeds.clone().step_by(AT_ONCE as usize) {
        let last = (first + AT_ONCE).min(seeds.end);
        differences.extend(compare(&mut oracle, (first..last).map(made_up).collect()));
    }
    let shown = differences.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} patterns are read differently:\n{shown}", differences.len());
}

fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("PATTERN_SEEDS").ok();
    let range = wanted.as_deref().and_then(|text| text.split_once(".."));
    let range = range.and_then(|(first, last)| Some(first.parse().ok()?..last.parse().ok()?));
    range.unwrap_or(0..3000)
}

fn made_up(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    (0..=dice.roll(7)).map(|_| dice.pick(PIECES)).collect()
}

fn compare(oracle: &mut Oracle, patterns: Vec<String>) -> Vec<String> {
    let theirs = oracle.ask(&json!({ "patterns": patterns, "texts": TEXTS }));
    let mut differences = Vec::new();
    for (pattern, theirs) in patterns.iter().zip(theirs) {
        let theirs = match theirs["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(theirs["text"].as_str().unwrap_or_default().to_owned()),
        };
        let ours = cel::go::pattern::compile(pattern).map(|compiled| {
            let place = |text: &&str| match compiled.find(text) {
                Some(found) => format!("{}..{}", found.start(), found.end()),
                None => "-".to_owned(),
            };
            TEXTS.iter().map(place).collect::<Vec<_>>().join(" ")
        });
        if ours != theirs {
            differences.push(format!("{pattern:?}: real {theirs:?}, ours {ours:?}"));
        }
    }
    differences
}
