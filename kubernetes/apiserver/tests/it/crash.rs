//! Killed at any moment, the server loses nothing it acknowledged and starts with nothing torn.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::child::{Admin, Process};

/// How often the server is killed. `APISERVER_KILLS` asks for more.
const KILLS: u32 = 200;
const WRITERS: usize = 4;
const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// Longer than any machine takes for two dozen writes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one writer knows about its object: the last acknowledged state, and what it was told nothing about.
#[derive(Debug, Clone, Default)]
struct Known {
    acknowledged: Option<u64>,
    in_doubt: Option<Option<u64>>,
    version: u64,
    counter: u64,
}

#[tokio::test(flavor = "current_thread")]
async fn a_killed_server_loses_no_acknowledged_write_and_keeps_no_torn_one() {
    let kills = std::env::var("APISERVER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let mut known: BTreeMap<usize, Known> = (0..WRITERS).map(|writer| (writer, Known::default())).collect();
    let mut process = Process::start(folder.path(), None).unwrap();
    let admin = Arc::new(Admin::of(folder.path()));
    let mut acknowledged = 0;
    for round in 0..kills {
        let told = Arc::new(watch::Sender::new(0_u32));
        let mut seen = told.subscribe();
        let tasks: Vec<_> = known
            .iter()
            .map(|(writer, state)| {
                let (admin, server, told) = (Arc::clone(&admin), process.server.clone(), Arc::clone(&told));
                tokio::spawn(write_until_it_ends(admin, server, *writer, state.clone(), told))
            })
            .collect();
        // From before the first acknowledgement to well into the load, differently each time.
        let enough = seen.wait_for(|count| *count >= round * 7 % 23);
        tokio::time::timeout(PATIENCE, enough).await.expect("writes are acknowledged").unwrap();
        process.kill();
        for (task, state) in tasks.into_iter().zip(known.values_mut()) {
            let before = state.counter;
            *state = task.await.unwrap();
            acknowledged += state.counter - before;
        }
        process = Process::start(folder.path(), None).unwrap();
        check(&admin, &process.server, &mut known, round).await;
    }
    assert!(acknowledged > u64::from(kills), "the load was too light to prove anything: {acknowledged} writes");
}

async fn write_until_it_ends(
    admin: Arc<Admin>,
    server: String,
    writer: usize,
    mut known: Known,
    told: Arc<watch::Sender<u32>>,
) -> Known {
    let name = format!("w{writer}");
    loop {
        let counter = known.counter + 1;
        let deletes = known.acknowledged.is_some() && counter.is_multiple_of(5);
        let wanted = (!deletes).then_some(counter);
        known.in_doubt = Some(wanted);
        let data = json!({"a": counter.to_string(), "b": counter.to_string(), "fill": "x".repeat(2000)});
        let object = json!({"metadata": {"name": name}, "data": data});
        let (method, path, kind) = match (deletes, known.acknowledged) {
            (true, _) => ("DELETE", format!("{PATH}/{name}"), "application/json"),
            (false, None) => ("POST", PATH.to_owned(), "application/json"),
            (false, Some(_)) => ("PATCH", format!("{PATH}/{name}"), "application/merge-patch+json"),
        };
        let body = if deletes { String::new() } else { object.to_string() };
        match admin.send(method, &format!("{server}{path}"), kind, body).await {
            Ok((200 | 201, reply)) => {
                known.acknowledged = wanted;
                known.in_doubt = None;
                known.counter = counter;
                known.version = known.version.max(version(&reply));
                told.send_modify(|count| *count += 1);
            }
            Ok((code, reply)) => panic!("{method} {path}: {code} {reply}"),
            Err(_) => return known,
        }
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

async fn check(admin: &Admin, server: &str, known: &mut BTreeMap<usize, Known>, round: u32) {
    let (code, list) = admin.send("GET", &format!("{server}{PATH}"), "", String::new()).await.unwrap();
    assert_eq!(code, 200);
    let newest = known.values().map(|state| state.version).max().unwrap();
    assert!(version(&list) >= newest, "round {round}: the store went back from {newest} to {}", version(&list));
    for (writer, state) in known.iter_mut() {
        let name = format!("w{writer}");
        let found = list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == *name);
        let value = found.map(|item| {
            assert_eq!(item["data"]["a"], item["data"]["b"], "round {round}: {name} is torn");
            assert_eq!(item["data"]["fill"].as_str().unwrap().len(), 2000, "round {round}: {name} is torn");
            item["data"]["a"].as_str().unwrap().parse::<u64>().unwrap()
        });
        let expected = [Some(state.acknowledged), state.in_doubt];
        assert!(
            expected.contains(&Some(value)),
            "round {round}: {name} is {value:?}, acknowledged {:?}, in doubt {:?}",
            state.acknowledged,
            state.in_doubt
        );
        state.acknowledged = value;
        state.counter = state.counter.max(value.unwrap_or(0));
        state.in_doubt = None;
    }
}
