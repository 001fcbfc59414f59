//! Compares a host with what its config says, and lists everything that differs.
//!
//! The words are upstream's, which runbooks and alerts look for; unlike upstream it does not stop at the first difference.
//! It changes nothing, and contents are shown only as a short diff of plain text from files that others may read too.

use std::io::Read;

use change::host::{Activity, Backend, Entry, EntryKind, Error as HostError, Host, HostPath};
use change::target::{File, Folder, Target, Unit, dropin_path, unit_path};
use change::{content, kargs, plan};

use crate::{accounts, apply, keys};

/// One place where the host is not what its config says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The path, unit, user or setting.
    pub subject: String,
    /// Upstream's sentence.
    pub message: String,
    /// A few lines of difference, where they are no secret.
    pub detail: Option<String>,
}

/// Others write these after first boot; upstream ignores them too.
const IGNORED: [&str; 3] = [
    "/etc/kubernetes/kubelet-ca.crt",
    "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
    "/etc/mco/internal-registry-pull-secret.json",
];

/// Everything: operating system, files, units, users.
pub fn verify(host: &dyn Host, target: &Target) -> Vec<Mismatch> {
    let mut found = verify_system(host, target);
    found.extend(verify_files(host, target));
    found
}

/// Everything, and also the files that others write after first boot.
pub(crate) fn verify_everything(host: &dyn Host, target: &Target) -> Vec<Mismatch> {
    let mut found = verify(host, target);
    let ignored = target.files.iter().filter(|(path, _)| IGNORED.contains(&path.as_str()));
    found.extend(ignored.flat_map(|(path, file)| check_file(host, path, file)));
    found
}

/// Files, units and users only: what a change on disk can break.
pub fn verify_files(host: &dyn Host, target: &Target) -> Vec<Mismatch> {
    let mut found = Vec::new();
    for (path, file) in &target.files {
        if !IGNORED.contains(&path.as_str()) {
            found.extend(check_file(host, path, file));
        }
    }
    for (path, folder) in &target.folders {
        found.extend(check_folder(host, path, folder));
    }
    for (path, link) in &target.links {
        let present = look(host, path).ok().flatten().map(|entry| entry.kind);
        if present != Some(EntryKind::Link(link.target.clone())) {
            found.push(plain(path.as_str(), format!("link mismatch for \"{path}\"; expected: {}", link.target)));
        }
    }
    for (name, unit) in &target.units {
        check_unit(host, name, unit, &mut found);
    }
    for (name, user) in &target.users {
        found.extend(check_user(host, name, user));
    }
    let paths: Vec<HostPath> =
        plan::managed_paths(target).into_iter().filter(|path| !IGNORED.contains(&path.as_str())).collect();
    for path in host.system().mislabelled(&paths) {
        let message = format!("SELinux label mismatch for file \"{path}\"");
        found.push(plain(path.as_str(), message));
    }
    found
}

/// The sentence for annotations and logs: upstream's prefix, then every mismatch.
pub fn sentence(config: &str, mismatches: &[Mismatch]) -> String {
    format!("unexpected on-disk state validating against {config}: {}", list(mismatches))
}

pub fn list(mismatches: &[Mismatch]) -> String {
    mismatches.iter().map(|mismatch| mismatch.message.as_str()).collect::<Vec<_>>().join("; ")
}

fn verify_system(host: &dyn Host, target: &Target) -> Vec<Mismatch> {
    let system = host.system();
    let mut found = Vec::new();
    let Some(backend) = system.backend() else { return found };
    match system.booted_image() {
        Ok(Some(booted)) if !target.os_image.is_empty() && !is_same_image(&target.os_image, &booted) => {
            let message = format!("expected target osImageURL \"{}\", have \"{booted}\"", target.os_image);
            found.push(plain("osImageURL", message));
        }
        _ => {}
    }
    if !target.kernel_arguments.is_empty() {
        let line = system.kernel_arguments().unwrap_or_default();
        let missing = match backend {
            Backend::Bootc | Backend::RpmOstree => kargs::missing(&target.kernel_arguments, &line),
            Backend::BootLoader(_) => kargs::missing_in_kernel(&target.kernel_arguments, &line),
        };
        if !missing.is_empty() {
            found.push(plain("kernelArguments", missing_arguments(&missing)));
        }
    }
    found.extend(check_extensions(host, target));
    found
}

fn check_extensions(host: &dyn Host, target: &Target) -> Option<Mismatch> {
    let packages = plan::packages(&target.extensions);
    if packages.is_empty() {
        return None;
    }
    let installed = host.system().installed(&packages.iter().map(String::as_str).collect::<Vec<_>>()).ok()?;
    let missing = plan::missing_extensions(&target.extensions, &installed);
    let verdict = |extension: &&str| {
        format!("extension \"{extension}\" verification failed: no valid package set is fully installed")
    };
    let verdicts: Vec<String> = missing.iter().map(verdict).collect();
    let message = format!("extension package verification failed: {}", verdicts.join("; "));
    (!verdicts.is_empty()).then(|| plain("extensions", message))
}

pub fn missing_arguments(missing: &[String]) -> String {
    format!("missing expected kernel arguments: [{}]", missing.join(" "))
}

/// The same digest is the same image, whatever registry it came through.
fn is_same_image(wanted: &str, booted: &str) -> bool {
    let digest = |image: &str| image.rsplit_once('@').map(|(_, digest)| digest.to_owned());
    wanted == booted || (digest(wanted).is_some() && digest(wanted) == digest(booted))
}

fn check_file(host: &dyn Host, path: &HostPath, file: &File) -> Vec<Mismatch> {
    let mut found = check_mode(host, path, file.mode);
    if found.iter().any(|mismatch| mismatch.message.starts_with("could not stat")) || !is_file(host, path) {
        return found;
    }
    found.extend(check_contents(host, path, file.mode, || apply::wanted_contents(host, path, file)));
    found.extend(check_owner(host, path, file));
    found
}

/// A link to a folder counts as one: its attributes are those of the place it leads to, which may be another's.
fn check_folder(host: &dyn Host, path: &HostPath, folder: &Folder) -> Option<Mismatch> {
    let entry = match look(host, path) {
        Ok(Some(entry)) => entry,
        Ok(None) => {
            let message = format!("could not stat directory \"{path}\": lstat {path}: no such file or directory");
            return Some(plain(path.as_str(), message));
        }
        Err(text) => return Some(plain(path.as_str(), format!("could not stat directory \"{path}\": {text}"))),
    };
    if matches!(entry.kind, EntryKind::Link(_)) {
        return None;
    }
    if entry.kind != EntryKind::Folder || entry.mode != folder.mode {
        let (expected, received) = (describe(&EntryKind::Folder, folder.mode), describe(&entry.kind, entry.mode));
        let message = format!("mode mismatch for directory: \"{path}\"; expected: {expected}; received: {received}");
        return Some(plain(path.as_str(), message));
    }
    let user = accounts::user_id(host.files(), &folder.user, path).ok()?;
    let group = accounts::group_id(host.files(), &folder.group, path).ok()?;
    let message = format!(
        "owner mismatch for directory: \"{path}\"; expected: {user}:{group}; received: {}:{}",
        entry.user, entry.group
    );
    ((entry.user, entry.group) != (user, group) && host_is_root(host)).then(|| plain(path.as_str(), message))
}

fn check_owner(host: &dyn Host, path: &HostPath, file: &File) -> Option<Mismatch> {
    let entry = look(host, path).ok()??;
    let user = accounts::user_id(host.files(), &file.user, path).ok()?;
    let group = accounts::group_id(host.files(), &file.group, path).ok()?;
    let message = format!(
        "owner mismatch for file: \"{path}\"; expected: {user}:{group}; received: {}:{}",
        entry.user, entry.group
    );
    // Only root can give files away, so a daemon that is not root never could.
    ((entry.user, entry.group) != (user, group) && host_is_root(host)).then(|| plain(path.as_str(), message))
}

fn host_is_root(host: &dyn Host) -> bool {
    let marker = HostPath::parse(crate::store::FOLDER).ok();
    marker.and_then(|path| host.files().look(&path).ok()?).is_none_or(|entry| entry.user == 0)
}

fn check_mode(host: &dyn Host, path: &HostPath, mode: u32) -> Vec<Mismatch> {
    match look(host, path) {
        Err(text) => vec![plain(path.as_str(), format!("could not stat file \"{path}\": {text}"))],
        Ok(None) => {
            let message = format!("could not stat file \"{path}\": lstat {path}: no such file or directory");
            vec![plain(path.as_str(), message)]
        }
        Ok(Some(entry)) if entry.kind == EntryKind::File && entry.mode == mode => Vec::new(),
        Ok(Some(entry)) => {
            let expected = describe(&EntryKind::File, mode);
            let received = describe(&entry.kind, entry.mode);
            let message = format!("mode mismatch for file: \"{path}\"; expected: {expected}; received: {received}");
            vec![plain(path.as_str(), message)]
        }
    }
}

/// Both sides are read piece by piece, and a second time where their difference can be shown.
fn check_contents<'a>(
    host: &dyn Host,
    path: &HostPath,
    mode: u32,
    wanted: impl Fn() -> Result<Box<dyn Read + 'a>, HostError>,
) -> Option<Mismatch> {
    let both = || Ok((wanted()?, host.files().open(path)?));
    let same = both().map_err(|error: HostError| error.detail).and_then(|(wanted, present)| {
        let present = present.ok_or("no such file or directory")?;
        content::same(wanted, present).map_err(|error| error.to_string())
    });
    match same {
        Ok(true) => None,
        Ok(false) => {
            // What only its owner may read is not copied into an annotation that everybody may read.
            let shown = (mode & 0o044 != 0).then(|| both().ok()).flatten();
            let detail = shown.and_then(|(wanted, present)| short_diff(&short(wanted)?, &short(present?)?));
            let message = format!("content mismatch for file \"{path}\"");
            Some(Mismatch { subject: path.to_string(), message, detail })
        }
        Err(why) => Some(plain(path.as_str(), format!("could not read file \"{path}\": {why}"))),
    }
}

/// All of it, unless it is too much for a diff of a few lines.
fn short(reader: impl Read) -> Option<Vec<u8>> {
    const LIMIT: u64 = 256 << 10;
    let mut bytes = Vec::new();
    reader.take(LIMIT + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LIMIT).then_some(bytes)
}

fn check_unit(host: &dyn Host, name: &str, unit: &Unit, found: &mut Vec<Mismatch>) {
    for (dropin, text) in &unit.dropins {
        if let Some(path) = dropin_path(name, dropin) {
            found.extend(check_dropin(host, &path, text));
        }
    }
    let Some(path) = unit_path(name) else { return };
    if unit.mask {
        found.extend(check_mask(host, &path));
        return;
    }
    if let Some(contents) = &unit.contents {
        let before = found.len();
        found.extend(check_mode(host, &path, 0o644));
        let is_missing = found[before..].iter().any(|mismatch| mismatch.message.starts_with("could not stat"));
        if !is_missing && is_file(host, &path) {
            found.extend(check_contents(host, &path, 0o644, || Ok(Box::new(contents.as_bytes()))));
        }
    }
    if let Some(enabled) = unit.enabled {
        found.extend(check_enablement(host, name, unit, enabled));
    }
}

fn check_dropin(host: &dyn Host, path: &HostPath, text: &str) -> Vec<Mismatch> {
    if text.is_empty() && matches!(look(host, path), Ok(None)) {
        return Vec::new();
    }
    let mut found = check_mode(host, path, 0o644);
    if found.is_empty() {
        found.extend(check_contents(host, path, 0o644, || Ok(Box::new(text.as_bytes()))));
    }
    found
}

fn check_mask(host: &dyn Host, path: &HostPath) -> Option<Mismatch> {
    let received = match look(host, path) {
        Ok(Some(Entry { kind: EntryKind::Link(target), .. })) if target == "/dev/null" => return None,
        Ok(Some(Entry { kind: EntryKind::Link(target), .. })) if target.starts_with('/') => target,
        Ok(Some(Entry { kind: EntryKind::Link(target), .. })) => {
            path.parent().map_or(target.clone(), |folder| format!("{folder}/{target}"))
        }
        Ok(Some(_)) => path.to_string(),
        Ok(None) | Err(_) => {
            let message = format!(
                "state validation: error while evaluation symlink for path \"{path}\": lstat {path}: no such file or directory"
            );
            return Some(plain(path.as_str(), message));
        }
    };
    let message = format!(
        "state validation: invalid unit masked setting. path: \"{path}\"; expected: /dev/null; received: {received}"
    );
    Some(plain(path.as_str(), message))
}

fn check_enablement(host: &dyn Host, name: &str, unit: &Unit, enabled: bool) -> Option<Mismatch> {
    let word = host.services().enablement(name).ok()?;
    let is_wrong = match word.as_str() {
        // The config may speak of a unit that this host does not have.
        "not-found" => enabled && unit.contents.is_some(),
        "disabled" | "masked" | "masked-runtime" => enabled,
        "enabled" | "enabled-runtime" => !enabled,
        _ => false,
    };
    let message = format!("unit \"{name}\" expected enabled={enabled}, but systemd reports \"{word}\"");
    is_wrong.then(|| plain(name, message))
}

fn check_user(host: &dyn Host, name: &str, user: &change::target::User) -> Vec<Mismatch> {
    let files = host.files();
    let Ok(Some(account)) = accounts::find(files, name) else { return Vec::new() };
    let mut found = Vec::new();
    if !keys::are_set(files, name, &account, &user.keys) {
        found.push(plain(name, format!("SSH keys of user \"{name}\" are not those of the config")));
    }
    if let Some(hash) = &user.password_hash {
        let present = accounts::password(files, name).ok().flatten();
        if present.as_deref() != Some(hash) {
            found.push(plain(name, format!("password of user \"{name}\" is not that of the config")));
        }
    }
    found
}

/// Units of the config that are not well now, for trials and for people.
pub fn failed_units(host: &dyn Host, units: &[String]) -> Vec<(String, Activity)> {
    let activity = |unit: &String| Some((unit.clone(), host.services().activity(unit).ok()?));
    units.iter().filter_map(activity).filter(|(_, activity)| activity.has_failed()).collect()
}

/// Every path whose change could make a difference, for the drift monitor.
pub fn watched_paths(host: &dyn Host, target: &Target) -> Vec<HostPath> {
    let mut paths: Vec<HostPath> = plan::managed_paths(target).into_iter().collect();
    paths.retain(|path| !IGNORED.contains(&path.as_str()));
    for name in target.users.keys() {
        if let Ok(Some(account)) = accounts::find(host.files(), name) {
            let places = keys::places(host.files(), name, &account);
            paths.extend(places.iter().flat_map(|places| places.paths().cloned()));
        }
    }
    paths
}

fn look(host: &dyn Host, path: &HostPath) -> Result<Option<Entry>, String> {
    host.files().look(path).map_err(|error| error.detail)
}

fn is_file(host: &dyn Host, path: &HostPath) -> bool {
    matches!(look(host, path), Ok(Some(Entry { kind: EntryKind::File, .. })))
}

fn plain(subject: &str, message: String) -> Mismatch {
    Mismatch { subject: subject.to_owned(), message, detail: None }
}

/// A mode the way Go prints it, which is what administrators' alerts match: symbolic, decimal and octal.
fn describe(kind: &EntryKind, mode: u32) -> String {
    const FOLDER: u32 = 1 << 31;
    const LINK: u32 = 1 << 27;
    const DEVICE: u32 = 1 << 26;
    let (letter, bits) = match kind {
        EntryKind::File => ("-", 0),
        EntryKind::Folder => ("d", FOLDER),
        EntryKind::Link(_) => ("L", LINK),
        EntryKind::Special => ("D", DEVICE),
    };
    let special = [(0o4000, 1 << 23, "u"), (0o2000, 1 << 22, "g"), (0o1000, 1 << 20, "t")];
    let mut text = String::new();
    let mut value = bits | (mode & 0o777);
    if bits != 0 {
        text.push_str(letter);
    }
    for (bit, go, letter) in special {
        if mode & bit != 0 {
            value |= go;
            text.push_str(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for shift in [6, 3, 0] {
        let bits = mode >> shift & 7;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(if bits & 1 != 0 { 'x' } else { '-' });
    }
    format!("{text}/{value}/0{value:o}")
}

/// The first lines that differ. `None` for anything that is not short text.
fn short_diff(wanted: &[u8], present: &[u8]) -> Option<String> {
    const LINES: usize = 3;
    const WIDTH: usize = 80;
    let (wanted, present) = (std::str::from_utf8(wanted).ok()?, std::str::from_utf8(present).ok()?);
    let cut = |line: &str| line.chars().take(WIDTH).collect::<String>();
    let is_in = |text: &str, line: &str| text.lines().any(|other| other == line);
    let gone = wanted.lines().filter(|line| !is_in(present, line)).map(|line| format!("-{}", cut(line)));
    let come = present.lines().filter(|line| !is_in(wanted, line)).map(|line| format!("+{}", cut(line)));
    let lines: Vec<String> = gone.take(LINES).chain(come.take(LINES)).collect();
    let has_secret = |line: &String| {
        let line = line.to_lowercase();
        ["password", "secret", "token", "private key", "auth"].iter().any(|word| line.contains(word))
    };
    (!lines.is_empty() && !lines.iter().any(has_secret)).then(|| lines.join("\n"))
}
