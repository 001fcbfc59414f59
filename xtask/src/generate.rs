//! `cargo xtask generate`: writes the files that are generated from code, and reports stale ones.
//!
//! A generator returns files; only this module writes, compares and deletes them. To add a generator, add a line to
//! [`GENERATORS`]. Nothing here changes a file that no generator returned, except in folders that a generator owns.

mod crds;
mod install;
mod kubernetes;
mod monitoring;
mod rbac;
mod seed;
mod wire;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::workspace;

/// The expected content of a file, with its path relative to the root of the repository.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A generator of files, and what it needs.
struct Generator {
    /// A folder in which all files belong to this generator: a file that it no longer returns is deleted.
    folder: Option<&'static str>,
    inputs: Inputs,
    files: fn() -> anyhow::Result<Vec<File>>,
}

#[derive(PartialEq)]
enum Inputs {
    /// Code of this repository: the files can be checked on every machine and at any time.
    Repository,
    /// A download: the files are only generated on request.
    Downloads,
}

const GENERATORS: &[Generator] = &[
    Generator { folder: Some("manifests/crds"), inputs: Inputs::Repository, files: crds::files },
    Generator { folder: Some("manifests/install"), inputs: Inputs::Repository, files: install::files },
    Generator { folder: Some("manifests/monitoring"), inputs: Inputs::Repository, files: monitoring::files },
    Generator { folder: Some("manifests/rbac"), inputs: Inputs::Repository, files: rbac::files },
    Generator { folder: Some("config"), inputs: Inputs::Repository, files: seed::config },
    Generator { folder: None, inputs: Inputs::Repository, files: seed::root },
    Generator { folder: None, inputs: Inputs::Downloads, files: kubernetes_tables },
];

/// Writes every generated file.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = workspace::root();
    for generator in GENERATORS {
        let files = (generator.files)()?;
        for stranger in strangers(&root, generator, &files)? {
            std::fs::remove_file(root.join(&stranger))
                .with_context(|| format!("cannot delete {}", stranger.display()))?;
            println!("deleted {}", stranger.display());
        }
        for File { path, text } in files {
            if read(&root.join(&path))?.is_some_and(|present| present == text) {
                continue;
            }
            let target = root.join(&path);
            if let Some(folder) = target.parent() {
                std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            }
            std::fs::write(&target, text).with_context(|| format!("cannot write {}", path.display()))?;
            println!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// Returns a message for each stale file.
pub(crate) fn check() -> anyhow::Result<Vec<String>> {
    let root = workspace::root();
    let mut problems = Vec::new();
    for generator in GENERATORS.iter().filter(|generator| generator.inputs == Inputs::Repository) {
        problems.extend(stale(&root, generator)?);
    }
    Ok(problems)
}

fn stale(root: &Path, generator: &Generator) -> anyhow::Result<Vec<String>> {
    let files = (generator.files)()?;
    let mut problems: Vec<String> = strangers(root, generator, &files)?
        .into_iter()
        .map(|path| format!("{}: nothing generates this file any more; run `cargo xtask generate`", path.display()))
        .collect();
    for File { path, text } in &files {
        let path = path.display();
        match read(&root.join(path.to_string()))? {
            None => problems.push(format!("{path}: this generated file is missing; run `cargo xtask generate`")),
            Some(present) if present != *text => {
                problems.push(format!("{path}: this generated file is stale; run `cargo xtask generate`"));
            }
            Some(_) => {}
        }
    }
    Ok(problems)
}

/// Returns the files in the generator's own folder that it did not return.
fn strangers(root: &Path, generator: &Generator, files: &[File]) -> anyhow::Result<Vec<PathBuf>> {
    let Some(folder) = generator.folder else {
        return Ok(Vec::new());
    };
    let made: BTreeSet<&Path> = files.iter().map(|file| file.path.as_path()).collect();
    let entries = match std::fs::read_dir(root.join(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot list {folder}")),
    };
    let mut strangers = Vec::new();
    for entry in entries {
        let path = Path::new(folder).join(entry.with_context(|| format!("cannot list {folder}"))?.file_name());
        if !made.contains(path.as_path()) {
            strangers.push(path);
        }
    }
    strangers.sort();
    Ok(strangers)
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn kubernetes_tables() -> anyhow::Result<Vec<File>> {
    Ok(kubernetes::tables()?.into_iter().map(|(path, text)| File { path, text }).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const GENERATOR: Generator = Generator {
        folder: Some("made"),
        inputs: Inputs::Repository,
        files: || Ok(vec![file("made/a"), file("made/b")]),
    };

    fn file(path: &str) -> File {
        File { path: path.into(), text: "as it should be".to_owned() }
    }

    #[test]
    fn stale_missing_and_unexpected_files_are_reported() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("made")).unwrap();
        std::fs::write(root.path().join("made/a"), "edited by hand").unwrap();
        std::fs::write(root.path().join("made/c"), "left over").unwrap();
        assert_eq!(
            stale(root.path(), &GENERATOR).unwrap(),
            [
                "made/c: nothing generates this file any more; run `cargo xtask generate`",
                "made/a: this generated file is stale; run `cargo xtask generate`",
                "made/b: this generated file is missing; run `cargo xtask generate`",
            ]
        );
    }

    #[test]
    fn fresh_files_are_no_problem() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("made")).unwrap();
        for File { path, text } in (GENERATOR.files)().unwrap() {
            std::fs::write(root.path().join(path), text).unwrap();
        }
        assert!(stale(root.path(), &GENERATOR).unwrap().is_empty());
    }
}
