//! The cloud behind the Machines of a fleet: simulated, or the containers of this host.

use std::sync::Arc;

use anyhow::Context as _;
use machine::provider::{Mark, Provider, SpecRules as _, Surroundings};
use memory::Memory;
use serde_json::{Value, json};

use super::nodes::zone_of;

/// What kind of machines a fleet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Platform {
    Memory,
    Container,
}

/// The account of a fleet's instances.
#[derive(Clone)]
pub(super) enum Cloud {
    Memory(memory::Cloud),
    Container(container::Host),
}

impl Platform {
    /// The provider ID of a node that `up` begins with.
    pub(super) fn provider_id(self, name: &str) -> String {
        let scheme = match self {
            Self::Memory => "memory",
            Self::Container => "container",
        };
        format!("{scheme}:///{}/{name}", zone_of(name))
    }

    /// The spec of a machine, with the defaults that admission would fill in.
    pub(super) fn provider_spec(self, role: &str, zone: &str) -> Value {
        let kind = match self {
            Self::Memory => "MemoryMachineProviderSpec",
            Self::Container => "ContainerMachineProviderSpec",
        };
        let spec = json!({
            "apiVersion": "machinist.dev/v1alpha1", "kind": kind, "zone": zone,
            "userDataSecret": {"name": format!("{role}-user-data-managed")},
        });
        let defaulted = match self {
            Self::Memory => memory::spec::Rules.default(&spec, &Surroundings::default()),
            Self::Container => container::spec::Rules.default(&spec, &Surroundings::default()),
        };
        defaulted.unwrap_or(spec)
    }

    /// Region and instance type of a machine of this spec.
    pub(super) fn size(self, spec: &Value) -> (String, String) {
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        match self {
            Self::Memory => (text("region"), text("instanceType")),
            Self::Container => (container::spec::REGION.to_owned(), container::spec::INSTANCE_TYPE.to_owned()),
        }
    }
}

impl Cloud {
    pub(super) fn platform(&self) -> Platform {
        match self {
            Self::Memory(_) => Platform::Memory,
            Self::Container(_) => Platform::Container,
        }
    }

    pub(super) fn provider(&self) -> Arc<dyn Provider> {
        match self {
            Self::Memory(cloud) => Arc::new(Memory::new(cloud.clone())),
            Self::Container(host) => Arc::new(container::Container::new(host.clone())),
        }
    }

    /// Tells it of instances that run already: mark, provider ID and spec of each.
    pub(super) fn adopt(&self, instances: impl Iterator<Item = (Mark, String, Value)>) -> anyhow::Result<()> {
        match self {
            Self::Memory(cloud) => {
                let adopted = |(mark, provider_id, spec)| memory::Adopted { mark, provider_id, spec };
                cloud.adopt(instances.map(adopted)).context("the simulated cloud cannot keep its account")
            }
            Self::Container(host) => {
                let adopted = |(mark, provider_id, spec): (Mark, String, Value)| {
                    let zone = spec["zone"].as_str().unwrap_or_default().to_owned();
                    container::Adopted { mark, provider_id, zone }
                };
                host.adopt(instances.map(adopted)).context("the list of containers cannot be kept")
            }
        }
    }

    /// Whether an instance was adopted once and is gone now.
    pub(super) fn is_gone(&self, provider_id: &str) -> bool {
        match self {
            Self::Memory(cloud) => cloud.is_gone(provider_id),
            Self::Container(host) => host.is_gone(provider_id),
        }
    }

    /// Goes on with every instance that an earlier process made.
    pub(super) fn resume(&self) {
        match self {
            Self::Memory(cloud) => cloud.resume(),
            Self::Container(host) => host.resume(),
        }
    }
}
