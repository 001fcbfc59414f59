//! `machinist blame NODE PATH [FIELD]`: which fragment, by whom and since when, put this file here. Where the fragment was
//! generated, which KubeletConfig set each field of it.

mod generated;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api::machineconfiguration::MachineConfig;
use api::machinist::{Entry, EntryKind, RenderedProvenance};
use clap::Args;
use explain::ago;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use crate::gather::{self, Cluster};
use crate::output::{self, Format};
use generated::{Generated, Source};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// The node
    node: String,
    /// A file's path, a unit's name, UNIT/DROP-IN, a user, or a kernel argument
    #[arg(value_name = "PATH")]
    part: String,
    /// A field of the kubelet's configuration, such as maxPods: only who set that
    field: Option<String>,
    /// Print as JSON or YAML instead of text
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

/// Who has written a fragment's content.
struct Author {
    manager: String,
    operation: String,
    time: Option<Timestamp>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(blame(arguments))
}

async fn blame(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    let node: Node = gather::get(&client, &arguments.node).await?;
    let facts = rollout::NodeFacts::from_object(&node);
    let config = facts.current.with_context(|| {
        format!("node {} has not said which config it runs; `machinist why node {}` tells why", facts.name, facts.name)
    })?;
    let provenance: RenderedProvenance = gather::get(&client, &config)
        .await
        .with_context(|| format!("node {} runs {config}, and where that comes from is not known", facts.name))?;
    let entries = find(&provenance, &arguments.part);
    let Some(first) = entries.first() else { return Err(unknown(&provenance, &config, arguments)) };
    let then = provenance.spec.fragments.iter().find(|fragment| fragment.name == first.from);
    let fragment = fragment(&client, &first.from).await?;
    let (generated, sources) = sources(&client, arguments, &first.from, fragment.as_ref()).await?;
    let mut value = describe(arguments, &config, &entries, then.and_then(|then| then.generation), fragment.as_ref());
    if let Some(generated) = &generated {
        value["generated"] = generated.to_json(&sources);
    }
    let text = match arguments.output {
        Some(format) => format.write_one(&value)?,
        None => {
            let made = generated.map(|generated| generated.report(&sources, Timestamp::now())).unwrap_or_default();
            report(&value, fragment.as_ref(), &made)
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What a generated fragment was made from; nothing for a user's own.
async fn sources(
    client: &Client,
    arguments: &Arguments,
    name: &str,
    fragment: Option<&MachineConfig>,
) -> anyhow::Result<(Option<Generated>, Vec<Source>)> {
    let mut generated = fragment.and_then(Generated::read);
    match (&mut generated, &arguments.field) {
        (Some(generated), Some(field)) => generated.only(field)?,
        (None, Some(field)) => {
            bail!("MachineConfig {name} was not generated, so who set {field} in it is who wrote it; leave {field} out")
        }
        (_, None) => {}
    }
    let sources = match &generated {
        Some(generated) => generated::sources(client, generated).await?,
        None => Vec::new(),
    };
    Ok((generated, sources))
}

/// What is known of a part: first its own entry, then those about details of it.
fn find<'a>(provenance: &'a RenderedProvenance, part: &str) -> Vec<&'a Entry> {
    let unit = unit_of(part);
    let details = format!("config.storage.files[{part}].");
    let is_part = |entry: &&Entry| match entry.kind {
        EntryKind::Path => entry.name == part,
        EntryKind::Unit | EntryKind::Dropin => entry.name == part || Some(&entry.name) == unit.as_ref(),
        EntryKind::User | EntryKind::Argument | EntryKind::Extension => entry.name == part,
        EntryKind::Key => entry.name.split_once('/').is_some_and(|(user, _)| user == part),
        EntryKind::Scalar => entry.name == part || entry.name.starts_with(&details),
    };
    let mut found: Vec<_> = provenance.spec.entries.iter().filter(is_part).collect();
    found.sort_by_key(|entry| entry.kind == EntryKind::Scalar);
    found
}

/// The unit or drop-in that a path on disk belongs to.
fn unit_of(path: &str) -> Option<String> {
    let name = path.strip_prefix("/etc/systemd/system/")?;
    Some(match name.split_once(".d/") {
        Some((unit, dropin)) => format!("{unit}/{dropin}"),
        None => name.to_owned(),
    })
}

fn unknown(provenance: &RenderedProvenance, config: &str, arguments: &Arguments) -> anyhow::Error {
    let wanted = arguments.part.trim_start_matches('/');
    let near = provenance.spec.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Path | EntryKind::Unit));
    let folder = wanted.rsplit_once('/').map_or(wanted, |(folder, _)| folder);
    let near: Vec<_> =
        near.filter(|entry| entry.name.contains(folder)).take(5).map(|entry| entry.name.as_str()).collect();
    let hint = if near.is_empty() { String::new() } else { format!("; it has {}", near.join(", ")) };
    anyhow::anyhow!(
        "{config}, which node {} runs, says nothing about {}, so no fragment put it there{hint}",
        arguments.node,
        arguments.part
    )
}

async fn fragment(client: &Client, name: &str) -> anyhow::Result<Option<MachineConfig>> {
    let api: Api<MachineConfig> = Api::all(client.clone());
    match api.get_opt(name).await {
        Ok(fragment) => Ok(fragment),
        Err(error) => bail!(gather::refusal(error, "get", "machineconfigs")),
    }
}

impl Author {
    fn to_json(&self) -> Value {
        json!({"manager": self.manager, "operation": self.operation, "time": self.time})
    }

    /// Who it is and since when.
    fn report(&self, now: Timestamp) -> String {
        let when = self.time.map(|time| format!(", {} ago ({time})", ago(time, now))).unwrap_or_default();
        format!("{} ({}){when}", self.manager, self.operation)
    }
}

/// Whoever wrote anything of the spec, the newest first.
fn authors(metadata: &ObjectMeta) -> Vec<Author> {
    let entries = metadata.managed_fields.iter().flatten();
    let owning =
        entries.filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:spec").is_some()));
    let mut authors: Vec<_> = owning
        .map(|entry| Author {
            manager: entry.manager.clone().unwrap_or_default(),
            operation: entry.operation.clone().unwrap_or_default(),
            time: entry.time.as_ref().map(|time| time.0),
        })
        .collect();
    authors.sort_by_key(|author| std::cmp::Reverse(author.time));
    authors
}

fn describe(
    arguments: &Arguments,
    config: &str,
    entries: &[&Entry],
    generation: Option<i64>,
    fragment: Option<&MachineConfig>,
) -> Value {
    let parts = entries
        .iter()
        .map(|entry| json!({"kind": entry.kind, "name": entry.name, "from": entry.from, "overrode": entry.overrode}));
    let authors = fragment.map(|fragment| authors(&fragment.metadata)).unwrap_or_default();
    let now = fragment.and_then(|fragment| fragment.metadata.generation);
    json!({
        "node": arguments.node,
        "part": arguments.part,
        "config": config,
        "entries": parts.collect::<Vec<_>>(),
        "fragment": {
            "name": entries.first().map(|entry| entry.from.as_str()),
            "exists": fragment.is_some(),
            "generationRendered": generation,
            "generation": now,
            "created": fragment.and_then(|fragment| fragment.metadata.creation_timestamp.clone()),
            "writtenBy": authors.iter().map(Author::to_json).collect::<Vec<_>>(),
        },
    })
}

fn report(value: &Value, fragment: Option<&MachineConfig>, made: &str) -> String {
    let mut text = String::new();
    let said = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let now = Timestamp::now();
    let _ = writeln!(text, "{} on node {}, by {}", said("/part").bold(), said("/node"), said("/config"));
    let _ = writeln!(text, "{:<12} MachineConfig {}", "from", said("/fragment/name").bold());
    for author in fragment.map(|fragment| authors(&fragment.metadata)).unwrap_or_default() {
        let _ = writeln!(text, "{:<12} {}", "written by", author.report(now));
    }
    text += made;
    for entry in value["entries"].as_array().into_iter().flatten() {
        let list = |key: &str| {
            entry[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        };
        let overrode = list("overrode");
        if !overrode.is_empty() {
            let _ = writeln!(text, "{:<12} {overrode}", "overrode");
        }
        if entry["kind"] == "Scalar" {
            let _ = writeln!(
                text,
                "{:<12} {} is from {}",
                "",
                entry["name"].as_str().unwrap_or_default(),
                entry["from"].as_str().unwrap_or_default()
            );
        }
    }
    let (rendered, generation) = (value.pointer("/fragment/generationRendered"), value.pointer("/fragment/generation"));
    match fragment {
        None => {
            let _ = writeln!(text, "{:<12} the fragment is gone; the node has not been told yet", "note");
        }
        Some(_) if rendered != generation => {
            let _ = writeln!(text, "{:<12} the fragment has changed since the node's config was made", "note");
        }
        Some(_) => {}
    }
    text
}
