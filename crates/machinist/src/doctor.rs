//! `machinist doctor`: every known failure looked for, each with its fix.

mod repair;

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Args;
use explain::{Finding, Severity};
use owo_colors::OwoColorize as _;
use serde_json::json;

use crate::gather::{self, Cluster, Depth};
use crate::output::{self, Format};

/// There is something to see.
const FOUND: u8 = 3;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// Offer each repair that loses nothing, and carry it out after a yes
    #[arg(long)]
    fix: bool,
    /// With --fix: carry out every repair without asking
    #[arg(short, long, requires = "fix")]
    yes: bool,
    /// Print as JSON or YAML instead of text
    #[arg(short, long, value_enum, conflicts_with = "fix")]
    output: Option<Format>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(doctor(arguments))
}

async fn doctor(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    let world = gather::world(&client, Depth::Everything).await?;
    let findings = explain::doctor(&world.snapshot());
    if let Some(format) = arguments.output {
        output::print(&format.write_one(&json!({"findings": findings, "notes": world.notes}))?)?;
        return Ok(code(findings.len() + world.notes.len()));
    }
    output::warn(world.notes.iter());
    let mut left = 0;
    for finding in &findings {
        output::print(&describe(finding))?;
        let Some(fix) = finding.fix.as_ref().filter(|_| arguments.fix) else {
            left += 1;
            continue;
        };
        if !arguments.yes && !agrees(&fix.what)? {
            left += 1;
            continue;
        }
        match repair::carry_out(&client, &fix.repair).await {
            Ok(done) => output::print(&format!("  {} {done}\n\n", "repaired:".green()))?,
            Err(error) => {
                left += 1;
                output::fail(&error);
            }
        }
    }
    let checked = format!("{} pools and {} nodes looked at", world.objects.pools.len(), world.objects.nodes.len());
    match (findings.len(), left) {
        (0, _) if world.notes.is_empty() => output::print(&format!("Nothing is wrong: {checked}.\n"))?,
        (0, _) => {
            let unread = world.notes.len();
            output::print(&format!("Nothing wrong was found, but {unread} could not be looked at; {checked}.\n"))?;
        }
        (found, 0) => output::print(&format!("{found} found and repaired; {checked}.\n"))?,
        (found, left) => {
            let fixable = findings.iter().filter(|finding| finding.fix.is_some()).count();
            let hint = if fixable > 0 && !arguments.fix {
                format!(" {fixable} of them `machinist doctor --fix` can repair.")
            } else {
                String::new()
            };
            output::print(&format!("{found} found, {left} to do; {checked}.{hint}\n"))?;
        }
    }
    // Whoever could not look at everything has not found that all is well.
    Ok(code(left + world.notes.len()))
}

fn code(found: usize) -> ExitCode {
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::from(FOUND) }
}

fn describe(finding: &Finding) -> String {
    let mut text = String::new();
    let word = match finding.severity {
        Severity::Problem => "problem".red().to_string(),
        Severity::Warning => "warning".yellow().to_string(),
    };
    let _ = writeln!(text, "{word} {} ({})", finding.subject.bold(), finding.id);
    let _ = writeln!(text, "  {}", finding.problem);
    let _ = writeln!(text, "  so: {}", finding.effect);
    for step in &finding.moves {
        let _ = writeln!(text, "  {}: {}", step.what, step.command.cyan());
    }
    if let Some(fix) = &finding.fix {
        let _ = writeln!(text, "  --fix would {}", fix.what);
    }
    text.push('\n');
    text
}

/// Asks on the terminal; without one nobody can say yes.
fn agrees(what: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        anstream::eprintln!("  nobody can be asked here; --yes carries out every repair");
        return Ok(false);
    }
    anstream::print!("  Shall I {what}? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
