//! `manifests/rbac/`: the permissions of each process, one file per process.

use std::path::PathBuf;

use anyhow::Context;
use api::names::{MACHINE_API_NAMESPACE, NAMESPACE};
use cluster::rights::{Role, manifests};

use super::File;

/// Returns each process's service account, its namespace and the table that its code declares.
fn processes() -> [(&'static str, &'static str, Vec<Role>); 3] {
    [
        ("machine-config-controller", NAMESPACE, controllers::ROLES.to_vec()),
        ("machine-config-server", NAMESPACE, server::ROLES.to_vec()),
        ("machine-api-controllers", MACHINE_API_NAMESPACE, machines::webhook::with_roles()),
    ]
}

pub(super) fn files() -> anyhow::Result<Vec<File>> {
    processes().iter().map(|(process, namespace, roles)| file(process, namespace, roles)).collect()
}

fn file(process: &str, namespace: &str, roles: &[Role]) -> anyhow::Result<File> {
    let path = PathBuf::from(format!("manifests/rbac/{process}.yaml"));
    let mut text =
        "# Generated from the tables of rights in the code by `cargo xtask generate`. Do not edit.\n".to_owned();
    for (number, object) in manifests(process, namespace, roles).iter().enumerate() {
        if number > 0 {
            text += "---\n";
        }
        text += &serde_saphyr::to_string(object).with_context(|| format!("cannot write {} as YAML", path.display()))?;
    }
    Ok(File { path, text })
}
