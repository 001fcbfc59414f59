//! Takes one fragment back out of a rendered config: those parts of it that came from that fragment.
//!
//! What the fragment said and others overrode is lost, and does not matter: merged with the same others, the extract comes
//! to the same config. Whoever uses it renders again and compares names before believing so.

use api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use api::machinist::{EntryKind, RenderedProvenanceSpec};
use serde_json::{Map, Value, json};

/// The parts of a rendered config whose word is `fragment`'s.
pub fn extract(rendered: &MachineConfig, provenance: &RenderedProvenanceSpec, fragment: &str) -> MachineConfigSpec {
    let has = |kind: EntryKind, name: &str| {
        provenance.entries.iter().any(|entry| entry.kind == kind && entry.name == name && entry.from == fragment)
    };
    let spec = &rendered.spec;
    let scalar = |name: &str, value: &Option<String>| value.clone().filter(|_| has(EntryKind::Scalar, name));
    MachineConfigSpec {
        config: spec.config.as_ref().map(|config| extract_config(config, &has)),
        kernel_arguments: chosen(&spec.kernel_arguments, |name| has(EntryKind::Argument, name)),
        extensions: chosen(&spec.extensions, |name| has(EntryKind::Extension, name)),
        fips: spec.fips.filter(|_| has(EntryKind::Scalar, "fips")),
        kernel_type: scalar("kernelType", &spec.kernel_type),
        os_image_url: scalar("osImageURL", &spec.os_image_url),
        base_os_extensions_container_image: scalar(
            "baseOSExtensionsContainerImage",
            &spec.base_os_extensions_container_image,
        ),
    }
}

fn chosen(list: &[String], keep: impl Fn(&str) -> bool) -> Vec<String> {
    list.iter().filter(|name| keep(name)).cloned().collect()
}

fn extract_config(config: &Value, has: &impl Fn(EntryKind, &str) -> bool) -> Value {
    let mut out = json!({"ignition": {"version": config["ignition"]["version"]}});
    for section in ["config", "proxy", "security", "timeouts"] {
        if has(EntryKind::Scalar, &format!("config.ignition.{section}"))
            && let Some(value) = config["ignition"].get(section)
        {
            out["ignition"][section] = value.clone();
        }
    }
    let mut put = |section: &str, part: &str, list: Vec<Value>| {
        if !list.is_empty() {
            out[section][part] = Value::Array(list);
        }
    };
    for part in ["files", "directories", "links"] {
        put("storage", part, items(config, "storage", part, |item| has(EntryKind::Path, text(item, "path"))));
    }
    for (part, key) in [("disks", "device"), ("filesystems", "device"), ("raid", "name"), ("luks", "name")] {
        let name = |item: &Value| format!("config.storage.{part}[{}]", text(item, key));
        put("storage", part, items(config, "storage", part, |item| has(EntryKind::Scalar, &name(item))));
    }
    put("systemd", "units", units(config, has));
    put("passwd", "users", users(config, has));
    let group = |item: &Value| format!("config.passwd.groups[{}]", text(item, "name"));
    put("passwd", "groups", items(config, "passwd", "groups", |item| has(EntryKind::Scalar, &group(item))));
    for part in ["shouldExist", "shouldNotExist"] {
        let name = |item: &Value| format!("config.kernelArguments.{part}[{}]", item.as_str().unwrap_or_default());
        let list = items(config, "kernelArguments", part, |item| has(EntryKind::Scalar, &name(item)));
        put("kernelArguments", part, list);
    }
    out
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item[key].as_str().unwrap_or_default()
}

fn items(config: &Value, section: &str, part: &str, keep: impl Fn(&Value) -> bool) -> Vec<Value> {
    config[section][part].as_array().into_iter().flatten().filter(|item| keep(item)).cloned().collect()
}

/// A unit whose body is another fragment's may still have drop-ins of this one.
fn units(config: &Value, has: &impl Fn(EntryKind, &str) -> bool) -> Vec<Value> {
    let mut units = Vec::new();
    for unit in config["systemd"]["units"].as_array().into_iter().flatten() {
        let name = text(unit, "name");
        let owned = has(EntryKind::Unit, name);
        let dropins: Vec<Value> = unit["dropins"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|dropin| has(EntryKind::Dropin, &format!("{name}/{}", text(dropin, "name"))))
            .cloned()
            .collect();
        if !owned && dropins.is_empty() {
            continue;
        }
        let mut out = if owned { unit.clone() } else { json!({"name": name}) };
        if let Some(out) = out.as_object_mut() {
            set_or_remove(out, "dropins", dropins);
        }
        units.push(out);
    }
    units
}

fn users(config: &Value, has: &impl Fn(EntryKind, &str) -> bool) -> Vec<Value> {
    let mut users = Vec::new();
    for user in config["passwd"]["users"].as_array().into_iter().flatten() {
        let name = text(user, "name");
        let owned = has(EntryKind::User, name);
        let keys: Vec<Value> = user["sshAuthorizedKeys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|key| has(EntryKind::Key, &format!("{name}/{}", key.as_str().unwrap_or_default())))
            .cloned()
            .collect();
        if !owned && keys.is_empty() {
            continue;
        }
        let mut out = if owned { user.clone() } else { json!({"name": name}) };
        if let Some(out) = out.as_object_mut() {
            set_or_remove(out, "sshAuthorizedKeys", keys);
        }
        users.push(out);
    }
    users
}

fn set_or_remove(object: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if list.is_empty() {
        object.remove(key);
    } else {
        object.insert(key.to_owned(), Value::Array(list));
    }
}
