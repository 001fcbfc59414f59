//! Configs for tests, in a line each.

use api::machineconfiguration::MachineConfig;
use change::host::{Attributes, Host, HostPath};
use serde_json::{Value, json};

/// A rendered config with files `(path, text)` and whatever else `more` merges into its Ignition part.
pub(crate) fn config(name: &str, files: &[(&str, &str)], units: &Value, users: &Value) -> MachineConfig {
    let files: Vec<Value> = files
        .iter()
        .map(|(path, text)| json!({"path": path, "overwrite": true, "contents": {"source": format!("data:,{}", text.replace(' ', "%20").replace('\n', "%0A"))}}))
        .collect();
    let mut config = MachineConfig::default();
    config.metadata.name = Some(name.into());
    config.spec.config = Some(json!({
        "ignition": {"version": "3.4.0"},
        "storage": {"files": files},
        "systemd": {"units": units},
        "passwd": {"users": users},
    }));
    config
}

pub(crate) fn path(text: &str) -> HostPath {
    HostPath::parse(text).unwrap()
}

pub(crate) fn text(host: &dyn Host, at: &str) -> Option<String> {
    host.files().read(&path(at)).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

pub(crate) fn put(host: &dyn Host, at: &str, contents: &str) {
    host.files().put(&path(at), contents.as_bytes(), &Attributes::root(0o644)).unwrap();
}

/// A host as a distribution ships it: a user, a file of its own, an enabled unit.
pub(crate) fn furnish(host: &dyn Host) {
    put(host, "/etc/passwd", "root:x:0:0::/root:/bin/bash\ncore:x:0:0::/home/core:/bin/bash\n");
    put(host, "/etc/group", "root:x:0:\n");
    put(host, "/etc/shadow", "root:*:1::::::\ncore:!:1:0:99999:7:::\n");
    put(host, "/etc/chrony.conf", "distribution\n");
    put(
        host,
        "/usr/lib/systemd/system/shipped.service",
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
    );
    host.services().enable(&["shipped.service".to_owned()]).unwrap();
    host.files().flush().unwrap();
}
