//! Reads objects once, for callers that do not watch them. A failed read is never reported as an object that does not
//! exist.

use std::fmt::Debug;

use api::known::Reading;
use jiff::Timestamp;
use kube::Resource;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

use crate::error::{Problem, chain, if_found, problem};
use crate::write::in_time;

/// Lists all matching objects, page by page.
pub async fn list<K>(api: &Api<K>, parameters: ListParams) -> Reading<Vec<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut parameters = ListParams { limit: parameters.limit.or(Some(500)), ..parameters };
    let as_of = Timestamp::now();
    let mut objects = Vec::new();
    loop {
        match in_time(api.list(&parameters)).await {
            Ok(page) => {
                objects.extend(page.items);
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => parameters = parameters.continue_token(&token),
                    None => return Reading::known(objects, as_of),
                }
            }
            // A collection exists if its kind does, so 404 means that the kind is not installed.
            Err(error) if problem(&error) == Problem::NotFound => return Reading::NotInstalled,
            Err(error) => return Reading::Unknown(chain(&error)),
        }
    }
}

/// Reads one object. `None` inside the reading means that the object or its kind does not exist.
pub async fn get<K>(api: &Api<K>, name: &str) -> Reading<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let as_of = Timestamp::now();
    // API servers word the error for an unknown kind differently, so only the status code counts.
    match if_found(in_time(api.get(name)).await) {
        Ok(object) => Reading::known(object, as_of),
        Err(error) => Reading::Unknown(chain(&error)),
    }
}
