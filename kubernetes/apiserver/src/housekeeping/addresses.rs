//! IPAddresses: each address of a service is an object of its own, which comes and goes with it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    auth::bootstrap,
    object::text,
    server::Api,
    store::{Expect, Write},
};

pub(crate) const COLLECTION: &str = "networking.k8s.io/ipaddresses";
const MANAGED: &str = "ipaddress.kubernetes.io/managed-by";
const OURS: &str = "ipallocator.k8s.io";

pub(super) async fn settle(api: &Arc<Api>) {
    let mut wanted: BTreeMap<String, Value> = BTreeMap::new();
    for service in super::all(api, "/services") {
        let address = text(&service.value()["spec"]["clusterIP"]).to_owned();
        if !matches!(address.as_str(), "" | "None") {
            let (namespace, name) = (service.namespace(), service.name());
            wanted.insert(address, json!({"resource": "services", "namespace": namespace, "name": name}));
        }
    }
    for present in super::all(api, COLLECTION) {
        let value = present.value();
        let parent = wanted.remove(present.name());
        let ours = value["metadata"]["labels"][MANAGED] == OURS;
        if ours && parent.is_none_or(|parent| parent != value["spec"]["parentRef"]) {
            // Stale means that it just changed, which brings another look.
            let _ = api.store.commit(Write::Delete(present.key.clone(), Expect::Version(present.version))).await;
        }
    }
    for (address, parent) in wanted {
        let object = json!({
            "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1", "spec": {"parentRef": parent},
            "metadata": {"name": address, "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4", MANAGED: OURS,
            }},
        });
        if let Err(error) = bootstrap::create(api, COLLECTION, "", object).await {
            tracing::warn!(error, address, "cannot write down the address of a service");
        }
    }
}
