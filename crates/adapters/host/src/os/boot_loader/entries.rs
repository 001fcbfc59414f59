//! systemd-boot: `/etc/kernel/cmdline` from which `kernel-install` makes its entries, or the entries themselves.
//!
//! Both are lines that the host shares with its administrators: ours are put at their end, and only ours are taken out.

use change::host::{Attributes, Entry, EntryKind, Error, Files, HostPath};
use change::kargs::{self, Overlay};

use super::{Arguments, KERNEL_INSTALL, advised, is_there, known, text, unmet};

pub(super) const COMMAND_LINE: &str = "/etc/kernel/cmdline";
/// Folders with boot entries: that of the specification, and the places where distributions mount it.
const FOLDERS: [&str; 3] = ["/efi/loader/entries", "/boot/efi/loader/entries", "/boot/loader/entries"];
const MODULES: &str = "/usr/lib/modules";

/// The arguments in `/etc/kernel/cmdline`.
pub(super) fn installed_line(files: &dyn Files) -> Result<Vec<String>, Error> {
    Ok(arguments_in(&text(files, COMMAND_LINE)?.unwrap_or_default()))
}

/// The arguments of the newest entry.
pub(super) fn line(files: &dyn Files) -> Result<Vec<String>, Error> {
    Ok(all(files)?.last().map(|entry| options(&entry.text)).unwrap_or_default())
}

/// Writes the line that kernels get when they are installed, and installs those again that are.
pub(super) fn install(arguments: &Arguments<'_>, earlier: &Overlay, wanted: &Overlay) -> Result<(), Error> {
    let files = arguments.files;
    let before = text(files, COMMAND_LINE)?.unwrap_or_default();
    let after = wanted.line(earlier, &arguments_in(&before));
    if after != arguments_in(&before) {
        let comments: String =
            before.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        let line = format!("{comments}{}\n", after.join(" "));
        files.put(&known(COMMAND_LINE)?, line.as_bytes(), &Attributes::root(0o644))?;
        files.flush()?;
    } else if is_laid(&all(files)?, earlier, wanted) {
        return Ok(());
    }
    let kernels = kernels(files)?;
    if kernels.is_empty() {
        let detail = format!("no kernel is in {MODULES}; install one as its package does");
        return Err(unmet(COMMAND_LINE, detail));
    }
    for (version, image) in kernels {
        let advice = format!("run `kernel-install add {version} {image}` on the host to see what it says");
        let done = arguments.program(&KERNEL_INSTALL, &["add", &version, &image]);
        done.map_err(|error| advised(error, &advice))?;
    }
    arguments.sync(&[])?;
    let entries = all(files)?;
    // Kernels in one image with their arguments have no entries; what they were given is seen after the reboot.
    if entries.is_empty() || is_laid(&entries, earlier, wanted) {
        return Ok(());
    }
    let detail =
        format!("kernel-install has written no entry as {COMMAND_LINE} says; see which of /etc/kernel/install.d does");
    Err(unmet("the entries of systemd-boot", detail))
}

/// Writes the arguments into each entry of a Linux kernel.
pub(super) fn lay(arguments: &Arguments<'_>, earlier: &Overlay, wanted: &Overlay) -> Result<(), Error> {
    let files = arguments.files;
    for entry in all(files)? {
        let before = options(&entry.text);
        let after = wanted.line(earlier, &before);
        if after != before {
            let attributes = Attributes { mode: entry.mode, ..Attributes::root(0o644) };
            files.put(&entry.path, with_options(&entry.text, &after).as_bytes(), &attributes)?;
        }
    }
    files.flush()
}

/// An entry of a Linux kernel.
struct Kernel {
    path: HostPath,
    mode: u32,
    text: String,
}

/// Of the first folder that has any, oldest first as far as names tell.
fn all(files: &dyn Files) -> Result<Vec<Kernel>, Error> {
    for folder in FOLDERS {
        let mut found = Vec::new();
        for name in files.list(&known(folder)?)?.iter().filter(|name| name.ends_with(".conf")) {
            let path = known(&format!("{folder}/{name}"))?;
            let Some(Entry { kind: EntryKind::File, mode, .. }) = files.look(&path)? else { continue };
            let text = text(files, path.as_str())?.unwrap_or_default();
            if value(&text, "linux").is_some() {
                found.push(Kernel { path, mode, text });
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

fn is_laid(entries: &[Kernel], earlier: &Overlay, wanted: &Overlay) -> bool {
    entries.iter().any(|entry| wanted.mismatch(earlier, &options(&entry.text)).is_none())
}

fn kernels(files: &dyn Files) -> Result<Vec<(String, String)>, Error> {
    let versions = files.list(&known(MODULES)?)?;
    let image = |version: &String| {
        let places = [format!("{MODULES}/{version}/vmlinuz"), format!("/boot/vmlinuz-{version}")];
        places.into_iter().find(|place| is_there(files, place))
    };
    Ok(versions.into_iter().filter_map(|version| image(&version).map(|image| (version, image))).collect())
}

fn arguments_in(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.starts_with('#')).flat_map(kargs::split).collect()
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| key_of(line, key))
}

fn key_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.trim_start().strip_prefix(key)?.strip_prefix([' ', '\t']).map(str::trim)
}

fn options(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| key_of(line, "options")).flat_map(kargs::split).collect()
}

/// The entry with these arguments on one line, where the first one was.
fn with_options(text: &str, arguments: &[String]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = Some(format!("options {}", arguments.join(" ")));
    for old in text.lines() {
        match key_of(old, "options") {
            Some(_) => lines.extend(line.take()),
            None => lines.push(old.to_owned()),
        }
    }
    lines.extend(line);
    lines.join("\n") + "\n"
}
