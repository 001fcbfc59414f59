//! Says where a part of the rendered configs comes from: the fragment that won, and those it overrode.

use std::fmt::Write as _;

use anyhow::bail;
use api::machinist::Entry;
use owo_colors::OwoColorize as _;
use proposal::inputs::Inputs;
use proposal::pools::Pool;

/// The provenance of `part` in every pool that has it.
pub(super) fn report(part: &str, pools: &[Pool], inputs: &Inputs) -> anyhow::Result<String> {
    let mut out = String::new();
    for pool in pools {
        for entry in pool.rendered.provenance.entries.iter().filter(|entry| entry.name == part) {
            describe(&mut out, pool, entry, inputs);
        }
    }
    if out.is_empty() {
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        bail!("{part} is in the config of no pool (looked at {})", names.join(", "));
    }
    Ok(out)
}

fn describe(out: &mut String, pool: &Pool, entry: &Entry, inputs: &Inputs) {
    let width = entry.overrode.iter().chain([&entry.from]).map(String::len).max().unwrap_or_default();
    let place = |name: &str| {
        let fragment = inputs.fragments.iter().find(|fragment| fragment.manifest.name == name);
        fragment.map(|fragment| format!("({})", fragment.manifest.origin)).unwrap_or_default()
    };
    let kind = format!("{:?}", entry.kind).to_lowercase();
    let kind = if kind == "path" { String::new() } else { format!("{kind} ") };
    let _ = writeln!(out, "{}  {kind}{}", pool.name.bold(), entry.name);
    let _ = writeln!(out, "  from      {:width$}  {}", entry.from, place(&entry.from));
    for name in &entry.overrode {
        let _ = writeln!(out, "  overrode  {name:width$}  {}", place(name));
    }
    let conflicts = pool.rendered.provenance.conflicts.iter();
    for conflict in conflicts.filter(|conflict| conflict.kind == entry.kind && conflict.name == entry.name) {
        let _ = writeln!(out, "  conflict  {} ({})", conflict.message, conflict.fragments.join(", "));
    }
}
