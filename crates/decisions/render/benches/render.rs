//! How long and how much memory rendering takes, on the corpus of a real worker pool and on multiples of it.
//!
//! In: parsed MachineConfigs with raw Ignition. Out: the named object with its provenance.

#![allow(clippy::unwrap_used, unsafe_code, reason = "a benchmark; counting allocations needs an allocator of our own")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads a file and the clock")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::machineconfiguration::{MachineConfig, MachineConfigPool};
use render::{Fetched, Settings};
use serde_json::{Value, json};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; only counters are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        BYTES.fetch_add(size.saturating_sub(layout.size()), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let corpus = corpus();
    let pool = pool();

    let one = measure(&pool, &corpus, 200);
    println!("bench: worker pool, 12 fragments, 80 files | {} | 1.5 ms", milliseconds(one.time));
    println!("bench: worker pool, allocated | {:.2} MB | 2 MB", megabytes(one.bytes));
    println!("bench: worker pool, allocations | {} | -", one.calls);

    let thousand = thousand();
    let found = measure(&pool, &thousand, 20);
    let size = megabytes(json_size(&thousand));
    println!("bench: 1000 fragments, {size:.1} MB | {} | 100 ms", milliseconds(found.time));

    for (factor, rounds) in [(1, 200), (10, 20), (100, 3)] {
        let many = multiplied(&corpus, factor);
        let found = measure(&pool, &many, rounds);
        let each = found.time.as_secs_f64() * 1e9 / f64::from(u32::try_from(json_size(&many)).unwrap());
        println!("bench: {factor}x the worker pool, for each byte given | {each:.2} ns | -");
    }
}

struct Found {
    time: Duration,
    bytes: usize,
    calls: usize,
}

/// The mean of several runs.
fn measure(pool: &MachineConfigPool, fragments: &[MachineConfig], rounds: u32) -> Found {
    let settings = Settings { object_limit: usize::MAX, ..Settings::default() };
    let (mut bytes, mut calls) = (0, 0);
    let start = now();
    for _ in 0..rounds {
        let before = (BYTES.load(Ordering::Relaxed), CALLS.load(Ordering::Relaxed));
        let rendered = render::render(pool, black_box(fragments), &settings, &Fetched::default()).unwrap();
        (bytes, calls) = (BYTES.load(Ordering::Relaxed) - before.0, CALLS.load(Ordering::Relaxed) - before.1);
        black_box(rendered);
    }
    Found { time: now().saturating_sub(start) / rounds, bytes, calls }
}

/// Time this thread has had on a processor. Rendering waits for nothing, so on an idle machine this is the clock's time,
/// and on a busy one the neighbours do not count.
fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    // The kernel brings its account up to date when a thread gives way.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_processor = text.split_whitespace().next().and_then(|nanoseconds| nanoseconds.parse().ok());
    on_processor.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

fn corpus() -> Vec<MachineConfig> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../corpus/worker-pool.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn pool() -> MachineConfigPool {
    let selector = json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}});
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "worker"},
        "spec": {"machineConfigSelector": selector},
    }))
    .unwrap()
}

/// As many fragments as fit into one object when each brings a file, a unit, a key and an argument.
fn thousand() -> Vec<MachineConfig> {
    let fragment = |number: usize| {
        let text = "setting = value%0A".repeat(50);
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {
                "name": format!("{number:04}-worker"),
                "labels": {"machineconfiguration.openshift.io/role": "worker"},
            },
            "spec": {
                "kernelArguments": [format!("argument{number}=1")],
                "config": {
                    "ignition": {"version": "3.4.0"},
                    "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [format!("ssh-ed25519 AAAA{number} x")]}]},
                    "storage": {"files": [{"path": format!("/etc/app/{number}.conf"), "contents": {"source": format!("data:,{}", text.replace(' ', "%20"))}}]},
                    "systemd": {"units": [{"name": format!("app{number}.service"), "enabled": true, "contents": "[Unit]\nDescription=x\n[Install]\nWantedBy=multi-user.target\n"}]},
                },
            },
        })
    };
    (0..1000).map(|number| serde_json::from_value(fragment(number)).unwrap()).collect()
}

/// The corpus several times over, each copy with names and paths of its own.
fn multiplied(corpus: &[MachineConfig], factor: usize) -> Vec<MachineConfig> {
    let copy = |number: usize| {
        corpus.iter().cloned().map(move |mut fragment| {
            let name = fragment.metadata.name.unwrap_or_default();
            fragment.metadata.name = Some(format!("{name}-{number}"));
            if let Some(config) = &mut fragment.spec.config {
                rename(config, "/storage/files", "path", &format!("/copy{number}"), true);
                rename(config, "/systemd/units", "name", &format!("copy{number}-"), true);
            }
            fragment
        })
    };
    (0..factor).flat_map(copy).collect()
}

fn rename(config: &mut Value, list: &str, field: &str, prefix: &str, front: bool) {
    for item in config.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        let text = item[field].as_str().unwrap_or_default();
        item[field] = json!(if front { format!("{prefix}{text}") } else { format!("{text}{prefix}") });
    }
}

fn json_size(fragments: &[MachineConfig]) -> usize {
    serde_json::to_vec(fragments).unwrap().len()
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn megabytes(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / 1e6
}
