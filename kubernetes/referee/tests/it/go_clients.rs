//! Go's own clients: what typed clients, informers, leader election and controller-runtime's manager see on either server.
//!
//! Each story prints what it sees; the same lines are expected of both servers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use referee::{Kind, control_plane, needs};

const FILES: &[(&str, &str)] = &[
    ("go.mod", include_str!("../../go/clients/go.mod")),
    ("go.sum", include_str!("../../go/clients/go.sum")),
    ("main.go", include_str!("../../go/clients/main.go")),
    ("typed.go", include_str!("../../go/clients/typed.go")),
    ("informers.go", include_str!("../../go/clients/informers.go")),
    ("election.go", include_str!("../../go/clients/election.go")),
    ("manager.go", include_str!("../../go/clients/manager.go")),
];

/// The program, built now if this machine never did.
pub(crate) async fn program() -> Option<PathBuf> {
    if !needs::go() {
        return None;
    }
    let built = tokio::task::spawn_blocking(|| referee::go_program("clients", FILES)).await.unwrap();
    Some(built.unwrap_or_else(|error| panic!("the Go clients cannot be built: {error:#}")))
}

/// The stories, with what the environment says to Go's clients.
const STORIES: [(&str, &str, &str); 5] = [
    ("typed", "typed", "true"),
    ("streaming", "informers", "true"),
    ("listing", "informers", "false"),
    ("election", "election", "true"),
    ("manager", "manager", "true"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_clients_see_the_same_on_both_servers() {
    let Some(program) = program().await else { return };
    let (Some(real), Some(embedded)) = (stories(&program, Kind::Real).await, stories(&program, Kind::Embedded).await)
    else {
        return;
    };
    for ((name, on_real), (_, on_embedded)) in real.iter().zip(&embedded) {
        println!("{name}:\n{on_real}");
        assert_eq!(on_real, on_embedded, "{name}: left is the real server, right the embedded one");
    }
    let said =
        |name: &str| real.iter().find(|(own, _)| *own == name).map(|(_, text)| text.as_str()).unwrap_or_default();
    assert!(said("streaming").starts_with("streaming lists: true\n"), "{}", said("streaming"));
    assert!(said("listing").starts_with("streaming lists: false\n"), "{}", said("listing"));
    assert!(said("manager").ends_with("stopped\n"), "{}", said("manager"));
}

/// What each story prints on a server of this kind.
async fn stories(program: &Path, kind: Kind) -> Option<Vec<(&'static str, String)>> {
    let control_plane = control_plane(kind).await?;
    let namespaces: Api<Namespace> = Api::all(control_plane.client().await);
    let kubeconfig = control_plane.kubeconfig();
    let mut transcripts = Vec::new();
    for (name, story, streaming) in STORIES {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
        let mut command = Command::new(program);
        command.args([story, &kubeconfig.display().to_string(), name]).stdin(Stdio::null());
        command.env("KUBE_FEATURE_WatchListClient", streaming);
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind:?}, {name}: {said}\n{complaint}");
        transcripts.push((name, said));
    }
    Some(transcripts)
}
