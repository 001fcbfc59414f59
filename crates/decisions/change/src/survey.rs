//! Decides what a daemon tells of a file that `machinist adopt` asks about: a hash, a text, or only that it is there.
//!
//! Secrets never travel. A file that not everybody on the host may read counts as one, and so does one that looks like it
//! holds a key or a password. Of these not even a hash is told: short secrets could be guessed from it.

use api::machinist::{Found, SurveyedFile};
use api::survey::{LONGEST_ANSWER, LONGEST_FILE, Request};

use crate::host::{Entry, EntryKind, Files, HostPath};

/// Where configuration of hosts is. What lies elsewhere belongs to somebody's data, and is not told of.
const PLACES: [&str; 5] =
    ["/etc", "/usr/local", "/usr/lib/systemd/system", "/var/lib/kubelet/config.yaml", "/var/lib/rancher/k3s/agent/etc"];

/// Words of files that hold secrets although everybody may read them.
const SECRETS: [&str; 6] = ["PRIVATE KEY", "\"auths\"", "client-key-data", "password", "passwd", "secret"];

/// Names whose values are secrets, in YAML, TOML, JSON and lists of variables.
const KEYS: [&str; 4] = ["auth", "token", "authorization", "proxy-authorization"];

/// Files that say who may log in; nobody adopts them.
const NEVER: [&str; 8] = [
    "/etc/passwd",
    "/etc/shadow",
    "/etc/group",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/machine-config-daemon",
];

/// Looks at everything that was asked for.
pub fn answer(files: &dyn Files, request: &Request) -> Vec<SurveyedFile> {
    let mut room = LONGEST_ANSWER;
    let one = |path: &String| {
        let told = look(files, path, request.contents, &mut room);
        SurveyedFile { path: path.clone(), ..told }
    };
    request.paths.iter().map(one).collect()
}

fn look(files: &dyn Files, path: &str, contents: bool, room: &mut usize) -> SurveyedFile {
    let other =
        |reason: &str| SurveyedFile { found: Found::Other, reason: Some(reason.to_owned()), ..SurveyedFile::default() };
    let Ok(place) = HostPath::parse(path) else { return other("this is no path of a host") };
    let is_told = PLACES.iter().any(|folder| place.is_beneath(folder)) && !NEVER.iter().any(|it| place.is_beneath(it));
    if !is_told {
        return other("daemons tell nothing of this place");
    }
    let entry = match files.look(&place) {
        Ok(None) => return SurveyedFile::default(),
        Ok(Some(entry)) if entry.kind == EntryKind::File => entry,
        Ok(Some(_)) => return other("it is no file"),
        Err(error) => return other(&error.to_string()),
    };
    let mode = Some(entry.mode);
    if let Some(reason) = withheld(&entry) {
        return SurveyedFile { found: Found::Secret, mode, reason: Some(reason), ..SurveyedFile::default() };
    }
    if entry.size > u64::try_from(LONGEST_FILE).unwrap_or(u64::MAX) {
        return SurveyedFile { mode, ..other("it is longer than 64 KiB") };
    }
    let bytes = match files.read(&place) {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(error) => return SurveyedFile { mode, ..other(&error.to_string()) },
    };
    let Ok(text) = String::from_utf8(bytes) else { return SurveyedFile { mode, ..other("it is no text") } };
    if let Some(word) = secret_word(&text) {
        let reason = Some(format!("it contains \"{word}\""));
        return SurveyedFile { found: Found::Secret, mode, reason, ..SurveyedFile::default() };
    }
    let mut told = SurveyedFile {
        found: Found::File,
        mode,
        hash: Some(ignition::sha256(text.as_bytes())),
        ..SurveyedFile::default()
    };
    if contents && text.len() <= *room {
        *room -= text.len();
        told.contents = Some(text);
    } else if contents {
        told.reason = Some("the answer is full; ask for fewer paths".to_owned());
    }
    told
}

fn withheld(entry: &Entry) -> Option<String> {
    (entry.mode & 0o004 == 0).then(|| format!("its mode is {:04o}, so not everybody may read it", entry.mode))
}

fn secret_word(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase();
    let is_told =
        |at: usize, key: &str| is_key(&lower[at + key.len()..]) || is_option(&lower[..at], &lower[at + key.len()..]);
    let key = |key: &&str| lower.match_indices(*key).any(|(at, _)| is_told(at, key));
    SECRETS.into_iter().find(|word| lower.contains(&word.to_lowercase())).or_else(|| KEYS.into_iter().find(key))
}

/// Whether what follows a word makes it a name with a value.
fn is_key(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default();
    line.trim_start_matches(['"', '\'']).trim_start().starts_with([':', '='])
}

/// Whether a word ends an option whose value stands behind it, as in `--token X` or as install scripts write it: `'--token' \`
/// with `'X'` on the next line.
fn is_option(before: &str, rest: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_flag = before[before.trim_end_matches(is_part).len()..].starts_with('-');
    let parted = rest.trim_start_matches(['"', '\'']);
    let value = parted.trim_start_matches([' ', '\t', '\r', '\n', '\\', ',']);
    // Lists of YAML have a dash before each value.
    let first = value.strip_prefix("- ").unwrap_or(value).trim_start_matches(['"', '\'', ' ']).chars().next();
    is_flag && value.len() < parted.len() && first.is_some_and(|first| !"-#".contains(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_with_a_secret_is_seen_wherever_its_value_stands() {
        for (text, word) in [
            ("ExecStart=/usr/local/bin/k3s \\\n    agent \\\n\t'--token' \\\n\t'K10abc::node:x' \\\n", Some("token")),
            ("ExecStart=/usr/local/bin/k3s agent --token K10abc\n", Some("token")),
            ("ExecStart=/usr/local/bin/k3s agent \"--agent-token\" \"abc\"\n", Some("token")),
            ("ExecStart=/usr/local/bin/k3s agent --token=abc\n", Some("token")),
            ("token: abc\n", Some("token")),
            ("args:\n- --token\n- abc\n", Some("token")),
            ("args: [\"--token\", \"abc\"]\n", Some("token")),
            ("ExecStart=/bin/x --token-ttl 2m --port 1\n", None),
            ("ExecStart=/bin/x --rotate-token --port 1\n", None),
            ("# a token\n: of thanks\n", None),
        ] {
            assert_eq!(secret_word(text), word, "{text}");
        }
    }
}
