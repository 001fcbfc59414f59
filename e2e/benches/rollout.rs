//! How fast a config reaches a fleet, and what the controller costs while nothing happens.
//!
//! The controller is the real binary, as its own process; the fleet is simulated in this one.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use api::annotations;
use api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use cluster::Watch;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, watch_object};
use rollout::{NodeFacts, PoolFacts, Settings, Snapshot};
use sandbox::fleet::{Behaviour, Fleet};
use testkit::binaries::binary;
use testkit::objects::{file_config, pool};
use testkit::process::Process;
use testkit::{ControlPlane, Kind, control_plane, wait_for};

fn main() {
    one_change();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    // `-- real` or `-- embedded` runs one part alone.
    let wanted = |part: &str| std::env::args().skip(1).filter(|it| !it.starts_with('-')).all(|it| it == part);
    runtime.block_on(async {
        if wanted("real") {
            real_server(1000).await;
        }
        if wanted("embedded") {
            embedded_server(10_000).await;
        }
    });
}

fn report(what: &str, figure: &str, target: &str) {
    println!("bench: {what} | {figure} | {target}");
}

/// What one node's change costs in a fleet of this size: taken in, and planned again.
fn one_change() {
    for size in [100_usize, 1000, 10_000] {
        let mut pool = pool("worker");
        let configuration = pool.spec.configuration.get_or_insert_default();
        configuration.name = Some("rendered-worker-2".to_owned());
        pool.spec.max_unavailable = Some(IntOrString::Int(10));
        let settings = Settings { settle: jiff::SignedDuration::ZERO, ..Settings::default() };
        let mut snapshot = Snapshot::new(PoolFacts::from_object(&pool), settings, Timestamp::UNIX_EPOCH);
        for n in 0..size {
            snapshot.observe_node(facts(n, "rendered-worker-1", "rendered-worker-1", 1));
        }
        let rounds = 2000;
        let start = Instant::now();
        for round in 0..rounds {
            // Nodes at the end of the queue change, so that the plan stays the same and only its cost is seen.
            let reason = if round % 2 == 0 { "rendered-worker-1" } else { "rendered-worker-2" };
            snapshot.observe_node(facts(size - 1 - round % 10, reason, "rendered-worker-2", 2 + round as u64));
            std::hint::black_box(rollout::plan(&snapshot));
        }
        let each = start.elapsed() / rounds as u32;
        report(&format!("one node's change, {size} nodes"), &format!("{:.0} µs", each.as_secs_f64() * 1e6), "the same");
    }
}

fn facts(n: usize, current: &str, desired: &str, version: u64) -> NodeFacts {
    NodeFacts {
        name: node_name(n),
        resource_version: rollout::ResourceVersion::parse(&version.to_string()),
        current: Some(current.to_owned()),
        desired: Some(desired.to_owned()),
        state: rollout::node::State::Done,
        ours: true,
        ..NodeFacts::default()
    }
}

/// A pool whose nodes all have its first config, and the controller that looks after it.
struct Scene {
    control_plane: ControlPlane,
    client: Client,
    controller: Process,
    listen: String,
    nodes: usize,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// With the config that every node has.
    async fn start(kind: Kind, nodes: usize) -> Option<(Self, String)> {
        let control_plane = control_plane(kind).await?;
        control_plane.install().await;
        let client = cluster::connect(Some(&control_plane.kubeconfig())).await.expect("a client");
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = control_plane.kubeconfig().display().to_string();
        let arguments =
            ["controller", "--kubeconfig", &kubeconfig, "--settle=0", "--listen=127.0.0.1:0", "--identity=bench"];
        let arguments = arguments.map(str::to_owned);
        let level = std::env::var("RUST_LOG").unwrap_or_else(|_| "info,kube_runtime=warn".to_owned());
        let environment = [("RUST_LOG".to_owned(), level)];
        let log = folder.path().join("controller.log");
        let controller =
            Process::start(&binary("machinist"), &arguments, &environment, &log).expect("the controller starts");
        let listen = testkit::wait_until("the controller to listen", || async {
            let output = controller.output();
            let line = output.lines().find(|line| line.contains("serving health"))?;
            let address = line.split("127.0.0.1:").nth(1)?;
            let port: String = address.chars().take_while(char::is_ascii_digit).collect();
            Some(format!("http://127.0.0.1:{port}"))
        })
        .await;
        let scene = Self { control_plane, client, controller, listen, nodes, _folder: folder };
        let config = scene.fill().await;
        scene.settled(&config).await;
        Some((scene, config))
    }

    async fn fill(&self) -> String {
        let mut worker = pool("worker");
        worker.spec.max_unavailable = Some(IntOrString::String("10%".to_owned()));
        let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
        self.write(0).await;
        pools.create(&PostParams::default(), &worker).await.expect("a pool");
        let rendered = wait_for(&pools, "worker", "a rendered config", |pool| target(pool).is_some()).await;
        let config = target(rendered.as_ref()).expect("it was waited for");
        let names = (0..self.nodes).map(node_name).collect();
        let fleet = Fleet::new(self.client.clone(), "bench", Behaviour::default());
        fleet.create(names, &["worker"], Some(&config)).await.expect("nodes");
        self.updated("").await.0
    }

    async fn write(&self, step: usize) {
        let config = file_config("50-step", "worker", "/etc/step", &step.to_string());
        let configs: Api<MachineConfig> = Api::all(self.client.clone());
        let parameters = PatchParams::apply("bench").force();
        configs.patch("50-step", &parameters, &Patch::Apply(&config)).await.expect("a fragment");
    }

    /// The config that every node has come to, and when the pool first wanted it.
    async fn updated(&self, old: &str) -> (String, Instant) {
        let mut wanted = None;
        let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
        let mut states = watch_object(pools, "worker").boxed();
        // A benchmark on a busy machine may take longer than any test would wait.
        loop {
            let state = states.next().await.expect("a watch never ends");
            let Some(pool) = state.ok().flatten() else { continue };
            if target(Some(&pool)).is_some_and(|target| target != old) {
                wanted.get_or_insert_with(Instant::now);
            }
            let Some(status) = pool.status else { continue };
            let name = status.configuration.and_then(|it| it.name).unwrap_or_default();
            let all = usize::try_from(status.updated_machine_count.unwrap_or(0)) == Ok(self.nodes);
            if let Some(wanted) = wanted.filter(|_| all && !name.is_empty() && name != old) {
                return (name, wanted);
            }
        }
    }

    /// Time from writing a fragment until the pool says that every node has it.
    async fn roll_out(&self, step: usize, behaviour: Behaviour) -> RolledOut {
        let fleet = tokio::spawn(Fleet::new(self.client.clone(), "bench", behaviour).run());
        let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
        let old = target(pools.get_opt("worker").await.expect("the pool").as_ref()).unwrap_or_default();
        let costs = self.costs().await;
        let start = Instant::now();
        self.write(step).await;
        let (config, wanted) = self.updated(&old).await;
        let (time, rendering) = (start.elapsed(), wanted.duration_since(start));
        let spent = self.costs().await;
        fleet.abort();
        RolledOut { config, time, rendering, before: costs, after: spent }
    }

    /// Resident memory of the controller in MB, now and at its highest.
    fn memory(&self) -> (f64, f64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.controller.id())).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            let kilobytes: f64 = line.split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap_or(0.0);
            kilobytes / 1024.0
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    /// Processor time of the controller so far, in seconds.
    fn cpu(&self) -> f64 {
        processor_time(self.controller.id())
    }

    /// Waits until nothing is left to do: every node without a taint of updates, and every MachineConfigNode on `config`.
    async fn settled(&self, config: &str) {
        let mut left: HashSet<(&str, String)> = HashSet::new();
        for n in 0..self.nodes {
            left.extend(["taint", "object"].map(|what| (what, node_name(n))));
        }
        let (mut nodes, mut objects): (Watch<bool>, Watch<bool>) = (Watch::default(), Watch::default());
        let (mut tainted, mut behind) = (nodes.subscribe(), objects.subscribe());
        let all = || watcher::Config::default().any_semantic().page_size(500);
        let of_nodes = nodes
            .run(Api::all(self.client.clone()), all(), |node: Node| NodeFacts::from_object(&node).has_update_taint());
        let of_objects = objects.run(Api::all(self.client.clone()), all(), |object: MachineConfigNode| {
            object.spec.config_version.desired != config
        });
        let counting = async {
            while !left.is_empty() {
                let (what, change) = tokio::select! {
                    Some(change) = tainted.recv() => ("taint", change),
                    Some(change) = behind.recv() => ("object", change),
                };
                let place = (what, change.key.name);
                if change.new.is_some_and(|unfinished| *unfinished) {
                    left.insert(place);
                } else {
                    left.remove(&place);
                }
            }
        };
        tokio::select! {
            () = of_nodes => {}
            () = of_objects => {}
            () = counting => {}
        }
    }

    /// Writes that the controller made so far, without Leases.
    async fn writes(&self) -> f64 {
        self.writes_by_kind().await.values().sum()
    }

    async fn writes_by_kind(&self) -> BTreeMap<String, f64> {
        let answer = reqwest::get(format!("{}/metrics", self.listen)).await;
        let text = match answer {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        let count = |line: &str| {
            let (labels, number) = line.strip_prefix("machinist_writes_total")?.rsplit_once(' ')?;
            Some((labels.split('"').nth(1)?.to_owned(), number.parse().ok()?))
        };
        text.lines().filter_map(count).collect()
    }

    /// What everybody has spent so far.
    async fn costs(&self) -> Costs {
        Costs {
            controller: self.cpu(),
            server: self.control_plane.processes().into_iter().map(processor_time).sum(),
            fleet: processor_time(std::process::id()),
            writes: self.writes_by_kind().await,
        }
    }
}

struct RolledOut {
    config: String,
    time: Duration,
    /// The part of it until the pool knew its new config.
    rendering: Duration,
    before: Costs,
    after: Costs,
}

/// Processor time in seconds, and the controller's writes.
struct Costs {
    controller: f64,
    server: f64,
    /// Of this process: the simulated nodes, and the embedded server where that is the one.
    fleet: f64,
    writes: BTreeMap<String, f64>,
}

impl RolledOut {
    fn report_costs(&self) {
        report("  of it rendering", &format!("{:.1} s", self.rendering.as_secs_f64()), "-");
        self.after.report_since(&self.before);
    }
}

impl Costs {
    /// Says what was spent since `earlier`.
    fn report_since(&self, earlier: &Self) {
        let (controller, server, fleet) =
            (self.controller - earlier.controller, self.server - earlier.server, self.fleet - earlier.fleet);
        let figure = format!("controller {controller:.1} s, servers {server:.1} s, fleet {fleet:.1} s");
        report("  processor time meanwhile", &figure, "-");
        let written = self.writes.iter().map(|(kind, now)| (kind, now - earlier.writes.get(kind).unwrap_or(&0.0)));
        let written: Vec<String> = written.map(|(kind, count)| format!("{kind} {count}")).collect();
        report("  controller's writes meanwhile", &written.join(", "), "-");
    }
}

fn processor_time(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn node_name(n: usize) -> String {
    format!("node-{n:05}")
}

fn target(pool: Option<&MachineConfigPool>) -> Option<String> {
    pool?.spec.configuration.as_ref()?.name.clone()
}

async fn real_server(nodes: usize) {
    let Some((scene, _)) = Scene::start(Kind::Real, nodes).await else { return };
    let quick = scene.roll_out(1, Behaviour::default()).await;
    let what = format!("{nodes} nodes that answer at once, 10 %, kube-apiserver");
    report(&what, &format!("{:.1} s", quick.time.as_secs_f64()), "< 20 s");
    let (now, most) = scene.memory();
    report("  controller's memory", &format!("{now:.0} MB, at most {most:.0} MB"), "upstream 120 MB");
    quick.report_costs();
    // No node may have been forgotten.
    let nodes_api: Api<Node> = Api::all(scene.client.clone());
    let all = nodes_api.list(&Default::default()).await.expect("nodes").items;
    let there = |node: &Node| node.metadata.annotations.as_ref()?.get(annotations::CURRENT_CONFIG).cloned();
    assert!(all.iter().all(|node| there(node).as_ref() == Some(&quick.config)), "every node has the config");

    scene.settled(&quick.config).await;
    let slow = scene.roll_out(2, Behaviour { update: Duration::from_secs(1), ..Behaviour::default() }).await;
    let ideal = 10.0;
    let what = format!("{nodes} nodes that take 1 s, 10 %, kube-apiserver (ideal {ideal} s)");
    // A rollout begins when its pool wants the config; before that is the quiet that rendering waits for.
    let makespan = slow.time.saturating_sub(slow.rendering);
    report(&what, &format!("{:.2} s", makespan.as_secs_f64()), "< 11 s");
    report("  with rendering, from the write of the fragment", &format!("{:.2} s", slow.time.as_secs_f64()), "-");
    slow.report_costs();
    drop(scene.control_plane);
}

/// What one node's change costs the whole process, from the wire to the plan, in a fleet of this size.
async fn one_live_change(scene: &Scene) {
    const CHANGES: usize = 500;
    let api: Api<Node> = Api::all(scene.client.clone());
    let cpu = scene.cpu();
    for n in 0..CHANGES {
        let patch = serde_json::json!({ "metadata": { "annotations": { annotations::REASON: n.to_string() } } });
        api.patch("node-00007", &PatchParams::default(), &Patch::Merge(patch)).await.expect("a change");
    }
    let each = (scene.cpu() - cpu) / CHANGES as f64 * 1e6;
    let what = format!("one node's change, live, {} nodes: processor time", scene.nodes);
    report(&what, &format!("{each:.0} µs"), "the same");
}

async fn embedded_server(nodes: usize) {
    for few in [100, 1000] {
        let Some((scene, _)) = Scene::start(Kind::Embedded, few).await else { return };
        one_live_change(&scene).await;
    }
    let Some((scene, _)) = Scene::start(Kind::Embedded, nodes).await else { return };
    one_live_change(&scene).await;
    let (now, most) = scene.memory();
    report(&format!("{nodes} nodes, embedded API: memory"), &format!("{now:.0} MB, at most {most:.0} MB"), "< 100 MB");
    // The last numbers and events are still on their way.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (writes, cpu, start) = (scene.writes().await, scene.cpu(), Instant::now());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let wrote = scene.writes().await - writes;
    let share = (scene.cpu() - cpu) / start.elapsed().as_secs_f64() * 100.0;
    report("  writes besides Leases in 20 quiet seconds", &format!("{wrote}"), "0");
    report("  share of a core while quiet", &format!("{share:.1} %"), "< 1 %");
    let rolled_out = scene.roll_out(1, Behaviour::default()).await;
    let what = format!("{nodes} nodes that answer at once, 10 %, embedded API");
    report(&what, &format!("{:.1} s", rolled_out.time.as_secs_f64()), "-");
    let (now, most) = scene.memory();
    report("  memory afterwards", &format!("{now:.0} MB, at most {most:.0} MB"), "< 100 MB");
    rolled_out.report_costs();
}
