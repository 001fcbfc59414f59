//! Writes objects: server-side apply under a field manager, and patches that fail on a newer version.
//!
//! Each field has one writer. A manager applies exactly the fields it owns, and gives up those it leaves out. Objects
//! that are generated once, such as keys and tokens, go through [`make_once`], which never overwrites an existing
//! object.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Error, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Problem, problem};

/// Upper bound of a single request; the client itself would wait forever.
const TIMEOUT: Duration = Duration::from_secs(30);

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

/// Creates `object` or, with `present`, applies it to exactly that version. Returns `None` if another writer was
/// faster; the caller has to read the new object or version.
pub async fn make_once<K>(
    api: &Api<K>,
    manager: &str,
    object: &serde_json::Value,
    present: Option<&K>,
) -> Result<Option<K>, Error>
where
    K: Resource + Clone + Serialize + DeserializeOwned + Debug,
{
    let written = match present {
        None => {
            let object: K = serde_json::from_value(object.clone()).map_err(Error::SerdeError)?;
            let parameters = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
            in_time(api.create(&parameters, &object)).await
        }
        Some(present) => {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = present.resource_version().into();
            object["metadata"]["uid"] = present.uid().into();
            apply(api, manager, &present.name_any(), &object).await
        }
    };
    match written {
        Ok(written) => Ok(Some(written)),
        Err(error) if problem(&error) == Problem::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

/// Merges `patch` into an object. If it contains `metadata.resourceVersion`, a newer object leads to a conflict.
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

/// Bounds a request in time, so that an unresponsive server cannot block a controller.
pub async fn in_time<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Service("the API server did not answer in 30 seconds".into())),
    }
}

fn manager_of(name: &str) -> PatchParams {
    PatchParams { field_manager: Some(name.to_owned()), ..PatchParams::default() }
}
