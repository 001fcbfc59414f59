//! The pages of the guide say what really happens: their files are written, their commands run, their answers compared.

use std::path::PathBuf;

use crate::Folder;

#[test]
fn the_page_about_render_and_diff_says_what_happens() {
    run_page("render-and-diff.md");
}

/// A block of a page: a file to write (its name follows the language) or commands with their answers.
fn run_page(name: &str) {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(name);
    let text = std::fs::read_to_string(&page).unwrap();
    let folder = Folder::new(&[]);
    let mut commands = 0;
    for block in text.split("\n```").skip(1).step_by(2) {
        let (header, body) = block.split_once('\n').unwrap();
        match header.split_once(' ') {
            Some(("yaml", file)) => folder.write(file, format!("{body}\n").as_bytes()),
            None if header == "console" => commands += run_block(&folder, body),
            _ => panic!("{name}: a block with header {header:?} is neither a file nor commands"),
        }
    }
    assert!(commands > 0);
}

fn run_block(folder: &Folder, body: &str) -> usize {
    let steps: Vec<&str> = body.split("$ machinist ").skip(1).collect();
    for step in &steps {
        let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
        let arguments: Vec<&str> = command.split(' ').collect();
        let run = folder.run(&arguments);
        let seen = format!("{}{}", run.stderr, run.stdout);
        assert_eq!(seen.trim_end(), expected.trim_end(), "machinist {command}");
    }
    steps.len()
}
