//! What the Node asks of tasks beside the loop: images to hold, and what is in some places of the host.

use std::sync::Arc;

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigNode, PinnedImageSet};
use api::machinist::{Found, NodeSurvey};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::wait_for;

use crate::configs::config;
use crate::stage::{NODE, Stage};

const WITNESS: &str = "127.0.0.1:1";
const DROPIN: &str = "etc/crio/crio.conf.d/50-pinned-images";

fn one() -> MachineConfig {
    config("rendered-worker-one", &[("/etc/a", "1")], &json!([]), &json!([]))
}

fn image(name: &str, digit: &str) -> String {
    format!("{name}@sha256:{}", digit.repeat(64))
}

impl Stage {
    /// Writes an annotation of the Node, as a controller does.
    async fn tell(&self, key: &str, value: Value) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn pin(&self, name: &str, images: &[String]) -> i64 {
        let api: Api<PinnedImageSet> = Api::all(self.client.clone());
        let images: Vec<_> = images.iter().map(|image| json!({"name": image})).collect();
        let set = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "PinnedImageSet",
            "metadata": {"name": name}, "spec": {"pinnedImages": images},
        });
        let written = api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&set)).await.unwrap();
        written.metadata.generation.unwrap()
    }

    /// Waits until a condition of the MachineConfigNode has this status and contains these words.
    async fn condition(&self, type_: &str, status: &str, words: &str) -> MachineConfigNode {
        let api: Api<MachineConfigNode> = Api::all(self.client.clone());
        let holds = |node: Option<&MachineConfigNode>| {
            let status_of = node.and_then(|node| node.status.as_ref());
            let mut conditions = status_of.into_iter().flat_map(|status| &status.conditions);
            conditions.any(|it| it.type_ == type_ && it.status == status && it.message.contains(words))
        };
        wait_for(&api, NODE, &format!("{type_}={status} with {words}"), holds).await.unwrap()
    }
}

#[tokio::test]
async fn images_of_a_set_are_pulled_pinned_reported_and_let_go() {
    let stage = Stage::start(&one()).await;
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    let (first, second) = (image("example.org/a", "1"), image("example.org/b", "2"));
    let generation = stage.pin("base", &[first.clone(), second.clone()]).await;
    stage.tell(annotations::PINNED_IMAGE_SETS, json!(format!("base@{generation}"))).await;
    let node = stage.condition("PinnedImageSetsProgressing", "False", "2 images of 1 PinnedImageSets are pinned").await;
    let set = node.status.unwrap().pinned_image_sets.remove(0);
    assert_eq!((set.name.as_str(), set.current_generation, set.desired_generation), ("base", Some(1), Some(1)));
    let text = std::fs::read_to_string(stage.root().join(DROPIN)).unwrap();
    assert!(text.contains(&first) && text.contains(&second), "{text}");

    // A smaller set lets an image go; no set lets all go.
    let generation = stage.pin("base", std::slice::from_ref(&second)).await;
    stage.tell(annotations::PINNED_IMAGE_SETS, json!(format!("base@{generation}"))).await;
    stage.condition("PinnedImageSetsProgressing", "False", "1 images of 1 PinnedImageSets").await;
    let text = std::fs::read_to_string(stage.root().join(DROPIN)).unwrap();
    assert!(!text.contains(&first) && text.contains(&second), "{text}");
    stage.tell(annotations::PINNED_IMAGE_SETS, Value::Null).await;
    stage.condition("PinnedImageSetsProgressing", "False", "0 images of 0 PinnedImageSets").await;
    assert!(!stage.root().join(DROPIN).exists());
    daemon.abort();
}

#[tokio::test]
async fn a_set_that_cannot_be_held_says_why_and_a_node_without_sets_says_nothing() {
    let stage = Stage::start(&one()).await;
    let simulated = stage.root().join("var/lib/machinist/simulated-images.json");
    std::fs::create_dir_all(simulated.parent().unwrap()).unwrap();
    std::fs::write(&simulated, r#"{"runtime": "containerd v1.6.9", "total": 107374182400, "images": {}}"#).unwrap();
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    let api: Api<MachineConfigNode> = Api::all(stage.client.clone());
    let node = wait_for(&api, NODE, "the daemon's report", |node| {
        node.and_then(|node| node.status.as_ref()).is_some_and(|status| !status.conditions.is_empty())
    })
    .await
    .unwrap();
    let conditions = node.status.unwrap().conditions;
    assert!(!conditions.iter().any(|it| it.type_.starts_with("Pinned")), "{conditions:?}");

    stage.tell(annotations::PINNED_IMAGE_SETS, json!("missing@0")).await;
    stage
        .condition("PinnedImageSetsDegraded", "True", "PinnedImageSet missing cannot be read: it does not exist")
        .await;
    let generation = stage.pin("base", &[image("example.org/a", "1")]).await;
    stage.tell(annotations::PINNED_IMAGE_SETS, json!(format!("base@{generation}"))).await;
    let node = stage.condition("PinnedImageSetsDegraded", "True", "containerd v1.6.9 cannot pin images").await;
    let set = node.status.unwrap().pinned_image_sets.remove(0);
    assert_eq!((set.current_generation, set.last_failed_generation), (None, Some(1)));
    stage.event("PinnedImagesFailed").await;
    daemon.abort();
}

#[tokio::test]
async fn a_daemon_tells_hashes_and_texts_of_what_it_is_asked_and_never_a_secret() {
    let stage = Stage::start(&one()).await;
    let write = |path: &str, text: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt as _;
        let place = stage.root().join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, text).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write("etc/sysctl.d/k8s.conf", "net.ipv4.ip_forward = 1\n", 0o644);
    write("etc/hidden", "x", 0o600);
    write("etc/open-token.yaml", "token: abc\n", 0o644);
    write("home/data", "x", 0o644);
    let daemon = stage.run(WITNESS, Arc::new(|_| false));
    let paths =
        ["/etc/sysctl.d/k8s.conf", "/etc/hidden", "/etc/open-token.yaml", "/home/data", "/etc/nothing", "/etc/passwd"];
    let surveys: Api<NodeSurvey> = Api::all(stage.client.clone());
    for (id, contents) in [("1", false), ("2", true)] {
        let request = json!({"id": id, "paths": paths, "contents": contents}).to_string();
        stage.tell(annotations::SURVEY, json!(request)).await;
        let answer =
            wait_for(&surveys, NODE, "the answer", |it| it.is_some_and(|it| it.spec.request == id)).await.unwrap();
        assert_eq!(answer.metadata.owner_references.unwrap()[0].kind, "Node");
        let files = answer.spec.files;
        let found: Vec<Found> = files.iter().map(|file| file.found).collect();
        assert_eq!(found, [Found::File, Found::Secret, Found::Secret, Found::Other, Found::Nothing, Found::Other]);
        assert!(files[0].hash.as_ref().unwrap().starts_with("sha256-"), "{files:?}");
        assert_eq!(files[0].contents.as_deref(), contents.then_some("net.ipv4.ip_forward = 1\n"));
        assert!(files[1..].iter().all(|file| file.hash.is_none() && file.contents.is_none()), "{files:?}");
    }
    // What is no request is not answered, and the daemon goes on.
    surveys.delete(NODE, &Default::default()).await.unwrap();
    stage.tell(annotations::SURVEY, json!("what is there?")).await;
    stage.tell(annotations::SURVEY, json!(json!({"id": "3", "paths": []}).to_string())).await;
    wait_for(&surveys, NODE, "the answer", |it| it.is_some_and(|it| it.spec.request == "3")).await.unwrap();
    daemon.abort();
}
