//! The part of a change that is about machines: reads the fleet, and asks the planners of the machine controllers.

use api::machine::Machine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use proposal::Manifest;
use proposal::machines::{self, Fleet, Name, Plan};

use super::gathered;
use crate::gather;

/// Takes what is about machines out of a change.
pub(crate) fn taken_from(manifests: &mut Vec<Manifest>, deletes: &mut Vec<String>) -> machines::Change {
    let apply = manifests.extract_if(.., |it| machines::is_planned(it)).map(|it| it.value).collect();
    let mut delete = Vec::new();
    deletes.retain(|text| Name::parse(text).map(|name| delete.push(name)).is_none());
    machines::Change { apply, delete }
}

pub(crate) async fn plan(client: &Client, change: &machines::Change, notes: &mut Vec<String>) -> anyhow::Result<Plan> {
    let fleet = fleet(client, notes).await?;
    let mut plan = machines::plan(&fleet, change)?;
    let refused = gathered::refusals(client, plan.pods(), notes).await;
    plan.block(&refused);
    Ok(plan)
}

async fn fleet(client: &Client, notes: &mut Vec<String>) -> anyhow::Result<Fleet> {
    let machines: Vec<Machine> = gather::list(client).await?;
    let pods: Option<Vec<Pod>> = gather::noted_list(client, notes, "pods that would move").await;
    let daemon_sets = gather::daemon_sets(client, notes).await;
    let now = Timestamp::now();
    let pods = pods.map(|pods| machines::moved(&pods, &daemon_sets, now));
    Ok(Fleet {
        machines,
        sets: gather::list_if_installed(client).await?,
        deployments: gather::list_if_installed(client).await?,
        control_planes: gather::list_if_installed(client).await?,
        nodes: gather::list(client).await?,
        pods,
        now,
    })
}
