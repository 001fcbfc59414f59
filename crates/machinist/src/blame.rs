//! `machinist blame NODE PATH`: which fragment, by whom and since when, put this file here.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api::machineconfiguration::MachineConfig;
use api::machinist::{Entry, EntryKind, RenderedProvenance};
use clap::Args;
use explain::ago;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use crate::gather::{self, Cluster};
use crate::output::{self, Format};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// The node
    node: String,
    /// A file's path, a unit's name, UNIT/DROP-IN, a user, or a kernel argument
    #[arg(value_name = "PATH")]
    part: String,
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
    let value = describe(arguments, &config, &entries, then.and_then(|then| then.generation), fragment.as_ref());
    let text = match arguments.output {
        Some(format) => format.write_one(&value)?,
        None => report(&value, fragment.as_ref()),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
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

/// Whoever wrote `spec.config`, the newest first; without that, whoever wrote anything of the spec.
fn authors(fragment: &MachineConfig) -> Vec<Author> {
    let entries = fragment.metadata.managed_fields.iter().flatten();
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
    let authors = fragment.map(authors).unwrap_or_default();
    let authors = authors
        .iter()
        .map(|author| json!({"manager": author.manager, "operation": author.operation, "time": author.time}));
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
            "writtenBy": authors.collect::<Vec<_>>(),
        },
    })
}

fn report(value: &Value, fragment: Option<&MachineConfig>) -> String {
    let mut text = String::new();
    let said = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let now = Timestamp::now();
    let _ = writeln!(text, "{} on node {}, by {}", said("/part").bold(), said("/node"), said("/config"));
    let _ = writeln!(text, "{:<12} MachineConfig {}", "from", said("/fragment/name").bold());
    for author in fragment.map(authors).unwrap_or_default() {
        let when = author.time.map(|time| format!(", {} ago ({time})", ago(time, now))).unwrap_or_default();
        let _ = writeln!(text, "{:<12} {} ({}){when}", "written by", author.manager, author.operation);
    }
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
