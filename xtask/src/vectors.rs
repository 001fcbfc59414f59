//! `cargo xtask vectors FOLDER`: compares our results with upstream's, case by case.
//!
//! A judge is one module here and one line in [`JUDGES`]. A file without a judge is listed as `not yet` and counts
//! neither way. Where we differ from upstream on purpose, a named [`Rule`] defines the inputs it covers and our result
//! for them.

mod accept_header;
mod candidates;
mod case;
mod config_diff;
mod container_runtime;
mod disruption_actions;
mod fleet;
mod ignition_convert;
mod ignition_down;
mod judge;
mod kargs;
mod kubelet_config;
mod machine_admission;
mod machine_config;
mod machine_drain;
mod machine_reconcile;
mod machines;
mod machineset_delete_order;
mod machineset_reconcile;
mod managed_names;
mod merge;
mod mhc_unhealthy;
mod node_pools;
mod nodelink;
mod on_disk;
mod operator_config;
mod pool_status;
mod provider;
mod reconcilable;
mod registries;
mod same;
mod scale_from_zero;
mod served_ignition;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

use judge::{Judge, Tally};

/// One line for each vector file that is judged.
const JUDGES: &[&dyn Judge] = &[
    &accept_header::AcceptHeader,
    &candidates::Candidates,
    &config_diff::ConfigDiff,
    &container_runtime::ContainerRuntime,
    &disruption_actions::DisruptionActions,
    &ignition_convert::IgnitionConvert,
    &ignition_down::IgnitionDown,
    &kargs::Kargs,
    &kubelet_config::KubeletConfigs,
    &machine_admission::MachineAdmission,
    &machine_drain::MachineDrain,
    &machine_reconcile::MachineReconcile,
    &machineset_delete_order::DeleteOrder,
    &machineset_reconcile::SetReconcile,
    &managed_names::ManagedNames,
    &merge::Merge,
    &mhc_unhealthy::MhcUnhealthy,
    &node_pools::NodePools,
    &nodelink::NodeLink,
    &on_disk::OnDisk,
    &operator_config::OperatorConfig,
    &pool_status::PoolStatus,
    &provider::Provider { file: "provider-aws", spec: &aws::spec::Rules },
    &provider::Provider { file: "provider-azure", spec: &azure::spec::Rules },
    &provider::Provider { file: "provider-gcp", spec: &gcp::spec::Rules },
    &provider::Provider { file: "provider-vsphere", spec: &vsphere::spec::Rules },
    &reconcilable::Reconcilable,
    &registries::Registries,
    &scale_from_zero::ScaleFromZero,
    &served_ignition::ServedIgnition,
];

/// The number of failures that are shown per file.
const SHOWN: usize = 10;

pub(crate) fn run(folder: &Path) -> anyhow::Result<()> {
    let mut total = Tally::default();
    let mut waiting = Vec::new();
    for (name, path) in files(folder)? {
        let Some(judge) = JUDGES.iter().find(|judge| judge.file() == name) else {
            waiting.push(name);
            continue;
        };
        let cases = case::load(&path)?;
        let tally = judge::judge_all(*judge, &cases);
        print(&name, &tally);
        total.passed += tally.passed;
        total.failures.extend(tally.failures);
    }
    for name in &waiting {
        println!("{name}: not yet");
    }
    println!("{} passed, {} failed", total.passed, total.failures.len());
    if !total.failures.is_empty() {
        bail!("{} cases differ from upstream without a rule that says so", total.failures.len());
    }
    Ok(())
}

fn print(name: &str, tally: &Tally) {
    println!("{name}: {} passed, {} failed", tally.passed, tally.failures.len());
    for (rule, cases) in &tally.rules {
        println!("  rule {rule}: {cases} cases");
    }
    for failure in tally.failures.iter().take(SHOWN) {
        println!("  {failure}");
    }
    if tally.failures.len() > SHOWN {
        println!("  … and {} more", tally.failures.len() - SHOWN);
    }
}

/// Returns the vector files of a folder by name without extension.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, std::path::PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read folder {}", folder.display()))?;
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".jsonl.gz")) else { continue };
        files.insert(stem.to_owned(), path.clone());
    }
    if files.is_empty() {
        bail!("no *.jsonl or *.jsonl.gz in {}", folder.display());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn our_answers_are_upstreams_or_follow_a_rule() {
        super::run(&crate::workspace::root().join("vectors")).expect("no case may fail");
    }
}
