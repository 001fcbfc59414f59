//! Writes: server-side apply under a named manager, and patches that must not land on a newer object.
//!
//! One writer per field. A manager applies exactly the fields it owns; what it leaves out it gives up.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use kube::{Error, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// No single request takes longer than this; the client itself would wait for ever.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Applies `object` (kind, name and the owned fields) under `manager`, taking over fields that others own.
pub async fn apply<K>(api: &Api<K>, manager: &str, name: &str, object: &(impl Serialize + Debug)) -> Result<K, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let parameters = PatchParams::apply(manager).force();
    in_time(api.patch(name, &parameters, &Patch::Apply(object))).await
}

/// Applies the status of an object under `manager`.
pub async fn apply_status<K>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    object: &(impl Serialize + Debug),
) -> Result<K, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let parameters = PatchParams::apply(manager).force();
    in_time(api.patch_status(name, &parameters, &Patch::Apply(object))).await
}

/// Merges `patch` into an object. With a `metadata.resourceVersion` in it, a newer object makes it a conflict.
pub async fn merge<K>(api: &Api<K>, manager: &str, name: &str, patch: &(impl Serialize + Debug)) -> Result<K, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    in_time(api.patch(name, &manager_of(manager), &Patch::Merge(patch))).await
}

/// Merges `patch` into the status of an object.
pub async fn merge_status<K>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    patch: &(impl Serialize + Debug),
) -> Result<K, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    in_time(api.patch_status(name, &manager_of(manager), &Patch::Merge(patch))).await
}

/// Bounds one request, so that a silent server cannot stop a controller.
pub async fn in_time<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Service("the API server did not answer in 30 seconds".into())),
    }
}

fn manager_of(name: &str) -> PatchParams {
    PatchParams { field_manager: Some(name.to_owned()), ..PatchParams::default() }
}
