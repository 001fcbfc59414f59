//! The operating system of a simulated host that is image-based: the deployment that has booted and the one staged for the
//! next boot.
//!
//! Both are kept in a file on the host, so that another process, or the same one after a crash, finds them as they were. As
//! with rpm-ostree, every change goes into the staged deployment and nothing of it takes effect before a reboot.

use std::collections::BTreeSet;

use change::host::{Attributes, Error, ErrorKind, Files, HostPath, PackageChange};
use serde::{Deserialize, Serialize};

const DEPLOYMENTS: &str = "/var/lib/machinist/simulated-os.json";
/// What the kernel would show.
pub(crate) const COMMAND_LINE: &str = "/proc/cmdline";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Deployment {
    image: Option<String>,
    kernel_arguments: Vec<String>,
    /// Empty for the default kernel.
    kernel_type: String,
    packages: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Deployments {
    booted: Deployment,
    staged: Option<Deployment>,
}

impl Deployments {
    /// A host that never had any has booted what a distribution ships.
    pub(super) fn load(files: &dyn Files) -> Result<Self, Error> {
        let Some(bytes) = files.read(&known(DEPLOYMENTS)?)? else { return Ok(Self::default()) };
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(ErrorKind::Failed, "read", DEPLOYMENTS, error.to_string()))
    }

    fn save(&self, files: &dyn Files) -> Result<(), Error> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::new(ErrorKind::Failed, "write", DEPLOYMENTS, error.to_string()))?;
        files.put(&known(DEPLOYMENTS)?, &bytes, &Attributes::root(0o644))
    }

    pub(super) fn booted_image(&self) -> Option<String> {
        self.booted.image.clone()
    }

    /// Empty for the default kernel.
    pub(super) fn booted_kernel(&self) -> &str {
        &self.booted.kernel_type
    }

    pub(super) fn booted_packages(&self) -> &BTreeSet<String> {
        &self.booted.packages
    }

    /// Of the deployment that boots next.
    pub(super) fn kernel_arguments(&self) -> String {
        self.staged.as_ref().unwrap_or(&self.booted).kernel_arguments.join(" ")
    }

    pub(super) fn stage_image(mut self, files: &dyn Files, image: &str) -> Result<(), Error> {
        self.staged().image = Some(image.to_owned());
        self.save(files)
    }

    pub(super) fn change_kernel_arguments(
        mut self,
        files: &dyn Files,
        delete: &[String],
        append: &[String],
    ) -> Result<(), Error> {
        let arguments = &mut self.staged().kernel_arguments;
        for argument in delete {
            if let Some(at) = arguments.iter().position(|present| present == argument) {
                arguments.remove(at);
            }
        }
        for argument in append {
            // Said twice it is still there once: a step that is done again must change nothing.
            if !arguments.contains(argument) {
                arguments.push(argument.clone());
            }
        }
        self.save(files)
    }

    pub(super) fn change_packages(mut self, files: &dyn Files, change: &PackageChange) -> Result<(), Error> {
        let staged = self.staged();
        staged.packages.retain(|package| !change.uninstall.contains(package));
        staged.packages.extend(change.install.iter().cloned());
        if let Some(kernel) = &change.kernel {
            staged.kernel_type = if kernel.to == "default" { String::new() } else { kernel.to.clone() };
        }
        self.save(files)
    }

    pub(super) fn drop_staged(mut self, files: &dyn Files) -> Result<(), Error> {
        match self.staged.take() {
            Some(_) => self.save(files),
            None => Ok(()),
        }
    }

    /// What was staged is what runs now.
    pub(super) fn boot(mut self, files: &dyn Files) -> Result<(), Error> {
        if let Some(staged) = self.staged.take() {
            self.booted = staged;
            self.save(files)?;
        }
        let line = ["BOOT_IMAGE=/boot/vmlinuz ro", &self.booted.kernel_arguments.join(" ")].join(" ");
        files.put(&known(COMMAND_LINE)?, format!("{}\n", line.trim_end()).as_bytes(), &Attributes::root(0o444))
    }

    fn staged(&mut self) -> &mut Deployment {
        self.staged.get_or_insert_with(|| self.booted.clone())
    }
}

fn known(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "read", path, error.problem))
}
