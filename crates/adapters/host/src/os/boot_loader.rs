//! Kernel arguments of hosts with packages, through their boot loader.
//!
//! The host's own arguments stay where they are; what a config adds, and what it leaves out, is noted in [`NOTES`] before
//! the boot loader hears of it. After any crash the same call brings the notes and the boot loader together again.

mod entries;
pub(crate) mod grub;
mod grubby;

use std::time::Duration;

use change::host::{Attributes, Backend, BootLoader, Error, ErrorKind, Files, HostPath};
use change::kargs::Overlay;
use serde::{Deserialize, Serialize};

/// What was added to the host's arguments and what is left out.
pub(crate) const NOTES: &str = "/etc/machine-config-daemon/kernel-arguments.json";

/// What the running kernel was given.
const COMMAND_LINE: &str = "/proc/cmdline";

/// systemd-boot says here that it has booted the machine.
const BOOTED_BY: &str = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

const UPDATE_GRUB: [&str; 2] = ["/usr/sbin/update-grub", "/usr/bin/update-grub"];
const GRUBBY: [&str; 2] = ["/usr/sbin/grubby", "/usr/bin/grubby"];
const KERNEL_INSTALL: [&str; 2] = ["/usr/bin/kernel-install", "/usr/sbin/kernel-install"];

/// A kernel that is installed again may get a new initramfs, which takes minutes on a slow machine.
const LIMIT: Duration = Duration::from_secs(900);
/// How `timeout` says that it has stopped a program.
const STOPPED: &str = "exit status: 124";

/// Runs a program of the host by its path, and gives its standard output.
pub(crate) type Run<'a> = &'a dyn Fn(&[&str]) -> Result<String, Error>;

/// A container has the files of a boot loader sometimes, and is never booted by one.
const CONTAINER: &str = "/run/systemd/container";

/// The name of a boot loader, written by an administrator who has tried it on such a machine.
pub(crate) const CHOICE: &str = "/etc/machinist/boot-loader";

/// The boot loader of a host. GRUB with `update-grub` is found by its files, unless systemd-boot has booted the machine. The
/// others have met played programs only, and what they get wrong may not boot: they are used where [`CHOICE`] names them.
pub(crate) fn find(files: &dyn Files) -> Option<BootLoader> {
    if is_there(files, CONTAINER) {
        return None;
    }
    if let Ok(Some(choice)) = text(files, CHOICE) {
        return named(choice.trim());
    }
    let has_grub = is_there(files, grub::DEFAULTS) && is_there(files, grub::CONFIG);
    let is_grub = program(files, &UPDATE_GRUB).is_some() && has_grub && !has_booted_systemd_boot(files);
    is_grub.then_some(BootLoader::Grub)
}

fn named(choice: &str) -> Option<BootLoader> {
    let all = [BootLoader::Grub, BootLoader::Grubby, BootLoader::KernelInstall, BootLoader::Entries];
    all.into_iter().find(|loader| Backend::BootLoader(*loader).name() == choice)
}

fn has_booted_systemd_boot(files: &dyn Files) -> bool {
    let bytes = known(BOOTED_BY).and_then(|path| files.read(&path)).ok().flatten().unwrap_or_default();
    let name: Vec<u8> = "systemd-boot".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.windows(name.len()).any(|window| window == name)
}

/// Of the running kernel.
pub(crate) fn running(files: &dyn Files) -> Result<String, Error> {
    match text(files, COMMAND_LINE)? {
        Some(line) => Ok(line),
        // A daemon in a pod may have the host's root without its process file system; the kernel is the same.
        None => std::fs::read_to_string(COMMAND_LINE)
            .map_err(|error| Error::new(ErrorKind::Failed, "read", COMMAND_LINE, error.to_string())),
    }
}

/// The kernel arguments of a host with this boot loader.
pub(crate) struct Arguments<'a> {
    pub(crate) loader: BootLoader,
    pub(crate) files: &'a dyn Files,
    pub(crate) run: Run<'a>,
    /// Different after every boot.
    pub(crate) boot: &'a str,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Notes {
    version: u32,
    /// The boot during which they were last changed.
    boot: String,
    /// What that boot began with.
    booted: Overlay,
    /// What the next boot shall begin with.
    next: Overlay,
    /// What the boot loader may still have from a change that was interrupted.
    #[serde(default)]
    unfinished: Overlay,
}

const VERSION: u32 = 1;

impl super::Os {
    /// Does `work` with the kernel arguments of a host with this boot loader. Its programs look at disks and may mount them.
    pub(crate) fn with_arguments<T>(
        &self,
        loader: BootLoader,
        files: &dyn Files,
        boot: &str,
        work: impl FnOnce(&Arguments<'_>) -> T,
    ) -> T {
        let limit = LIMIT.as_secs().to_string();
        // A daemon before this one may have been killed while its program ran, and two of them would write one file.
        self.stop_leftover();
        let run = |command: &[&str]| {
            let done = self.outside(&[&["timeout", "--kill-after=10", &limit], command].concat());
            done.map_err(|error| told_by(command, error))
        };
        work(&Arguments { loader, files, run: &run, boot })
    }
}

/// Names the program and not the one that has started it.
fn told_by(command: &[&str], error: Error) -> Error {
    let program = command.first().copied().unwrap_or_default();
    if error.detail.starts_with(STOPPED) {
        let detail = format!("it did not end within {} seconds and was stopped", LIMIT.as_secs());
        return Error::new(ErrorKind::TimedOut, "run", program, detail);
    }
    Error { subject: program.to_owned(), ..error }
}

impl Arguments<'_> {
    pub(crate) fn change(&self, delete: &[String], append: &[String]) -> Result<(), Error> {
        let mut notes = self.load()?;
        if notes.boot != self.boot {
            self.boot.clone_into(&mut notes.boot);
            notes.booted = notes.next.clone();
        }
        let host = notes.next.host_arguments(&notes.unfinished, &self.line()?);
        let mut next = notes.next.change(&host, delete, append);
        if self.loader == BootLoader::Grubby {
            next.remember_replaced(&host);
        }
        self.lay(notes, next)
    }

    /// First the notes, then the boot loader, then the note that it is done.
    fn lay(&self, mut notes: Notes, mut next: Overlay) -> Result<(), Error> {
        notes.unfinished = notes.unfinished.or(&notes.next);
        // What was replaced comes back also where the way back knows nothing of it.
        next.replaced.clone_from(&notes.unfinished.or(&next).replaced);
        notes.next = next;
        self.save(&notes)?;
        let (earlier, wanted) = (&notes.unfinished, &notes.next);
        match self.loader {
            BootLoader::Grub => grub::lay(self, earlier, wanted)?,
            BootLoader::Grubby => grubby::lay(self, earlier, wanted)?,
            BootLoader::KernelInstall => entries::install(self, earlier, wanted)?,
            BootLoader::Entries => entries::lay(self, earlier, wanted)?,
        }
        notes.unfinished = Overlay::default();
        notes.next.forget_replaced();
        self.save(&notes)
    }

    /// The arguments of the next boot.
    fn line(&self) -> Result<Vec<String>, Error> {
        match self.loader {
            BootLoader::Grub => grub::line(self.files),
            BootLoader::Grubby => grubby::line(self),
            BootLoader::KernelInstall => entries::installed_line(self.files),
            BootLoader::Entries => entries::line(self.files),
        }
    }

    fn load(&self) -> Result<Notes, Error> {
        let Some(text) = text(self.files, NOTES)? else { return Ok(Notes::default()) };
        let advice = "; move the file away, and the arguments that are on the line now count as the host's own";
        let refuse = |detail: String| Error::new(ErrorKind::Failed, "read", NOTES, format!("{detail}{advice}"));
        let notes: Notes = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        if notes.version > VERSION {
            let version = notes.version;
            return Err(refuse(format!(
                "a newer machinistd has written it (version {version}, this one knows {VERSION})"
            )));
        }
        Ok(notes)
    }

    fn save(&self, notes: &Notes) -> Result<(), Error> {
        let notes = Notes { version: VERSION, ..notes.clone() };
        let bytes = serde_json::to_vec_pretty(&notes)
            .map_err(|error| Error::new(ErrorKind::Failed, "write", NOTES, error.to_string()))?;
        // An argument may hold a password, of a console or a network disk.
        self.files.put(&known(NOTES)?, &bytes, &Attributes::root(0o600))?;
        self.files.flush()
    }

    /// Runs the first of these programs that is there. Without any the first one's failure says so.
    fn program(&self, places: &[&str], arguments: &[&str]) -> Result<String, Error> {
        let place = program(self.files, places).unwrap_or(places[0]);
        (self.run)(&[&[place], arguments].concat())
    }

    /// What programs have written survives a power cut once this has returned.
    fn sync(&self, paths: &[&str]) -> Result<(), Error> {
        (self.run)(&[&["sync"], paths].concat()).map(drop)
    }
}

/// Takes back what was changed since the last boot.
pub(crate) fn drop_staged(arguments: &Arguments<'_>) -> Result<(), Error> {
    let notes = arguments.load()?;
    let is_settled = notes.next == notes.booted && notes.unfinished == Overlay::default();
    if notes.boot != arguments.boot || is_settled {
        return Ok(());
    }
    let booted = notes.booted.clone();
    arguments.lay(notes, booted)
}

fn program<'a>(files: &dyn Files, places: &[&'a str]) -> Option<&'a str> {
    places.iter().copied().find(|place| is_there(files, place))
}

fn is_there(files: &dyn Files, path: &str) -> bool {
    known(path).and_then(|path| files.look(&path)).is_ok_and(|entry| entry.is_some())
}

fn text(files: &dyn Files, path: &str) -> Result<Option<String>, Error> {
    let bytes = files.read(&known(path)?)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn known(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "read", path, error.problem))
}

/// The program has run and its result is not as wanted.
fn unmet(subject: &str, detail: String) -> Error {
    Error::new(ErrorKind::Failed, "change kernel arguments in", subject, detail)
}

/// The same failure, with what to do about it.
fn advised(error: Error, advice: &str) -> Error {
    let detail = format!("{}; {advice}", error.detail);
    Error { detail, ..error }
}
