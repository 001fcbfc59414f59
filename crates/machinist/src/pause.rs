//! `machinist pause POOL` and `machinist resume POOL`: stops a pool's updates with a word about who, why and until when,
//! and lets them go on.

use std::process::ExitCode;

use anyhow::bail;
use api::annotations::{PAUSE_BY, PAUSE_REASON, PAUSE_UNTIL};
use api::machineconfiguration::MachineConfigPool;
use api::pause::Pause;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::gather::{self, Cluster, refusal};
use crate::output;

const MANAGER: &str = "machinist";

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// The pool
    pool: String,
    /// How long, for example 2h or 90m; absent, until somebody resumes it
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    lasts: Option<SignedDuration>,
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who asks for it; absent, the user of this machine
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

#[derive(Args)]
pub(crate) struct Resuming {
    #[command(flatten)]
    cluster: Cluster,
    /// The pool
    pool: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    gather::block_on(pause(arguments))
}

pub(crate) fn resume(arguments: &Resuming) -> anyhow::Result<ExitCode> {
    gather::block_on(end(arguments))
}

async fn pause(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    let by = arguments.by.clone().or_else(|| std::env::var("USER").ok()).filter(|by| !by.trim().is_empty());
    let until = match arguments.lasts {
        Some(lasts) => Some(until(Timestamp::now(), lasts)?),
        None => None,
    };
    let pool = write(&client, &arguments.pool, &patch(true, by.as_deref(), arguments.reason.as_deref(), until)).await?;
    let pause = Pause::of(&pool).map(|pause| pause.to_string()).unwrap_or_default();
    let name = &arguments.pool;
    output::print(&format!("Pool {name} is paused{pause}.\n`machinist resume {name}` ends it.\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn end(arguments: &Resuming) -> anyhow::Result<ExitCode> {
    let client = arguments.cluster.connect().await?;
    let name = &arguments.pool;
    let pool: MachineConfigPool = gather::get(&client, name).await?;
    let said = match Pause::of(&pool) {
        None => format!("Pool {name} is not paused.\n"),
        Some(pause) => {
            write(&client, name, &patch(false, None, None, None)).await?;
            format!("Pool {name} goes on; it was paused{pause}.\n")
        }
    };
    output::print(&said)?;
    Ok(ExitCode::SUCCESS)
}

async fn write(client: &Client, pool: &str, patch: &Value) -> anyhow::Result<MachineConfigPool> {
    let api: Api<MachineConfigPool> = Api::all(client.clone());
    match cluster::write::merge(&api, MANAGER, pool, patch).await {
        Ok(pool) => Ok(pool),
        Err(error) if cluster::problem(&error) == cluster::Problem::NotFound => {
            bail!("there is no MachineConfigPool {pool}")
        }
        Err(error) => bail!(refusal(error, "patch", "machineconfigpools")),
    }
}

/// What an earlier pause said goes with it: a note that is not given is taken off.
fn patch(paused: bool, by: Option<&str>, reason: Option<&str>, until: Option<Timestamp>) -> Value {
    let until = until.map(|until| until.to_string());
    json!({
        "metadata": {"annotations": {PAUSE_BY: by, PAUSE_REASON: reason, PAUSE_UNTIL: until}},
        "spec": {"paused": paused},
    })
}

/// The API's records have whole seconds, so the end has too.
fn until(now: Timestamp, lasts: SignedDuration) -> anyhow::Result<Timestamp> {
    let end = now.checked_add(lasts).ok().and_then(|end| Timestamp::from_second(end.as_second()).ok());
    end.ok_or_else(|| {
        anyhow::anyhow!("--for {lasts:#} is longer than there are dates; leave it out to pause without an end")
    })
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    let lasts: SignedDuration =
        text.parse().map_err(|_| format!("{text} is no duration; write it as 2h, 90m or 1h30m"))?;
    // Shorter pauses would be over before anybody saw them.
    if lasts < SignedDuration::from_secs(1) {
        return Err(format!("{text} is over at once; write it as 2h, 90m or 1h30m"));
    }
    Ok(lasts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them_and_others_are_refused_with_an_example() {
        assert_eq!(duration("2h").unwrap(), SignedDuration::from_hours(2));
        assert_eq!(duration("1h30m").unwrap(), SignedDuration::from_mins(90));
        for wrong in ["", "2", "soon", "-1h", "0s"] {
            assert!(duration(wrong).unwrap_err().contains("2h, 90m or 1h30m"), "{wrong}");
        }
    }

    #[test]
    fn a_pause_without_a_word_takes_off_what_an_earlier_one_said() {
        let end = until("2026-11-16T16:00:00.7Z".parse().unwrap(), SignedDuration::from_hours(2)).unwrap();
        assert_eq!(
            patch(true, Some("anna"), None, Some(end)),
            json!({
                "metadata": {"annotations": {
                    "machinist.dev/pause-by": "anna", "machinist.dev/pause-reason": null,
                    "machinist.dev/pause-until": "2026-11-16T18:00:00Z",
                }},
                "spec": {"paused": true},
            })
        );
        assert!(until(Timestamp::MAX, SignedDuration::from_hours(1)).is_err());
    }
}
