//! When the records of a watch count as current, and when they no longer do.
//!
//! Time is tokio's paused clock, which advances only when all tasks wait, so the tests take no real time.

use std::time::Duration;

use api::known::{FRESH_FOR, Reading};
use cluster::watch::State;
use cluster::{Store, Watch};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::watcher;

use crate::scripted::{Mood, Scripted, bookmark, expired, object};

fn follow(scripted: &Scripted) -> Store<String> {
    let watch = Watch::default();
    let store = watch.store();
    let api: Api<ConfigMap> = Api::all(scripted.client());
    tokio::spawn(watch.run(api, watcher::Config::default(), |map: ConfigMap| map.name_any()));
    store
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn names(store: &Store<String>) -> Option<Vec<String>> {
    let reading = store.reading();
    let fresh = reading.fresh("configmaps", Timestamp::now()).ok()?;
    Some(fresh.iter().map(|name| (**name).clone()).collect())
}

fn why(store: &Store<String>) -> String {
    store.reading().fresh("configmaps", Timestamp::now()).expect_err("not known").to_string()
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_is_not_an_empty_list() {
    let scripted = Scripted::new(&["a"]);
    scripted.turn(Mood::Refusing(503));
    let store = follow(&scripted);
    assert!(why(&store).contains("being listed"), "{}", why(&store));
    store.settled().await;
    assert!(store.all().is_empty());
    assert!(why(&store).contains("not now"), "{}", why(&store));
    scripted.turn(Mood::Well);
    store.synced().await;
    assert_eq!(names(&store), Some(vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_reported_and_retried_with_growing_pauses() {
    let scripted = Scripted::new(&[]);
    scripted.turn(Mood::Refusing(404));
    let store = follow(&scripted);
    store.settled().await;
    assert_eq!((store.reading(), store.state()), (Reading::NotInstalled, State::NotInstalled));
    pass(60).await;
    let asked = scripted.lists();
    assert!((8..=16).contains(&asked), "{asked} times in a minute");
    scripted.turn(Mood::Well);
    store.synced().await;
    assert_eq!(names(&store), Some(Vec::new()), "it exists now, and there are none");
}

#[tokio::test(start_paused = true)]
async fn records_are_unknown_when_a_broken_watch_cannot_be_reopened_soon() {
    let scripted = Scripted::new(&["a"]);
    let store = follow(&scripted);
    store.synced().await;
    pass(1).await;
    scripted.turn(Mood::Refusing(500));
    scripted.cut();
    pass(5).await;
    assert_eq!(names(&store), Some(vec!["a".to_owned()]), "an API server restarts within seconds");
    for minutes in [1, 2, 60] {
        pass(60 * minutes).await;
        let why = why(&store);
        assert!(why.contains("not now") && why.contains("the API was last heard at"), "{why}");
        assert!(matches!(store.state(), State::Failing(_)), "{:?}", store.state());
    }
    scripted.hold(&["b"]);
    scripted.turn(Mood::Well);
    pass(10).await;
    assert_eq!(names(&store), Some(vec!["b".to_owned()]), "after several failures it is listed anew");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_keep_a_quiet_collection_current_without_requests() {
    let scripted = Scripted::new(&["a"]);
    let store = follow(&scripted);
    store.synced().await;
    pass(1).await;
    for _ in 0..10 {
        pass(60).await;
        assert!(names(&store).is_some());
        scripted.say(&bookmark());
    }
    assert_eq!((scripted.lists(), scripted.watches()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_is_reopened_before_its_records_expire() {
    let scripted = Scripted::new(&["a"]);
    let store = follow(&scripted);
    store.synced().await;
    for _ in 0..60 {
        pass(10).await;
        assert!(names(&store).is_some());
    }
    assert_eq!(scripted.lists(), 1);
    assert!((6..=8).contains(&scripted.watches()), "{} watches in ten minutes", scripted.watches());
}

#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_detected() {
    let scripted = Scripted::new(&["a"]);
    let store = follow(&scripted);
    store.synced().await;
    pass(1).await;
    scripted.turn(Mood::Hanging);
    pass(FRESH_FOR.as_secs().unsigned_abs()).await;
    assert!(why(&store).contains("last heard"), "{}", why(&store));
    pass(30).await;
    assert!(matches!(store.state(), State::Failing(_)), "{:?}", store.state());
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_is_listed_again_and_objects_deleted_meanwhile_are_removed() {
    let scripted = Scripted::new(&["a", "b"]);
    let mut watch = Watch::default();
    let (store, mut changes) = (watch.store(), watch.subscribe());
    let api: Api<ConfigMap> = Api::all(scripted.client());
    tokio::spawn(watch.run(api, watcher::Config::default(), |map: ConfigMap| map.name_any()));
    store.synced().await;
    pass(1).await;
    scripted.say(&serde_json::json!({"type": "ADDED", "object": object("c")}));
    scripted.hold(&["b", "c"]);
    scripted.say(&expired());
    pass(5).await;
    assert_eq!(names(&store), Some(vec!["b".to_owned(), "c".to_owned()]));
    let mut told = Vec::new();
    while let Ok(change) = changes.try_recv() {
        told.push((change.key.name, change.new.is_some()));
    }
    let expected = [("a", true), ("b", true), ("c", true), ("a", false)];
    assert_eq!(told, expected.map(|(name, is_there)| (name.to_owned(), is_there)));
}
