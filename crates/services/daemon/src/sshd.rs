//! What the host's sshd says about key files, read from its configuration.
//!
//! Only as much of the language as that takes: includes, the first value that is given, and `Match` for all users or by
//! name. Settings for some addresses, hosts or groups are passed over. Nothing is written here.

use change::host::{Error, ErrorKind, Files, HostPath};

const FOLDER: &str = "/etc/ssh";
/// Some distributions ship theirs beneath `/usr` and leave `/etc` to the administrator.
const FILES: [&str; 2] = ["/etc/ssh/sshd_config", "/usr/etc/ssh/sshd_config"];
/// As many as sshd itself follows.
const INCLUDES: usize = 16;

/// Where sshd looks for keys of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sshd {
    /// Patterns of `AuthorizedKeysFile`, in order.
    pub key_files: Vec<String>,
    /// The program of `AuthorizedKeysCommand`.
    pub key_command: Option<String>,
}

/// What sshd would use for `user`. `None` on a host without an sshd.
pub fn read(files: &dyn Files, user: &str) -> Result<Option<Sshd>, Error> {
    for place in FILES {
        let path = parse(place)?;
        if files.look(&path)?.is_some() {
            let mut reading = Reading { files, user, everywhere: Values::default(), matched: Values::default() };
            reading.file(&path, None, 0)?;
            let Reading { everywhere, matched, .. } = reading;
            let key_files = matched.key_files.or(everywhere.key_files);
            let key_command = matched.key_command.or(everywhere.key_command).filter(|command| command != "none");
            let default = || [".ssh/authorized_keys", ".ssh/authorized_keys2"].map(str::to_owned).to_vec();
            return Ok(Some(Sshd { key_files: key_files.unwrap_or_else(default), key_command }));
        }
    }
    Ok(None)
}

struct Reading<'a> {
    files: &'a dyn Files,
    user: &'a str,
    /// Outside of every `Match`.
    everywhere: Values,
    /// In a `Match` that holds for the user, which goes first.
    matched: Values,
}

#[derive(Default)]
struct Values {
    key_files: Option<Vec<String>>,
    key_command: Option<String>,
}

impl Reading<'_> {
    /// `matches` says whether the `Match` around an include holds; a `Match` inside ends with the file.
    fn file(&mut self, path: &HostPath, mut matches: Option<bool>, depth: usize) -> Result<(), Error> {
        let Some(text) = self.files.read(path)?.filter(|_| depth < INCLUDES) else { return Ok(()) };
        for line in String::from_utf8_lossy(&text).lines() {
            let words = words(line);
            let Some((keyword, values)) = words.split_first() else { continue };
            match keyword.to_ascii_lowercase().as_str() {
                "match" => matches = Some(holds(values, self.user)),
                "include" if matches != Some(false) => {
                    for included in values.iter().map(|pattern| self.expand(pattern)).collect::<Result<Vec<_>, _>>()? {
                        included.iter().try_for_each(|path| self.file(path, matches, depth + 1))?;
                    }
                }
                "authorizedkeysfile" => {
                    if let Some(place) = self.values(matches) {
                        place.key_files.get_or_insert_with(|| values.to_vec());
                    }
                }
                "authorizedkeyscommand" => {
                    if let (Some(place), Some(command)) = (self.values(matches), values.first()) {
                        place.key_command.get_or_insert_with(|| command.clone());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn values(&mut self, matches: Option<bool>) -> Option<&mut Values> {
        match matches {
            None => Some(&mut self.everywhere),
            Some(true) => Some(&mut self.matched),
            Some(false) => None,
        }
    }

    /// The files that a pattern names, in sshd's order. Wildcards count in the last component only.
    fn expand(&self, pattern: &str) -> Result<Vec<HostPath>, Error> {
        let pattern = if pattern.starts_with('/') { pattern.to_owned() } else { format!("{FOLDER}/{pattern}") };
        let Ok(path) = HostPath::parse(&pattern) else { return Ok(Vec::new()) };
        let Some(folder) = path.parent().filter(|_| path.file_name().contains(['*', '?'])) else {
            return Ok(vec![path]);
        };
        let names = self.files.list(&folder)?;
        let chosen = names.iter().filter(|name| !name.starts_with('.') && is_like(name, path.file_name()));
        Ok(chosen.filter_map(|name| folder.join(name).ok()).collect())
    }
}

/// Whether a `Match` holds for `user`, wherever they come from.
fn holds(criteria: &[String], user: &str) -> bool {
    match criteria {
        [all] => all.eq_ignore_ascii_case("all"),
        [keyword, patterns] if keyword.eq_ignore_ascii_case("user") => {
            let negated = |pattern: &str| pattern.strip_prefix('!').is_some_and(|pattern| is_like(user, pattern));
            let mut patterns = patterns.split(',');
            !patterns.clone().any(negated) && patterns.any(|pattern| is_like(user, pattern))
        }
        _ => false,
    }
}

/// Shell wildcards: `*` for anything, `?` for one character.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| is_like(&text[at..], rest.as_str()))
        }
        Some(wanted) => {
            let mut others = text.chars();
            others.next().is_some_and(|found| wanted == '?' || wanted == found)
                && is_like(others.as_str(), rest.as_str())
        }
    }
}

/// Keyword and values of a line; quotes hold blanks together, and `=` may stand after the keyword.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next().filter(|first| *first != '#') {
        let (word, after) = match first {
            '"' => rest[1..].split_once('"').unwrap_or((&rest[1..], "")),
            _ => {
                let end = |mark: char| mark.is_whitespace() || (words.is_empty() && mark == '=');
                rest.split_at(rest.find(end).unwrap_or(rest.len()))
            }
        };
        words.push(word.to_owned());
        rest = after.trim_start();
        if words.len() == 1 {
            rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
        }
    }
    words
}

fn parse(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "read", path, error.problem))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use change::host::{Attributes, Host};
    use host::memory::Memory;

    fn key_files(files: &[(&str, &str)]) -> Option<(Vec<String>, Option<String>)> {
        let host = Memory::new();
        for (path, text) in files {
            host.files().put(&parse(path).unwrap(), text.as_bytes(), &Attributes::root(0o644)).unwrap();
        }
        let sshd = read(host.files(), "core").unwrap();
        sshd.map(|sshd| (sshd.key_files, sshd.key_command))
    }

    fn only(files: &[(&str, &str)]) -> String {
        key_files(files).unwrap().0.join(" ")
    }

    const MAIN: &str = "/etc/ssh/sshd_config";

    #[test]
    fn a_host_without_an_sshd_reads_no_keys() {
        assert_eq!(key_files(&[]), None);
    }

    #[test]
    fn stock_configurations_are_understood() {
        let debian = "Include /etc/ssh/sshd_config.d/*.conf\n#AuthorizedKeysFile\t.ssh/x\nUsePAM yes\n";
        assert_eq!(only(&[(MAIN, debian)]), ".ssh/authorized_keys .ssh/authorized_keys2");
        assert_eq!(only(&[(MAIN, "AuthorizedKeysFile\t.ssh/authorized_keys\n")]), ".ssh/authorized_keys");
        let coreos = "AuthorizedKeysCommand /usr/libexec/ssh-key-dir %u\nAuthorizedKeysCommandUser root\n";
        let coreos = [(MAIN, debian), ("/etc/ssh/sshd_config.d/40-ssh-key-dir.conf", coreos)];
        assert_eq!(key_files(&coreos).unwrap().1.as_deref(), Some("/usr/libexec/ssh-key-dir"));
        assert_eq!(only(&[("/usr/etc/ssh/sshd_config", "AuthorizedKeysFile=%h/keys\n")]), "%h/keys");
    }

    #[test]
    fn the_first_value_wins_and_includes_come_where_they_stand() {
        let main = "include sshd_config.d/*.conf\nAuthorizedKeysFile late\n";
        let first = ("/etc/ssh/sshd_config.d/10-a.conf", "AuthorizedKeysFile \"one two\" three\n");
        let second = ("/etc/ssh/sshd_config.d/20-b.conf", "AuthorizedKeysFile second\n");
        let other = ("/etc/ssh/sshd_config.d/05-not.txt", "AuthorizedKeysFile not\n");
        assert_eq!(key_files(&[(MAIN, main), first, second, other]).unwrap().0, ["one two", "three"]);
    }

    #[test]
    fn a_match_counts_for_whom_it_names() {
        let about =
            |who: &str| only(&[(MAIN, &format!("AuthorizedKeysFile all\nMatch {who}\nAuthorizedKeysFile some\n"))]);
        for (who, expected) in [
            ("User core", "some"),
            ("user admin,c*", "some"),
            ("User *,!core", "all"),
            ("all", "some"),
            ("User admin", "all"),
            ("Address 10.0.0.0/8", "all"),
            ("User core Address 10.0.0.0/8", "all"),
        ] {
            assert_eq!(about(who), expected, "{who}");
        }
    }

    #[test]
    fn a_circle_of_includes_ends() {
        assert_eq!(only(&[(MAIN, "Include sshd_config\nAuthorizedKeysFile a\n")]), "a");
    }
}
