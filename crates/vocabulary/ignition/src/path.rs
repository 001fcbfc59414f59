//! A location inside a config. It lives on the stack and becomes text only if there is a problem.

use std::fmt;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn key(&'a self, name: &'a str) -> Path<'a> {
        Path::Key(self, name)
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, name) => f.write_str(name),
            Path::Key(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Go's `path.Clean`, which defines what Ignition calls a fully simplified path.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            other => parts.push(other),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

/// Whether `clean(path) == path`, without building the cleaned path.
pub(crate) fn is_clean_absolute(path: &str) -> bool {
    path == "/"
        || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_follows_go() {
        for (input, expected) in [
            ("/etc//x", "/etc/x"),
            ("/etc/./x/", "/etc/x"),
            ("/etc/../x", "/x"),
            ("/../x", "/x"),
            ("/", "/"),
            ("", "."),
            ("a/../../b", "../b"),
            ("../..", "../.."),
        ] {
            assert_eq!(clean(input), expected, "{input}");
            assert_eq!(is_clean_absolute(input), input.starts_with('/') && clean(input) == input, "{input}");
        }
    }

    #[test]
    fn paths_print_as_people_write_them() {
        let (storage, files) = (Path::Root.key("storage"), "files");
        let files = storage.key(files);
        let file = files.index(3);
        assert_eq!(file.key("mode").to_string(), "storage.files[3].mode");
    }
}
