//! The randomised referee: sequences of requests made up from a seed, sent to both servers, every answer compared.
//!
//! Nothing here knows what is right. Whatever the real server answers is, once what must differ (uids, versions, times) is
//! made equal. `RANDOM_SEEDS=100..200` runs other seeds than the usual ones. Sequences that found a difference stay, in
//! `random/found.jsonl`, one a line.

mod normal;
mod plan;
mod play;

use std::sync::Arc;

use futures::StreamExt as _;
use referee::{Kind, control_plane};
use serde_json::Value;

use super::wire::Server;
use play::Player;

const FOUND: &str = include_str!("random/found.jsonl");

/// As many as take half a minute.
const SEEDS: std::ops::Range<u64> = 0..40;
const STEPS: usize = 40;
const AT_ONCE: usize = 6;

#[tokio::test]
async fn random_requests_get_the_same_answers_from_both_servers() {
    let (Some(real), Some(embedded)) = (control_plane(Kind::Real).await, control_plane(Kind::Embedded).await) else {
        return;
    };
    let servers = [Arc::new(Server::new(real).await), Arc::new(Server::new(embedded).await)];
    for server in &servers {
        play::prepare(server).await.unwrap();
    }
    let found = FOUND.lines().enumerate().map(|(line, text)| {
        let steps: Vec<Value> = serde_json::from_str(text).unwrap();
        (format!("found{line}"), steps)
    });
    let sequences = found.chain(seeds().map(|seed| (format!("seed{seed}"), plan::sequence(seed, STEPS))));
    let runs = sequences.map(|(name, steps)| compare(servers.clone(), name, steps));
    let differences: Vec<String> =
        futures::stream::iter(runs).buffer_unordered(AT_ONCE).filter_map(|it| async { it }).collect().await;
    assert!(
        differences.is_empty(),
        "{} sequences were answered differently:\n{}",
        differences.len(),
        differences.join("\n\n")
    );
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("RANDOM_SEEDS") else { return SEEDS };
    let bounds = text.split_once("..").and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    bounds.expect("RANDOM_SEEDS is like 100..200")
}

/// Plays a sequence on both servers; says where the answers differ first.
async fn compare(servers: [Arc<Server>; 2], name: String, steps: Vec<Value>) -> Option<String> {
    let [real, embedded] = servers.map(|server| Player::start(server, &name));
    let (real, embedded) = futures::future::join(play_all(real, &steps), play_all(embedded, &steps)).await;
    let (real, embedded) = (real.unwrap(), embedded.unwrap());
    let at = (0..real.len()).find(|at| real[*at] != embedded[*at])?;
    let step = steps.get(at).map_or_else(|| "the watches at the end".to_owned(), Value::to_string);
    let before = steps.iter().take(at).map(|step| format!("  {step}\n")).collect::<String>();
    Some(format!("{name}, step {at}: {step}\nreal:     {}\nembedded: {}\nafter:\n{before}", real[at], embedded[at]))
}

async fn play_all(player: impl Future<Output = anyhow::Result<Player>>, steps: &[Value]) -> anyhow::Result<Vec<Value>> {
    let mut player = player.await?;
    let mut answers = Vec::new();
    for step in steps {
        answers.push(player.play(step).await?);
    }
    answers.extend(player.watches(steps).await?);
    Ok(answers)
}
