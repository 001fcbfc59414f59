//! Volumes, the claims to them and their classes stay while somebody uses them, also after they were deleted.

use std::sync::Arc;

use serde_json::Value;

use super::collector;
use crate::{
    object::{Object, text},
    server::Api,
    store::Index,
};

const CLAIMS: &str = "/persistentvolumeclaims";
const VOLUMES: &str = "/persistentvolumes";
const CLASSES: &str = "storage.k8s.io/volumeattributesclasses";

/// What is protected; a change of a pod may let one of these go.
pub(super) const COLLECTIONS: [&str; 3] = [CLAIMS, VOLUMES, CLASSES];

/// Lets go of everything that was deleted and is not used any more. Says whether something still is.
pub(super) async fn settle(api: &Arc<Api>) -> bool {
    let (used, free): (Vec<_>, Vec<_>) = {
        let index = api.store.read();
        let objects = COLLECTIONS.iter().filter_map(|collection| index.collection(collection));
        let deleted = objects.flat_map(|found| found.iter(None, None)).filter(|object| object.deleting);
        deleted.map(|object| (Arc::clone(object), is_used(&index, object))).partition(|(_, used)| *used)
    };
    let registry = api.registry.load_full();
    for (object, _) in free {
        let resource = registry.of_collection(&object.key.collection);
        if let Some(finalizer) = resource.and_then(|resource| resource.rules.strategy.protection) {
            collector::drop_finalizer(api, &object, finalizer).await;
        }
    }
    !used.is_empty()
}

fn is_used(index: &Index, object: &Object) -> bool {
    let any = |collection: &str, uses: &dyn Fn(&Value) -> bool| {
        let objects = index.collection(collection);
        objects.is_some_and(|objects| objects.iter(None, None).any(|object| uses(&object.value())))
    };
    let (namespace, name) = (object.namespace(), object.name());
    match &*object.key.collection {
        CLAIMS => any("/pods", &|pod| {
            let over = matches!(text(&pod["status"]["phase"]), "Failed" | "Succeeded");
            let placed = !text(&pod["spec"]["nodeName"]).is_empty();
            let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            let mut claims = volumes.map(|volume| text(&volume["persistentVolumeClaim"]["claimName"]));
            text(&pod["metadata"]["namespace"]) == namespace && placed && !over && claims.any(|claim| claim == name)
        }),
        VOLUMES => object.value()["status"]["phase"] == "Bound",
        _ => {
            let named = |object: &Value| text(&object["spec"]["volumeAttributesClassName"]) == name;
            any(CLAIMS, &|claim| {
                named(claim)
                    || text(&claim["status"]["currentVolumeAttributesClassName"]) == name
                    || text(&claim["status"]["modifyVolumeStatus"]["targetVolumeAttributesClassName"]) == name
            }) || any(VOLUMES, &named)
        }
    }
}
