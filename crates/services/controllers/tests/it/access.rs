//! Who may read which configs, on a running cluster.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, PostParams};
use testkit::objects::pool;
use testkit::wait_for;

use crate::stage::Stage;

#[tokio::test]
async fn a_pool_whose_role_is_refused_holds_up_no_other_and_is_told() {
    let stage = Stage::start().await;
    // The name does not fit into a label, which every role of a pool has. It is the first in the order of names.
    let long = "a".repeat(64);
    let mut first = pool("a");
    first.metadata.name = Some(long.clone());
    stage.pools.create(&PostParams::default(), &first).await.unwrap();
    let _controllers = stage.control();
    stage.settled_pool("infra", &["node-1"]).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.client.clone());
    wait_for(&bindings, "machinist:pool:infra:0", "the node of the other pool", |binding| {
        let mut subjects = binding.and_then(|it| it.subjects.as_ref()).into_iter().flatten();
        subjects.any(|subject| subject.name == "system:node:node-1")
    })
    .await;
    stage.event("AccessFailed", &long).await;
}
