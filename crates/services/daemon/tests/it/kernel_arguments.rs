//! Kernel arguments on hosts with packages: journalled, finished or taken back wherever the power goes, and looked at.

use api::machineconfiguration::MachineConfig;
use change::host::{Backend, BootLoader, Host};
use daemon::cluster_policy::ClusterPolicy;
use daemon::engine::{self, Engine, Error, Prepared, Standing};
use daemon::journal::PostAction;
use daemon::prepare::prepare;
use daemon::verify;
use host::directory::Directory;
use host::memory::{Memory, Trouble};
use serde_json::json;

use crate::configs::{config, furnish, path, put, text};
use crate::stage::settle;

const GRUB: Backend = Backend::BootLoader(BootLoader::Grub);
const OURS: &str = "/etc/default/grub.d/99-machinist.cfg";
const HOSTS: &str = "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet";

fn with_arguments(name: &str, arguments: &[&str]) -> MachineConfig {
    let mut config = config(name, &[("/etc/a", name)], &json!([]), &json!([]));
    config.spec.kernel_arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    config
}

fn bare() -> MachineConfig {
    with_arguments("bare", &[])
}

fn old() -> MachineConfig {
    with_arguments("old", &["nosmt", "dup dup", "quiet"])
}

fn new() -> MachineConfig {
    with_arguments("new", &["audit=0", "nosmt", "p=\"1 2\""])
}

/// What a host with one of these configs boots.
fn line_of(config: &str) -> String {
    match config {
        "bare" => HOSTS.to_owned(),
        "old" => format!("{HOSTS} nosmt dup"),
        "new" => format!("{HOSTS} audit=0 nosmt \"p=1 2\""),
        other => panic!("{other}"),
    }
}

fn execute(host: &dyn Host, from: &MachineConfig, to: &MachineConfig) -> Result<(), Error> {
    let engine = Engine::new(host);
    let steps = engine.prepare(from, to)?;
    let actions = vec![PostAction::Reboot];
    engine.execute(&Prepared { from: from.clone(), to: to.clone(), steps, actions, trial: None })
}

/// What the daemon's loop does with an engine, without a cluster, reboots included.
fn drive(host: &dyn Host) -> Result<(), Error> {
    let engine = Engine::new(host);
    for _ in 0..10 {
        match engine.recover()? {
            Standing::Settled | Standing::WentBack { .. } => return Ok(()),
            Standing::Trying => engine.finish()?,
            Standing::Applied | Standing::WaitsForReboot | Standing::MustRebootBack { .. } => {
                engine.mark_rebooting()?;
                host.system().reboot("test")?;
            }
        }
    }
    panic!("it never settles");
}

fn update(host: &dyn Host, from: &MachineConfig, to: &MachineConfig) -> Result<(), Error> {
    match execute(host, from, to) {
        Ok(()) | Err(Error::Undone { .. }) => drive(host),
        Err(error) => Err(error),
    }
}

/// A host that runs the old config.
fn settled() -> Memory {
    let host = Memory::new().with_backend(GRUB);
    furnish(&host);
    put(&host, "/boot/grub/grub.cfg", "\tlinux /boot/vmlinuz-6.1.0 root=/dev/vda1 ro quiet\n");
    host.files().flush().unwrap();
    update(&host, &bare(), &old()).unwrap();
    assert_eq!(assert_whole(&host, "settled"), "old");
    host
}

/// The host has booted, and will boot again, exactly what its config says. Says which.
#[track_caller]
fn assert_whole(host: &Memory, label: &str) -> String {
    let current = Engine::new(host).store().current().unwrap().unwrap();
    let name = engine::name(&current);
    let found = verify::verify(host, &engine::read(&current).unwrap());
    assert!(found.is_empty(), "{label}: at {name}, but {found:?}");
    for moment in ["now", "after another reboot"] {
        let line = text(host, "/proc/cmdline").unwrap();
        assert_eq!(line.trim(), line_of(&name), "{label}: {moment}");
        host.system().reboot("test").unwrap();
    }
    name
}

#[test]
fn arguments_survive_a_power_cut_at_any_point_and_are_never_there_twice() {
    let host = settled();
    host.take_points();
    update(&host, &old(), &new()).unwrap();
    assert_eq!(assert_whole(&host, "without trouble"), "new");
    let points = host.take_points();
    let (mut olds, mut news) = (0, 0);
    for at in 0..points {
        for keeps in [false, true] {
            let label = format!("cut at {at} of {points}, names are kept: {keeps}");
            let host = settled();
            host.trouble(Trouble::PowerCut { at });
            let Err(error) = update(&host, &old(), &new()) else { continue };
            assert!(error.is_power_cut(), "{label}: {error}");
            let host = host.after_power_cut(|| keeps);
            drive(&host).unwrap_or_else(|error| panic!("{label}: {error}"));
            match assert_whole(&host, &label).as_str() {
                "old" => olds += 1,
                _ => news += 1,
            }
            let current = Engine::new(&host).store().current().unwrap().unwrap();
            update(&host, &current, &bare()).unwrap();
            assert_eq!(assert_whole(&host, &label), "bare");
            assert_eq!(text(&host, OURS), None, "{label}: nothing of ours stays");
        }
    }
    assert!(olds > 0 && news > 0, "{olds} old, {news} new");
}

#[test]
fn a_disk_that_fails_once_at_any_point_of_a_change_of_arguments_leaves_one_config_whole() {
    let host = settled();
    host.take_points();
    update(&host, &old(), &new()).unwrap();
    for at in 0..host.take_points() {
        let label = format!("failure at {at}");
        let host = settled();
        host.trouble(Trouble::Failure { at });
        if update(&host, &old(), &new()).is_err() {
            drive(&host).unwrap_or_else(|error| panic!("{label}: {error}"));
        }
        // A reboot whose files could not be written may have been lost.
        host.system().reboot("test").unwrap();
        assert_whole(&host, &label);
    }
}

/// The host has booted the new config and its trial fails.
fn fail_trial(host: &Memory) -> Result<(), Error> {
    execute(host, &old(), &new())?;
    let engine = Engine::new(host);
    engine.mark_rebooting()?;
    host.system().reboot("test")?;
    assert_eq!(engine.recover()?, Standing::Trying);
    assert_eq!(text(host, "/proc/cmdline").unwrap().trim(), line_of("new"));
    match engine.go_back("it does not work") {
        Err(Error::Undone { .. }) => drive(host),
        other => other,
    }
}

#[test]
fn a_trial_that_fails_takes_arguments_back_with_another_reboot_wherever_the_power_goes() {
    let host = settled();
    host.take_points();
    fail_trial(&host).unwrap();
    assert_eq!(assert_whole(&host, "going back"), "old");
    let points = host.take_points();
    for at in (0..points).step_by(2) {
        let label = format!("cut at {at} of {points}");
        let host = settled();
        host.trouble(Trouble::PowerCut { at });
        if fail_trial(&host).is_ok() {
            continue;
        }
        let host = host.after_power_cut(|| at % 4 == 0);
        drive(&host).unwrap_or_else(|error| panic!("{label}: {error}"));
        assert_whole(&host, &label);
    }
}

#[test]
fn a_change_of_arguments_drains_and_reboots_and_what_packages_cannot_do_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap().with_backend(GRUB);
    settle(&host, &bare());
    let ready = prepare(&host, new(), &ClusterPolicy::defaults(), false).unwrap();
    assert!(ready.drain && ready.prepared.actions == [PostAction::Reboot], "{ready:?}");
    let mut more = new();
    more.spec.os_image_url = Some("example.org/os@sha256:1".into());
    more.spec.kernel_type = Some("realtime".into());
    more.spec.extensions = vec!["usbguard".into()];
    more.spec.kernel_arguments.push("odd=\\x".into());
    let error = prepare(&host, more, &ClusterPolicy::defaults(), false).unwrap_err();
    assert_eq!(error.state(), "Unreconcilable");
    let error = error.to_string();
    for what in ["the OS image", "the kernel type", "extensions"] {
        assert!(
            error.contains(&format!("{what} cannot be changed on a host whose system is made of packages")),
            "{error}"
        );
    }
    assert!(error.contains("odd=") && !error.contains("kernel arguments cannot"), "{error}");
}

#[test]
fn arguments_that_somebody_has_taken_off_the_line_are_reported_after_the_reboot() {
    let folder = tempfile::tempdir().unwrap();
    let host = Directory::open(folder.path()).unwrap().with_backend(GRUB);
    update(&host, &bare(), &new()).unwrap();
    let target = engine::read(&new()).unwrap();
    assert_eq!(verify::verify(&host, &target), []);
    host.files().remove(&path(OURS)).unwrap();
    put(&host, "/boot/grub/grub.cfg", "\tlinux /boot/vmlinuz root=/dev/vda1 ro quiet nosmt\n");
    assert_eq!(verify::verify(&host, &target), [], "the running kernel still has them");
    host.system().reboot("by hand").unwrap();
    let found = verify::list(&verify::verify(&host, &target));
    assert_eq!(found, "missing expected kernel arguments: [audit=0 p=\"1 2\"]");
}
