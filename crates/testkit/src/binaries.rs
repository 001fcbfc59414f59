//! Builds the product's own binaries for tests that run them like users do.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Returns the path of one of our binaries (`machinist`, `machinistd`), built from the current sources.
///
/// The build uses the profile and target folder of the running test; cargo returns at once if nothing changed. `cargo
/// xtask test` builds the binaries together with the tests and sets `MACHINIST_BUILT`: building one package alone would
/// select other features of the dependencies and recompile most of them.
pub fn binary(name: &str) -> PathBuf {
    built(name, &["--package", name, "--bin", name], Path::new(name))
}

/// Returns the path of an example of one of our packages, for tests that run it as a separate program.
pub fn example(package: &str, name: &str) -> PathBuf {
    built(name, &["--package", package, "--example", name], &Path::new("examples").join(name))
}

/// Builds the target that the arguments select, unless it is built already, and returns its path in the profile's
/// folder.
fn built(name: &str, arguments: &[&str], place: &Path) -> PathBuf {
    static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let test = env::current_exe().expect("a test knows its own path");
    let profile_folder = test.parent().and_then(|deps| deps.parent()).expect("tests live in target/PROFILE/deps");
    let is_built = env::var_os("MACHINIST_BUILT").is_some() && profile_folder.join(place).is_file();
    if !is_built && !built.iter().any(|done| done == name) {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet"]).args(arguments);
        // What cargo told this test about its own package. Some build scripts look at it, and would run again, and with them most
        // of what is to be built.
        let is_about_us = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_about_us)) {
            cargo.env_remove(name);
        }
        if let Some(target) = profile_folder.parent() {
            cargo.arg("--target-dir").arg(target);
        }
        if profile_folder.file_name().is_some_and(|profile| profile == "release") {
            cargo.arg("--release");
        }
        let output = cargo.output().expect("cargo runs");
        assert!(output.status.success(), "cannot build {name}: {}", String::from_utf8_lossy(&output.stderr));
        built.push(name.to_owned());
    }
    profile_folder.join(place)
}
