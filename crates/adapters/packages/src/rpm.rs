//! RPM packages: a lead that only names the format, a header of digests, a header of what is said about the package, and its files as
//! a compressed cpio archive. They are not signed: who publishes them signs what they publish.

mod header;

use crate::package::Package;
use crate::{Error, gzip, sha256};
use header::{Header, Value};

/// The release of a version, which distributions count when they package it anew.
const RELEASE: &str = "1";

/// Tags of the header of digests.
mod signature {
    pub(super) const REGION: u32 = 62;
    pub(super) const SHA256: u32 = 273;
    pub(super) const SIZE: u32 = 1000;
    pub(super) const PAYLOAD_SIZE: u32 = 1007;
}

/// The bytes of an `.rpm` file.
pub fn rpm(package: &Package) -> Result<Vec<u8>, Error> {
    let archive = cpio(package);
    let payload = gzip(&archive)?;
    let header = said(package, &sha256(&payload)).finish(63);
    let mut digests = Header::default();
    digests.add(signature::SHA256, Value::Text(sha256(&header)));
    digests.add(signature::SIZE, Value::Words(vec![number(header.len() + payload.len())]));
    digests.add(signature::PAYLOAD_SIZE, Value::Words(vec![number(archive.len())]));
    let mut digests = digests.finish(signature::REGION);
    digests.resize(digests.len().next_multiple_of(8), 0);
    Ok([lead(package), digests, header, payload].concat())
}

/// The name of the file.
pub fn rpm_name(package: &Package) -> String {
    format!("{}-{}-{RELEASE}.{}.rpm", package.name, package.version, architecture(package))
}

fn architecture(package: &Package) -> &'static str {
    if package.architecture == "arm64" { "aarch64" } else { "x86_64" }
}

fn lead(package: &Package) -> Vec<u8> {
    let mut lead = vec![0; 96];
    lead[..4].copy_from_slice(&[0xed, 0xab, 0xee, 0xdb]);
    lead[4] = 3;
    // A binary package for machines that nobody reads from here any more.
    lead[9] = 1;
    let name = format!("{}-{}-{RELEASE}", package.name, package.version);
    let name = &name.as_bytes()[..name.len().min(65)];
    lead[10..10 + name.len()].copy_from_slice(name);
    lead[77] = 1;
    lead[79] = 5;
    lead
}

/// Everything that is said about the package and its files. The tags have the names and numbers of the format.
fn said(package: &Package, payload: &str) -> Header {
    let text = |text: &str| Value::Text(text.to_owned());
    let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    let mut header = Header::default();
    header.add(100, texts(&["C"]));
    header.add(1000, text(&package.name));
    header.add(1001, text(&package.version));
    header.add(1002, text(RELEASE));
    header.add(1004, Value::Translated(package.summary.clone()));
    header.add(1005, Value::Translated(package.description.clone()));
    header.add(1006, Value::Words(vec![package.time]));
    header.add(1007, text("localhost"));
    header.add(1009, Value::Words(vec![number(package.size())]));
    header.add(1014, text(&package.licence));
    header.add(1015, text(&package.maintainer));
    header.add(1016, Value::Translated("System Environment/Daemons".to_owned()));
    header.add(1021, text("linux"));
    header.add(1022, text(architecture(package)));
    for (script, tag, program) in [(&package.after_installation, 1024, 1086), (&package.before_removal, 1025, 1087)] {
        if !script.is_empty() {
            header.add(tag, text(script));
            header.add(program, text("/bin/sh"));
        }
    }
    header.add(1044, text(&format!("{}-{}-{RELEASE}.src.rpm", package.name, package.version)));
    let version = format!("{}-{RELEASE}", package.version);
    header.add(1047, texts(&[&package.name]));
    header.add(1112, Value::Words(vec![EQUAL]));
    header.add(1113, texts(&[&version]));
    let needed = [("CompressedFileNames", "3.0.4-1"), ("FileDigests", "4.6.0-1"), ("PayloadFilesHavePrefix", "4.0-1")];
    header.add(1048, Value::Words(vec![LESS | EQUAL | OF_RPM; needed.len()]));
    header.add(1049, Value::Texts(needed.iter().map(|(name, _)| format!("rpmlib({name})")).collect()));
    header.add(1050, Value::Texts(needed.iter().map(|(_, version)| (*version).to_owned()).collect()));
    header.add(1124, text("cpio"));
    header.add(1125, text("gzip"));
    header.add(1126, text("9"));
    header.add(5092, texts(&[payload]));
    header.add(5093, Value::Words(vec![SHA256]));
    add_files(package, &mut header);
    header
}

const LESS: u32 = 2;
const EQUAL: u32 = 8;
/// A need that rpm itself answers.
const OF_RPM: u32 = 1 << 24;
/// The number of the digest among those of OpenPGP.
const SHA256: u32 = 8;
const REGULAR: u16 = 0o100_000;

fn add_files(package: &Package, header: &mut Header) {
    let files = package.sorted();
    let count = files.len();
    let same = |text: &str| Value::Texts(vec![text.to_owned(); count]);
    let parts: Vec<(&str, &str)> =
        files.iter().map(|file| file.path.rsplit_once('/').unwrap_or(("", &file.path))).collect();
    let mut folders: Vec<String> = parts.iter().map(|(folder, _)| format!("{folder}/")).collect();
    let places = parts.iter().map(|(folder, _)| format!("{folder}/"));
    folders.sort();
    folders.dedup();
    let places = places.map(|folder| number(folders.iter().position(|known| *known == folder).unwrap_or_default()));
    header.add(1116, Value::Words(places.collect()));
    header.add(1028, Value::Words(files.iter().map(|file| number(file.content.len())).collect()));
    header.add(1030, Value::Halves(files.iter().map(|file| REGULAR | file.mode).collect()));
    header.add(1033, Value::Halves(vec![0; count]));
    header.add(1034, Value::Words(vec![package.time; count]));
    header.add(1035, Value::Texts(files.iter().map(|file| sha256(&file.content)).collect()));
    header.add(1036, same(""));
    header.add(1037, Value::Words(vec![0; count]));
    header.add(1039, same("root"));
    header.add(1040, same("root"));
    header.add(1045, Value::Words(vec![u32::MAX; count]));
    header.add(1095, Value::Words(vec![1; count]));
    header.add(1096, Value::Words((1..=number(count)).collect()));
    header.add(1097, same(""));
    header.add(1117, Value::Texts(parts.iter().map(|(_, name)| (*name).to_owned()).collect()));
    header.add(1118, Value::Texts(folders));
    header.add(5011, Value::Words(vec![SHA256]));
}

/// The files as a cpio archive of the format `newc`.
fn cpio(package: &Package) -> Vec<u8> {
    let mut archive = Vec::new();
    for (index, file) in (1..).zip(package.sorted()) {
        entry(&mut archive, index, REGULAR | file.mode, package.time, &format!(".{}", file.path), &file.content);
    }
    entry(&mut archive, 0, 0, 0, "TRAILER!!!", &[]);
    archive
}

fn entry(archive: &mut Vec<u8>, inode: u32, mode: u16, time: u32, name: &str, content: &[u8]) {
    let fields = [inode, mode.into(), 0, 0, 1, time, number(content.len()), 0, 0, 0, 0, number(name.len() + 1), 0];
    archive.extend(b"070701");
    fields.iter().for_each(|field| archive.extend(format!("{field:08x}").bytes()));
    archive.extend(name.bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// A package of 4 GiB and more would need other tags; ours has some megabytes.
fn number(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;

    use super::*;
    use crate::package::sample;

    #[test]
    fn digests_fit_the_header_and_the_payload() {
        let package = sample();
        let bytes = rpm(&package).unwrap();
        let payload = gzip(&cpio(&package)).unwrap();
        assert!(bytes.ends_with(&payload));
        let header = said(&package, &sha256(&payload)).finish(63);
        let start = bytes.len() - payload.len() - header.len();
        assert_eq!(bytes[start..bytes.len() - payload.len()], header);
        assert_eq!(start % 8, 0, "headers begin at multiples of eight");
        let digest = sha256(&header);
        let digests = &bytes[96..start];
        assert!(digests.windows(64).any(|part| part == digest.as_bytes()));
    }

    #[test]
    fn the_order_in_which_files_were_collected_does_not_matter() {
        let mut other = sample();
        other.files.reverse();
        assert_eq!(rpm(&sample()).unwrap(), rpm(&other).unwrap());
    }

    /// Debian's rpm reads packages, but few machines have it: the tests above hold without it.
    #[test]
    fn rpm_reads_what_is_said_and_finds_every_digest_right() {
        if Command::new("rpm").arg("--version").output().is_err() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(rpm_name(&sample()));
        std::fs::write(&path, rpm(&sample()).unwrap()).unwrap();
        let ask = |arguments: &[&str]| {
            let output = Command::new("rpm").args(arguments).arg(&path).env("HOME", folder.path()).output().unwrap();
            let said =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
            assert!(output.status.success(), "rpm {arguments:?}: {said}");
            said
        };
        assert!(ask(&["-K", "--nosignature"]).contains("digests OK"));
        assert_eq!(ask(&["-qp", "--nosignature"]).trim(), "sample-1.2.3-1.x86_64");
        let files = ask(&["-qplv", "--nosignature"]);
        assert!(files.contains("-rwxr-xr-x") && files.contains("/usr/bin/sample"), "{files}");
    }
}
