//! Owner references: who makes another when an object goes.

use std::fmt::Debug;

use cluster::error::if_found;
use cluster::write::in_time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Api;
use kube::{Error, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::write;

/// The reference that makes `owner` the controller of an object.
pub(crate) fn controller<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether `owner` still exists and stays, by the API itself. A watch may lag behind the deletion of a set whose machines
/// were to be kept; adopted by what is gone, they would be deleted as its leftovers.
pub(crate) async fn may_adopt<K>(api: &Api<K>, owner: &K) -> Result<bool, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let found = if_found(in_time(api.get(&owner.name_any())).await)?;
    Ok(found.is_some_and(|found| found.uid() == owner.uid() && found.meta().deletion_timestamp.is_none()))
}

/// Makes `owner` the controller of exactly this object, unless it has one by now.
pub(crate) async fn adopt<K>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    uid: &str,
    owner: OwnerReference,
) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    change(api, manager, name, uid, |owners| {
        if owners.iter().all(|other| other.controller != Some(true)) {
            owners.push(owner);
        }
    })
    .await
}

/// Takes the reference to the owner with this uid off exactly this object.
pub(crate) async fn release<K>(api: &Api<K>, manager: &str, name: &str, uid: &str, owner: &str) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    change(api, manager, name, uid, |owners| owners.retain(|other| other.uid != owner)).await
}

async fn change<K>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    uid: &str,
    change: impl FnOnce(&mut Vec<OwnerReference>),
) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let object = in_time(api.get(name)).await?;
    if object.uid().as_deref() != Some(uid) {
        return Ok(());
    }
    let before = object.owner_references().to_vec();
    let mut owners = before.clone();
    change(&mut owners);
    if owners != before {
        write::merge(api, manager, &object, json!({ "metadata": { "ownerReferences": owners } })).await?;
    }
    Ok(())
}
