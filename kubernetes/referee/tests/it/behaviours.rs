//! The referee: one black-box suite about the Kubernetes API, run against the real server and against the embedded one.
//!
//! Every behaviour speaks plain HTTP and knows nothing of who answers. The real server is the truth: a behaviour that it
//! does not show is wrong. Where the embedded server differs, it is wrong, unless `behaviours/allowed.txt` says why not; an
//! entry of that list that no longer differs is wrong as well.

#[macro_use]
mod behaviour;
pub(crate) mod hook;
pub(crate) mod wire;

mod access;
mod apply;
mod clients;
mod content;
mod crud;
mod definitions;
mod deletion;
mod discovery;
mod eviction;
mod judgements;
mod lists;
mod mistakes;
mod patches;
mod random;
mod resources;
mod validation;
mod versions;
mod watches;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use referee::{Kind, control_plane};

use behaviour::Behaviour;
use wire::Server;

/// Enough to keep a server busy, few enough that a slow machine does not turn waiting into failing.
const AT_ONCE: usize = 6;

/// No behaviour takes this long; one that hangs is a finding, not a stuck suite.
const LIMIT: Duration = Duration::from_secs(90);

const ALLOWED: &str = include_str!("behaviours/allowed.txt");

fn all() -> Vec<Behaviour> {
    [
        discovery::all(),
        content::all(),
        crud::all(),
        lists::all(),
        watches::all(),
        patches::all(),
        apply::all(),
        definitions::all(),
        validation::all(),
        deletion::all(),
        eviction::all(),
        resources::all(),
        access::all(),
        clients::all(),
        webhooks::all(),
        versions::all(),
        mistakes::all(),
    ]
    .concat()
}

#[tokio::test]
async fn the_real_server_shows_every_behaviour() {
    let failures = run(Kind::Real).await;
    assert!(failures.is_empty(), "{} behaviours are not the real server's: {failures:#?}", failures.len());
}

#[tokio::test]
async fn the_embedded_server_shows_every_behaviour_that_is_not_allowed_to_differ() {
    let failures = run(Kind::Embedded).await;
    let allowed = allowed();
    let stale: Vec<_> = allowed.keys().filter(|name| was_run(name) && !failures.contains_key(*name)).collect();
    assert!(stale.is_empty(), "these no longer differ, so they go from allowed.txt: {stale:?}");
    let unexplained: BTreeMap<_, _> = failures.iter().filter(|(name, _)| !allowed.contains_key(*name)).collect();
    assert!(unexplained.is_empty(), "{} behaviours differ: {unexplained:#?}", unexplained.len());
}

#[test]
fn there_are_at_least_300_behaviours_and_each_has_its_own_name() {
    let names: std::collections::BTreeSet<_> = all().iter().map(|behaviour| behaviour.name).collect();
    assert_eq!(names.len(), all().len());
    assert!(names.len() >= 300, "only {}", names.len());
    for name in allowed().keys() {
        assert!(names.contains(name), "allowed.txt names {name}, which is no behaviour");
    }
}

/// Behaviours that may differ, each with its reason: lines of `name | reason`.
fn allowed() -> BTreeMap<&'static str, &'static str> {
    let lines = ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(" | ").unwrap_or_else(|| panic!("allowed.txt: no reason in {line:?}"))).collect()
}

/// Whether a behaviour is among those to run: all, or those whose name contains what `REFEREE` says.
fn was_run(name: &str) -> bool {
    std::env::var("REFEREE").map_or(true, |wanted| name.contains(&wanted))
}

/// Runs every behaviour on one server, prints a line for each, and returns those that were not shown.
async fn run(kind: Kind) -> BTreeMap<&'static str, String> {
    let Some(control_plane) = control_plane(kind).await else { return BTreeMap::new() };
    let server = Arc::new(Server::new(control_plane).await);
    let chosen = all().into_iter().filter(|behaviour| was_run(behaviour.name));
    let runs = chosen.enumerate().map(|(number, behaviour)| {
        let server = Arc::clone(&server);
        async move {
            let result = tokio::time::timeout(LIMIT, behaviour.run_on(server, number)).await;
            let result = result.unwrap_or_else(|_| Err(anyhow::anyhow!("not done after {LIMIT:?}")));
            (behaviour.name, result)
        }
    });
    let mut runs = futures::stream::iter(runs).buffer_unordered(AT_ONCE);
    let (mut shown, mut failures) = (0, BTreeMap::new());
    while let Some((name, result)) = runs.next().await {
        match result {
            Ok(()) => {
                shown += 1;
                println!("{kind:?}: shown  {name}");
            }
            Err(error) => {
                println!("{kind:?}: FAILED {name}: {error:#}");
                failures.insert(name, format!("{error:#}"));
            }
        }
    }
    println!("{kind:?}: {shown} behaviours shown, {} not", failures.len());
    failures
}
