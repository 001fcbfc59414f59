//! How long it takes to know what a change means: two rendered configs in, difference, verdict and disruption out.
//!
//! The configs are the corpus' worker pool (80 files), parsed objects with raw Ignition, as controllers and daemons hold
//! them. Both are read anew in each run.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads a file and the clock")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use api::machineconfiguration::{MachineConfig, MachineConfigPool, MachineConfigPoolSpec};
use change::content::Content;
use change::diff::Diff;
use change::disruption::Disruption;
use change::policy::{Policies, Settings};
use change::reconcilable::{Allowances, obstacles};
use serde_json::{Value, json};

/// Each figure is the best of this many batches of about this length.
const BATCHES: usize = 7;
const BATCH: Duration = Duration::from_millis(100);

fn main() {
    let base = rendered();
    let one = edited(&base, 1);
    let all = edited(&base, usize::MAX);
    let files = base.spec.config.as_ref().unwrap()["storage"]["files"].as_array().unwrap().len();
    print("the same config twice", measure(&base, &base), Some(1000));
    print("one file of the corpus changed", measure(&base, &one), Some(1000));
    print(&format!("all {files} files of the corpus changed"), measure(&base, &all), Some(1000));
    for times in [1, 10, 100] {
        let (old, new) = (repeated(&base, times), repeated(&all, times));
        let time = measure(&old, &new);
        let per = time / u32::try_from(times).unwrap();
        print(&format!("all changed, {times}× the corpus"), time, None);
        print(&format!("all changed, {times}× the corpus, per corpus"), per, None);
    }
}

fn verdict(old: &MachineConfig, new: &MachineConfig) -> (Diff, usize, Disruption) {
    let (old, new) = Content::read_both(old, new).unwrap();
    let diff = Diff::between(&old, &new);
    let settings = Settings::default();
    let obstacles = obstacles(&diff, &new, &settings, &Allowances::default()).len();
    let disruption = Disruption::of(&diff, &Policies::defaults(&settings));
    (diff, obstacles, disruption)
}

/// Time on the processor for one verdict: the best of several batches, so that a busy machine does not count.
fn measure(old: &MachineConfig, new: &MachineConfig) -> Duration {
    let start = Instant::now();
    black_box(verdict(old, new));
    let batch = u32::try_from(BATCH.as_nanos() / start.elapsed().as_nanos().max(1)).unwrap_or(1).clamp(1, 200);
    let time = |_| {
        let start = on_the_processor();
        for _ in 0..batch {
            black_box(verdict(black_box(old), black_box(new)));
        }
        (on_the_processor() - start) / batch
    };
    (0..BATCHES).map(time).min().unwrap()
}

/// What this thread has run so far, as the kernel counts it.
fn on_the_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn print(name: &str, time: Duration, target: Option<u64>) {
    let target = target.map_or("-".to_owned(), |target| format!("under {target} µs"));
    println!("bench: {name} | {} µs | {target}", time.as_micros());
}

/// The corpus' worker pool as it would be rendered.
fn rendered() -> MachineConfig {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../corpus/worker-pool.json");
    let corpus: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let fragments: Vec<MachineConfig> = serde_json::from_value(corpus).unwrap();
    let spec: MachineConfigPoolSpec = serde_json::from_value(json!({
        "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}},
    }))
    .unwrap();
    let pool = MachineConfigPool::new("worker", spec);
    let settings = render::Settings { keep_remote: true, ..Default::default() };
    render::render(&pool, &fragments, &settings, &render::Fetched::default()).unwrap().machine_config
}

/// The config with another mode and other contents for its first files.
fn edited(config: &MachineConfig, count: usize) -> MachineConfig {
    let mut config = config.clone();
    let files = config.spec.config.as_mut().unwrap()["storage"]["files"].as_array_mut().unwrap();
    for file in files.iter_mut().take(count) {
        let source = file["contents"]["source"].as_str().unwrap_or("data:,").to_owned();
        let resource = ignition::Resource {
            source: Some(source),
            compression: file["contents"]["compression"].as_str().map(str::to_owned),
            ..Default::default()
        };
        let mut bytes = ignition::decode(&resource).unwrap();
        bytes.extend_from_slice(b"# edited\n");
        file["contents"] = json!({"source": ignition::data_url::encode(&bytes)});
    }
    config
}

/// The config with every file as often, at paths of its own.
fn repeated(config: &MachineConfig, times: usize) -> MachineConfig {
    let mut config = config.clone();
    let files = config.spec.config.as_mut().unwrap()["storage"]["files"].as_array_mut().unwrap();
    let once = files.clone();
    for copy in 1..times {
        files.extend(once.iter().cloned().map(|mut file| {
            file["path"] = json!(format!("/copy{copy}{}", file["path"].as_str().unwrap()));
            file
        }));
    }
    config
}
