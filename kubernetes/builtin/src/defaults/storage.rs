//! Defaults of claims to volumes, which StatefulSets make too.

use serde_json::Value;

use super::set;
use crate::amounts;

pub(crate) fn claim(spec: &mut Value) {
    set(spec, "volumeMode", "Filesystem");
    for side in ["/resources/requests", "/resources/limits"] {
        if let Some(own) = spec.pointer_mut(side) {
            amounts::round(own);
        }
    }
}

/// The claims that a StatefulSet makes are written down as objects of their own.
pub(crate) fn claim_template(template: &mut Value) {
    template["apiVersion"] = "v1".into();
    template["kind"] = "PersistentVolumeClaim".into();
    claim(&mut template["spec"]);
    set(&mut template["status"], "phase", "Pending");
}
