//! `cargo xtask dist`: makes what people install, from the present sources and without a network.
//!
//! The same sources give the same bytes: paths of this machine are kept out of the binaries, archives are sorted and have the time of
//! the last commit, or of `SOURCE_DATE_EPOCH`. Each part is a module; this file reads the command line and runs those that were chosen.

mod archives;
mod chart;
mod daemon;
mod image;
mod programs;
mod sbom;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use packages::sha256;

use crate::workspace;
use programs::Programs;

/// The version of everything that is made.
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Args)]
pub(crate) struct Arguments {
    /// What to make; absent, everything but the bare programs
    parts: Vec<Part>,
    /// `release`: optimized and static; `dev`: quick, for tests and for this machine
    #[arg(long, default_value = "release")]
    profile: Profile,
    /// Target of the release; absent, musl where rustup and musl-gcc have it, else glibc linked statically
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Folder for what is made; absent, target/dist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Address of the folder that the release will be published in, for what is downloaded from there
    #[arg(long, value_name = "URL", default_value_t = format!("https://machinist.dev/releases/v{VERSION}"))]
    address: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The binaries as plain files, with links under upstream's names
    Programs,
    /// An archive of the binaries with manual pages and completions
    Archive,
    /// An OCI image without a base, as one file
    Image,
    /// Debian package and RPM of the node daemon
    Packages,
    /// The plugin of kubectl, with a manifest for krew
    Plugin,
    /// Helm chart and kustomize base
    Manifests,
    /// Bill of materials, as CycloneDX
    Sbom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    Release,
    Dev,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = arguments.out.clone().unwrap_or_else(|| workspace::root().join("target/dist"));
    let out = std::path::absolute(&out).with_context(|| format!("{} is not a path", out.display()))?;
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let programs = Programs::build(arguments.profile, arguments.target.as_deref())?;
    if arguments.parts.contains(&Part::Programs) {
        programs.put_into(&out)?;
    }
    let all = [Part::Archive, Part::Image, Part::Packages, Part::Plugin, Part::Manifests, Part::Sbom];
    let wanted = all.into_iter().filter(|part| arguments.parts.is_empty() || arguments.parts.contains(part));
    let time = time()?;
    let mut made = Vec::new();
    for part in wanted {
        made.extend(make(part, &programs, time, &arguments.address)?);
    }
    if !made.is_empty() {
        made.push(("SHA256SUMS".to_owned(), sums(&made).into_bytes()));
    }
    for (name, content) in &made {
        write(&out.join(name), content)?;
    }
    Ok(())
}

/// The files of one part, by their names.
fn make(part: Part, programs: &Programs, time: u32, address: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let architecture = programs.architecture;
    let platform = format!("{VERSION}-linux-{architecture}");
    Ok(match part {
        Part::Programs => Vec::new(),
        Part::Archive => vec![(format!("machinist-{platform}.tar.gz"), archives::programs(programs, time.into())?)],
        Part::Image => vec![(format!("machinist-image-{platform}.tar"), image::image(programs)?.archive()?)],
        Part::Packages => {
            let package = daemon::package(&programs.machinistd, architecture, time)?;
            let deb = format!("{}_{VERSION}_{architecture}.deb", package.name);
            vec![(deb, packages::deb(&package)?), (packages::rpm_name(&package), packages::rpm(&package)?)]
        }
        Part::Plugin => {
            let (name, plugin) =
                (format!("kubectl-machinist-{platform}.tar.gz"), archives::plugin(programs, time.into())?);
            let krew = archives::krew(architecture, &format!("{address}/{name}"), &sha256(&plugin))?;
            vec![(name, plugin), ("machinist-krew.yaml".to_owned(), krew.into_bytes())]
        }
        Part::Manifests => vec![
            (format!("machinist-{VERSION}.tgz"), chart::archive(time.into())?),
            (format!("machinist-kustomize-{VERSION}.tar.gz"), archives::kustomize(time.into())?),
        ],
        Part::Sbom => vec![(format!("machinist-{platform}.cdx.json"), sbom::write(&programs.target)?.into_bytes())],
    })
}

/// A line for each file, as `sha256sum --check` reads it.
fn sums(made: &[(String, Vec<u8>)]) -> String {
    let mut lines: Vec<String> = made.iter().map(|(name, content)| format!("{}  {name}\n", sha256(content))).collect();
    lines.sort_by(|one, other| one[64..].cmp(&other[64..]));
    lines.concat()
}

/// The time of everything that is made, in seconds since 1970.
fn time() -> anyhow::Result<u32> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => workspace::capture("git", &["log", "-1", "--format=%ct"])?,
    };
    text.trim().parse().with_context(|| format!("SOURCE_DATE_EPOCH {text:?} is no number of seconds"))
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote {} ({:.1} MB)", path.display(), content.len() as f64 / 1e6);
    Ok(())
}

#[cfg(test)]
mod tests;
