//! Boot loaders of a simulated host with packages: their files are real, their programs are played.
//!
//! What changes kernel arguments is the same code as on a machine; only the programs that it runs are these.

use change::host::{Attributes, BootLoader, Error, ErrorKind, Files, HostPath};
use change::kargs;

use super::Simulation;
use super::os::COMMAND_LINE;
use crate::os::boot_loader::{Arguments, grub};
pub(super) use crate::os::boot_loader::{drop_staged, running};

const GRUB_DEFAULTS: &str = "/etc/default/grub";
const GRUB_FOLDER: &str = "/etc/default/grub.d";
const KERNEL_LINE: &str = "/etc/kernel/cmdline";
const ENTRIES: &str = "/boot/loader/entries";
const ROOT: &str = "root=/dev/vda1 ro";
/// The kernel of hosts that nobody has given one.
const KERNEL: &str = "6.1.0";

pub(super) fn with_arguments<T>(
    simulation: &Simulation,
    loader: BootLoader,
    files: &dyn Files,
    boot: &str,
    work: impl FnOnce(&Arguments<'_>) -> T,
) -> T {
    let run = |command: &[&str]| {
        simulation.record(command.join(" "));
        run(files, command)
    };
    work(&Arguments { loader, files, run: &run, boot })
}

/// Gives the kernel what the boot loader has for it.
pub(super) fn boot(loader: BootLoader, files: &dyn Files) -> Result<(), Error> {
    let arguments = match loader {
        BootLoader::Grub => grub_entry(files)?,
        BootLoader::Grubby | BootLoader::KernelInstall | BootLoader::Entries => {
            entries(files)?.pop().map(|(_, options)| options).unwrap_or_default()
        }
    };
    // GRUB puts the quotes that it has taken away around whole arguments.
    let quoted = |argument: String| match loader {
        BootLoader::Grub if argument.contains(' ') => format!("\"{argument}\""),
        _ => argument,
    };
    let arguments: Vec<String> = arguments.into_iter().map(quoted).collect();
    let line = format!("BOOT_IMAGE=/boot/vmlinuz {}\n", arguments.join(" "));
    files.put(&known(COMMAND_LINE)?, line.as_bytes(), &Attributes::root(0o444))
}

fn run(files: &dyn Files, command: &[&str]) -> Result<String, Error> {
    let (program, arguments) = command.split_first().map_or(("", command), |(program, rest)| (*program, rest));
    match (program.rsplit('/').next().unwrap_or_default(), arguments) {
        ("update-grub", []) => update_grub(files),
        ("grubby", [which]) if which.starts_with("--info=") => grubby_info(files),
        ("grubby", ["--update-kernel=ALL", changes @ ..]) => grubby_update(files, changes),
        ("kernel-install", ["add", version, _image]) => kernel_install(files, version),
        ("sync", _) => files.flush().map(|()| String::new()),
        _ => Err(Error::new(ErrorKind::Unsupported, "run", program, "this host plays no such program")),
    }
}

fn update_grub(files: &dyn Files) -> Result<String, Error> {
    let (mut linux, mut default) = (String::new(), "quiet".to_owned());
    let mut scripts = vec![GRUB_DEFAULTS.to_owned()];
    let mut names = files.list(&known(GRUB_FOLDER)?)?;
    names.retain(|name| name.ends_with(".cfg"));
    scripts.extend(names.iter().map(|name| format!("{GRUB_FOLDER}/{name}")));
    for script in scripts {
        for line in text(files, &script)?.lines() {
            if let Some(value) = line.strip_prefix("GRUB_CMDLINE_LINUX=") {
                linux = unquoted(value).replace("$GRUB_CMDLINE_LINUX", &linux);
            } else if let Some(value) = line.strip_prefix("GRUB_CMDLINE_LINUX_DEFAULT=") {
                default = unquoted(value).replace("$GRUB_CMDLINE_LINUX_DEFAULT", &default);
            } else if let Some(words) = line.trim().strip_prefix("for machinist_word in ") {
                let words = grub::words(words.trim_end_matches("; do"));
                for list in [&mut linux, &mut default] {
                    let kept: Vec<&str> = list.split(' ').filter(|word| !words.iter().any(|it| it == word)).collect();
                    *list = kept.join(" ");
                }
            }
        }
    }
    let config = format!("menuentry 'Debian' {{\n\tlinux\t/boot/vmlinuz-{KERNEL} {ROOT} {linux} {default}\n}}\n");
    files.put(&known(grub::CONFIG)?, config.as_bytes(), &Attributes::root(0o600))?;
    Ok(String::new())
}

fn unquoted(value: &str) -> String {
    value.trim().trim_matches('"').replace("\\$", "$").replace("\\`", "`")
}

fn grub_entry(files: &dyn Files) -> Result<Vec<String>, Error> {
    let config = text(files, grub::CONFIG)?;
    let line = config.lines().find(|line| line.trim_start().starts_with("linux")).unwrap_or("linux kernel ro quiet");
    Ok(grub::words(line).split_off(2))
}

/// Each entry's file and arguments.
fn entries(files: &dyn Files) -> Result<Vec<(String, Vec<String>)>, Error> {
    let mut found = Vec::new();
    for name in files.list(&known(ENTRIES)?)? {
        let path = format!("{ENTRIES}/{name}");
        let text = text(files, &path)?;
        let options = text.lines().filter_map(|line| line.strip_prefix("options "));
        found.push((path, options.flat_map(kargs::split).collect()));
    }
    if found.is_empty() {
        found.push((format!("{ENTRIES}/{KERNEL}.conf"), kargs::split(&format!("{ROOT} quiet"))));
    }
    Ok(found)
}

fn write_entry(files: &dyn Files, path: &str, options: &[String]) -> Result<(), Error> {
    let text = format!("title Linux\nlinux /vmlinuz\noptions {}\n", options.join(" "));
    files.put(&known(path)?, text.as_bytes(), &Attributes::root(0o644))
}

fn grubby_info(files: &dyn Files) -> Result<String, Error> {
    let lines = |(index, (_, options)): (usize, (String, Vec<String>))| {
        format!("index={index}\nkernel=\"/boot/vmlinuz-{KERNEL}\"\nargs=\"{}\"\n", options.join(" "))
    };
    Ok(entries(files)?.into_iter().enumerate().map(lines).collect())
}

/// As the real one: an argument takes the place of one that sets the same thing.
fn grubby_update(files: &dyn Files, changes: &[&str]) -> Result<String, Error> {
    let listed = |flag: &str| -> Vec<String> {
        changes.iter().filter_map(|change| change.strip_prefix(flag)).flat_map(kargs::split).collect()
    };
    let key = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    let (remove, add) = (listed("--remove-args="), listed("--args="));
    for (path, mut options) in entries(files)? {
        options.retain(|option| !remove.contains(option));
        for argument in &add {
            match options.iter_mut().find(|option| key(option) == key(argument)) {
                Some(option) => option.clone_from(argument),
                None => options.push(argument.clone()),
            }
        }
        write_entry(files, &path, &options)?;
    }
    Ok(String::new())
}

fn kernel_install(files: &dyn Files, version: &str) -> Result<String, Error> {
    let text = text(files, KERNEL_LINE)?;
    let line: Vec<String> = text.lines().filter(|line| !line.starts_with('#')).flat_map(kargs::split).collect();
    write_entry(files, &format!("{ENTRIES}/{version}.conf"), &line)?;
    Ok(String::new())
}

fn text(files: &dyn Files, path: &str) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(&files.read(&known(path)?)?.unwrap_or_default()).into_owned())
}

fn known(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "read", path, error.problem))
}
