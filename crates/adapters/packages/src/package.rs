//! What a package of a distribution consists of, whichever format it is written in.

/// A package of files that are owned by root.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// As Debian spells it: `amd64`, `arm64`.
    pub architecture: &'static str,
    /// One line.
    pub summary: String,
    pub description: String,
    /// An SPDX expression.
    pub licence: String,
    /// `Name <address>`.
    pub maintainer: String,
    /// Seconds since 1970, of every file and of the package.
    pub time: u32,
    pub files: Vec<File>,
    /// Script of a shell that runs when the files are there.
    pub after_installation: String,
    /// Script of a shell that runs while the files are still there.
    pub before_removal: String,
}

/// A file of a package.
#[derive(Clone, Debug)]
pub struct File {
    /// From the root: `/usr/bin/machinistd`.
    pub path: String,
    pub mode: u16,
    pub content: Vec<u8>,
}

impl Package {
    /// Files in the order of their paths, so that the order in which they were collected does not matter.
    pub(crate) fn sorted(&self) -> Vec<&File> {
        let mut files: Vec<&File> = self.files.iter().collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files
    }

    pub(crate) fn size(&self) -> usize {
        self.files.iter().map(|file| file.content.len()).sum()
    }
}

#[cfg(test)]
pub(crate) fn sample() -> Package {
    let file = |path: &str, mode, content: &str| File { path: path.to_owned(), mode, content: content.into() };
    Package {
        name: "sample".to_owned(),
        version: "1.2.3".to_owned(),
        architecture: "amd64",
        summary: "A sample".to_owned(),
        description: "Only for tests.\n\nIn two paragraphs.".to_owned(),
        licence: "Apache-2.0".to_owned(),
        maintainer: "Somebody <somebody@example.org>".to_owned(),
        time: 86_400,
        files: vec![
            file("/usr/lib/systemd/system/sample.service", 0o644, "[Service]\n"),
            file("/usr/bin/sample", 0o755, "#!/bin/sh\n"),
        ],
        after_installation: "exit 0\n".to_owned(),
        before_removal: String::new(),
    }
}
