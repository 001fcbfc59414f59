//! The chart's objects are those of `install` for the same choices. Helm is not needed: the few forms that the templates use are
//! filled in here.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::*;

/// Fills in templates as helm would, as far as ours go.
fn fill(template: &str, values: &BTreeMap<&str, String>) -> String {
    let is_set = |name: &str| values.get(name).is_some_and(|value| !value.is_empty() && value != "false");
    let (mut text, mut shown) = (String::new(), vec![true]);
    for line in template.lines() {
        if let Some(name) = line.strip_prefix("{{- if .Values.").and_then(|rest| rest.strip_suffix(" }}")) {
            shown.push(is_set(name));
        } else if line == "{{- else }}" {
            let last = shown.last_mut().unwrap();
            *last = !*last;
        } else if line == "{{- end }}" {
            shown.pop();
        } else if shown.iter().all(|shown| *shown) {
            text += &format!("{}\n", expressions(line, values));
        }
    }
    assert_eq!(shown, [true], "every template is closed");
    text
}

fn expressions(line: &str, values: &BTreeMap<&str, String>) -> String {
    let Some((before, rest)) = line.split_once("{{ ") else { return line.to_owned() };
    let (expression, after) = rest.split_once(" }}").unwrap();
    let one = |part: &str| match part.strip_prefix(".Values.") {
        Some(name) => values.get(name).cloned().unwrap_or_default(),
        None => part.trim_matches('"').to_owned(),
    };
    let mut parts = expression.split(" | default ").map(one);
    let value = parts.next().unwrap();
    let value = if value.is_empty() { parts.next().unwrap_or_default() } else { value };
    format!("{before}{value}{}", expressions(after, values))
}

/// The documents of the chart's templates, made once for all tests.
static DOCUMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let guarded = |document: &str| document.matches("{{- if").count() == document.matches("{{- end").count();
    let files = templates().unwrap();
    let documents: Vec<String> = files.iter().flat_map(|(_, file)| file.split("---\n")).map(str::to_owned).collect();
    assert!(documents.iter().all(|document| guarded(document)), "each document closes what it opens");
    documents
});

/// Documents without templates are the largest, and always the same objects.
static READ: LazyLock<Vec<Option<Value>>> =
    LazyLock::new(|| DOCUMENTS.iter().map(|document| (!document.contains("{{")).then(|| read(document))).collect());

/// An object without what only helm reads.
fn read(document: &str) -> Value {
    let mut object: Value = serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"));
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(KEEP.0);
    }
    if object.pointer("/metadata/annotations") == Some(&json!({})) {
        object["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    object
}

/// The objects of the chart by their ids.
fn charted(values: &BTreeMap<&str, String>) -> BTreeMap<Id, Value> {
    let mut objects = BTreeMap::new();
    for (document, known) in DOCUMENTS.iter().zip(READ.iter()) {
        let object = known.clone().or_else(|| {
            let text = fill(document, values);
            (!text.trim().is_empty()).then(|| read(&text))
        });
        if let Some(object) = object {
            assert!(objects.insert(Id::of(&object), object).is_none(), "twice: {document}");
        }
    }
    objects
}

#[track_caller]
fn check(choices: &[(&'static str, &str)], chosen: Installation) {
    let images = &chosen.images.machine_config_operator;
    let mut values = BTreeMap::from([("namespace", chosen.namespace.clone()), ("image", images.clone())]);
    values.extend(choices.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let mut charted = charted(&values);
    let installation = with_access(chosen);
    let halves = operate::installed(&installation).into_iter().chain(operate::machine_api::installed(&installation));
    for one in halves {
        let id = one.id();
        if installation.api_url.is_some() && id.name == operate::workloads::SERVER && id.kind == "DaemonSet" {
            continue;
        }
        let found = charted.remove(&id).unwrap_or_else(|| panic!("the chart lacks {id}"));
        assert_eq!(found, one.object, "{id}");
    }
    assert!(charted.is_empty(), "only in the chart: {:?}", charted.keys());
}

#[test]
fn without_choices_the_chart_is_what_install_prints() {
    check(&[], Installation::default());
}

#[test]
fn with_every_choice_the_chart_is_what_install_prints() {
    let text = |value: &str| Some(value.to_owned());
    let mut chosen = Installation {
        namespace: "elsewhere".to_owned(),
        machine_namespace: "machines".to_owned(),
        source_namespace: "sources".to_owned(),
        admin_user: text("admin"),
        runtime_service: text("crio.service"),
        server: text("configs.example.org:1234"),
        api_url: text("https://api.example.org:6443"),
        daemon_account: true,
        older_groups: true,
        platform: text("AWS"),
        choices: operate::machine_api::Choices {
            socket: text("/run/shed/provider.sock"),
            external_etcd: true,
            remove_orphans: text("c-1"),
        },
        ..Installation::default()
    };
    chosen.images.machine_config_operator = "example.org/machinist:1".to_owned();
    chosen.images.machine_config_daemon = text("example.org/daemon:1");
    let choices = [
        ("adminUser", "admin"),
        ("runtimeService", "crio.service"),
        ("server", "configs.example.org:1234"),
        ("apiserverUrl", "https://api.example.org:6443"),
        ("machineNamespace", "machines"),
        ("sourceNamespace", "sources"),
        ("daemonAccount", "true"),
        ("olderGroups", "true"),
        ("daemonImage", "example.org/daemon:1"),
        ("platform", "AWS"),
        ("providerSocket", "/run/shed/provider.sock"),
        ("externalEtcd", "true"),
        ("removeOrphans", "c-1"),
    ];
    assert_eq!(choices.map(|(name, _)| name), CHOICES.map(|(option, _)| option.name), "every value is chosen");
    check(&choices, chosen);
}

#[test]
fn each_choice_alone_is_what_install_prints() {
    for (option, choose) in &CHOICES {
        let value = if option.is_switch { "true" } else { "https://one.example.org" };
        let mut chosen = Installation::default();
        choose(&mut chosen, value);
        check(&[(option.name, value)], chosen);
    }
}

#[test]
fn every_value_is_told_in_the_file_of_values_and_known_to_the_schema() {
    let values = include_str!("values.yaml");
    let told: Value = serde_saphyr::from_str(values).unwrap();
    let told: Vec<&String> = told.as_object().unwrap().keys().collect();
    let schema = schema();
    let known: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(told, known);
}
