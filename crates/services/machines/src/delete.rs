//! Deletes one object and no other of its name.

use std::fmt::Debug;

use cluster::write::in_time;
use cluster::{Problem, problem};
use kube::api::{Api, DeleteParams, Preconditions};
use kube::{Error, Resource};
use serde::de::DeserializeOwned;

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
