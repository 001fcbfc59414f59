//! Whole definitions, and what differs between hosts.

use expect_test::expect;
use machine::provider::Mark;

use super::*;
use crate::mark::Stage;
use crate::spec::{Nvram, Volume};

fn label() -> Label {
    let text = str::to_owned;
    Label {
        mark: Mark { cluster: text("c"), namespace: text("n"), machine: text("m-1"), uid: text("u") },
        stage: Stage::Making,
        created: None,
        pool: text("default"),
        volumes: vec![text("m-1.qcow2")],
    }
}

fn spec() -> LibvirtSpec {
    LibvirtSpec {
        domain_memory: 2048,
        domain_vcpu: 2,
        network_interface_name: "a & b".to_owned(),
        volume: Some(Volume { pool_name: "default".to_owned(), ..Volume::default() }),
        ..LibvirtSpec::default()
    }
}

fn hypervisor(kind: &str, architecture: &str) -> Hypervisor {
    Hypervisor { kind: kind.to_owned(), architecture: architecture.to_owned() }
}

fn defined(spec: &LibvirtSpec, hypervisor: &Hypervisor, first_boot: FirstBoot) -> String {
    let (label, disk) = (label(), "m-1.qcow2");
    let (name, mac, uuid) = ("m-1", "52:54:00:00:00:01", Uuid::from_u128(1));
    define(&Definition { name, uuid, mac, label: &label, spec, hypervisor, disk, first_boot })
}

#[test]
fn a_machine_on_kvm_is_defined_like_this() {
    let text = defined(&spec(), &hypervisor("kvm", "x86_64"), FirstBoot::Ignition("/p/m-1.boot"));
    expect![[r#"
        <domain type="kvm">
          <name>m-1</name>
          <uuid>00000000-0000-0000-0000-000000000001</uuid>
          <metadata>
            <machinist:machine xmlns:machinist="https://machinist.dev/libvirt" cluster="c" namespace="n" name="m-1" uid="u" stage="making" pool="default">
              <volume>m-1.qcow2</volume>
            </machinist:machine>
          </metadata>
          <memory unit="MiB">2048</memory>
          <vcpu>2</vcpu>
          <sysinfo type="fwcfg">
            <entry name="opt/com.coreos/config" file="/p/m-1.boot"/>
          </sysinfo>
          <os>
            <type arch="x86_64">hvm</type>
            <boot dev="hd"/>
          </os>
          <features>
            <acpi/>
            <apic/>
          </features>
          <cpu mode="host-passthrough"/>
          <clock offset="utc"/>
          <on_poweroff>destroy</on_poweroff>
          <on_reboot>restart</on_reboot>
          <on_crash>restart</on_crash>
          <devices>
            <disk type="volume" device="disk">
              <driver name="qemu" type="qcow2"/>
              <source pool="default" volume="m-1.qcow2"/>
              <target dev="vda" bus="virtio"/>
            </disk>
            <interface type="network">
              <mac address="52:54:00:00:00:01"/>
              <source network="a &amp; b"/>
              <model type="virtio"/>
            </interface>
            <channel type="unix">
              <target type="virtio" name="org.qemu.guest_agent.0"/>
            </channel>
            <console type="pty"/>
            <rng model="virtio">
              <backend model="random">/dev/urandom</backend>
            </rng>
          </devices>
        </domain>
    "#]].assert_eq(&text);
}

#[test]
fn an_emulated_machine_has_no_cpu_of_the_host_and_a_limit_for_its_translations() {
    let text = defined(&spec(), &hypervisor("qemu", "x86_64"), FirstBoot::Ignition("/p/b"));
    assert!(!text.contains("passthrough") && text.contains("<tb-cache unit=\"MiB\">128</tb-cache>"), "{text}");
}

#[test]
fn ignition_is_a_disk_where_there_is_no_firmware_config() {
    let text = defined(&spec(), &hypervisor("kvm", "s390x"), FirstBoot::Ignition("/p/b"));
    assert!(text.contains("<serial>ignition</serial>") && !text.contains("fwcfg") && !text.contains("acpi"), "{text}");
}

#[test]
fn cloud_init_is_a_disk_that_cannot_be_written() {
    let text = defined(&spec(), &hypervisor("kvm", "x86_64"), FirstBoot::CloudInit("/p/b"));
    assert!(text.contains("<source file=\"/p/b\"/>") && text.contains("<readonly/>"), "{text}");
}

#[test]
fn firmware_comes_from_the_spec_or_is_found_by_libvirt() {
    let nvram = Some(Nvram { nvram_template: "/fw/vars".to_owned(), ..Nvram::default() });
    let given = LibvirtSpec { firmware: "/fw/code".to_owned(), nvram, ..spec() };
    let text = defined(&given, &hypervisor("kvm", "x86_64"), FirstBoot::Ignition("/p/b"));
    assert!(text.contains(">/fw/code</loader>") && text.contains("<nvram template=\"/fw/vars\"/>"), "{text}");
    let text = defined(&spec(), &hypervisor("kvm", "aarch64"), FirstBoot::Ignition("/p/b"));
    assert!(text.contains("<os firmware=\"efi\">"), "{text}");
}

#[test]
fn kvm_is_used_where_it_is_offered_unless_emulation_is_asked_for() {
    let capabilities = |kinds: &[&str]| {
        let kinds: String = kinds.iter().map(|kind| format!("<domain type='{kind}'/>")).collect();
        let text = format!(
            "<capabilities><host><cpu><arch>x86_64</arch></cpu></host>
             <guest><os_type>hvm</os_type><arch name='aarch64'><domain type='kvm'/></arch></guest>
             <guest><os_type>hvm</os_type><arch name='x86_64'>{kinds}</arch></guest></capabilities>"
        );
        Element::parse(&text).unwrap()
    };
    let choose = |kinds, acceleration| Hypervisor::choose(&capabilities(kinds), acceleration).map(|it| it.kind);
    let some = |kind: &str| Some(kind.to_owned());
    assert_eq!(choose(&["qemu", "kvm"], Acceleration::Auto), some("kvm"));
    assert_eq!(choose(&["qemu", "kvm"], Acceleration::Emulated), some("qemu"));
    assert_eq!(choose(&["qemu"], Acceleration::Auto), some("qemu"));
    assert_eq!(choose(&["test"], Acceleration::Emulated), some("test"));
    assert_eq!(choose(&[], Acceleration::Auto), None);
}
