//! Aggregated ClusterRoles: their rules are those of the roles they select.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    object::Draft,
    server::Api,
    store::{Expect, Write},
};

const COLLECTION: &str = "rbac.authorization.k8s.io/clusterroles";

pub(super) async fn aggregate(api: &Arc<Api>) {
    let roles = super::all(api, COLLECTION);
    for role in &roles {
        let value = role.value();
        let Some(selectors) = value["aggregationRule"]["clusterRoleSelectors"].as_array() else { continue };
        let mut rules: Vec<Value> = Vec::new();
        for selector in selectors {
            let Ok(selector) = schema::selector::from_object(selector) else { continue };
            for other in roles
                .iter()
                .filter(|other| other.name() != role.name() && selector.matches_by(|key| other.labels.get(key)))
            {
                for rule in other.value()["rules"].as_array().into_iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        if value["rules"].as_array() == Some(&rules) {
            continue;
        }
        let mut new = value;
        new["rules"] = rules.into();
        let draft = Draft::new(role.key.clone(), &new);
        // Stale means that the role just changed, which brings another look.
        let _ = api.store.commit(Write::Put(Box::new(draft), Expect::Version(role.version))).await;
    }
}
