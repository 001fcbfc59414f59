//! `machinistd` as a package of a distribution, for hosts whose images bring it along instead of a pod.

use std::path::Path;

use anyhow::Context as _;
use operate::programs::MACHINISTD;
use packages::{File, Package};

use super::VERSION;

/// Unit files, as a first boot gets them, with the path that they have there.
const UNITS: [(&str, &str); 2] = [
    ("machinistd.service", include_str!("../../../manifests/node/machinistd.service")),
    ("machinistd-firstboot.service", include_str!("../../../manifests/node/machinistd-firstboot.service")),
];

/// Where a first boot puts the daemon, and where a package does.
const BY_HAND: &str = "/usr/local/bin/machinistd";
const PACKAGED: &str = "/usr/bin/machinistd";

/// systemd reads units only when told. Nothing is enabled: a host becomes part of a cluster when its administrator says so.
const RELOAD: &str = "if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n";

/// A newer version is started by whoever upgrades, when a restart is welcome; only a removal stops the daemon.
/// rpm says 0 at the end, dpkg says `remove`.
const STOP: &str = "case \"$1\" in 0|remove) if [ -d /run/systemd/system ]; then systemctl disable --now machinistd.service || true; fi ;; esac\n";

pub(super) fn package(program: &Path, architecture: &'static str, time: u32) -> anyhow::Result<Package> {
    let content = std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let mut files = vec![
        File { path: PACKAGED.to_owned(), mode: 0o755, content },
        File {
            path: "/usr/share/doc/machinistd/copyright".to_owned(),
            mode: 0o644,
            content: include_bytes!("../../../LICENSE").to_vec(),
        },
    ];
    for (name, text) in UNITS {
        let path = format!("/usr/lib/systemd/system/{name}");
        files.push(File { path, mode: 0o644, content: text.replace(BY_HAND, PACKAGED).into_bytes() });
    }
    Ok(Package {
        name: MACHINISTD.to_owned(),
        version: VERSION.to_owned(),
        architecture,
        summary: "Node daemon of Machinist".to_owned(),
        description: "Brings this host to the config that its Node asks for, and keeps it there.\n\
                      Not needed where the daemon runs as a pod of the cluster."
            .to_owned(),
        licence: "Apache-2.0".to_owned(),
        maintainer: "The Machinist authors <authors@machinist.dev>".to_owned(),
        time,
        files,
        after_installation: RELOAD.to_owned(),
        before_removal: STOP.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn units_start_the_packaged_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("machinistd");
        std::fs::write(&program, "program").unwrap();
        let package = package(&program, "amd64", 0).unwrap();
        let units: Vec<&File> = package.files.iter().filter(|file| file.path.ends_with(".service")).collect();
        assert_eq!(units.len(), UNITS.len());
        for unit in units {
            let text = String::from_utf8(unit.content.clone()).unwrap();
            assert!(text.contains("ExecStart=/usr/bin/machinistd ") && !text.contains(BY_HAND), "{text}");
        }
    }
}
