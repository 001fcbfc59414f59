//! The Helm chart: what `machinist install` prints, with its flags as values.
//!
//! The templates are not written by hand. `install` is asked once without any choice and once for each choice; where the two answers
//! differ, a template chooses between them. So the chart cannot lag behind `install`.

mod template;

use anyhow::Context as _;
use operate::{Id, Installation};
use packages::{Archive, gzip};
use serde_json::{Value, json};

use super::VERSION;
use template::{Hunk, Option_};

/// Older API servers lack the admission policies that guard nodes.
const KUBERNETES: &str = ">=1.30.0-0";

/// The text that stands for the namespace of the processes, which every installation has.
const NAMESPACE: &str = "xx-namespace-xx";
/// The same for the image.
const IMAGE: &str = "xx-image-xx";

/// A value of the chart, and what it is set to while the chart is made.
type Choice = (Option_, fn(&mut Installation, &str));

/// In the order in which `install` writes their flags.
const CHOICES: [Choice; 13] = [
    (Option_::new("adminUser"), |installation, text| installation.admin_user = Some(text.to_owned())),
    (Option_::new("runtimeService"), |installation, text| installation.runtime_service = Some(text.to_owned())),
    (Option_::new("server"), |installation, text| installation.server = Some(text.to_owned())),
    // The operator makes what follows from it, as it does when it finds the address itself.
    (Option_::new("apiserverUrl").without_objects(), |installation, text| installation.api_url = Some(text.to_owned())),
    (Option_::with_default("machineNamespace", api::names::MACHINE_API_NAMESPACE), |installation, text| {
        installation.machine_namespace = text.to_owned();
    }),
    (Option_::with_default("sourceNamespace", NAMESPACE), |installation, text| {
        installation.source_namespace = text.to_owned();
    }),
    (Option_::switch("daemonAccount"), |installation, _| installation.daemon_account = true),
    (Option_::switch("olderGroups"), |installation, _| installation.older_groups = true),
    (Option_::with_default("daemonImage", IMAGE), |installation, text| {
        installation.images.machine_config_daemon = Some(text.to_owned());
    }),
    (Option_::new("platform"), |installation, text| installation.platform = Some(text.to_owned())),
    (Option_::new("providerSocket"), |installation, text| installation.choices.socket = Some(text.to_owned())),
    (Option_::switch("externalEtcd"), |installation, _| installation.choices.external_etcd = true),
    (Option_::new("removeOrphans"), |installation, text| installation.choices.remove_orphans = Some(text.to_owned())),
];

/// The chart as helm packs it.
pub(super) fn archive(time: u64) -> anyhow::Result<Vec<u8>> {
    let mut archive = Archive::new("machinist/", time);
    for (path, text) in files()? {
        archive.file(&path, 0o644, text.as_bytes())?;
    }
    Ok(gzip(&archive.finish())?)
}

/// The files of the chart, by their paths in it.
fn files() -> anyhow::Result<Vec<(String, String)>> {
    let mut files = vec![
        ("Chart.yaml".to_owned(), yaml(&about())?),
        ("README.md".to_owned(), include_str!("chart/README.md").to_owned()),
        ("values.schema.json".to_owned(), format!("{:#}\n", schema())),
        ("values.yaml".to_owned(), include_str!("chart/values.yaml").replace("IMAGE", &super::image::name())),
    ];
    for (kind, documents) in templates()? {
        files.push((format!("templates/{kind}.yaml"), documents));
    }
    files.sort();
    Ok(files)
}

fn about() -> Value {
    json!({
        "apiVersion": "v2",
        "name": "machinist",
        "version": VERSION,
        "appVersion": VERSION,
        "kubeVersion": KUBERNETES,
        "description": "Looks after the machines of any Kubernetes cluster",
        "type": "application",
    })
}

/// Every value is text but the switches; helm refuses others by this.
fn schema() -> Value {
    let mut properties = json!({
        "namespace": {"type": "string", "minLength": 1, "maxLength": 63},
        "image": {"type": "string", "minLength": 1},
    });
    for (option, _) in &CHOICES {
        let kind = if option.is_switch { "boolean" } else { "string" };
        properties[option.name] = json!({"type": kind});
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": false,
        "required": ["namespace", "image"],
        "properties": properties,
    })
}

/// One file of templates for each kind, with all objects of the kind.
fn templates() -> anyhow::Result<Vec<(String, String)>> {
    let base = installation();
    let plain = objects(&base);
    let texts = plain.iter().map(|(_, object)| yaml(object)).collect::<anyhow::Result<Vec<String>>>()?;
    let mut hunks: Vec<Vec<Hunk>> = plain.iter().map(|_| Vec::new()).collect();
    let mut more: Vec<(Id, String)> = Vec::new();
    for (option, choose) in &CHOICES {
        let mut installation = base.clone();
        choose(&mut installation, &option.stand_in());
        // Rights depend on namespaces too.
        let mut chosen = objects(&with_access(installation));
        for (place, (id, object)) in plain.iter().enumerate() {
            let at = position(&chosen, id, option).with_context(|| format!("{id} is gone with {}", option.name))?;
            let (_, other) = chosen.swap_remove(at);
            // Most objects are the same whatever is chosen, and the largest always are.
            if other != *object {
                hunks[place].extend(template::hunks(*option, &texts[place], &yaml(&other)?));
            }
        }
        // What is left came with the choice.
        if option.brings_objects {
            for (id, object) in chosen {
                more.push((id, option.guarded(&yaml(&object)?)));
            }
        }
    }
    more.sort();
    let merged = plain
        .iter()
        .zip(&texts)
        .zip(hunks)
        .map(|(((id, _), text), hunks)| Ok((id.clone(), template::merge(text, hunks)?)));
    let mut files: Vec<(String, String)> = Vec::new();
    for one in merged.chain(more.into_iter().map(anyhow::Ok)) {
        let (id, text) = one?;
        let text = named(&text);
        let kind = id.kind.to_lowercase();
        match files.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, file)) => *file += &format!("---\n{text}"),
            None => files.push((kind, text)),
        }
    }
    Ok(files)
}

/// Where an object is among those with a choice: under its own id, or in the namespace that the choice has moved it to.
fn position(chosen: &[(Id, Value)], id: &Id, option: &Option_) -> Option<usize> {
    let moved = |text: &str| {
        option.default.map_or_else(|| text.to_owned(), |default| text.replace(default, &option.stand_in()))
    };
    let moved = Id { name: moved(&id.name), namespace: moved(&id.namespace), ..id.clone() };
    let at = |id: &Id| chosen.iter().position(|(known, _)| known == id);
    at(id).or_else(|| at(&moved))
}

/// What stands for values of every installation becomes a template too.
fn named(text: &str) -> String {
    text.replace(NAMESPACE, "{{ .Values.namespace }}").replace(IMAGE, "{{ .Values.image }}")
}

fn installation() -> Installation {
    let mut base = Installation { namespace: NAMESPACE.to_owned(), ..Installation::default() };
    base.source_namespace.clone_from(&base.namespace);
    base.images.machine_config_operator = IMAGE.to_owned();
    with_access(base)
}

fn with_access(mut installation: Installation) -> Installation {
    installation.access = operator::access(&installation, &controllers::ROLES, &server::ROLES);
    installation.machine_access = operator::machine_access(&installation, &machines::webhook::with_roles());
    installation
}

/// What `install` prints, object by object.
fn objects(installation: &Installation) -> Vec<(Id, Value)> {
    let halves = operate::installed(installation).into_iter().chain(operate::machine_api::installed(installation));
    halves
        .map(|one| {
            let (id, mut object) = (one.id(), one.object);
            if matches!(id.kind.as_str(), "CustomResourceDefinition" | "Namespace") {
                // Taking the chart away must not take every MachineConfig and Machine away with it.
                object["metadata"]["annotations"][KEEP.0] = json!(KEEP.1);
            }
            (id, object)
        })
        .collect()
}

/// Tells helm to leave an object where it is.
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// What helm would read as a template is made text again.
fn yaml(object: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(object).context("cannot write YAML")?.replace("{{", "{{ \"{{\" }}"))
}

#[cfg(test)]
mod tests;
