//! The definition of a machine's domain. Pure: a spec and the facts of a host become XML.

use uuid::Uuid;

use crate::mark::Label;
use crate::settings::Acceleration;
use crate::spec::LibvirtSpec;
use crate::xml::Element;

/// An emulated processor keeps what it translated; without a limit that outgrows a small machine's memory.
const TRANSLATIONS_MIB: u32 = 128;

/// Where Ignition looks for its config on qemu.
const IGNITION: &str = "opt/com.coreos/config";

/// What a host runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hypervisor {
    /// `kvm`, `qemu`, or libvirt's `test`.
    pub(crate) kind: String,
    pub(crate) architecture: String,
}

impl Hypervisor {
    /// What to use of a host's capabilities; `None` if it runs no machines of its own architecture.
    pub(crate) fn choose(capabilities: &Element, acceleration: Acceleration) -> Option<Self> {
        let architecture = capabilities.at(&["host", "cpu", "arch"])?.text();
        let is_full = |guest: &&Element| guest.at(&["os_type"]).is_some_and(|kind| kind.text() == "hvm");
        let guests = capabilities.all("guest").filter(is_full).flat_map(|guest| guest.all("arch"));
        let own = guests.filter(|arch| arch.attribute("name") == Some(architecture));
        let kinds: Vec<&str> = own.flat_map(|arch| arch.all("domain")).filter_map(|it| it.attribute("type")).collect();
        let wanted = match acceleration {
            Acceleration::Auto => ["kvm", "qemu"].as_slice(),
            Acceleration::Emulated => ["qemu"].as_slice(),
        };
        let kind = wanted.iter().find(|kind| kinds.contains(kind)).or(kinds.first().filter(|kind| **kind != "kvm"))?;
        Some(Self { kind: (*kind).to_owned(), architecture: architecture.to_owned() })
    }

    fn is_x86(&self) -> bool {
        matches!(self.architecture.as_str(), "x86_64" | "i686")
    }

    /// Whether qemu has `fw_cfg` on it.
    fn has_firmware_config(&self) -> bool {
        !matches!(self.architecture.as_str(), "s390x" | "ppc64" | "ppc64le")
    }
}

/// Everything that a definition is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Definition<'a> {
    pub(crate) name: &'a str,
    pub(crate) uuid: Uuid,
    pub(crate) mac: &'a str,
    pub(crate) label: &'a Label,
    pub(crate) spec: &'a LibvirtSpec,
    pub(crate) hypervisor: &'a Hypervisor,
    /// The volume with the disk, in the label's pool.
    pub(crate) disk: &'a str,
    pub(crate) first_boot: FirstBoot<'a>,
}

/// What the machine reads at its first boot, by path on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstBoot<'a> {
    Ignition(&'a str),
    CloudInit(&'a str),
}

pub(crate) fn define(definition: &Definition) -> String {
    let Definition { name, uuid, mac: _, label, spec, hypervisor, disk: _, first_boot } = definition;
    let sysinfo = match first_boot {
        FirstBoot::Ignition(path) if hypervisor.has_firmware_config() => {
            let entry = Element::new("entry").with("name", IGNITION).with("file", path);
            Some(Element::new("sysinfo").with("type", "fwcfg").holding(entry))
        }
        FirstBoot::Ignition(_) | FirstBoot::CloudInit(_) => None,
    };
    let passthrough = || Element::new("cpu").with("mode", "host-passthrough");
    Element::new("domain")
        .with("type", &hypervisor.kind)
        .holding(Element::new("name").saying(name))
        .holding(Element::new("uuid").saying(uuid))
        .holding(Element::new("metadata").holding(label.element()))
        .holding(Element::new("memory").with("unit", "MiB").saying(spec.domain_memory))
        .holding(Element::new("vcpu").saying(spec.domain_vcpu))
        .holding_all(sysinfo)
        .holding(os(spec, hypervisor))
        .holding(features(hypervisor))
        .holding_all((hypervisor.kind == "kvm").then(passthrough))
        .holding(Element::new("clock").with("offset", "utc"))
        .holding(Element::new("on_poweroff").saying("destroy"))
        .holding(Element::new("on_reboot").saying("restart"))
        .holding(Element::new("on_crash").saying("restart"))
        .holding(devices(definition))
        .render()
}

fn os(spec: &LibvirtSpec, hypervisor: &Hypervisor) -> Element {
    let kind = Element::new("type").with("arch", &hypervisor.architecture).saying("hvm");
    let os = Element::new("os");
    // Machines of this architecture boot by UEFI only; libvirt finds a firmware on the host.
    let os =
        if hypervisor.architecture == "aarch64" && spec.firmware.is_empty() { os.with("firmware", "efi") } else { os };
    let os = os.holding(kind);
    let os = if spec.firmware.is_empty() {
        os
    } else {
        let loader = Element::new("loader").with("readonly", "yes").with("type", "pflash").saying(&spec.firmware);
        let template = spec.nvram.as_ref().map(|nvram| nvram.nvram_template.as_str()).filter(|path| !path.is_empty());
        os.holding(loader).holding_all(template.map(|path| Element::new("nvram").with("template", path)))
    };
    os.holding(Element::new("boot").with("dev", "hd"))
}

fn features(hypervisor: &Hypervisor) -> Element {
    let features = Element::new("features");
    let features = if hypervisor.is_x86() {
        features.holding(Element::new("acpi")).holding(Element::new("apic"))
    } else {
        features
    };
    let cache = || Element::new("tb-cache").with("unit", "MiB").saying(TRANSLATIONS_MIB);
    features.holding_all((hypervisor.kind == "qemu").then(|| Element::new("tcg").holding(cache())))
}

fn devices(definition: &Definition) -> Element {
    let Definition { mac, label, spec, hypervisor, disk, first_boot, .. } = definition;
    let target = |name: &str| Element::new("target").with("dev", name).with("bus", "virtio");
    let driver = |kind: &str| Element::new("driver").with("name", "qemu").with("type", kind);
    let disk = Element::new("disk")
        .with("type", "volume")
        .with("device", "disk")
        .holding(driver("qcow2"))
        .holding(Element::new("source").with("pool", &label.pool).with("volume", disk))
        .holding(target("vda"));
    let read_only = |path: &str| {
        let source = Element::new("source").with("file", path);
        let disk = Element::new("disk").with("type", "file").with("device", "disk");
        disk.holding(driver("raw")).holding(source).holding(target("vdb")).holding(Element::new("readonly"))
    };
    let second = match first_boot {
        FirstBoot::CloudInit(path) => Some(read_only(path)),
        // Ignition finds this disk by its serial number.
        FirstBoot::Ignition(path) if !hypervisor.has_firmware_config() => {
            Some(read_only(path).holding(Element::new("serial").saying("ignition")))
        }
        FirstBoot::Ignition(_) => None,
    };
    let interface = Element::new("interface")
        .with("type", "network")
        .holding(Element::new("mac").with("address", mac))
        .holding(Element::new("source").with("network", &spec.network_interface_name))
        .holding(Element::new("model").with("type", "virtio"));
    let agent = Element::new("target").with("type", "virtio").with("name", "org.qemu.guest_agent.0");
    let entropy = Element::new("backend").with("model", "random").saying("/dev/urandom");
    Element::new("devices")
        .holding(disk)
        .holding_all(second)
        .holding(interface)
        .holding(Element::new("channel").with("type", "unix").holding(agent))
        .holding(Element::new("console").with("type", "pty"))
        .holding(Element::new("rng").with("model", "virtio").holding(entropy))
}

#[cfg(test)]
mod tests;
