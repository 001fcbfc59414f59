//! Sorts manifests into what an offline answer is made from: fragments, pools, policies and settings.
//!
//! What has no part in the answer is told as a warning, or refused where the user asked for strictness. Pools that
//! every cluster has, and those that fragments speak of, need not be in the input.

use std::collections::{BTreeMap, BTreeSet};

use api::labels::{RENDERED_FOR, ROLE};
use api::machineconfiguration::{MachineConfig, MachineConfigPool, MachineConfigPoolSpec};
use api::machinist::ClusterSettings;
use api::names::{POOL_MASTER, POOL_WORKER, RENDERED_PREFIX};
use api::operator::{IrreconcilableValidationOverrides, NodeDisruptionPolicyConfig};
use api::selector::Selector;
use change::policy::{Policies, Settings};
use change::reconcilable::Allowances;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt;
use serde_json::Value;

use crate::manifest::{Error, Manifest};

/// Everything an offline answer is made from.
#[derive(Debug, Default)]
pub struct Inputs {
    pub fragments: Vec<Source>,
    /// Configs that are already rendered: they carry no role, and no pool selects them.
    pub rendered: Vec<Source>,
    pub pools: Vec<MachineConfigPool>,
    /// Images of the OS and of its extensions for pools whose fragments name none.
    pub os_image: String,
    pub extensions_image: String,
    pub settings: Settings,
    /// The user's policies; the defaults lie beneath them.
    pub policies: Policies,
    pub allowances: Allowances,
    pub warnings: Vec<String>,
}

/// A config and the manifest it stands in.
#[derive(Clone, Debug)]
pub struct Source {
    pub manifest: Manifest,
    pub config: MachineConfig,
}

impl Inputs {
    /// Sorts the manifests.
    ///
    /// # Errors
    /// An object that does not fit its kind, a fragment without a role, or, if `strict`, an object of unknown kind.
    pub fn sort(manifests: Vec<Manifest>, strict: bool) -> Result<Self, Error> {
        let known: BTreeSet<(String, String)> =
            api::crds().into_iter().map(|crd| (crd.spec.group, crd.spec.names.kind)).collect();
        let mut inputs = Inputs::default();
        for manifest in manifests {
            let kind = (manifest.group().to_owned(), manifest.kind.clone());
            let ours = known.contains(&kind) || TAKEN.iter().any(|(group, name)| *group == kind.0 && *name == kind.1);
            if ours {
                inputs.take(manifest)?;
            } else if strict {
                return Err(manifest.error(format!("unknown kind {}/{}", manifest.api_version, manifest.kind)));
            } else {
                inputs.skip(&manifest, "unknown kind");
            }
        }
        inputs.add_missing_pools();
        Ok(inputs)
    }

    /// The policies in force.
    #[must_use]
    pub fn effective_policies(&self) -> Policies {
        Policies::defaults(&self.settings).overlaid(self.policies.clone())
    }

    fn take(&mut self, mut manifest: Manifest) -> Result<(), Error> {
        for warning in api::translate(&mut manifest.value) {
            let Manifest { origin, kind, name, .. } = &manifest;
            self.warnings.push(format!("{origin}: {kind} {name:?}: {warning}"));
        }
        match manifest.kind.as_str() {
            "MachineConfig" => self.take_config(manifest),
            "MachineConfigPool" => {
                let pool: MachineConfigPool = manifest.parse()?;
                if let Some(Err(error)) = pool.spec.machine_config_selector.as_ref().map(Selector::parse) {
                    return Err(manifest.error(format!("spec.machineConfigSelector: {error}")));
                }
                self.pools.push(pool);
                Ok(())
            }
            "MachineConfiguration" => self.take_policies(&manifest),
            "ControllerConfig" => {
                self.os_image = text(&manifest, "/spec/baseOSContainerImage");
                if self.os_image.is_empty() {
                    self.os_image = text(&manifest, "/spec/osImageURL");
                }
                self.extensions_image = text(&manifest, "/spec/baseOSExtensionsContainerImage");
                Ok(())
            }
            "ClusterSettings" => {
                let settings: ClusterSettings = manifest.parse()?;
                self.settings.admin_user = settings.spec.admin_user().to_owned();
                self.settings.runtime_service = settings.spec.runtime_service().to_owned();
                Ok(())
            }
            _ => {
                self.skip(&manifest, "has no part in an offline render");
                Ok(())
            }
        }
    }

    fn take_config(&mut self, manifest: Manifest) -> Result<(), Error> {
        let config: MachineConfig = manifest.parse()?;
        let role = config.labels().get(ROLE).filter(|role| !role.is_empty());
        let source = Source { manifest, config: config.clone() };
        let is_rendered =
            config.labels().contains_key(RENDERED_FOR) || source.manifest.name.starts_with(RENDERED_PREFIX);
        if role.is_none() && is_rendered {
            self.rendered.push(source);
        } else if role.is_none() {
            return Err(source.manifest.error(format!(
                "metadata.labels: label {ROLE} is missing, so no pool can select it; set it to the pool's name"
            )));
        } else if let Some(first) = self.fragments.iter().find(|known| known.manifest.name == source.manifest.name) {
            let message = format!("metadata.name: already used by the MachineConfig in {}", first.manifest.origin);
            return Err(source.manifest.error(message));
        } else {
            self.fragments.push(source);
        }
        Ok(())
    }

    fn take_policies(&mut self, manifest: &Manifest) -> Result<(), Error> {
        if let Some(value) = manifest.value.pointer("/spec/nodeDisruptionPolicy") {
            let policy: NodeDisruptionPolicyConfig = serde_path_to_error::deserialize(value).map_err(|error| {
                manifest.error(format!("spec.nodeDisruptionPolicy.{}: {}", error.path(), error.inner()))
            })?;
            Policies::try_from(&policy)
                .map_err(|error| manifest.error(format!("spec.nodeDisruptionPolicy.{error}")))?;
            // The API takes these, and the operator leaves them out.
            let (policies, errors) = Policies::accepted(&policy);
            let told = errors
                .iter()
                .map(|error| format!("{}: spec.nodeDisruptionPolicy.{error}; the entry is left out", manifest.origin));
            self.warnings.extend(told);
            self.policies = policies;
        }
        if let Some(value) = manifest.value.pointer("/spec/irreconcilableValidationOverrides") {
            let field = "spec.irreconcilableValidationOverrides";
            let overrides: IrreconcilableValidationOverrides = serde_path_to_error::deserialize(value)
                .map_err(|error| manifest.error(format!("{field}.{}: {}", error.path(), error.inner())))?;
            let allowances =
                Allowances::try_from(&overrides).map_err(|error| manifest.error(format!("{field}.{error}")))?;
            self.allowances.first_boot.extend(allowances.first_boot);
        }
        Ok(())
    }

    fn skip(&mut self, manifest: &Manifest, why: &str) {
        let Manifest { origin, kind, name, .. } = manifest;
        self.warnings.push(format!("{origin}: {kind} {name:?} is skipped: {why}"));
    }

    /// Every cluster has the pools master and worker; a role nobody selects gets the pool its fragments expect.
    fn add_missing_pools(&mut self) {
        for name in [POOL_MASTER, POOL_WORKER] {
            if !self.pools.iter().any(|pool| pool.name_any() == name) {
                self.pools.push(pool(
                    name,
                    LabelSelector {
                        match_labels: Some([(ROLE.to_owned(), name.to_owned())].into()),
                        ..LabelSelector::default()
                    },
                ));
            }
        }
        let roles: BTreeSet<String> =
            self.fragments.iter().filter_map(|fragment| fragment.config.labels().get(ROLE).cloned()).collect();
        for role in roles {
            let selected = self.fragments.iter().any(|fragment| {
                let labels = fragment.config.labels();
                labels.get(ROLE) == Some(&role) && self.pools.iter().any(|pool| selects(pool, labels))
            });
            if !selected {
                self.warnings.push(format!(
                    "no MachineConfigPool selects role {role:?}; a pool of that name with the fragments of worker and {role} is assumed"
                ));
                let requirement = LabelSelectorRequirement {
                    key: ROLE.to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![POOL_WORKER.to_owned(), role.clone()]),
                };
                let expressions = Some(vec![requirement]);
                self.pools.push(pool(&role, LabelSelector { match_expressions: expressions, ..Default::default() }));
            }
        }
        self.pools.sort_by_key(ResourceExt::name_any);
    }
}

/// Kinds that matter here whether or not this build knows their whole type.
const TAKEN: [(&str, &str); 3] = [
    ("operator.openshift.io", "MachineConfiguration"),
    ("machineconfiguration.openshift.io", "ControllerConfig"),
    ("machinist.dev", "ClusterSettings"),
];

fn pool(name: &str, selector: LabelSelector) -> MachineConfigPool {
    let spec = MachineConfigPoolSpec { machine_config_selector: Some(selector), ..MachineConfigPoolSpec::default() };
    MachineConfigPool::new(name, spec)
}

/// Whether a pool selects a fragment with these labels. A pool without a selector, or with an empty one, selects none.
pub fn selects(pool: &MachineConfigPool, labels: &BTreeMap<String, String>) -> bool {
    let selector = pool.spec.machine_config_selector.as_ref().map(Selector::parse);
    matches!(selector, Some(Ok(selector)) if !selector.is_empty() && selector.matches(labels))
}

fn text(manifest: &Manifest, pointer: &str) -> String {
    manifest.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
