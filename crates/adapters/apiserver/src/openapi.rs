//! OpenAPI v3 documents of what is served.

use serde_json::{Value, json};

use crate::registry::{Version, group_version};

pub(crate) fn document(group: &str, version: &str, _served: &Version) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": group_version(group, version)},
        "paths": {}, "components": {"schemas": {}},
    })
}
