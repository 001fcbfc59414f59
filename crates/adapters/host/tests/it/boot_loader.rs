//! Kernel arguments of hosts with packages: what each boot loader is told, and what stays of the host's own.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use change::host::{Backend, BootLoader, Error, ErrorKind, Host};
use host::conformance;
use host::directory::Directory;
use host::machine::Machine;
use host::memory::Memory;
use host::os::Run;

const LOADERS: [BootLoader; 4] = [BootLoader::Grubby, BootLoader::Grub, BootLoader::KernelInstall, BootLoader::Entries];
const OURS: &str = "etc/default/grub.d/99-machinist.cfg";
const NOTES: &str = "etc/machine-config-daemon/kernel-arguments.json";

fn list(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A folder as such a host has it.
fn furnished(loader: BootLoader) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let entry = "title Linux\nlinux /vmlinuz\ninitrd /initrd\noptions root=/dev/vda1 ro quiet audit=1\n";
    match loader {
        BootLoader::Grub => {
            put(&folder, "usr/sbin/update-grub", "");
            put(
                &folder,
                "etc/default/grub",
                "GRUB_CMDLINE_LINUX=\"net.ifnames=0\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n",
            );
            put(
                &folder,
                "etc/default/grub.d/10_cloud.cfg",
                "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT audit=1\"\n",
            );
            let line = "\tlinux\t/boot/vmlinuz-6.1.0 root=/dev/vda1 ro net.ifnames=0 quiet audit=1\n";
            put(&folder, "boot/grub/grub.cfg", line);
        }
        BootLoader::Grubby => {
            put(&folder, "usr/sbin/grubby", "");
            put(&folder, "boot/loader/entries/a.conf", entry);
            put(&folder, "boot/loader/entries/b.conf", entry);
        }
        BootLoader::KernelInstall => {
            put(&folder, "usr/bin/kernel-install", "");
            put(&folder, "etc/kernel/cmdline", "# by hand\nroot=/dev/vda1 ro quiet audit=1\n");
            put(&folder, "usr/lib/modules/6.1.0/vmlinuz", "");
            put(&folder, "boot/loader/entries/6.1.0.conf", entry);
        }
        BootLoader::Entries => put(&folder, "boot/loader/entries/a.conf", entry),
    }
    folder
}

fn put(folder: &tempfile::TempDir, path: &str, text: &str) {
    let path = folder.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn text(folder: &tempfile::TempDir, path: &str) -> String {
    std::fs::read_to_string(folder.path().join(path)).unwrap_or_default()
}

/// Each call is another process that opens the same folder.
fn open(folder: &tempfile::TempDir, loader: BootLoader) -> Directory {
    Directory::open(folder.path()).unwrap().with_backend(Backend::BootLoader(loader))
}

/// What the kernel is given after a reboot.
fn booted(folder: &tempfile::TempDir, loader: BootLoader) -> String {
    let host = open(folder, loader);
    host.system().reboot("test").unwrap();
    host.system().kernel_arguments().unwrap().trim().replace("BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro ", "")
}

#[test]
fn hosts_with_every_boot_loader_keep_the_promises_of_a_host() {
    for loader in LOADERS {
        let folder = furnished(loader);
        conformance::all(&open(&folder, loader));
        assert!(!text(&folder, NOTES).is_empty(), "{loader:?}");
    }
    for loader in [BootLoader::Grub, BootLoader::Grubby] {
        conformance::all(&Memory::new().with_backend(Backend::BootLoader(loader)));
    }
}

#[test]
fn update_grub_is_found_and_the_others_are_used_only_where_somebody_names_them() {
    let found = |folder: &tempfile::TempDir| Machine::open(folder.path()).unwrap().system().backend();
    assert_eq!(found(&furnished(BootLoader::Grub)), Some(Backend::BootLoader(BootLoader::Grub)));
    for loader in LOADERS.into_iter().filter(|loader| *loader != BootLoader::Grub) {
        let folder = furnished(loader);
        assert_eq!(found(&folder), None, "{loader:?}");
        put(&folder, "etc/machinist/boot-loader", &format!("{}\n", Backend::BootLoader(loader).name()));
        assert_eq!(found(&folder), Some(Backend::BootLoader(loader)));
    }
    assert_eq!(found(&tempfile::tempdir().unwrap()), None);
    let folder = furnished(BootLoader::Grub);
    put(&folder, "etc/machinist/boot-loader", "lilo");
    assert_eq!(found(&folder), None, "nothing is guessed where somebody has chosen");
}

#[test]
fn what_did_not_boot_the_machine_is_not_asked_for_arguments() {
    let found = |folder: &tempfile::TempDir| Machine::open(folder.path()).unwrap().system().backend();
    let other = furnished(BootLoader::Grub);
    let booted_by: Vec<u8> = "systemd-boot 252".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let variable = "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    put(&other, variable, "");
    std::fs::write(other.path().join(variable), [&[7, 0, 0, 0], &booted_by[..]].concat()).unwrap();
    assert_eq!(found(&other), None, "systemd-boot has booted the machine");
    put(&other, "usr/bin/rpm-ostree", "");
    assert_eq!(found(&other), Some(Backend::RpmOstree), "an image comes first");
    let leftover = tempfile::tempdir().unwrap();
    put(&leftover, "usr/sbin/update-grub", "");
    assert_eq!(found(&leftover), None, "a program without GRUB's files boots nothing");
    let container = furnished(BootLoader::Grub);
    put(&container, "run/systemd/container", "lxc\n");
    assert_eq!(found(&container), None, "a converted machine keeps GRUB's files");
}

#[test]
fn arguments_come_and_go_and_those_of_the_host_stay_whatever_boots_it() {
    for loader in LOADERS {
        let folder = furnished(loader);
        let own = booted(&folder, loader);
        assert!(own.contains("quiet") && own.contains("audit=1"), "{loader:?}: {own}");
        let change = |delete: &[&str], append: &[&str]| {
            open(&folder, loader).system().change_kernel_arguments(&list(delete), &list(append)).unwrap();
        };
        change(&[], &["nosmt", "mitigations=auto"]);
        assert_eq!(booted(&folder, loader), format!("{own} nosmt mitigations=auto"), "{loader:?}");
        change(&["nosmt", "mitigations=auto"], &["mitigations=auto", "nosmt", "quiet"]);
        assert_eq!(booted(&folder, loader), format!("{own} mitigations=auto nosmt"), "{loader:?}: in the new order");
        change(&["mitigations=auto", "nosmt", "quiet"], &[]);
        assert_eq!(booted(&folder, loader), own, "{loader:?}: quiet was the host's own");
    }
}

#[test]
fn an_argument_that_a_host_was_born_with_is_left_out_once_its_config_has_it_no_more() {
    for loader in LOADERS {
        let folder = furnished(loader);
        let own = booted(&folder, loader);
        let system = |delete: &[&str], append: &[&str]| {
            open(&folder, loader).system().change_kernel_arguments(&list(delete), &list(append)).unwrap();
        };
        system(&["quiet"], &["nosmt"]);
        let line = booted(&folder, loader);
        assert!(!line.contains("quiet") && line.contains("audit=1 nosmt"), "{loader:?}: {line}");
        system(&["nosmt"], &["quiet"]);
        let sorted = |line: &str| {
            let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(sorted(&booted(&folder, loader)), sorted(&own), "{loader:?}");
    }
}

#[test]
fn debian_gets_a_file_of_ours_and_keeps_its_own() {
    let folder = furnished(BootLoader::Grub);
    let before = (text(&folder, "etc/default/grub"), text(&folder, "etc/default/grub.d/10_cloud.cfg"));
    let host = open(&folder, BootLoader::Grub);
    host.system().change_kernel_arguments(&[], &list(&["nosmt", "p=\"1 2\""])).unwrap();
    assert_eq!(
        text(&folder, OURS),
        "# Written by machinistd: the kernel arguments of this node's MachineConfig.\n\
         GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT nosmt 'p=1 2'\"\n"
    );
    assert_eq!(host.take_actions(), ["/usr/sbin/update-grub", "sync /boot/grub/grub.cfg /boot/grub"]);
    assert_eq!(booted(&folder, BootLoader::Grub), "net.ifnames=0 quiet audit=1 nosmt \"p=1 2\"");
    let host = open(&folder, BootLoader::Grub);
    host.system().change_kernel_arguments(&[], &list(&["nosmt", "p=\"1 2\""])).unwrap();
    assert!(host.take_actions().is_empty(), "nothing is to be done");
    host.system().change_kernel_arguments(&list(&["nosmt", "p=\"1 2\""]), &[]).unwrap();
    assert_eq!(booted(&folder, BootLoader::Grub), "net.ifnames=0 quiet audit=1");
    assert!(!folder.path().join(OURS).exists());
    assert_eq!((text(&folder, "etc/default/grub"), text(&folder, "etc/default/grub.d/10_cloud.cfg")), before);
}

#[test]
fn a_file_that_drops_our_arguments_is_told_with_the_way_out() {
    let folder = furnished(BootLoader::Grub);
    put(&folder, "etc/default/grub.d/zz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
    let host = open(&folder, BootLoader::Grub);
    let error = host.system().change_kernel_arguments(&[], &list(&["nosmt"])).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot change kernel arguments in /boot/grub/grub.cfg: update-grub has written its first entry without nosmt; \
         look for a file in /etc/default/grub.d that sets GRUB_CMDLINE_LINUX_DEFAULT anew after 99-machinist.cfg, and let \
         it append instead"
    );
    host.system().drop_staged().unwrap();
    assert!(!folder.path().join(OURS).exists(), "and it is taken back");
}

#[test]
fn an_argument_that_an_administrator_has_written_down_since_stays_when_ours_goes() {
    let folder = furnished(BootLoader::Grub);
    let change = |delete: &[&str], append: &[&str]| {
        open(&folder, BootLoader::Grub).system().change_kernel_arguments(&list(delete), &list(append)).unwrap();
    };
    change(&[], &["nosmt"]);
    put(
        &folder,
        "etc/default/grub.d/20_admin.cfg",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT nosmt\"\n",
    );
    change(&["nosmt"], &[]);
    assert_eq!(booted(&folder, BootLoader::Grub), "net.ifnames=0 quiet audit=1 nosmt");
}

#[test]
fn an_argument_that_grubby_has_put_ours_in_the_place_of_comes_back() {
    let folder = furnished(BootLoader::Grubby);
    let own = booted(&folder, BootLoader::Grubby);
    let host = open(&folder, BootLoader::Grubby);
    host.system().change_kernel_arguments(&[], &list(&["audit=0"])).unwrap();
    assert_eq!(booted(&folder, BootLoader::Grubby), "quiet audit=0");
    let host = open(&folder, BootLoader::Grubby);
    host.system().change_kernel_arguments(&list(&["audit=0"]), &[]).unwrap();
    assert_eq!(booted(&folder, BootLoader::Grubby), own);
    // The same within one boot.
    let host = open(&folder, BootLoader::Grubby);
    host.system().change_kernel_arguments(&[], &list(&["audit=0"])).unwrap();
    host.system().drop_staged().unwrap();
    assert_eq!(booted(&folder, BootLoader::Grubby), own);
    for entry in ["a", "b"] {
        let text = text(&folder, &format!("boot/loader/entries/{entry}.conf"));
        assert!(text.contains("audit=1") && !text.contains("audit=0"), "{entry}: {text}");
    }
}

#[test]
fn systemd_boot_keeps_what_else_is_in_its_files() {
    let folder = furnished(BootLoader::Entries);
    open(&folder, BootLoader::Entries).system().change_kernel_arguments(&[], &list(&["nosmt"])).unwrap();
    assert_eq!(
        text(&folder, "boot/loader/entries/a.conf"),
        "title Linux\nlinux /vmlinuz\ninitrd /initrd\noptions root=/dev/vda1 ro quiet audit=1 nosmt\n"
    );
    let folder = furnished(BootLoader::KernelInstall);
    let host = open(&folder, BootLoader::KernelInstall);
    host.system().change_kernel_arguments(&[], &list(&["nosmt", "p=\"1 2\""])).unwrap();
    let line = "# by hand\nroot=/dev/vda1 ro quiet audit=1 nosmt p=\"1 2\"\n";
    assert_eq!(text(&folder, "etc/kernel/cmdline"), line);
    assert_eq!(host.take_actions(), ["/usr/bin/kernel-install add 6.1.0 /usr/lib/modules/6.1.0/vmlinuz", "sync"]);
}

#[test]
fn notes_of_a_newer_daemon_are_not_guessed_at() {
    let folder = furnished(BootLoader::Grub);
    put(&folder, NOTES, r#"{"version": 2, "boot": "", "booted": {}, "next": {}}"#);
    let host = open(&folder, BootLoader::Grub);
    let error = host.system().change_kernel_arguments(&[], &list(&["nosmt"])).unwrap_err().to_string();
    assert!(error.contains("a newer machinistd has written it (version 2, this one knows 1)"), "{error}");
}

/// Stands in for systemd-run on a machine.
struct Tools {
    root: std::path::PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
    /// How the program ends, if not well.
    fails: Option<&'static str>,
}

impl Run for Tools {
    fn has(&self, _program: &str) -> bool {
        false
    }
    fn run(&self, program: &str, arguments: &[String]) -> Result<String, Error> {
        let line = format!("{program} {}", arguments.join(" "));
        self.asked.lock().unwrap().push(line.clone());
        if let Some(detail) = self.fails {
            return Err(Error::new(ErrorKind::Failed, "run", program, detail));
        }
        if line.ends_with("update-grub") {
            let line = "\tlinux\t/boot/vmlinuz root=/dev/vda1 ro quiet nosmt\n";
            std::fs::write(self.root.join("boot/grub/grub.cfg"), line).unwrap();
        }
        Ok(String::new())
    }
    fn lay(&self, _path: &str, _contents: Option<&str>) -> Result<(), Error> {
        Ok(())
    }
    fn is_there(&self, _path: &str) -> bool {
        false
    }
    fn link(&self, _path: &str, _target: &str) -> Result<(), Error> {
        Ok(())
    }
    fn pause(&self, _time: Duration) {}
}

fn machine(root: &Path, fails: Option<&'static str>) -> (Machine, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::default();
    let tools = Tools { root: root.to_owned(), asked: Arc::clone(&asked), fails };
    (Machine::open(root).unwrap().with_tools(Box::new(tools)), asked)
}

#[test]
fn on_a_machine_programs_run_outside_of_the_daemons_sandbox_and_not_for_ever() {
    let folder = furnished(BootLoader::Grub);
    put(&folder, "proc/cmdline", "root=/dev/vda1 ro quiet\n");
    let (host, asked) = machine(folder.path(), None);
    assert_eq!(host.system().kernel_arguments().unwrap(), "root=/dev/vda1 ro quiet\n", "of the host's own /proc");
    host.system().change_kernel_arguments(&[], &list(&["nosmt"])).unwrap();
    let name = "machinistd-outside.service";
    let unit = format!("systemd-run --quiet --wait --collect --pipe --unit={name} timeout --kill-after=10 900");
    assert_eq!(
        *asked.lock().unwrap(),
        [
            format!("systemctl stop {name}"),
            format!("{unit} /usr/sbin/update-grub"),
            format!("{unit} sync /boot/grub/grub.cfg /boot/grub")
        ]
    );
}

#[test]
fn a_program_that_fails_or_hangs_is_named_with_what_to_do() {
    let told = |detail| {
        let folder = furnished(BootLoader::Grub);
        machine(folder.path(), Some(detail)).0.system().change_kernel_arguments(&[], &list(&["nosmt"])).unwrap_err()
    };
    assert_eq!(
        told("exit status: 1: grub-probe: error: cannot find a device for /.").to_string(),
        "cannot run /usr/sbin/update-grub: exit status: 1: grub-probe: error: cannot find a device for /.; run update-grub \
         on the host to see what it says"
    );
    let hung = told("exit status: 124: ");
    assert_eq!(hung.kind, ErrorKind::TimedOut);
    assert!(
        hung.to_string().contains("/usr/sbin/update-grub: it did not end within 900 seconds and was stopped"),
        "{hung}"
    );
}
