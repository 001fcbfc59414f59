//! What two servers say, without what no two servers share: identities, versions, times and addresses.

use std::collections::BTreeMap;

pub(super) fn normal(text: &str, server: &str) -> String {
    let text = text.replace(server, "SERVER").replace(server.trim_start_matches("https://"), "SERVER");
    text.lines().map(normal_line).fold(String::new(), |all, line| all + &line + "\n")
}

fn normal_line(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let core = word.trim_matches(|c: char| matches!(c, '"' | ',' | '(' | ')' | '\'' | ':'));
        let replaced = match core {
            core if is_uid(core) => "UID",
            core if core.parse::<std::net::Ipv4Addr>().is_ok() => "ADDRESS",
            core if core.starts_with("/tmp/LIVE-") || core.starts_with("/tmp/MERGED-") => "FILE",
            core if core.starts_with("node-debugger-") => "DEBUGGER",
            core if core.rsplit('=').next().is_some_and(is_uid) => "LABEL=UID",
            core if is_time(core) || is_file_time(core) || is_clock(core) => "TIME",
            core if is_age(core) => "AGE",
            core if is_version_after(core, &words) => "VERSION",
            core => core,
        };
        words.push(word.replacen(core, replaced, usize::from(!core.is_empty())));
    }
    let indent = line.len() - line.trim_start().len();
    let json = |line: String| mask_json(&line);
    " ".repeat(indent) + &json(words.join(" "))
}

fn is_uid(word: &str) -> bool {
    word.len() == 36
        && word.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.ends_with('Z') && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T'
}

/// The time of a file as `diff` prints it; the day stands in front of a tab.
fn is_file_time(word: &str) -> bool {
    word.len() == 18 && word.as_bytes()[2] == b':' && word.as_bytes()[8] == b'.'
}

/// The time of a day, as `describe` prints it behind the day.
fn is_clock(word: &str) -> bool {
    let digit = |index: usize, byte: u8| if matches!(index, 2 | 5) { byte == b':' } else { byte.is_ascii_digit() };
    word.len() == 8 && word.bytes().enumerate().all(|(index, byte)| digit(index, byte))
}

fn is_age(word: &str) -> bool {
    let digits = word.trim_end_matches(['s', 'm', 'h']);
    !digits.is_empty() && digits.len() < word.len() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'm')
}

/// A number that stands behind the word `resourceVersion`.
fn is_version_after(word: &str, words: &[String]) -> bool {
    let after = words.last().is_some_and(|last| last.contains("resourceVersion"))
        || words.ends_with(&["Resource".to_owned(), "Version:".to_owned()]);
    after && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// One line of compact JSON has no spaces around its values.
fn mask_json(line: &str) -> String {
    // Whose fields come in which order means nothing.
    let parsed = serde_json::from_str::<BTreeMap<String, serde_json::Value>>(line);
    let mut line = parsed.map_or_else(|_| line.to_owned(), |object| serde_json::json!(object).to_string());
    // A list that came as protobuf has no items where others have none.
    line = line.replace("\"items\": null", "\"items\": []");
    for field in ["uid", "resourceVersion", "creationTimestamp", "time", "continue"] {
        let key = format!("\"{field}\":\"");
        let mut from = 0;
        while let Some(start) = line[from..].find(&key).map(|at| from + at + key.len()) {
            let end = line[start..].find('"').map_or(line.len(), |at| start + at);
            line.replace_range(start..end, "X");
            from = start;
        }
    }
    line
}
