//! Builds the two binaries, and puts them into a folder under all their names.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use operate::programs::{LINKS, MACHINIST, MACHINISTD};

use super::Profile;
use crate::workspace;

/// The built binaries.
pub(super) struct Programs {
    pub(super) machinist: PathBuf,
    pub(super) machinistd: PathBuf,
    /// As Go and OCI spell it: `amd64`.
    pub(super) architecture: &'static str,
    /// As Rust spells it.
    pub(super) target: String,
    pub(super) is_static: bool,
}

/// The release is built apart from tests: its flags would make cargo build everything of theirs anew.
const RELEASE_FOLDER: &str = "target/dist-build";

impl Programs {
    pub(super) fn build(profile: Profile, target: Option<&str>) -> anyhow::Result<Self> {
        match profile {
            Profile::Dev => Self::build_dev(),
            Profile::Release => Self::build_release(target),
        }
    }

    fn build_dev() -> anyhow::Result<Self> {
        // `cargo xtask test` has built them with the tests; one package alone would choose other features of what it depends on.
        let folder = workspace::root().join("target/debug");
        let is_built = std::env::var_os("MACHINIST_BUILT").is_some() && folder.join(MACHINISTD).is_file();
        if !is_built {
            workspace::run("cargo", &["build", "--locked", "--package", MACHINIST, "--package", MACHINISTD])?;
        }
        // Three quarters of a debug build are for debuggers, and compressing that takes minutes.
        let stripped = workspace::root().join("target/dist-dev");
        std::fs::create_dir_all(&stripped).with_context(|| format!("cannot make {}", stripped.display()))?;
        for name in [MACHINIST, MACHINISTD] {
            packages::strip(&folder.join(name), &stripped.join(name))?;
        }
        Ok(Self {
            machinist: stripped.join(MACHINIST),
            machinistd: stripped.join(MACHINISTD),
            architecture: architecture(std::env::consts::ARCH)?,
            target: format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
            is_static: false,
        })
    }

    fn build_release(target: Option<&str>) -> anyhow::Result<Self> {
        let target = target.map_or_else(default_target, |target| Ok(target.to_owned()))?;
        let architecture = architecture(target.split('-').next().unwrap_or_default())?;
        println!("building for {target}, linked statically");
        let folder = workspace::root().join(RELEASE_FOLDER);
        for (package, profile) in [(MACHINIST, "release"), (MACHINISTD, "daemon")] {
            let arguments = ["build", "--locked", "--package", package, "--profile", profile, "--target", &target];
            let mut cargo = workspace::command("cargo", &arguments);
            cargo.arg("--target-dir").arg(&folder).envs(reproducible(&folder)?);
            let status = cargo.status().context("cannot start cargo")?;
            if !status.success() {
                bail!("`cargo {}` failed ({status})", arguments.join(" "));
            }
        }
        let built = |profile: &str, name: &str| folder.join(&target).join(profile).join(name);
        let (machinist, machinistd) = (built("release", MACHINIST), built("daemon", MACHINISTD));
        Ok(Self { machinist, machinistd, architecture, target, is_static: true })
    }

    /// Copies the binaries into a folder, with links under their other names.
    pub(super) fn put_into(&self, folder: &Path) -> anyhow::Result<()> {
        for (name, source) in [(MACHINIST, &self.machinist), (MACHINISTD, &self.machinistd)] {
            let target = folder.join(name);
            replace(&target, |target| std::fs::copy(source, target).map(drop))?;
        }
        // `chroot` is for the image, where there is no other; a folder of the PATH has one.
        for link in LINKS.iter().filter(|link| link.name != operate::programs::CHROOT) {
            replace(&folder.join(link.name), |path| symlink(link.program, path))?;
        }
        println!("wrote the programs into {}", folder.display());
        Ok(())
    }
}

/// Makes a file anew: a running program cannot be written over, and a link is no file.
fn replace(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok() {
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    make(path).with_context(|| format!("cannot make {}", path.display()))
}

/// The machine's own architecture, with musl if it can be had.
fn default_target() -> anyhow::Result<String> {
    let architecture = std::env::consts::ARCH;
    let musl = format!("{architecture}-unknown-linux-musl");
    let installed = workspace::capture("rustc", &["--print", "target-libdir", "--target", &musl]);
    let is_installed = installed.is_ok_and(|folder| Path::new(folder.trim()).is_dir());
    let has_compiler = workspace::capture("musl-gcc", &["--version"]).is_ok();
    Ok(if is_installed && has_compiler { musl } else { format!("{architecture}-unknown-linux-gnu") })
}

/// What keeps this machine out of the binaries: the paths of sources, of the registry and of the target folder.
fn reproducible(folder: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let registry = home.context("neither CARGO_HOME nor HOME is set")?;
    let root = workspace::root().display().to_string();
    // rustc takes the last that fits.
    let paths = [(registry.as_str(), "/cargo"), (&root, "/machinist"), (&folder.display().to_string(), "/build")];
    let rust: Vec<String> = paths.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let c: Vec<String> = paths.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    Ok(vec![
        ("RUSTFLAGS", format!("{} -C target-feature=+crt-static", rust.join(" "))),
        ("CFLAGS", c.join(" ")),
        ("CARGO_INCREMENTAL", "0".to_owned()),
    ])
}

fn architecture(rust: &str) -> anyhow::Result<&'static str> {
    match rust {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no release is made for {other}; x86_64 and aarch64 are known"),
    }
}
