//! A host of virtual machines in its own namespaces: libvirtd, a storage pool and a network, separate from those of
//! this machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use testkit::LibvirtDaemon;
use testkit::process::Process;

/// The URI in the guide's manifest.
pub(crate) const URI: &str = "qemu:///system";
/// The host's address on its network, where machines reach the config server.
pub(crate) const ADDRESS: &str = "192.168.150.1";

const NETWORK: &str = "<network><name>default</name><forward mode='open'/><bridge name='virbr150' stp='off' delay='0'/>
    <ip address='192.168.150.1' netmask='255.255.255.0'><dhcp><range start='192.168.150.10' end='192.168.150.40'/></dhcp></ip>
    </network>";

/// The machines' processes end with the namespace of the host.
pub(crate) struct Host {
    _log_daemon: Process,
    _daemon: Process,
}

impl Host {
    pub(crate) fn start(folder: &Path, image: &Path) -> Result<Self> {
        run("ip", &["link", "set", "lo", "up"])?;
        for path in ["/run", "/etc/libvirt", "/var/lib/libvirt", "/var/cache/libvirt"] {
            run("mount", &["-t", "tmpfs", "tmpfs", path])?;
        }
        fs::write("/etc/libvirt/libvirtd.conf", "auth_unix_rw = \"none\"\n")?;
        let qemu = "user = \"root\"\ngroup = \"root\"\nsecurity_driver = \"none\"\ncgroup_controllers = []\n\
            remember_owner = 0\n";
        fs::write("/etc/libvirt/qemu.conf", qemu)?;
        let log_daemon = daemon("virtlogd", folder)?;
        let daemon = daemon("libvirtd", folder)?;
        let since = Instant::now();
        while LibvirtDaemon::virsh(URI, &["version"]).is_err() {
            ensure!(since.elapsed() < Duration::from_secs(120), "libvirtd does not answer:\n{}", daemon.tail(20));
            std::thread::sleep(Duration::from_millis(200));
        }
        let pool = folder.join("pool");
        fs::create_dir(&pool)?;
        fs::copy(image, pool.join("base.qcow2"))?;
        virsh(&["pool-create-as", "default", "dir", "--target", &pool.display().to_string()])?;
        let network = folder.join("network.xml");
        fs::write(&network, NETWORK)?;
        virsh(&["net-define", &network.display().to_string()])?;
        virsh(&["net-start", "default"])?;
        Ok(Self { _log_daemon: log_daemon, _daemon: daemon })
    }
}

pub(crate) fn virsh(arguments: &[&str]) -> Result<String> {
    LibvirtDaemon::virsh(URI, arguments)
}

/// Checks that no machine left anything behind.
pub(crate) fn assert_empty() -> Result<()> {
    let lines = |text: String| text.lines().filter(|line| !line.trim().is_empty()).count();
    ensure!(lines(virsh(&["list", "--all", "--name"])?) == 0, "domains are left");
    let volumes = virsh(&["vol-list", "default"])?;
    ensure!(lines(volumes.clone()) == 1, "volumes are left beside the base:\n{volumes}");
    let network = virsh(&["net-dumpxml", "default"])?;
    ensure!(!network.contains("<host"), "reservations are left:\n{network}");
    Ok(())
}

fn daemon(name: &str, folder: &Path) -> Result<Process> {
    let path = testkit::needs::on_path(name).with_context(|| format!("{name} is not on the PATH"))?;
    Ok(Process::start(&path, &[], &[], &folder.join(format!("{name}.log")))?)
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).status()?;
    ensure!(status.success(), "{program} {arguments:?} failed");
    Ok(())
}
