//! Takes the secrets out of a rendered config before it is printed.

use ignition::Resource;
use proposal::secrets::{Secrets, mask};
use serde_json::Value;

/// Replaces every secret by what can be said about it; returns how many there were.
pub(super) fn hide(config: &mut Value, secrets: Secrets) -> usize {
    if secrets == Secrets::Shown {
        return 0;
    }
    let ignition = &mut config["spec"]["config"];
    let files = entries(ignition, "/storage/files").filter_map(|file| hide_file(file, secrets));
    let mut hidden = files.count();
    let arguments = config.pointer_mut("/spec/kernelArguments").and_then(Value::as_array_mut).into_iter().flatten();
    for argument in arguments {
        if let Some(plain) = argument.as_str().filter(|plain| secrets.hides_text(plain)) {
            *argument = secrets.text(plain).into();
            hidden += 1;
        }
    }
    let ignition = &mut config["spec"]["config"];
    let mut hide_text = |text: Option<&mut Value>| {
        if let Some(text) = text
            && let Some(plain) = text.as_str().filter(|plain| secrets.hides_text(plain))
        {
            *text = mask(plain.as_bytes()).into();
            hidden += 1;
        }
    };
    for unit in entries(ignition, "/systemd/units") {
        hide_text(unit.get_mut("contents"));
        for dropin in entries(unit, "/dropins") {
            hide_text(dropin.get_mut("contents"));
        }
    }
    for list in ["/passwd/users", "/passwd/groups"] {
        for account in entries(ignition, list) {
            if let Some(hash) = account.get_mut("passwordHash").filter(|hash| hash.is_string()) {
                *hash = secrets.password("").into();
                hidden += 1;
            }
        }
    }
    hidden
}

fn entries<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

fn hide_file(file: &mut Value, secrets: Secrets) -> Option<()> {
    let path = file["path"].as_str().unwrap_or_default().to_owned();
    let mode = file["mode"].as_u64().and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o644);
    let parts = file.get_mut("append").and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default();
    let mut hidden = parts.iter_mut().filter_map(|part| hide_contents(part, &path, mode, secrets)).last();
    if let Some(contents) = file.get_mut("contents") {
        hidden = hide_contents(contents, &path, mode, secrets).or(hidden);
    }
    hidden
}

fn hide_contents(contents: &mut Value, path: &str, mode: u32, secrets: Secrets) -> Option<()> {
    let text = |field: &str| contents[field].as_str().map(str::to_owned);
    let resource = Resource { source: text("source"), compression: text("compression"), ..Resource::default() };
    let bytes = ignition::decode(&resource).ok()?;
    if !secrets.hides_file(path, mode, &bytes) {
        return None;
    }
    *contents = serde_json::json!({"source": mask(&bytes)});
    Some(())
}
