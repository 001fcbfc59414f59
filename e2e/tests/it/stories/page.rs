//! Reads a page of the guide and compares answers with it.

/// A part of a page that is carried out.
pub(super) enum Block {
    /// A file that the reader writes.
    File { name: String, text: String },
    Command {
        line: usize,
        command: String,
        expected: Vec<String>,
        /// It asks kubelets, which simulated nodes have on the embedded API only.
        only_up: bool,
    },
    /// The heading of a runbook; what follows belongs to it until the next heading.
    Runbook(Option<String>),
}

/// The blocks of a page: files are fenced as `yaml NAME`, commands as `console`, or `console up` where they ask kubelets; other
/// fences are only read.
pub(super) fn read(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            blocks.push(Block::Runbook(runbook(heading)));
        }
        let Some(header) = line.strip_prefix("```") else { continue };
        let body: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
        match header.split_once(' ') {
            Some(("yaml", name)) => {
                let text = body.iter().map(|(_, line)| format!("{line}\n")).collect();
                blocks.push(Block::File { name: name.to_owned(), text });
            }
            None if header == "console" => blocks.extend(commands(page, &body, false)),
            Some(("console", "up")) => blocks.extend(commands(page, &body, true)),
            _ => {}
        }
    }
    assert!(blocks.iter().any(|block| matches!(block, Block::Command { .. })), "{page} has no command");
    blocks
}

/// The number of the runbook that a heading begins, such as `R8` of `R8 An infra pool, in three steps`.
fn runbook(heading: &str) -> Option<String> {
    let number = heading.split_whitespace().next()?;
    let is_number = number.strip_prefix('R').is_some_and(|digits| digits.parse::<u8>().is_ok());
    is_number.then(|| number.to_owned())
}

fn commands(page: &str, body: &[(usize, &str)], only_up: bool) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (number, text) in body {
        if let Some(command) = text.strip_prefix("$ ") {
            let (line, command) = (number + 1, command.to_owned());
            blocks.push(Block::Command { line, command, expected: Vec::new(), only_up });
        } else if let Some(Block::Command { expected, .. }) = blocks.last_mut() {
            expected.push((*text).to_owned());
        } else {
            panic!("{page}:{}: an answer without a command", number + 1);
        }
    }
    blocks
}

/// Commands that change nothing may be run again.
pub(super) fn only_looks(command: &str) -> bool {
    const LOOKS: [&str; 13] = [
        "kubectl get",
        "kubectl describe",
        "for node in $(kubectl get nodes",
        "kubectl logs",
        "machinist status",
        "machinist why",
        "machinist doctor",
        "machinist plan",
        "machinist diff",
        "machinist blame",
        "nsenter ",
        "cat ",
        "ls ",
    ];
    LOOKS.iter().any(|look| command.starts_with(look)) && !command.contains("--fix")
}

/// Whether an answer is what the page says.
pub(super) fn matches(expected: &[String], seen: &str) -> bool {
    let expected: Vec<String> = expected.iter().map(|line| squeeze(line)).filter(|line| !line.is_empty()).collect();
    let seen: Vec<String> = seen.lines().map(squeeze).filter(|line| !line.is_empty()).collect();
    matches_lines(&expected, &seen)
}

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn matches_lines(expected: &[String], seen: &[String]) -> bool {
    match expected.split_first() {
        None => seen.is_empty(),
        Some((first, rest)) if first == "…" => (0..=seen.len()).any(|skip| matches_lines(rest, &seen[skip..])),
        Some((first, rest)) => {
            seen.split_first().is_some_and(|(line, others)| matches_line(first, line) && matches_lines(rest, others))
        }
    }
}

fn matches_line(expected: &str, seen: &str) -> bool {
    match expected.split_once('…') {
        None => expected == seen,
        Some((before, after)) => {
            let Some(left) = seen.strip_prefix(before) else { return false };
            let mut starts = left.char_indices().map(|(index, _)| index).chain([left.len()]);
            starts.any(|start| matches_line(after, &left[start..]))
        }
    }
}

#[test]
fn an_answer_may_leave_things_open() {
    let page = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(matches(&page("a  b\n…\nlast…one"), "a b\nx\ny\nlast and one\n"));
    assert!(matches(&page("a\n…"), "a\n"));
    assert!(!matches(&page("a\n…\nb"), "a\nc"));
    assert!(!matches(&page("a"), "a\nb"));
}

#[test]
fn a_heading_with_a_number_begins_a_runbook() {
    let text = "# R1 of a page\n## R8 An infra pool\n```console\n$ ls a\n```\n## Rest\n";
    let blocks = read("page", text);
    let [Block::Runbook(Some(number)), Block::Command { command, .. }, Block::Runbook(None)] = blocks.as_slice() else {
        panic!("a runbook, its command and its end");
    };
    assert_eq!((number.as_str(), command.as_str()), ("R8", "ls a"));
}
