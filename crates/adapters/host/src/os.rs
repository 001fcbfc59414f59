//! The OS image, kernel arguments and packages, through the host's own tools: `rpm-ostree`, or `bootc` alone.
//!
//! Tools are run behind [`Run`], so that tests can stand in for them. Which of the two is used is decided by what the host
//! has; a host with neither has no backend.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use change::host::{Attributes, Backend, Error, ErrorKind, Files, HostPath, KernelChange, PackageChange};

use crate::root::Root;

pub(crate) mod boot_loader;

/// Runs a program of the host and gives its standard output.
pub trait Run: Send + Sync {
    fn has(&self, program: &str) -> bool;
    fn run(&self, program: &str, arguments: &[String]) -> Result<String, Error>;
    /// Lays a file ready that a program needs; without contents the file goes.
    fn lay(&self, path: &str, contents: Option<&str>) -> Result<(), Error>;
    /// Whether there is a file or link.
    fn is_there(&self, path: &str) -> bool;
    fn link(&self, path: &str, target: &str) -> Result<(), Error>;
    /// Waits before another try.
    fn pause(&self, time: Duration);
}

/// Programs of the host at a root folder; anywhere but `/` they run inside it.
pub struct Programs {
    root: PathBuf,
    limit: Option<Duration>,
}

/// What fetches images may take long over a slow line.
const LONG: Duration = Duration::from_secs(3600);
/// Everything else answers in seconds.
const SHORT: Duration = Duration::from_secs(300);
/// Programs whose words about a failure are read, so they speak English.
const PACKAGE_MANAGERS: [&str; 2] = ["dpkg-query", "rpm"];
/// What they say of a file that came with no package.
const NOBODYS: [&str; 2] = ["no path found matching pattern", "is not owned by any package"];
/// How often a program is looked at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

impl Programs {
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), limit: None }
    }

    /// With one time limit for every program.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    fn limit(&self, program: &str) -> Duration {
        let is_long = ["rpm-ostree", "bootc", "podman", "systemd-run", "crictl"].contains(&program);
        self.limit.unwrap_or(if is_long { LONG } else { SHORT })
    }
}

impl Run for Programs {
    fn has(&self, program: &str) -> bool {
        self.root.join("usr/bin").join(program).exists()
    }

    fn run(&self, program: &str, arguments: &[String]) -> Result<String, Error> {
        let mut command = if self.root == Path::new("/") {
            Command::new(program)
        } else {
            let mut command = Command::new("chroot");
            command.arg(&self.root).arg(program);
            command
        };
        command.args(arguments).env("RPMOSTREE_CLIENT_ID", "machine-config-operator");
        let is_package_manager = PACKAGE_MANAGERS.contains(&program);
        if is_package_manager {
            command.env("LC_ALL", "C");
        }
        let failed = |detail: String| Error::new(ErrorKind::Failed, "run", program, detail);
        let limit = self.limit(program);
        let Some(output) = output_within(&mut command, limit).map_err(|error| failed(error.to_string()))? else {
            let detail = format!("it did not end within {} seconds and was stopped", limit.as_secs_f32());
            return Err(Error::new(ErrorKind::TimedOut, "run", program, detail));
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let mut errors = String::from_utf8_lossy(&output.stderr).into_owned();
        // rpm says in its standard output that a file is nobody's.
        if is_package_manager {
            errors.push_str(&String::from_utf8_lossy(&output.stdout));
        }
        let last: Vec<&str> = errors.lines().rev().take(3).collect();
        Err(failed(format!("{}: {}", output.status, last.into_iter().rev().collect::<Vec<_>>().join(" "))))
    }

    fn lay(&self, path: &str, contents: Option<&str>) -> Result<(), Error> {
        let (root, place) = (Root::open(&self.root)?, place(path)?);
        match contents {
            Some(text) => root.put(&place, text.as_bytes(), &Attributes::root(0o644)),
            None => root.remove(&place),
        }
    }

    fn is_there(&self, path: &str) -> bool {
        let entry = Root::open(&self.root).and_then(|root| root.look(&place(path)?));
        entry.is_ok_and(|entry| entry.is_some())
    }

    fn link(&self, path: &str, target: &str) -> Result<(), Error> {
        Root::open(&self.root)?.link(&place(path)?, target)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

fn place(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "write", path, error.problem))
}

/// Runs a program to its end, or stops it at the limit: `None`.
fn output_within(command: &mut Command, limit: Duration) -> std::io::Result<Option<Output>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            child.wait()?;
            // Whatever it has started may hold the pipes open; nobody waits for that.
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    };
    let text = |reader: JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    Ok(Some(Output { status, stdout: text(stdout), stderr: text(stderr) }))
}

/// Reads a pipe on a thread of its own, so that a program which says much does not wait for its reader.
fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

pub struct Os {
    run: Box<dyn Run>,
}

/// Where the packages of an extensions image are unpacked to, and the repository that shows rpm-ostree the way.
const EXTENSIONS: &str = "/run/mco-extensions/os-extensions-content";
const REPOSITORY: &str = "/etc/yum.repos.d/coreos-extensions.repo";
const PULL_SECRET: &str = "/var/lib/kubelet/config.json";

/// Where rpm-ostree and bootc look for credentials of registries. What lies in `/run` is gone after the next boot.
const CREDENTIALS: &str = "/run/ostree/auth.json";
const ADMINISTRATORS_CREDENTIALS: &str = "/etc/ostree/auth.json";

/// The unit in which programs run outside the daemon's sandbox, one at a time.
const UNIT: &str = "machinistd-outside.service";

/// How often something is tried, with pauses that double.
#[derive(Clone, Copy)]
struct Patience {
    tries: u32,
    first: Duration,
}
const REBASE: Patience = Patience { tries: 7, first: Duration::from_secs(10) };
const PULL: Patience = Patience { tries: 6, first: Duration::from_secs(5) };

/// Parts of the default kernel that another kernel replaces.
const KERNEL: [&str; 5] = ["kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"];

impl Os {
    pub fn new(run: Box<dyn Run>) -> Self {
        Self { run }
    }

    /// The host's programs, for what is not the OS's business.
    pub fn tools(&self) -> &dyn Run {
        &*self.run
    }

    /// Of a host with an image; boot loaders of other hosts are found by their files.
    pub fn backend(&self) -> Option<Backend> {
        if self.run.has("rpm-ostree") {
            Some(Backend::RpmOstree)
        } else if self.run.has("bootc") {
            Some(Backend::Bootc)
        } else {
            None
        }
    }

    /// Of the deployment that boots next where the tool can tell, else of the running kernel.
    pub fn kernel_arguments(&self) -> Result<String, Error> {
        match self.backend() {
            Some(Backend::RpmOstree) => self.rpm_ostree(&["kargs"]),
            Some(Backend::Bootc | Backend::BootLoader(_)) | None => {
                Ok(std::fs::read_to_string("/proc/cmdline").unwrap_or_default())
            }
        }
    }

    pub fn change_kernel_arguments(&self, delete: &[String], append: &[String]) -> Result<(), Error> {
        self.needs_rpm_ostree("kernel arguments")?;
        // A host that has booted what an interrupted update staged has the new arguments already.
        let additions = append.iter().map(|argument| format!("--append-if-missing={argument}"));
        let deletion = |argument: &String| format!("--delete-if-present={argument}");
        let of_both = |list: &[String], other: &[String]| -> Vec<String> {
            list.iter().filter(|argument| other.contains(argument)).cloned().collect()
        };
        let mut arguments = vec!["kargs".to_owned()];
        if of_both(delete, append) == of_both(append, delete) {
            arguments.extend(delete.iter().filter(|argument| !append.contains(argument)).map(deletion));
        } else {
            // Arguments that stay change their order, which matters for some: all go before they come again.
            let all = delete.iter().chain(append.iter().filter(|argument| !delete.contains(argument)));
            let removal = std::iter::once("kargs".to_owned()).chain(all.map(deletion));
            self.change(&removal.collect::<Vec<_>>())?;
        }
        arguments.extend(additions);
        self.change(&arguments).map(drop)
    }

    pub fn booted_image(&self) -> Result<Option<String>, Error> {
        match self.backend() {
            Some(Backend::BootLoader(_)) | None => Ok(None),
            Some(Backend::RpmOstree) => {
                let status = self.json("rpm-ostree", &["status", "--json"])?;
                let deployments = status["deployments"].as_array().cloned().unwrap_or_default();
                let booted = deployments.into_iter().find(|deployment| deployment["booted"] == true);
                let reference =
                    booted.and_then(|deployment| Some(deployment["container-image-reference"].as_str()?.to_owned()));
                Ok(reference.map(|reference| without_transport(&reference)))
            }
            Some(Backend::Bootc) => {
                let status = self.json("bootc", &["status", "--format=json"])?;
                let image = &status["status"]["booted"]["image"];
                let name = image["image"]["image"].as_str();
                let digest = image["imageDigest"].as_str();
                Ok(name.map(|name| match digest {
                    Some(digest) if !name.contains('@') => {
                        format!("{}@{digest}", name.split(':').next().unwrap_or(name))
                    }
                    _ => name.to_owned(),
                }))
            }
        }
    }

    pub fn stage_image(&self, image: &str) -> Result<(), Error> {
        if self.backend().is_some() {
            self.lend_credentials()?;
        }
        match self.backend() {
            Some(Backend::RpmOstree) => {
                let reference = format!("ostree-unverified-registry:{image}");
                self.patiently(REBASE, || self.rpm_ostree(&["rebase", "--experimental", &reference]).map(drop))
            }
            Some(Backend::Bootc) => {
                self.stop_leftover();
                self.patiently(REBASE, || self.outside(&["bootc", "switch", image]).map(drop))
            }
            Some(Backend::BootLoader(_)) | None => {
                Err(unsupported("stage an image on", "it has neither bootc nor rpm-ostree"))
            }
        }
    }

    /// Lets the OS tools pull with the kubelet's pull secret, by a link, so that the secret stays in one file. Credentials
    /// that somebody else put there are left alone.
    fn lend_credentials(&self) -> Result<(), Error> {
        let has_own = [CREDENTIALS, ADMINISTRATORS_CREDENTIALS].iter().any(|path| self.run.is_there(path));
        if has_own || !self.run.is_there(PULL_SECRET) { Ok(()) } else { self.run.link(CREDENTIALS, PULL_SECRET) }
    }

    pub fn drop_staged(&self) -> Result<(), Error> {
        match self.backend() {
            Some(Backend::RpmOstree) => self.rpm_ostree(&["cleanup", "-p"]).map(drop),
            Some(Backend::Bootc) => self.unstage(),
            Some(Backend::BootLoader(_)) | None => Ok(()),
        }
    }

    /// bootc has no word for this: `bootc rollback` lets go of what is staged, and boots the deployment before the booted one
    /// next. A staged deployment is the first in ostree's list. What is still staged then is an error, because the next boot,
    /// whoever asks for it, would take an image that was given back.
    fn unstage(&self) -> Result<(), Error> {
        self.stop_leftover();
        if self.staged_image()?.is_none() {
            return Ok(());
        }
        let dropped = self.outside(&["ostree", "admin", "undeploy", "0"]);
        match (self.staged_image()?, dropped) {
            (None, _) => Ok(()),
            (Some(image), dropped) => {
                let why = dropped.err().map(|error| format!(": {}", error.detail)).unwrap_or_default();
                let detail = format!(
                    "image {image} stays staged and the next boot takes it, because `ostree admin undeploy 0` did not drop \
                     it{why}; drop it by hand"
                );
                Err(Error::new(ErrorKind::Failed, "drop", "the staged image", detail))
            }
        }
    }

    /// The image that bootc has staged for the next boot.
    fn staged_image(&self) -> Result<Option<String>, Error> {
        let status = self.json("bootc", &["status", "--format=json"])?;
        let staged = status.pointer("/status/staged").filter(|staged| !staged.is_null());
        let name = |staged: &serde_json::Value| staged.pointer("/image/image/image")?.as_str().map(str::to_owned);
        Ok(staged.map(|staged| name(staged).unwrap_or_else(|| "without a name".to_owned())))
    }

    pub fn change_packages(&self, change: &PackageChange) -> Result<(), Error> {
        self.needs_rpm_ostree("packages")?;
        let needs_image =
            !change.install.is_empty() || change.kernel.as_ref().is_some_and(|kernel| kernel.to != "default");
        if change.image.is_empty() || !needs_image {
            return self.layer_packages(change);
        }
        let done = self.lay_extensions(&change.image).and_then(|()| self.layer_packages(change));
        // Whatever came of it, the repository does not stay.
        let _ = self.run.lay(REPOSITORY, None);
        let _ = self.outside(&["rm", "-rf", EXTENSIONS]);
        done
    }

    /// Unpacks the image of the extensions and makes a repository of it, as far as rpm-ostree is concerned.
    fn lay_extensions(&self, image: &str) -> Result<(), Error> {
        self.stop_leftover();
        self.patiently(PULL, || {
            self.outside(&["podman", "pull", "--quiet", "--authfile", PULL_SECRET, image]).map(drop)
        })?;
        self.outside(&["rm", "-rf", EXTENSIONS])?;
        self.outside(&["mkdir", "-p", EXTENSIONS])?;
        let container = self.outside(&["podman", "create", "--net=none", image, "none"])?;
        let container = container.trim();
        let copied = self.outside(&["podman", "cp", &format!("{container}:/."), EXTENSIONS]);
        let _ = self.outside(&["podman", "rm", container]);
        copied?;
        let repository = format!(
            "[coreos-extensions]\nname=coreos-extensions\nenabled=1\nmetadata_expire=1m\n\
             baseurl=file://{EXTENSIONS}/usr/share/rpm-ostree/extensions/\ngpgcheck=0\nskip_if_unavailable=False\n"
        );
        self.run.lay(REPOSITORY, Some(&repository))
    }

    fn layer_packages(&self, change: &PackageChange) -> Result<(), Error> {
        if let Some(kernel) = &change.kernel {
            self.change_kernel(kernel)?;
        }
        if change.install.is_empty() && change.uninstall.is_empty() {
            return Ok(());
        }
        let mut arguments = vec!["update".to_owned()];
        for package in &change.install {
            arguments.extend(["--install".to_owned(), package.clone()]);
        }
        for package in &change.uninstall {
            arguments.extend(["--uninstall".to_owned(), package.clone()]);
        }
        self.change(&arguments).map(drop)
    }

    fn change_kernel(&self, change: &KernelChange) -> Result<(), Error> {
        let packages = |kind: &str| -> &[&str] {
            match kind {
                "realtime" => &["kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra"],
                "64k-pages" => {
                    &["kernel-64k-core", "kernel-64k-modules", "kernel-64k-modules-core", "kernel-64k-modules-extra"]
                }
                _ => &[],
            }
        };
        if change.from != "default" {
            let mut arguments = vec!["override".to_owned(), "reset".to_owned()];
            arguments.extend(KERNEL.map(str::to_owned));
            for package in packages(&change.from) {
                arguments.extend(["--uninstall".to_owned(), (*package).to_owned()]);
            }
            self.change(&arguments)?;
        }
        if change.to != "default" {
            let mut arguments = vec!["override".to_owned(), "remove".to_owned()];
            arguments.extend(KERNEL.map(str::to_owned));
            for package in packages(&change.to) {
                arguments.extend(["--install".to_owned(), (*package).to_owned()]);
            }
            self.change(&arguments)?;
        }
        Ok(())
    }

    /// The installed ones among `packages`.
    pub fn installed(&self, packages: &[&str]) -> Result<Vec<String>, Error> {
        if packages.is_empty() || !self.run.has("rpm") {
            return Ok(Vec::new());
        }
        let all = self.run.run("rpm", &["-qa".into(), "--queryformat".into(), "%{NAME}\\n".into()])?;
        Ok(all.lines().filter(|name| packages.contains(name)).map(str::to_owned).collect())
    }

    /// The package that a file came with, where a package manager knows. One that fails has not said that there is none.
    pub fn package_of(&self, path: &HostPath) -> Result<Option<String>, Error> {
        let of_dpkg = self.ask_package_manager("dpkg-query", &["--search", path.as_str()])?;
        let is_this = |line: &str| Some(line.strip_suffix(&format!(": {path}"))?.to_owned());
        if let Some(package) = of_dpkg.lines().find_map(is_this) {
            return Ok(Some(package));
        }
        let of_rpm = self.ask_package_manager("rpm", &["-qf", "--queryformat", "%{NAME}\\n", path.as_str()])?;
        Ok(of_rpm.lines().next().map(str::to_owned))
    }

    /// The answer to whose a file is; empty where it is nobody's, or this host does not have the program.
    fn ask_package_manager(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        if !self.run.has(program) {
            return Ok(String::new());
        }
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        match self.run.run(program, &arguments) {
            // Both end with a failure then. rpm says it also after it could not open its database.
            Err(error)
                if NOBODYS.iter().any(|words| error.detail.contains(words)) && !error.detail.contains("error: ") =>
            {
                Ok(String::new())
            }
            other => other,
        }
    }

    /// The first error that the end of the previous boot has logged about the deployment it was to finish.
    pub fn finalize_failure(&self) -> Option<String> {
        if self.backend() != Some(Backend::RpmOstree) {
            return None;
        }
        let unit = "ostree-finalize-staged.service";
        let arguments = ["-b", "-1", "-u", unit, "-o", "cat", "--no-pager"].map(str::to_owned);
        let log = self.run.run("journalctl", &arguments).ok()?;
        log.lines().find(|line| line.starts_with("error:")).map(str::to_owned)
    }

    /// Packages laid over the booted image, added, replaced or removed, that are not `known`.
    pub fn foreign_packages(&self, known: &[&str]) -> usize {
        if self.backend() != Some(Backend::RpmOstree) {
            return 0;
        }
        let Ok(status) = self.json("rpm-ostree", &["status", "--json"]) else { return 0 };
        let deployments = status["deployments"].as_array().cloned().unwrap_or_default();
        let Some(booted) = deployments.into_iter().find(|deployment| deployment["booted"] == true) else { return 0 };
        let lists = ["requested-packages", "requested-local-packages", "base-removals", "base-local-replacements"];
        let entries = lists.iter().flat_map(|list| booted[list].as_array().cloned().unwrap_or_default());
        entries.filter(|entry| !entry.as_str().is_some_and(|name| known.contains(&name))).count()
    }

    /// Runs a program as a unit of its own: it mounts and unshares, which the daemon's sandbox does not let its children do.
    /// The unit goes on when `systemd-run` is stopped, so one that takes too long is stopped by its name.
    fn outside(&self, command: &[&str]) -> Result<String, Error> {
        let unit = format!("--unit={UNIT}");
        let arguments = ["--quiet", "--wait", "--collect", "--pipe", &unit].into_iter().chain(command.iter().copied());
        let result = self.run.run("systemd-run", &arguments.map(str::to_owned).collect::<Vec<_>>());
        if result.as_ref().is_err_and(|error| error.kind == ErrorKind::TimedOut) {
            self.stop_leftover();
        }
        result
    }

    /// Stops what runs outside, if anything does: also what a daemon before this one began and did not see end. It could
    /// stage an image after that was given back.
    pub(crate) fn stop_leftover(&self) {
        // A unit that is not there cannot be stopped, which is as good.
        let _ = self.run.run("systemctl", &["stop".to_owned(), UNIT.to_owned()]);
    }

    /// Registries have bad minutes. Trying again here saves taking the whole update back and beginning anew.
    fn patiently(&self, patience: Patience, mut work: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        let mut pause = patience.first;
        for _ in 1..patience.tries {
            if work().is_ok() {
                return Ok(());
            }
            self.run.pause(pause);
            pause = (pause * 2).min(Duration::from_secs(60));
        }
        work()
    }

    fn needs_rpm_ostree(&self, what: &str) -> Result<(), Error> {
        match self.backend() {
            Some(Backend::RpmOstree) => Ok(()),
            Some(Backend::Bootc) => {
                Err(unsupported("change", &format!("bootc alone cannot change {what} of a running host")))
            }
            Some(Backend::BootLoader(_)) | None => Err(unsupported("change", "it has neither bootc nor rpm-ostree")),
        }
    }

    fn rpm_ostree(&self, arguments: &[&str]) -> Result<String, Error> {
        self.change(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    /// rpm-ostree only asks its daemon, which goes on when the program is stopped: nothing else could be changed, or taken
    /// back, before that ends.
    fn change(&self, arguments: &[String]) -> Result<String, Error> {
        let result = self.run.run("rpm-ostree", arguments);
        if result.as_ref().is_err_and(|error| error.kind == ErrorKind::TimedOut) {
            let _ = self.run.run("rpm-ostree", &["cancel".to_owned()]);
        }
        result
    }

    fn json(&self, program: &str, arguments: &[&str]) -> Result<serde_json::Value, Error> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let text = self.run.run(program, &arguments)?;
        serde_json::from_str(&text)
            .map_err(|error| Error::new(ErrorKind::Failed, "read the answer of", program, error.to_string()))
    }
}

fn unsupported(action: &'static str, detail: &str) -> Error {
    Error::new(ErrorKind::Unsupported, action, "this host", detail)
}

/// `ostree-unverified-registry:quay.io/os@sha256:…` without its transport.
fn without_transport(reference: &str) -> String {
    const TRANSPORTS: [&str; 5] = [
        "ostree-unverified-registry:",
        "ostree-unverified-image:",
        "ostree-image-signed:",
        "docker://",
        "containers-storage:",
    ];
    let mut rest = reference;
    while let Some(shorter) = TRANSPORTS.iter().find_map(|transport| rest.strip_prefix(transport)) {
        rest = shorter;
    }
    rest.to_owned()
}
