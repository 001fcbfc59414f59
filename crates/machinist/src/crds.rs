//! `machinist crds`: prints the definition of every kind.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use crate::output::{self, Format};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the groups of 2019 too, cluster.k8s.io and healthchecking.openshift.io. Where they are installed,
    /// `kubectl get machines` means theirs, because their names come first in the alphabet.
    #[arg(long)]
    legacy_kinds: bool,
    /// What is done without any flag; scripts of earlier releases say so
    #[arg(long, hide = true, conflicts_with = "legacy_kinds")]
    without_older_groups: bool,
    /// Only the kinds of this group, such as healthchecking.openshift.io
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// How to print them.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // Naming an older group asks for it.
    let mut definitions = definitions(arguments.legacy_kinds || arguments.group.is_some());
    if let Some(group) = &arguments.group {
        definitions.retain(|definition| definition["spec"]["group"] == group.as_str());
        if definitions.is_empty() {
            bail!("there is no kind of group {group:?}; `machinist crds --legacy-kinds` prints all of them");
        }
    }
    output::print(&arguments.output.write_all(&definitions)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The definitions, in a fixed order.
fn definitions(legacy_kinds: bool) -> Vec<Value> {
    let older = |group: &str| [api::cluster::GROUP, api::healthchecking::GROUP].contains(&group);
    api::crds().iter().filter(|definition| legacy_kinds || !older(&definition.spec.group)).map(api::manifest).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_printed_reads_back_as_what_it_was() {
        let definitions = definitions(true);
        let printed = Format::Yaml.write_all(&definitions).unwrap();
        let read: Vec<Value> = printed.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
        assert_eq!(read, definitions);
    }

    #[test]
    fn the_older_groups_are_printed_only_when_they_are_asked_for() {
        let plural = |definition: &Value| definition["spec"]["names"]["plural"].as_str().unwrap().to_owned();
        let count = |legacy: bool, name: &str| definitions(legacy).iter().filter(|one| plural(one) == name).count();
        assert_eq!((count(false, "machines"), count(true, "machines")), (1, 2));
        assert_eq!((count(false, "machinehealthchecks"), count(true, "machinehealthchecks")), (1, 2));
        assert_eq!(count(false, "machineconfigpools"), 1);
    }
}
