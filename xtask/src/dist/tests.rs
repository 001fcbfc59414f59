//! Everything that is made without a build, from programs that only look like ours.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::*;

/// Answers to what is asked of `machinist` while a release is made.
const PROGRAM: &str =
    "#!/bin/sh\nif [ \"$1\" = man ]; then mkdir -p \"$3\"; echo page > \"$3/machinist.1\"; else echo \"$@\"; fi\n";

fn programs(folder: &Path) -> Programs {
    let program = |name: &str| {
        let path = folder.join(name);
        std::fs::write(&path, PROGRAM).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    Programs {
        machinist: program("machinist"),
        machinistd: program("machinistd"),
        architecture: "amd64",
        target: "x86_64-unknown-linux-gnu".to_owned(),
        is_static: true,
    }
}

fn everything(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let programs = programs(folder);
    let parts = [Part::Archive, Part::Packages, Part::Plugin, Part::Manifests, Part::Sbom];
    parts.into_iter().flat_map(|part| make(part, &programs, 86_400, "https://example.org").unwrap()).collect()
}

#[test]
fn a_release_is_made_of_the_same_bytes_wherever_its_programs_lie() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = folders.each_ref().map(|folder| everything(folder.path()));
    let names: Vec<&String> = one.keys().collect();
    assert_eq!(
        names,
        [
            "kubectl-machinist-0.1.0-linux-amd64.tar.gz",
            "machinist-0.1.0-linux-amd64.cdx.json",
            "machinist-0.1.0-linux-amd64.tar.gz",
            "machinist-0.1.0.tgz",
            "machinist-krew.yaml",
            "machinist-kustomize-0.1.0.tar.gz",
            "machinistd-0.1.0-1.x86_64.rpm",
            "machinistd_0.1.0_amd64.deb",
        ]
    );
    for (name, content) in &one {
        assert!(other[name] == *content, "{name} differs");
    }
}

#[test]
fn the_archive_has_every_name_of_the_programs_their_manual_and_completions() {
    let folder = tempfile::tempdir().unwrap();
    let made = make(Part::Archive, &programs(folder.path()), 0, "").unwrap();
    let path = folder.path().join(&made[0].0);
    std::fs::write(&path, &made[0].1).unwrap();
    let listed = Command::new("tar").arg("-tzf").arg(&path).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in
        ["bin/machinistd", "bin/machine-api-operator", "share/man/man1/machinist.1", "share/completions/machinist.zsh"]
    {
        assert!(listed.lines().any(|line| line == name), "{name}: {listed}");
    }
    assert!(!listed.contains("chroot"), "a PATH has its own");
}

#[test]
fn krew_is_told_the_address_and_the_digest_of_the_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let made = make(Part::Plugin, &programs(folder.path()), 0, "https://example.org/v1").unwrap();
    let manifest: serde_json::Value = serde_saphyr::from_str(std::str::from_utf8(&made[1].1).unwrap()).unwrap();
    let platform = &manifest["spec"]["platforms"][0];
    assert_eq!(platform["uri"], format!("https://example.org/v1/{}", made[0].0));
    assert_eq!(platform["sha256"], sha256(&made[0].1));
}

#[test]
fn sha256sum_accepts_the_sums() {
    let folder = tempfile::tempdir().unwrap();
    let made = vec![("b".to_owned(), b"two".to_vec()), ("a".to_owned(), b"one".to_vec())];
    for (name, content) in &made {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    std::fs::write(folder.path().join("SHA256SUMS"), sums(&made)).unwrap();
    let checked =
        Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(String::from_utf8(checked.stdout).unwrap(), "a: OK\nb: OK\n");
}
