//! Quotas under load: never exceeded, and right again after everything that can go wrong.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use apiserver::Server;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    child::{Admin, Process},
    housekeeping::until,
    wire::Wire,
};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const MOST: usize = 10;

fn quota() -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": {"secrets": MOST.to_string()}}})
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

async fn limited(server: apiserver::Running) -> Wire {
    let wire = Wire::of(server);
    assert_eq!(wire.post(QUOTAS, &quota()).await.code, 201);
    until(&wire, &format!("{QUOTAS}/q"), |_, body| body["status"]["used"]["secrets"] == "0").await;
    wire
}

async fn count(wire: &Wire) -> usize {
    wire.get(SECRETS).await.body["items"].as_array().unwrap().len()
}

/// What is used comes to be the number of objects.
async fn settles(wire: &Wire) {
    let there = count(wire).await.to_string();
    until(wire, &format!("{QUOTAS}/q"), |_, body| body["status"]["used"]["secrets"] == there.as_str()).await;
}

#[tokio::test]
async fn however_many_come_and_go_at_once_a_quota_is_never_exceeded() {
    let folder = tempfile::tempdir().unwrap();
    let wire = Arc::new(limited(Server::builder().data(folder.path()).start().await.unwrap()).await);
    let (over, made, refused) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0), AtomicUsize::new(0));
    let (made, refused) = (Arc::new(made), Arc::new(refused));
    let watcher = {
        let (wire, over) = (Arc::clone(&wire), Arc::clone(&over));
        tokio::spawn(async move {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(count(&wire).await);
            }
            most
        })
    };
    let writers: Vec<_> = (0..12)
        .map(|writer| {
            let (wire, made, refused) = (Arc::clone(&wire), Arc::clone(&made), Arc::clone(&refused));
            tokio::spawn(async move {
                for round in 0..40_usize {
                    // Names that others have too, so that some writes fail after they were charged.
                    let name = format!("s{}", (writer * 7 + round * 5) % 30);
                    let object = secret(&name);
                    let post = wire.post(SECRETS, &object);
                    // Some lose patience, at any moment of the way.
                    let patience =
                        Duration::from_micros(if round % 4 == 0 { 300 * (round as u64 + 1) } else { 60_000_000 });
                    match tokio::time::timeout(patience, post).await.map(|reply| reply.code) {
                        Ok(201) => drop(made.fetch_add(1, Ordering::Relaxed)),
                        Ok(403) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                        _ => {}
                    }
                    if round % 3 == 0 {
                        wire.delete(&format!("{SECRETS}/{name}"), &json!({})).await;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let most = watcher.await.unwrap();
    assert!(most <= MOST, "{most} objects were there at once");
    let (made, refused) = (made.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    assert!(made > 20 && refused > 20, "too little happened to prove anything: {made} made, {refused} refused");
    settles(&wire).await;
    for at in count(&wire).await..MOST {
        assert_eq!(wire.post(SECRETS, &secret(&format!("last{at}"))).await.code, 201);
    }
    let refused = wire.post(SECRETS, &secret("more")).await;
    let why =
        "secrets \"more\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=10, limited: secrets=10";
    assert_eq!((refused.code, refused.message()), (403, why));
}

#[tokio::test]
async fn what_a_write_that_failed_took_is_given_back() {
    let wire = limited(Server::builder().in_memory().start().await.unwrap()).await;
    wire.post(SECRETS, &secret("one")).await;
    for _ in 0..20 {
        assert_eq!(wire.post(SECRETS, &secret("one")).await.code, 409);
        settles(&wire).await;
    }
    let before = wire.get(&format!("{QUOTAS}/q")).await.body;
    let tried = wire.post(&format!("{SECRETS}?dryRun=All"), &secret("two")).await;
    assert_eq!(tried.code, 201);
    let after = wire.get(&format!("{QUOTAS}/q")).await.body;
    assert_eq!(after, before, "who only tries writes nothing");
}

#[tokio::test]
async fn a_killed_server_counts_again_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    limited(Server::builder().data(folder.path()).start().await.unwrap()).await.server.shutdown().await;
    let admin = Arc::new(Admin::of(folder.path()));
    for round in 0..5 {
        let process = Process::start(folder.path(), None).unwrap();
        let told = Arc::new(watch::Sender::new(0_u32));
        let mut seen = told.subscribe();
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let url = format!("{}{SECRETS}", process.server);
                let names = (0..).map(move |at| format!("r{round}-{writer}-{at}"));
                tokio::spawn(come_and_go(Arc::clone(&admin), url, names, Arc::clone(&told)))
            })
            .collect();
        // At another moment each time.
        let enough = seen.wait_for(|count| *count >= 5 + round * 7);
        tokio::time::timeout(Duration::from_secs(60), enough).await.expect("writes are answered").unwrap();
        process.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        let wire = Wire::of(Server::builder().data(folder.path()).start().await.unwrap());
        let there = count(&wire).await;
        assert!(there <= MOST, "{there} objects are there");
        settles(&wire).await;
        let list = wire.get(SECRETS).await.body;
        for item in list["items"].as_array().unwrap().iter().skip(2) {
            wire.delete(&format!("{SECRETS}/{}", item["metadata"]["name"].as_str().unwrap()), &json!({})).await;
        }
        settles(&wire).await;
        wire.server.shutdown().await;
    }
}

/// Makes objects and deletes most of them, until the server is gone.
async fn come_and_go(
    admin: Arc<Admin>,
    url: String,
    names: impl Iterator<Item = String>,
    told: Arc<watch::Sender<u32>>,
) {
    const JSON: &str = "application/json";
    for (at, name) in names.enumerate() {
        if admin.send("POST", &url, JSON, secret(&name).to_string()).await.is_err() {
            return;
        }
        told.send_modify(|count| *count += 1);
        if at % 4 > 0 && admin.send("DELETE", &format!("{url}/{name}"), JSON, String::new()).await.is_err() {
            return;
        }
    }
}
