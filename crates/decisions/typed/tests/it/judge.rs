//! The real kubelet's strict decoder and its own rules judge every kubelet configuration that the tests of this crate
//! generate. Where there is no Go to build them with, one test says so and the others go on without.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use api::labels;
use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const FILES: &[(&str, &str)] = &[
    ("go.mod", include_str!("../../../../testkit/go/kubelet/go.mod")),
    ("go.sum", include_str!("../../../../testkit/go/kubelet/go.sum")),
    ("main.go", include_str!("../../../../testkit/go/kubelet/main.go")),
];

/// The process ends with its input, when the tests end.
struct Judge {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    known: HashMap<String, String>,
}

static JUDGE: LazyLock<Option<Mutex<Judge>>> = LazyLock::new(|| {
    Command::new("go").arg("version").stdout(Stdio::null()).status().ok()?;
    let program = testkit::go_program("kubelet-judge", FILES).expect("the judge is built");
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the judge starts");
    let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    Some(Mutex::new(Judge { _child: child, input, output, known: HashMap::new() }))
});

/// What a kubelet says of a configuration: nothing if it is content. `None` where there is no judge.
fn verdict(text: &str) -> Option<String> {
    let mut judge = JUDGE.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = judge.known.get(text) {
        return Some(known.clone());
    }
    writeln!(judge.input, "{}", serde_json::json!(text)).expect("the judge listens");
    let mut line = String::new();
    judge.output.read_line(&mut line).expect("the judge answers");
    let said: String = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} after {text}"));
    judge.known.insert(text.to_owned(), said.clone());
    Some(said)
}

/// Lets kubelets judge what the nodes of each pool would get: of each path, the file of the MachineConfig that is merged
/// last. Those below it may make sense together only.
#[track_caller]
pub(crate) fn kubelets_accept(pools: &[MachineConfigPool], configs: &[MachineConfig]) {
    for pool in pools {
        let pool = pool.metadata.name.as_deref().unwrap_or_default();
        let is_custom = !["master", "worker", "arbiter"].contains(&pool);
        let role = |config: &MachineConfig| config.metadata.labels.as_ref()?.get(labels::ROLE).cloned();
        let of_pool =
            |config: &&MachineConfig| role(config).is_some_and(|role| role == pool || is_custom && role == "worker");
        let mut merged: Vec<&MachineConfig> = configs.iter().filter(of_pool).collect();
        merged.sort_by_key(|config| (role(config).as_deref() != Some("worker"), config.metadata.name.clone()));
        let files: BTreeMap<String, String> = merged.into_iter().flat_map(kubelet_configurations).collect();
        for (path, text) in files {
            // A drop-in is judged as it is: the files of kubeadm and k3s below it leave to the kubelet's defaults what could
            // contradict it.
            let said = verdict(&text).unwrap_or_default();
            assert!(said.is_empty(), "pool {pool}: a kubelet refuses {path}: {said}\n{text}");
        }
    }
}

fn kubelet_configurations(config: &MachineConfig) -> Vec<(String, String)> {
    let files = config.spec.config.as_ref().and_then(|config| config.pointer("/storage/files")?.as_array());
    let read = |file: &serde_json::Value| {
        let source = file.pointer("/contents/source")?.as_str()?;
        let text = String::from_utf8(STANDARD.decode(source.split_once("base64,")?.1).ok()?).ok()?;
        let is_it = text.lines().any(|line| line == "kind: KubeletConfiguration");
        is_it.then(|| (file["path"].as_str().unwrap_or_default().to_owned(), text))
    };
    files.into_iter().flatten().filter_map(read).collect()
}

#[test]
fn a_kubelet_refuses_unknown_fields_and_wrong_values_and_accepts_what_templates_make() {
    if !testkit::needs::go() {
        return;
    }
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    assert_eq!(verdict(head).unwrap(), "");
    assert!(verdict(&format!("{head}maxPod: 1\n")).unwrap().contains("unknown field"));
    assert!(verdict(&format!("{head}maxPods: -1\n")).unwrap().contains("maxPods"));
    let world = crate::world::World::new(&["worker"]);
    for (role, base) in &world.snapshot.bases {
        let text = serde_saphyr::to_string(base.as_ref().unwrap()).unwrap();
        assert_eq!(verdict(&text).unwrap(), "", "{role}: {text}");
    }
}
