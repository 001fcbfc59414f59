//! Deletes one object and no other of its name.

use std::fmt::Debug;

use cluster::error::if_found;
use cluster::write::in_time;
use cluster::{Problem, problem};
use kube::api::{Api, DeleteParams, Preconditions};
use kube::{Error, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// Deletes the object as it was looked at. One that has changed since makes it a conflict; one that is gone is deleted
/// already.
pub(crate) async fn unchanged<K>(api: &Api<K>, object: &K) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let preconditions = Preconditions { uid: object.uid(), resource_version: object.resource_version() };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    if_found(in_time(api.delete(&object.name_any(), &parameters)).await).map(|_| ())
}

/// Deletes the object with this uid at this version. One that has changed since makes it a conflict; one that is gone, or
/// whose name another object has, is deleted already.
pub(crate) async fn as_judged<K>(
    api: &Api<K>,
    name: &str,
    uid: &str,
    resource_version: Option<String>,
) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    if_found(in_time(api.delete(name, &parameters)).await).map(|_| ())
}

/// Deletes the object with this uid. One that is gone, or whose name another object has, is deleted already.
pub(crate) async fn by_uid<K>(api: &Api<K>, name: &str, uid: &str) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match in_time(api.delete(name, &parameters)).await {
        Ok(_) => Ok(()),
        Err(error) if matches!(problem(&error), Problem::NotFound | Problem::Conflict) => Ok(()),
        Err(error) => Err(error),
    }
}
