//! Reads objects once, for those who do not watch them. What could not be read stays apart from what is not there.

use std::fmt::Debug;

use api::known::Reading;
use jiff::Timestamp;
use kube::Resource;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

use crate::error::{Problem, chain, if_found, problem};
use crate::write::in_time;

/// Every object that matches, page by page.
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
            // A collection exists wherever its kind does.
            Err(error) if problem(&error) == Problem::NotFound => return Reading::NotInstalled,
            Err(error) => return Reading::Unknown(chain(&error)),
        }
    }
}

/// One object; `None` inside means that there is no such object, or no such kind.
pub async fn get<K>(api: &Api<K>, name: &str) -> Reading<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let as_of = Timestamp::now();
    // Whatever has no such kind answers in words of its own, so only the number counts.
    match if_found(in_time(api.get(name)).await) {
        Ok(object) => Reading::known(object, as_of),
        Err(error) => Reading::Unknown(chain(&error)),
    }
}
