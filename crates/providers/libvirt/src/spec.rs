//! The libvirt providerSpec: its fields, its defaults and its rules. Nothing here calls libvirt.

pub(crate) mod quantity;
mod types;
pub(crate) mod uri;
mod validation;

use std::collections::BTreeMap;

use machine::provider::{Capacity, Problem, Request, SecretNeed, SecretPurpose, SpecRules, Surroundings, Verdict};
use machine::spec::{Identity, defaulted, read, secret, validated};
use serde_json::{Value, json};

pub use types::*;

use crate::mark::Names;

const IDENTITY: Identity = Identity {
    kind: "LibvirtMachineProviderConfig",
    groups: &["libvirtproviderconfig.openshift.io", "libvirtproviderconfig.k8s.io", "machine.openshift.io"],
    versions: &["v1beta1", "v1alpha1"],
};

/// The size of a disk whose spec names none, as upstream has it.
pub(crate) const DISK: u64 = 17_706_254_336;

/// The pure half of the provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl SpecRules for Rules {
    fn default(&self, spec: &Value, _: &Surroundings) -> Result<Value, Problem> {
        defaulted(spec, fill)
    }

    fn validate(&self, spec: &Value, _: &Surroundings) -> Verdict {
        validated(spec, validation::check)
    }

    fn secrets(&self, spec: &Value) -> Vec<SecretNeed> {
        let Ok(read::Read { spec, .. }) = read::read::<LibvirtSpec>(spec) else { return Vec::new() };
        let need = |name: &str, field: &str| SecretNeed {
            purpose: SecretPurpose::UserData,
            namespace: None,
            name: name.to_owned(),
            field: format!("providerSpec.{field}.userDataSecret"),
        };
        match Boot::of(&spec) {
            Some(Boot::Ignition(name)) => vec![need(name, "ignition")],
            Some(Boot::CloudInit(name)) => vec![need(name, "cloudInit")],
            Some(Boot::Volume(_)) | None => Vec::new(),
        }
    }

    fn place(&self, spec: &Value) -> Value {
        let Ok(read::Read { spec, .. }) = read::read::<LibvirtSpec>(spec) else { return Value::Null };
        let pool = spec.volume.map(|volume| volume.pool_name).unwrap_or_default();
        json!({"uri": spec.uri, "volume": {"poolName": pool}, "networkInterfaceName": spec.network_interface_name})
    }

    fn children(&self, request: &Request) -> BTreeMap<String, String> {
        let names = Names::of(&request.mark);
        BTreeMap::from([("disk".to_owned(), names.disk), ("boot".to_owned(), names.boot)])
    }

    fn capacity(&self, spec: &Value) -> Option<Capacity> {
        let read::Read { spec, .. } = read::read::<LibvirtSpec>(spec).ok()?;
        let cpus = u64::try_from(spec.domain_vcpu).ok().filter(|cpus| *cpus > 0)?;
        let memory_mib = u64::try_from(spec.domain_memory).ok().filter(|memory| *memory > 0)?;
        Some(Capacity { cpus, memory_mib, ..Capacity::default() })
    }
}

/// A machine that reads nothing at its first boot never joins, so the workers' user data is the default.
fn fill(spec: &mut LibvirtSpec) {
    if spec.ignition.is_none() && spec.ign_key.is_empty() && spec.cloud_init.is_none() {
        spec.ignition = Some(Ignition { user_data_secret: secret::WORKER_USER_DATA.to_owned() });
    }
}

/// What a machine reads at its first boot, in upstream's order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boot<'a> {
    /// The Ignition config in this Secret.
    Ignition(&'a str),
    /// The Ignition config in this volume.
    Volume(&'a str),
    /// The cloud-init user data in this Secret.
    CloudInit(&'a str),
}

impl<'a> Boot<'a> {
    pub(crate) fn of(spec: &'a LibvirtSpec) -> Option<Self> {
        let ignition = spec.ignition.as_ref().map(|ignition| Self::Ignition(&ignition.user_data_secret));
        let volume = || (!spec.ign_key.is_empty()).then_some(Self::Volume(&spec.ign_key));
        let cloud_init = || spec.cloud_init.as_ref().map(|cloud_init| Self::CloudInit(&cloud_init.user_data_secret));
        ignition.or_else(volume).or_else(cloud_init)
    }
}

/// A spec that a domain can be made from, with its defaults.
pub(crate) fn usable(value: &Value) -> Result<LibvirtSpec, Problem> {
    let value = defaulted(value, fill)?;
    let read::Read { spec, .. } = read::read::<LibvirtSpec>(&value)?;
    let mut verdict = Verdict::default();
    validation::check(&spec, &mut verdict);
    verdict.problems.into_iter().next().map_or(Ok(spec), Err)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn spec(more: Value) -> Value {
        let mut spec = json!({
            "apiVersion": "libvirtproviderconfig.openshift.io/v1beta1", "kind": "LibvirtMachineProviderConfig",
            "uri": "qemu+tcp://192.168.122.1/system", "domainMemory": 2048, "domainVcpu": 2,
            "volume": {"poolName": "default", "baseVolumeID": "base"}, "networkInterfaceName": "default",
        });
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        Rules.default(&spec, &Surroundings::default()).unwrap()
    }

    #[track_caller]
    fn check(more: Value, expected: Expect) {
        let Verdict { problems, warnings } = Rules.validate(&spec(more), &Surroundings::default());
        let lines: Vec<_> = problems.iter().map(ToString::to_string).chain(warnings).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn upstreams_spec_is_good_in_old_and_new_groups() {
        check(json!({}), expect![""]);
        check(json!({"apiVersion": "libvirtproviderconfig.k8s.io/v1alpha1"}), expect![""]);
        check(json!({"autostart": true, "networkInterfaceAddress": "192.168.126.0/24", "metadata": {}}), expect![""]);
        check(json!({"volume": {"poolName": "p", "baseVolumeID": "/p/base", "volumeSize": "32Gi"}}), expect![""]);
        check(json!({"volume": {"poolName": "p", "baseVolumeID": "b", "volumeSize": 17_706_254_336_u64}}), expect![""]);
    }

    #[test]
    fn what_is_missing_is_named() {
        check(
            json!({"uri": "", "domainMemory": 0, "domainVcpu": -1, "volume": {}, "networkInterfaceName": ""}),
            expect![[r#"
                providerSpec.uri: Required value: say where libvirt is, such as qemu+tcp://host/system
                providerSpec.domainMemory: Required value: say how much, a number of MiB, such as 8192
                providerSpec.domainVcpu: Invalid value: -1: must be between 1 and 1073741824
                providerSpec.volume.poolName: Required value: name a storage pool, such as default
                providerSpec.volume.baseVolumeID: Required value: name the volume with the operating system
                providerSpec.networkInterfaceName: Required value: name a network, such as default"#]],
        );
        check(
            json!({"volume": null, "ignition": {}}),
            expect![[r#"
                providerSpec.ignition.userDataSecret: Required value: name the Secret, such as worker-user-data
                providerSpec.volume: Required value: name the pool and the base volume"#]],
        );
    }

    #[test]
    fn what_is_not_used_is_said_and_what_is_dangerous_refused() {
        check(
            json!({
                "ignition": {"userDataSecret": "a"}, "ignKey": "/p/ign",
                "cloudInit": {"userDataSecret": "b", "sshAccess": true},
                "networkInterfaceHostname": "h", "networkUUID": "u", "nvram": {"nvramFile": "f"},
                "volume": {"poolName": "p", "baseVolumeID": "b", "volumeName": "v", "volumeSize": "big"},
                "networkInterfaceAddress": "192.168.1.1", "uri": "qemu+ext:///system?command=/bin/sh", "domainMemroy": 1,
            }),
            expect![[r#"
                providerSpec.uri: Invalid value: transport "ext" is not accepted; use tcp, tls, ssh or unix
                providerSpec.cloudInit.sshAccess: Forbidden: it lets in whoever holds a fixed key; write your SSH keys into the user data
                providerSpec.volume.volumeSize: Invalid value: "big": must be a quantity of bytes, such as 32Gi
                providerSpec.networkInterfaceAddress: Invalid value: "192.168.1.1": must be an IPv4 range such as 192.168.126.0/24
                providerSpec.domainMemroy: unknown field, which is ignored; did you mean domainMemory?
                providerSpec.ignKey: is not used, because ignition is set
                providerSpec.cloudInit: is not used, because ignition is set
                providerSpec.volume.volumeName: is not used: volumes are named after their Machine
                providerSpec.networkInterfaceHostname: is not used
                providerSpec.networkUUID: is not used
                providerSpec.nvram.nvramFile: is not used: each machine gets a file of its own
                providerSpec.nvram: is not used without firmware"#]],
        );
    }

    #[test]
    fn the_first_boot_reads_the_workers_secret_unless_something_else_is_named() {
        let secret =
            |more| Rules.secrets(&spec(more)).into_iter().map(|need| (need.name, need.field)).collect::<Vec<_>>();
        let owned = |name: &str, field: &str| vec![(name.to_owned(), format!("providerSpec.{field}.userDataSecret"))];
        assert_eq!(secret(json!({})), owned("worker-user-data", "ignition"));
        assert_eq!(secret(json!({"cloudInit": {"userDataSecret": "c"}})), owned("c", "cloudInit"));
        assert!(secret(json!({"ignKey": "/p/ign"})).is_empty());
    }

    #[test]
    fn the_place_of_a_machine_is_enough_to_find_and_remove_it() {
        let place = Rules.place(&spec(json!({})));
        assert_eq!(Rules.place(&place), place);
        assert_eq!(
            place,
            json!({"uri": "qemu+tcp://192.168.122.1/system", "volume": {"poolName": "default"},
                "networkInterfaceName": "default"})
        );
        assert_eq!(Rules.capacity(&spec(json!({}))).map(|it| (it.cpus, it.memory_mib)), Some((2, 2048)));
    }
}
