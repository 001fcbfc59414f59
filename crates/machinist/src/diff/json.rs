//! A comparison as JSON, for programs. The same masks apply as in the text.

use api::operator::NodeDisruptionPolicyAction;
use change::content::{Directory, File, Link, Unit, User};
use change::diff::{Change, Changed};
use change::disruption::Reason;
use change::policy::Action;
use proposal::comparison::{Comparison, Shown, octal, owner, shown, verb};
use proposal::secrets::Secrets;
use serde_json::{Map, Value, json};

pub(super) fn report(comparison: &Comparison, secrets: Secrets) -> Value {
    let disruption = &comparison.disruption;
    let obstacles: Vec<_> = comparison.obstacles.iter().map(ToString::to_string).collect();
    json!({
        "pool": comparison.pool,
        "old": comparison.old,
        "new": comparison.new,
        "same": comparison.diff.is_empty(),
        "changes": changes(comparison, secrets),
        "inPlace": obstacles.is_empty(),
        "obstacles": obstacles,
        "disruption": {
            "class": disruption.class(),
            "drain": disruption.drain,
            "actions": actions(&disruption.actions),
            "reasons": disruption.reasons.iter().map(reason).collect::<Vec<_>>(),
        },
    })
}

fn changes(comparison: &Comparison, secrets: Secrets) -> Value {
    let diff = &comparison.diff;
    let mut all = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), value);
        }
    };
    put("files", entries(&diff.files, "path", |path, file| describe_file(path, file, secrets)));
    put("directories", entries(&diff.directories, "path", |_, directory| describe_directory(directory)));
    put("links", entries(&diff.links, "path", |_, link| describe_link(link)));
    put("units", entries(&diff.units, "name", |_, unit| describe_unit(unit, secrets)));
    put("users", entries(&diff.users, "name", |_, user| describe_user(user, secrets)));
    let shown = |arguments: &[String]| arguments.iter().map(|it| secrets.text(it).into_owned()).collect::<Vec<_>>();
    let arguments = diff.kernel_arguments.as_ref();
    let arguments = arguments.map(|it| Changed { before: shown(&it.before), after: shown(&it.after) });
    put("kernelArguments", setting(arguments.as_ref()));
    put("kernelType", setting(diff.kernel_type.as_ref()));
    put("extensions", setting(diff.extensions.as_ref()));
    put("fips", setting(diff.fips.as_ref()));
    put("osImageURL", setting(diff.os_image.as_ref()));
    put("baseOSExtensionsContainerImage", setting(diff.extensions_image.as_ref()));
    let sections: Vec<_> = diff.first_boot.iter().map(|section| section.as_str()).collect();
    put("firstBoot", (!sections.is_empty()).then(|| json!(sections)));
    Value::Object(all)
}

fn entries<T>(changes: &[Change<T>], key: &str, describe: impl Fn(&str, &T) -> Value) -> Option<Value> {
    let list = changes.iter().map(|change| {
        let mut entry = Map::new();
        entry.insert(key.to_owned(), json!(change.name));
        entry.insert("change".to_owned(), json!(verb(change.kind())));
        for (name, side) in [("before", &change.before), ("after", &change.after)] {
            if let Some(side) = side {
                entry.insert(name.to_owned(), describe(&change.name, side));
            }
        }
        Value::Object(entry)
    });
    (!changes.is_empty()).then(|| Value::Array(list.collect()))
}

fn setting<T: serde::Serialize>(change: Option<&Changed<T>>) -> Option<Value> {
    change.map(|Changed { before, after }| json!({"before": before, "after": after}))
}

fn describe_file(path: &str, file: &File, secrets: Secrets) -> Value {
    let mut entry = json!({"mode": octal(file.mode), "user": owner(&file.user), "group": owner(&file.group)});
    let (field, text) = match shown(path, file, secrets) {
        Shown::Text(text) => ("contents", text),
        Shown::Summary(summary) => ("summary", summary),
    };
    entry[field] = json!(text);
    entry
}

fn describe_directory(directory: &Directory) -> Value {
    json!({"mode": octal(directory.mode), "user": owner(&directory.user), "group": owner(&directory.group)})
}

fn describe_link(link: &Link) -> Value {
    json!({"target": link.target, "hard": link.hard})
}

fn describe_unit(unit: &Unit, secrets: Secrets) -> Value {
    let text = |text: &str| secrets.text(text).into_owned();
    let dropins: Map<_, _> =
        unit.dropins.iter().map(|(name, contents)| (name.clone(), json!(text(contents)))).collect();
    json!({"contents": text(&unit.contents), "enabled": unit.enabled, "mask": unit.mask, "dropins": dropins})
}

fn describe_user(user: &User, secrets: Secrets) -> Value {
    let hash = user.password_hash.as_deref().map(|hash| secrets.password(hash));
    let field = |value: &Value| {
        let text = value.to_string();
        if secrets.hides_text(&text) { json!(secrets.text(&text)) } else { value.clone() }
    };
    let other: Map<_, _> = user.other.iter().map(|(key, value)| (key.clone(), field(value))).collect();
    json!({"sshAuthorizedKeys": user.keys, "passwordHash": hash, "other": other})
}

fn reason(reason: &Reason) -> Value {
    json!({
        "subject": reason.subject.to_string(),
        "policy": reason.policy,
        "actions": actions(&reason.actions),
        "note": reason.note,
    })
}

fn actions(actions: &[Action]) -> Vec<NodeDisruptionPolicyAction> {
    actions.iter().map(Into::into).collect()
}
