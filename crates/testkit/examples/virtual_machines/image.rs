//! The image that machines boot from, built once and cached.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

const BUILD: &str = include_str!("image.sh");
const FIRST_BOOT: &str = include_str!("first-boot.sh");

const IGNITION: &str = "github.com/coreos/ignition/v2";
const VERSION: &str = "v2.24.0";

/// Returns the image in this folder, and builds it if it does not exist or was made by another script.
pub(crate) fn base(folder: &Path) -> Result<PathBuf> {
    let image = folder.join("base.qcow2");
    let made_by = fs::read_to_string(folder.join("image.sh")).unwrap_or_default();
    if image.is_file() && made_by == BUILD {
        println!("image: {} is there already", image.display());
        return Ok(image);
    }
    fs::create_dir_all(folder)?;
    // One that an earlier script has made must not pass for what this one makes.
    let _ = fs::remove_file(&image);
    // Debian has no SELinux, so nothing has to be relabelled.
    let variables = ["github.com/coreos/ignition/v2/internal/distro.selinuxRelabel=false"];
    let ignition = testkit::cache::go_tool_with(IGNITION, VERSION, &format!("{IGNITION}/internal"), &variables)?;
    for (name, text) in [("image.sh", BUILD), ("first-boot.sh", FIRST_BOOT)] {
        fs::write(folder.join(name), text)?;
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755))?;
    }
    let since = Instant::now();
    let log = File::create(folder.join("image.log"))?;
    let mut build = Command::new(folder.join("image.sh"));
    build.args([folder, &ignition, &folder.join("first-boot.sh")]);
    let status = build.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).status()?;
    ensure!(status.success(), "the image cannot be made; see {}", folder.join("image.log").display());
    let size = fs::metadata(&image).context("the image")?.len() >> 20;
    println!("image: {size} MiB in {:.0?}", since.elapsed());
    Ok(image)
}
