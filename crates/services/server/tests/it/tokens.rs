//! Token checks on a cluster. All of them run in one test per kind of API server, because starting a control plane
//! takes longer than the checks.

use api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use api::machinist::BootstrapToken;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::{Kind, wait_until};

use super::town::{CONFIG, SECRET_WORD, Town, in_an_hour};

/// Returns every secret that was used.
pub(crate) async fn story(kind: Kind) -> Vec<String> {
    let Some(town) = Town::start(kind, 2).await else { return Vec::new() };
    nothing_is_given_without_a_token(&town).await;
    uses_are_counted_across_servers(&town).await;
    a_token_ends(&town).await;
    a_token_opens_one_pool(&town).await;
    a_token_for_a_machine_without_a_machine_object_works(&town).await;
    a_machines_token_is_for_that_machine(&town).await;
    a_pool_can_be_opened_and_closed(&town).await;
    what_is_missing_is_told(&town).await;
    a_machine_tells_how_it_went(&town).await;
    what_is_served_follows_the_cluster(&town).await;
    nobody_is_refused_for_an_api_that_is_away(&town).await;
    let mut secrets = town.secrets.lock().unwrap().clone();
    secrets.extend([SECRET_WORD.to_owned(), "kubelet-token".to_owned()]);
    secrets
}

async fn nothing_is_given_without_a_token(town: &Town) {
    for token in [None, Some("guess"), Some(serving::token::hash("guess").as_str())] {
        let (status, body) = town.ask(0, "worker", token).await;
        assert_eq!(status, 401);
        assert!(body.contains("machinist pointer") && !body.contains(SECRET_WORD) && !body.contains("guess"), "{body}");
    }
    let (status, body) = town.ask(0, "no-such-pool", None).await;
    assert_eq!(status, 401, "without a token a client must not learn which pools exist: {body}");
}

async fn uses_are_counted_across_servers(town: &Town) {
    let token = town.token(|grant| (grant.max_uses, grant.expires) = (Some(10), Some(in_an_hour()))).await;
    // Whichever server serves the ten, the refusals of the other stay below its limit for an address that guesses.
    let answers = futures::future::join_all((0..20).map(|number| town.ask(number % 2, "worker", Some(&token)))).await;
    let served: Vec<&String> = answers.iter().filter(|(status, _)| *status == 200).map(|(_, body)| body).collect();
    assert_eq!(served.len(), 10, "{:?}", answers.iter().map(|(status, _)| status).collect::<Vec<_>>());
    assert!(served.iter().all(|body| body.contains("/etc/secret")));
    let others = answers.iter().filter(|(status, _)| *status != 200);
    assert!(others.clone().all(|(status, body)| [401, 429].contains(status) && !body.contains(SECRET_WORD)));
    let status = town.token_object("worker", &token).await.status.unwrap();
    assert_eq!((status.uses, status.last_address.as_deref()), (10, Some("127.0.0.1")));
    assert!(status.last_used.is_some());
    let event = town.event("ConfigServed", &[CONFIG, "worker", "127.0.0.1"]).await;
    assert_eq!(event.regarding.unwrap().kind.as_deref(), Some("MachineConfigPool"));
}

async fn a_token_ends(town: &Town) {
    let past = Timestamp::now() - SignedDuration::from_secs(1);
    let expired = town.token(|grant| grant.expires = Some(past)).await;
    assert_ne!(town.ask(0, "worker", Some(&expired)).await.0, 200);

    let revoked = town.token(|_| {}).await;
    assert_eq!(town.ask(0, "worker", Some(&revoked)).await.0, 200);
    let tokens: Api<BootstrapToken> = Api::all(town.client.clone());
    tokens.delete(&serving::token::name("worker", &revoked), &DeleteParams::default()).await.unwrap();
    // This holds at once, before the servers have seen the change, because each use is written first.
    for server in [0, 1] {
        assert_ne!(town.ask(server, "worker", Some(&revoked)).await.0, 200);
    }
}

async fn a_token_opens_one_pool(town: &Town) {
    let token = town.token(|grant| grant.pool = "empty".to_owned()).await;
    assert_ne!(town.ask(0, "worker", Some(&token)).await.0, 200);
    let status = town.token_object("empty", &token).await.status;
    assert_eq!(status.map_or(0, |status| status.uses), 0, "a refusal is not counted as a use");
}

/// A host without a Machine: its token works until a node of its name exists.
async fn a_token_for_a_machine_without_a_machine_object_works(town: &Town) {
    let token = town.token(|grant| grant.machine = Some("bare".to_owned())).await;
    assert_eq!(town.ask(0, "worker", Some(&token)).await.0, 200);
    town.event("ConfigServed", &["Machine bare"]).await;
    let nodes: Api<Node> = Api::all(town.client.clone());
    nodes.create(&PostParams::default(), &testkit::objects::node("bare", &[])).await.unwrap();
    assert_ne!(town.ask(0, "worker", Some(&token)).await.0, 200, "its first boot is over");
    let gone = town.token(|grant| {
        (grant.machine, grant.machine_uid) = (Some("deleted".to_owned()), Some("its uid".to_owned()));
    });
    assert_ne!(town.ask(0, "worker", Some(&gone.await)).await.0, 200, "its Machine is gone");
}

async fn a_machines_token_is_for_that_machine(town: &Town) {
    town.machine("elsewhere", "10.9.9.9").await;
    town.machine("here", "127.0.0.1").await;
    let mine = town.token(|grant| grant.machine = Some("here".to_owned())).await;
    wait_until("the machine's token to work", || async {
        (town.ask(0, "worker", Some(&mine)).await.0 == 200).then_some(())
    })
    .await;
    town.event("ConfigServed", &["Machine here"]).await;
    let foreign = town.token(|grant| grant.machine = Some("elsewhere".to_owned())).await;
    assert_ne!(town.ask(0, "worker", Some(&foreign)).await.0, 200, "this address is another machine's");
    let joined = json!({"status": {"nodeRef": {"kind": "Node", "name": "here"}}});
    town.machines().patch_status("here", &PatchParams::default(), &Patch::Merge(joined)).await.unwrap();
    wait_until("the token to end with the machine's first boot", || async {
        (town.ask(0, "worker", Some(&mine)).await.0 != 200).then_some(())
    })
    .await;
}

async fn a_pool_can_be_opened_and_closed(town: &Town) {
    for (open, expected) in [(true, 200), (false, 401)] {
        town.open_pool(open).await;
        wait_until("the pool to be opened or closed", || async {
            let status = town.ask(1, "worker", None).await.0;
            (status == expected || (expected == 401 && status == 429)).then_some(())
        })
        .await;
    }
}

async fn what_is_missing_is_told(town: &Town) {
    for (pool, expected, word) in [
        ("no-such-pool", 404, "no-such-pool"),
        ("empty", 503, "no rendered config"),
        ("ghost", 503, "rendered-ghost-1"),
    ] {
        let token = town.token(|grant| grant.pool = pool.to_owned()).await;
        let (status, body) = town.ask(0, pool, Some(&token)).await;
        assert_eq!(status, expected, "{pool}: {body}");
        assert!(body.contains(word), "{body}");
    }
}

async fn a_machine_tells_how_it_went(town: &Town) {
    let token = town.token(|grant| (grant.machine, grant.max_uses) = (Some("here".to_owned()), Some(1))).await;
    let report = json!({
        "stage": "FirstBoot", "config": CONFIG, "host": "new-one", "steps": ["read the config", "apply the image"],
        "error": "no space left on device",
    });
    wait_until("the report to be taken", || async { (town.report(&token, &report).await.0 == 202).then_some(()) })
        .await;
    let words = ["new-one", "apply the image", "no space left on device"];
    let told = town.event("FirstBootFailed", &words).await;
    assert_eq!(told.type_.as_deref(), Some("Warning"));
    wait_until("the Machine to say so", || async {
        let machine = town.machines().get("here").await.unwrap();
        let condition = machine.status?.conditions.into_iter().find(|condition| condition.type_ == "FirstBoot")?;
        let message = condition.message.unwrap_or_default();
        assert_eq!(condition.status, "False");
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
        Some(())
    })
    .await;
    wait_until("guesses to be refused before they are looked up", || async {
        let status = town.report("guess", &report).await.0;
        assert!([401, 429].contains(&status), "{status}");
        (status == 429).then_some(())
    })
    .await;
    assert_eq!(town.report(&token, &json!({"stage": "Later"})).await.0, 400);
    assert_eq!(town.report(&token, &json!("x".repeat(70_000))).await.0, 413);
}

/// Cached bodies are replaced after a new CA, after new files of the bootstrap token, and after a node has reached a
/// newer config.
async fn what_is_served_follows_the_cluster(town: &Town) {
    let token = town.token(|_| {}).await;
    let has = async |what: &str, word: &str| {
        let encoded = ignition::data_url::encode(word.as_bytes());
        wait_until(what, || async {
            let (status, body) = town.ask(0, "worker", Some(&token)).await;
            assert_eq!(status, 200, "{body}");
            (body.contains(&encoded) || body.contains(word)).then_some(())
        })
        .await;
    };
    has("the first authority", "CA\n").await;
    let configs: Api<ControllerConfig> = Api::all(town.client.clone());
    let patch = Patch::Merge(json!({"spec": {"kubeAPIServerServingCAData": "TkVXLUNBCg=="}}));
    configs.patch(api::names::CONTROLLER_CONFIG, &PatchParams::default(), &patch).await.unwrap();
    has("the new authority", "NEW-CA\n").await;

    std::fs::write(town.folder.path().join("token"), "kubelet-token-2").unwrap();
    let kubeconfig = serving::kubeconfig(town.control_plane.server(), b"kubelet-ca", "kubelet-token-2");
    has("the new token", &kubeconfig).await;

    let newer = testkit::objects::file_config("rendered-worker-2", "worker", "/etc/newer", "newer");
    Api::all(town.client.clone()).create(&PostParams::default(), &newer).await.unwrap();
    let pools: Api<MachineConfigPool> = Api::all(town.client.clone());
    let target = Patch::Merge(json!({"spec": {"configuration": {"name": "rendered-worker-2"}}}));
    pools.patch("worker", &PatchParams::default(), &target).await.unwrap();
    has("the old config, which all nodes run", "/etc/secret").await;
    let proven = Patch::Merge(json!({"status": {"updatedMachineCount": 1}}));
    pools.patch_status("worker", &PatchParams::default(), &proven).await.unwrap();
    has("the new config, once a node runs it", "/etc/newer").await;
}

async fn nobody_is_refused_for_an_api_that_is_away(town: &Town) {
    let token = town.token(|_| {}).await;
    town.control_plane.stop_api_server();
    let (status, body) = town.ask(0, "worker", Some(&token)).await;
    assert_eq!(status, 503, "{body}");
    town.control_plane.start_api_server().await;
    wait_until("the server to serve again", || async {
        (town.ask(0, "worker", Some(&token)).await.0 == 200).then_some(())
    })
    .await;
}
