//! `--help`, completions and manual pages.

use crate::Folder;

const VERBS: [&str; 14] = [
    "up", "status", "why", "plan", "apply", "blame", "doctor", "rollback", "diff", "render", "export", "pause",
    "resume", "adopt",
];

#[test]
fn every_verb_shows_examples_that_name_it() {
    let folder = Folder::new(&[]);
    for verb in VERBS {
        let help = folder.run(&[verb, "--help"]).stdout;
        let (_, examples) = help.split_once("Examples:").unwrap_or_else(|| panic!("{verb}: {help}"));
        assert!(examples.contains(&format!("machinist {verb}")), "{verb}: {examples}");
    }
}

#[test]
fn shells_complete_every_verb_and_each_has_a_manual_page() {
    let folder = Folder::new(&[]);
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.run(&["completions", shell]).stdout;
        assert!(VERBS.iter().all(|verb| script.contains(verb)), "{shell}");
    }
    assert!(folder.run(&["man"]).stdout.contains(".TH machinist 1"));
    assert_eq!(folder.run(&["man", "--dir", "man"]).code, 0);
    for verb in VERBS {
        assert!(folder.path().join("man").join(format!("machinist-{verb}.1")).is_file(), "{verb}");
    }
}
