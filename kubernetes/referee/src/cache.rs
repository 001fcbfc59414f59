//! Builds pinned Go programs and installs pinned Python packages once per machine, in the user's cache folder.
//!
//! Versions are part of the path, so an old build is never taken for a new one. A lock file makes concurrent test
//! processes wait for one build instead of starting several.

use std::env;
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The Kubernetes that the test control plane runs. `go/kubernetes/go.mod` pins the same one.
pub const KUBERNETES: &str = "v1.36.3";

const GO_MOD: &str = include_str!("../go/kubernetes/go.mod");
const GO_SUM: &str = include_str!("../go/kubernetes/go.sum");
const CONTROL_PLANE: [&str; 2] = ["kube-apiserver", "kube-controller-manager"];
const NODE: [&str; 3] = ["kube-scheduler", "kube-proxy", "kubelet"];

/// The folder that holds kube-apiserver and kube-controller-manager, built now if this machine never did.
pub fn control_plane_programs() -> Result<PathBuf> {
    kubernetes(&control_plane_key(), &CONTROL_PLANE)
}

/// The folder that holds kube-scheduler, kube-proxy and kubelet, built now if this machine never did.
///
/// They are apart from the control plane's, because most suites have no use for them and they take as long to build.
pub fn node_programs() -> Result<PathBuf> {
    kubernetes(&node_key(), &NODE)
}

pub(crate) fn control_plane_is_built() -> bool {
    is_complete(&cache_folder().join(control_plane_key()), &CONTROL_PLANE)
}

/// Whether [`node_programs`] takes no time.
pub fn node_programs_are_built() -> bool {
    is_complete(&cache_folder().join(node_key()), &NODE)
}

fn control_plane_key() -> String {
    format!("kubernetes-{KUBERNETES}")
}

fn node_key() -> String {
    format!("kubernetes-node-{KUBERNETES}")
}

/// Programs of Kubernetes, built without C so that they run on any root file system.
fn kubernetes(key: &str, programs: &[&str]) -> Result<PathBuf> {
    build_once(key, programs, |work, out| {
        fs::write(work.join("go.mod"), GO_MOD)?;
        fs::write(work.join("go.sum"), GO_SUM)?;
        let version = format!("-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}");
        let out = folder(out);
        let packages: Vec<String> = programs.iter().map(|name| format!("k8s.io/kubernetes/cmd/{name}")).collect();
        let mut arguments = vec!["build", "-trimpath", "-ldflags", &version, "-o", &out];
        arguments.extend(packages.iter().map(String::as_str));
        go_with(work, &arguments, &[("CGO_ENABLED", "0")])
    })
}

/// Builds `package` of a Go module at an exact version and returns the program's path.
///
/// ```no_run
/// # fn f() -> anyhow::Result<()> {
/// let validator = referee::go_tool("github.com/coreos/ignition/v2", "v2.21.0", "github.com/coreos/ignition/v2/validate")?;
/// # Ok(()) }
/// ```
pub fn go_tool(module: &str, version: &str, package: &str) -> Result<PathBuf> {
    go_tool_with(module, version, package, &[])
}

/// The same with variables of the program set as its packagers set them: `example.org/tool/distro.path=/usr/bin`.
pub fn go_tool_with(module: &str, version: &str, package: &str, variables: &[&str]) -> Result<PathBuf> {
    let program = program_name(package);
    let last = |variable: &&str| variable.rsplit('/').next().unwrap_or_default().to_owned();
    let marks: String = variables.iter().map(|variable| format!("-{}", last(variable).replace('=', "-"))).collect();
    let key = format!("{}-{version}{marks}", package.replace('/', "_"));
    let flags: Vec<String> = variables.iter().map(|variable| format!("-X {variable}")).collect();
    let dir = build_once(&key, &[program], |work, out| {
        go(work, &["mod", "init", "machinist.dev/tool"])?;
        go(work, &["get", &format!("{module}@{version}")])?;
        go(work, &["build", "-mod=mod", "-trimpath", "-ldflags", &flags.join(" "), "-o", &folder(out), package])
    })?;
    Ok(dir.join(program))
}

/// Builds a Go program of this repository from the files of its folder (`go.mod` and `go.sum` among them).
pub fn go_program(name: &str, files: &[(&str, &str)]) -> Result<PathBuf> {
    // What the files say is part of the path, so that a changed program is built anew.
    let mut hash = std::hash::DefaultHasher::new();
    files.hash(&mut hash);
    let dir = build_once(&format!("{name}-{:016x}", hash.finish()), &[name], |work, out| {
        for (file, content) in files {
            fs::write(work.join(file), content)?;
        }
        go(work, &["build", "-trimpath", "-o", &out.join(name).display().to_string(), "."])
    })?;
    Ok(dir.join(name))
}

/// Installs Python packages at exact versions and returns the folder to put into `PYTHONPATH`.
///
/// `file` is one of the installed files; the folder is whole when it is there.
pub fn python_packages(requirements: &[&str], file: &str) -> Result<PathBuf> {
    let mut hash = std::hash::DefaultHasher::new();
    requirements.hash(&mut hash);
    build_once(&format!("python-{:016x}", hash.finish()), &[file], |_, out| {
        let output = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(out)
            .args(requirements)
            .output()
            .context("cannot run python3")?;
        ensure!(output.status.success(), "pip: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    })
}

/// Go names a program after the last element of its package, or the one before a major version such as `v2`.
fn program_name(package: &str) -> &str {
    let is_major = |part: &str| part.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok());
    package.rsplit('/').find(|part| !is_major(part)).unwrap_or(package)
}

fn build_once(key: &str, programs: &[&str], build: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<PathBuf> {
    let cache = cache_folder();
    let dir = cache.join(key);
    if is_complete(&dir, programs) {
        return Ok(dir);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let lock = File::create(cache.join(format!("{key}.lock")))?;
    lock.lock().with_context(|| format!("cannot lock the build of {key}"))?;
    if is_complete(&dir, programs) {
        return Ok(dir);
    }
    eprintln!("referee: building {key} once for this machine; this takes some minutes");
    let work = tempfile::tempdir_in(&cache)?;
    let out = work.path().join("out");
    fs::create_dir(&out)?;
    build(work.path(), &out).with_context(|| format!("cannot build {key}"))?;
    ensure!(is_complete(&out, programs), "building {key} did not make {programs:?}");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::rename(&out, &dir)?;
    Ok(dir)
}

fn is_complete(dir: &Path, programs: &[&str]) -> bool {
    programs.iter().all(|program| dir.join(program).is_file())
}

fn go(work: &Path, arguments: &[&str]) -> Result<()> {
    go_with(work, arguments, &[])
}

fn go_with(work: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    // Flags a developer set for their own modules must not change what is built here.
    let output = Command::new("go")
        .args(arguments)
        .current_dir(work)
        .env("GOFLAGS", "-buildvcs=false")
        .envs(environment.iter().copied())
        .output()
        .context("cannot run go")?;
    if !output.status.success() {
        bail!("go {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn folder(path: &Path) -> String {
    format!("{}/", path.display())
}

fn cache_folder() -> PathBuf {
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    base.unwrap_or_else(env::temp_dir).join("machinist")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_as_go_names_it() {
        assert_eq!(program_name("github.com/coreos/ignition/v2/validate"), "validate");
        assert_eq!(program_name("example.org/tool/v3"), "tool");
    }
}
