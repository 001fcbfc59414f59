//! What drivers said of a device goes with the device.

use serde_json::Value;

use crate::object::text;

/// Takes what is said of devices out of the status of a claim that no longer has them.
pub(super) fn forget(old: &Value, new: &mut Value) {
    let given = |claim: &Value| -> Vec<[String; 4]> {
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        results.into_iter().flatten().map(id).collect()
    };
    let (before, kept) = (given(old), given(new));
    let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) else { return };
    if let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) {
        devices.retain(|device| {
            let id = id(device);
            kept.contains(&id) || !before.contains(&id)
        });
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}

fn id(device: &Value) -> [String; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| text(&device[field]).to_owned())
}
