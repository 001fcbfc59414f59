//! Trials: what was heard before the change does not count, and time is the boot's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::annotations;
use api::machineconfiguration::MachineConfig;
use change::host::Host;
use daemon::engine::{Engine, Prepared, Standing};
use daemon::journal::Trial;
use daemon::trial::{Seen, Verdict, judge};
use host::memory::Memory;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use crate::configs::{config, furnish};
use crate::stage::{Fate, Stage, settle};

const NETWORK: &str = "/etc/NetworkManager/system-connections/uplink.nmconnection";

/// Refuses at once, which is an answer.
const REFUSES: &str = "127.0.0.1:1";

fn one() -> MachineConfig {
    config("rendered-worker-one", &[("/etc/a", "1")], &json!([]), &json!([]))
}

fn two() -> MachineConfig {
    config("rendered-worker-two", &[("/etc/a", "1"), (NETWORK, "broken")], &json!([]), &json!([]))
}

/// A node that is about to get a network config, which takes effect without a reboot.
async fn stage() -> Stage {
    let stage = Stage::start(&one()).await;
    stage.create(&two()).await;
    let policy = json!({"files": [{"path": NETWORK, "actions": [{"type": "None"}]}]});
    stage.configure(json!({"nodeDisruptionPolicy": policy})).await;
    stage
}

/// A listener that answers once and then leaves everybody waiting, as a host behind a dead link does.
async fn falls_silent() -> (TcpListener, Vec<TcpStream>, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // The queue of a listener that nobody serves has two places: the second is for the daemon's first look.
    let queued = TcpStream::connect(address).await.unwrap();
    (listener, vec![queued], address.to_string())
}

#[tokio::test]
async fn a_config_that_cuts_the_network_without_a_reboot_is_given_back() {
    let stage = stage().await;
    let (_listener, _queued, witness) = falls_silent().await;
    let file = stage.root().join(&NETWORK[1..]);
    let daemon = stage.run(&witness, Arc::new(move |_| file.exists()));
    stage.ask_for("rendered-worker-two").await;
    stage.loses(1).await;
    assert_eq!(stage.phase(), Some("trying"));
    stage.host.pass(Duration::from_secs(3600));
    let node =
        stage.node("the config to be given back", |get| get(annotations::REVERTED) == "rendered-worker-two").await;
    let reason = &node.metadata.annotations.unwrap()[annotations::REASON];
    assert!(reason.contains("neither the API nor the witness can be reached"), "{reason}");
    assert!(!stage.root().join(&NETWORK[1..]).exists());
    daemon.abort();
}

#[tokio::test]
async fn a_daemon_that_restarts_on_a_node_that_gave_a_config_back_does_not_try_it_again() {
    let stage = stage().await;
    let engine = Engine::new(&*stage.host);
    let steps = engine.prepare(&one(), &two()).unwrap();
    let trial = Some(Trial { deadline_seconds: 60, live: true, ..Trial::default() });
    engine.execute(&Prepared { from: one(), to: two(), steps, actions: Vec::new(), trial }).unwrap();
    engine.go_back("it does not work here").unwrap_err();
    assert!(matches!(engine.recover().unwrap(), Standing::WentBack { .. }));
    stage.ask_for("rendered-worker-two").await;
    // The first requests find no API, as after most boots: the daemon looks at its host before it is told anything.
    let refused = Arc::new(AtomicBool::new(true));
    let cut = Arc::clone(&refused);
    let daemon = stage.run(REFUSES, Arc::new(move |_| cut.load(Ordering::SeqCst)));
    stage.loses(1).await;
    refused.store(false, Ordering::SeqCst);
    let held = stage.node("the daemon to report", |get| !get(annotations::DAEMON).is_empty()).await;
    let annotations = held.metadata.annotations.unwrap();
    assert_eq!(annotations.get(annotations::REVERTED).map(String::as_str), Some("rendered-worker-two"));
    assert_eq!(annotations[annotations::REASON], "it does not work here");
    daemon.abort();
}

#[tokio::test]
async fn an_api_that_was_heard_before_the_change_and_not_since_keeps_the_trial_open() {
    let stage = stage().await;
    let is_mended = Arc::new(AtomicBool::new(false));
    let (file, mended) = (stage.root().join(&NETWORK[1..]), Arc::clone(&is_mended));
    let daemon = stage.run(REFUSES, Arc::new(move |_| file.exists() && !mended.load(Ordering::SeqCst)));
    stage.ask_for("rendered-worker-two").await;
    stage.loses(1).await;
    stage.host.pass(Duration::from_secs(100_000));
    stage.loses(2).await;
    assert_eq!(stage.phase(), Some("trying"), "a witness that answers only makes it wait");
    is_mended.store(true, Ordering::SeqCst);
    stage
        .node("the trial to be passed", |get| {
            get(annotations::CURRENT_CONFIG) == "rendered-worker-two" && get(annotations::STATE) == "Done"
        })
        .await;
    assert_eq!(stage.phase(), None);
    daemon.abort();
}

#[tokio::test]
async fn an_api_that_refuses_the_node_is_heard_all_the_same() {
    let stage = stage().await;
    let file = stage.root().join(&NETWORK[1..]);
    let asks_for_node = |request: &http::Request<kube::client::Body>| {
        request.method() == http::Method::GET && request.uri().path().ends_with("/nodes/n1")
    };
    let fate = move |request: &_| if file.exists() && asks_for_node(request) { Fate::Refused } else { Fate::Arrives };
    let daemon = stage.run_with(REFUSES, fate);
    stage.ask_for("rendered-worker-two").await;
    stage.loses(1).await;
    stage.host.pass(Duration::from_secs(3600));
    stage.node("the trial to be passed", |get| get(annotations::STATE) == "Done" && stage.phase().is_none()).await;
    daemon.abort();
}

#[tokio::test]
async fn a_unit_that_had_failed_before_a_change_without_a_reboot_does_not_take_it_back() {
    let broken = json!([{"name": "broken.service", "enabled": true,
        "contents": "[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"}]);
    let stage = Stage::start(&config("rendered-worker-one", &[("/etc/a", "1")], &broken, &json!([]))).await;
    stage.create(&config("rendered-worker-two", &[("/etc/a", "1"), (NETWORK, "good")], &broken, &json!([]))).await;
    let policy = json!({"files": [{"path": NETWORK, "actions": [{"type": "None"}]}]});
    stage.configure(json!({"nodeDisruptionPolicy": policy})).await;
    stage.host.services().restart("broken.service").unwrap_err();
    let is_heard = Arc::new(AtomicBool::new(false));
    let (file, heard) = (stage.root().join(&NETWORK[1..]), Arc::clone(&is_heard));
    let daemon = stage.run(REFUSES, Arc::new(move |_| file.exists() && !heard.load(Ordering::SeqCst)));
    stage.ask_for("rendered-worker-two").await;
    stage.loses(1).await;
    assert_eq!(stage.phase(), Some("trying"));
    stage.host.pass(Duration::from_secs(300));
    is_heard.store(true, Ordering::SeqCst);
    let node =
        stage.node("the trial to be over", |get| get(annotations::STATE) != "Working" && stage.phase().is_none()).await;
    assert_eq!(node.metadata.annotations.unwrap()[annotations::CURRENT_CONFIG], "rendered-worker-two");
    daemon.abort();
}

#[tokio::test]
async fn a_change_that_nothing_is_told_of_is_over_when_the_api_was_heard_after_it() {
    let stage = Stage::start(&one()).await;
    let motd = config("rendered-worker-two", &[("/etc/a", "1"), ("/etc/motd", "hi")], &json!([]), &json!([]));
    stage.create(&motd).await;
    let policy = json!({"files": [{"path": "/etc/motd", "actions": [{"type": "None"}]}]});
    stage.configure(json!({"nodeDisruptionPolicy": policy})).await;
    let is_mended = Arc::new(AtomicBool::new(false));
    let (file, mended) = (stage.root().join("etc/motd"), Arc::clone(&is_mended));
    let daemon = stage.run(REFUSES, Arc::new(move |_| file.exists() && !mended.load(Ordering::SeqCst)));
    stage.ask_for("rendered-worker-two").await;
    stage.loses(1).await;
    assert_eq!(stage.phase(), Some("trying"));
    is_mended.store(true, Ordering::SeqCst);
    stage.node("the update to be over", |get| get(annotations::STATE) == "Done" && stage.phase().is_none()).await;
    daemon.abort();
}

/// A door to the API that lets nobody new in while `is_shut` says so. Connections that are open stay open, as behind most
/// firewalls.
async fn door(
    to: String,
    is_shut: impl Fn() -> bool + Send + 'static,
) -> (std::net::SocketAddr, watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, (turned_away, count)) = (listener.local_addr().unwrap(), watch::channel(0));
    tokio::spawn(async move {
        while let Ok((mut inside, _)) = listener.accept().await {
            if is_shut() {
                turned_away.send_modify(|count| *count += 1);
                continue;
            }
            let mut outside = TcpStream::connect(&to).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut inside, &mut outside).await });
        }
    });
    (address, count)
}

#[tokio::test]
async fn an_api_that_is_heard_over_an_old_connection_only_is_not_heard() {
    let stage = stage().await;
    let is_mended = Arc::new(AtomicBool::new(false));
    let (file, mended) = (stage.root().join(&NETWORK[1..]), Arc::clone(&is_mended));
    let is_shut = move || file.exists() && !mended.load(Ordering::SeqCst);
    let (door, mut turned_away) = door(stage.authority(), is_shut).await;
    let daemon = stage.run_through(door, REFUSES).await;
    stage.ask_for("rendered-worker-two").await;
    let minute = Duration::from_secs(60);
    let tried = tokio::time::timeout(minute, turned_away.wait_for(|count| *count > 0)).await.is_ok();
    assert!(tried, "the daemon makes no new connection");
    stage.host.pass(Duration::from_secs(3600));
    let again = tokio::time::timeout(minute, turned_away.wait_for(|count| *count > 2)).await.is_ok();
    assert!(again, "the daemon gave up asking");
    assert_eq!(stage.phase(), Some("trying"));
    is_mended.store(true, Ordering::SeqCst);
    stage.node("the trial to be passed", |get| get(annotations::STATE) == "Done" && stage.phase().is_none()).await;
    daemon.abort();
}

/// A host with an update on trial.
fn on_trial() -> Memory {
    let host = Memory::new();
    furnish(&host);
    settle(&host, &one());
    let engine = Engine::new(&host);
    let steps = engine.prepare(&one(), &two()).unwrap();
    let trial = Some(Trial { deadline_seconds: 60, live: true, ..Trial::default() });
    engine.execute(&Prepared { from: one(), to: two(), steps, actions: Vec::new(), trial }).unwrap();
    engine.time_trial().unwrap();
    host
}

fn verdict(host: &Memory, seen: &Seen) -> Verdict {
    let engine = Engine::new(host);
    let elapsed = engine.time_trial().unwrap();
    judge(&engine.store().journal().unwrap().unwrap().trial.unwrap(), seen, elapsed)
}

#[test]
fn a_trial_lasts_as_long_as_the_machine_has_run() {
    let (host, slow) = (on_trial(), Seen { api_is_heard: true, witness_answers: true, ..Seen::default() });
    assert_eq!(verdict(&host, &slow), Verdict::Waiting, "the kubelet still starts");
    host.pass(Duration::from_secs(59 - 10));
    assert_eq!(verdict(&host, &slow), Verdict::Waiting);
    host.pass(Duration::from_secs(11));
    assert!(matches!(verdict(&host, &slow), Verdict::Failed(_)));
}

#[test]
fn a_machine_that_boots_again_and_again_still_reaches_its_deadline() {
    let (host, ill) = (on_trial(), Seen { api_is_heard: true, witness_answers: true, ..Seen::default() });
    let mut boots = 0;
    while verdict(&host, &ill) == Verdict::Waiting {
        host.pass(Duration::from_secs(12));
        let _ = verdict(&host, &ill);
        host.system().reboot("a panic").unwrap();
        // Off for a day.
        host.pass(Duration::from_secs(86_400));
        boots += 1;
    }
    assert_eq!(boots, 5, "twelve seconds of each boot count, and the days off do not");
}
