//! Extensions: named sets of packages that an OS image can be extended with.

/// An extension and its packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    pub name: &'static str,
    pub packages: &'static [&'static str],
    /// The number of packages, counted from the end, that an older release's extension may lack.
    optional: usize,
}

impl Extension {
    /// Returns the packages without which the extension does not count as installed.
    pub fn required(&self) -> &'static [&'static str] {
        &self.packages[..self.packages.len() - self.optional]
    }
}

const fn extension(name: &'static str, packages: &'static [&'static str]) -> Extension {
    Extension { name, packages, optional: 0 }
}

/// Every extension that a MachineConfig may name.
pub const EXTENSIONS: [Extension; 7] = [
    extension("two-node-ha", &["pacemaker", "pcs", "fence-agents-all"]),
    Extension {
        name: "ipsec",
        packages: &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"],
        // Older releases did not have the Open vSwitch package.
        optional: 1,
    },
    extension("usbguard", &["usbguard"]),
    extension("kerberos", &["krb5-workstation", "libkadm5"]),
    extension("kernel-devel", &["kernel-devel", "kernel-headers"]),
    extension("sandboxed-containers", &["kata-containers"]),
    extension("sysstat", &["sysstat"]),
];

/// Looks an extension up by name.
pub fn find(name: &str) -> Option<&'static Extension> {
    EXTENSIONS.iter().find(|extension| extension.name == name)
}
