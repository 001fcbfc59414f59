//! Archives for people who unpack things themselves: the programs with their manual, the plugin of kubectl, the kustomize base.

use std::path::Path;

use anyhow::Context as _;
use operate::programs::{CHROOT, LINKS, MACHINIST, MACHINISTD};
use packages::{Archive, gzip};
use serde_json::{Value, json};

use super::VERSION;
use super::programs::Programs;
use crate::workspace;

const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];

/// Programs, completions, manual pages and licence.
pub(super) fn programs(programs: &Programs, time: u64) -> anyhow::Result<Vec<u8>> {
    let mut archive = Archive::new("", time);
    for (name, source) in [(MACHINIST, &programs.machinist), (MACHINISTD, &programs.machinistd)] {
        archive.file(&format!("bin/{name}"), 0o755, &read(source)?)?;
    }
    for link in LINKS.iter().filter(|link| link.name != CHROOT) {
        archive.link(&format!("bin/{}", link.name), link.program)?;
    }
    let program = programs.machinist.display().to_string();
    for shell in SHELLS {
        let script = workspace::capture(&program, &["completions", shell])?;
        archive.file(&format!("share/completions/machinist.{shell}"), 0o644, script.as_bytes())?;
    }
    for (name, page) in manual(&program)? {
        archive.file(&format!("share/man/man1/{name}"), 0o644, &page)?;
    }
    archive.file("LICENSE", 0o644, &read(&workspace::root().join("LICENSE"))?)?;
    Ok(gzip(&archive.finish())?)
}

/// Manual pages as `machinist man` writes them, by their names.
fn manual(program: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let folder = std::env::temp_dir().join(format!("machinist-man-{}", std::process::id()));
    let text = folder.display().to_string();
    workspace::capture(program, &["man", "--dir", &text])?;
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {text}"))?;
    let mut pages = Vec::new();
    for entry in entries {
        let entry = entry?;
        pages.push((entry.file_name().to_string_lossy().into_owned(), read(&entry.path())?));
    }
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {text}"))?;
    pages.sort();
    Ok(pages)
}

/// The plugin of kubectl: one program under the name that kubectl looks for.
pub(super) fn plugin(programs: &Programs, time: u64) -> anyhow::Result<Vec<u8>> {
    let mut archive = Archive::new("", time);
    archive.file("kubectl-machinist", 0o755, &read(&programs.machinist)?)?;
    archive.file("LICENSE", 0o644, &read(&workspace::root().join("LICENSE"))?)?;
    Ok(gzip(&archive.finish())?)
}

/// What krew needs to know about the plugin: where it is, and that nobody has changed it.
pub(super) fn krew(architecture: &str, address: &str, sha256: &str) -> anyhow::Result<String> {
    let platform = json!({
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": address,
        "sha256": sha256,
        "bin": "kubectl-machinist",
        "files": [{"from": "kubectl-machinist", "to": "."}, {"from": "LICENSE", "to": "."}],
    });
    let manifest: Value = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": MACHINIST},
        "spec": {
            "version": format!("v{VERSION}"),
            "shortDescription": "Plan, follow and explain changes of nodes",
            "description": "Shows what a change of machine configuration would do before it is applied,\n\
                            why a pool, node or machine is in its state, and what would move it.\n",
            "platforms": [platform],
        },
    });
    serde_saphyr::to_string(&manifest).context("cannot write YAML")
}

/// `manifests/install`, which `tidy` holds to what `machinist install` prints.
pub(super) fn kustomize(time: u64) -> anyhow::Result<Vec<u8>> {
    let folder = workspace::root().join("manifests/install");
    let entries = std::fs::read_dir(&folder).context("cannot list manifests/install")?;
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut archive = Archive::new("machinist/", time);
    for name in names {
        archive.file(&name, 0o644, &read(&folder.join(&name))?)?;
    }
    Ok(gzip(&archive.finish())?)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
