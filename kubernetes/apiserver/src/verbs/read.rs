//! Get: one object, from its bytes where nothing has to change.

use http::Response;

use super::{Request, convert};
use crate::{
    http::{Body, Shape, respond},
    status::{Answer, Failure},
};

pub(crate) async fn get(request: &Request<'_>) -> Answer<Response<Body>> {
    let Request { api, call, resource, .. } = *request;
    let version = call.query.text("resourceVersion");
    if !version.is_empty() {
        reached(request, version)?;
    }
    let object =
        api.store.get(&resource.collection, &request.key(request.name).name).ok_or_else(|| request.not_found())?;
    let plain = call.accept.shape == Shape::Object && !call.accept.yaml && !call.accept.pretty;
    if plain && !call.query.flag("pretty") && convert::is_served_form(resource, &object) {
        return Ok(respond::bytes(200, respond::JSON, object.json.clone()));
    }
    request.object(200, convert::from_stored(api, resource, object.value()).await?)
}

/// A version to read from must be a number the store has reached.
pub(crate) fn reached(request: &Request<'_>, version: &str) -> Answer<u64> {
    let asked: u64 = version
        .parse()
        .map_err(|_| Failure::bad_request(format!("invalid resource version: {}", no_number(version))))?;
    let current = request.api.store.version();
    if asked > current {
        return Err(Failure::too_new(asked, current));
    }
    Ok(asked)
}

/// What is said about a resource version that is no number.
pub(crate) fn no_number(version: &str) -> String {
    format!("resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax")
}
