//! Limit ranges: what containers that say nothing get, and what pods and claims to storage may ask for.
//!
//! `rules` decides about one object and one range; here the ranges of its namespace are looked up.

mod rules;

use serde_json::Value;

use crate::{
    object::text,
    registry::Resource,
    server::Api,
    status::{Answer, Failure},
};

const COLLECTION: &str = "/limitranges";

/// Gives the containers of a pod what the ranges of its namespace say.
pub(crate) fn default(api: &Api, resource: &Resource, namespace: &str, pod: &mut Value) {
    if resource.is("/pods") {
        ranges(api, namespace).iter().for_each(|range| rules::default(&range["spec"], pod));
    }
}

/// A pod is stored with the defaults that follow from what its containers were given.
pub(crate) fn complete(resource: &Resource, pod: &mut Value) {
    if resource.is("/pods") && pod["metadata"]["annotations"].get(rules::ANNOTATION).is_some() {
        resource.rules.default(pod, &crate::verbs::now);
    }
}

/// Refuses a pod or a claim that one of the ranges of its namespace does not allow.
pub(crate) fn check(api: &Api, resource: &Resource, subresource: &str, old: Option<&Value>, new: &Value) -> Answer<()> {
    let judge = match (&*resource.collection, subresource, old) {
        // Containers of a pod that exists change by way of resizing alone.
        ("/pods", "", None) | ("/pods", "resize", Some(_)) => rules::pod,
        ("/persistentvolumeclaims", "", _) => rules::claim,
        _ => return Ok(()),
    };
    if old.is_some_and(|old| old["metadata"]["deletionTimestamp"].is_string()) {
        return Ok(());
    }
    let metadata = &new["metadata"];
    for range in ranges(api, text(&metadata["namespace"])) {
        if let Some(why) = aggregate(judge(&range["spec"], new)) {
            return Err(Failure::forbidden(resource, text(&metadata["name"]), &why));
        }
    }
    Ok(())
}

fn ranges(api: &Api, namespace: &str) -> Vec<Value> {
    let index = api.store.read();
    let Some(found) = index.collection(COLLECTION).filter(|found| found.len() > 0) else { return Vec::new() };
    found.iter(Some(namespace), None).map(|range| range.value()).collect()
}

/// Several complaints as one, each said once.
fn aggregate(complaints: Vec<String>) -> Option<String> {
    let mut said: Vec<String> = Vec::new();
    for complaint in complaints {
        if !said.contains(&complaint) {
            said.push(complaint);
        }
    }
    match said.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
