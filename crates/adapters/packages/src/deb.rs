//! Debian packages: an `ar` archive of a format version, a compressed archive of what is said about the package, and one of its files.

use crate::package::Package;
use crate::{Archive, Error, gzip};

/// The bytes of a `.deb` file.
pub fn deb(package: &Package) -> Result<Vec<u8>, Error> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&control(package)?)?),
        ("data.tar.gz", gzip(&data(package)?)?),
    ] {
        let (time, size) = (package.time, content.len());
        bytes.extend(format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, "100644").bytes());
        bytes.extend(content);
        // Members begin at even places.
        if size % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    Ok(bytes)
}

fn control(package: &Package) -> Result<Vec<u8>, Error> {
    let Package { name, version, architecture, maintainer, summary, .. } = package;
    let size = package.size().div_ceil(1024);
    // Lines of a description begin with a space, and one without words has a full stop.
    let described = package.description.lines().map(|line| if line.is_empty() { "." } else { line });
    let described: String = described.map(|line| format!(" {line}\n")).collect();
    let text = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {maintainer}\n\
         Installed-Size: {size}\nSection: admin\nPriority: optional\nDescription: {summary}\n{described}"
    );
    let mut archive = Archive::new("./", package.time.into());
    archive.file("control", 0o644, text.as_bytes())?;
    for (name, script) in [("postinst", &package.after_installation), ("prerm", &package.before_removal)] {
        if !script.is_empty() {
            archive.file(name, 0o755, format!("#!/bin/sh\nset -e\n{script}").as_bytes())?;
        }
    }
    Ok(archive.finish())
}

fn data(package: &Package) -> Result<Vec<u8>, Error> {
    let mut archive = Archive::new("./", package.time.into());
    for file in package.sorted() {
        archive.file(file.path.trim_start_matches('/'), file.mode.into(), &file.content)?;
    }
    Ok(archive.finish())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;

    use super::*;
    use crate::package::sample;

    #[test]
    fn dpkg_reads_what_is_said_and_what_is_in_it() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            // Only Debian has it; CI is one.
            assert!(std::env::var_os("CI").is_none(), "CI has dpkg-deb");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.deb");
        std::fs::write(&path, deb(&sample()).unwrap()).unwrap();
        let dpkg = |verb: &str| {
            let output = Command::new("dpkg-deb").arg(verb).arg(&path).env("TZ", "UTC").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let said = dpkg("--field");
        assert!(said.contains("Package: sample\nVersion: 1.2.3\nArchitecture: amd64\n"), "{said}");
        assert!(said.ends_with("Description: A sample\n Only for tests.\n .\n In two paragraphs.\n"), "{said}");
        let contents = dpkg("--contents");
        let lines: Vec<&str> = contents.lines().collect();
        assert!(lines.iter().any(|line| line.starts_with("-rwxr-xr-x") && line.ends_with("./usr/bin/sample")));
        assert!(lines.iter().all(|line| line.contains(" 1970-01-02 00:00 ")), "{contents}");
    }

    #[test]
    fn the_order_in_which_files_were_collected_does_not_matter() {
        let mut other = sample();
        other.files.reverse();
        assert_eq!(deb(&sample()).unwrap(), deb(&other).unwrap());
    }
}
