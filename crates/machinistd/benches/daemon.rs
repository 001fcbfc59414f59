//! What the daemon costs: memory, size, and time beside a plain loop that does the same writes.
//!
//! Builds machinistd as it is shipped (profile `daemon`) and watches it idle against a small API stand-in over TLS.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::machineconfiguration::MachineConfig;
use change::host::Host;
use daemon::engine::{self, Engine, Prepared};
use daemon::verify;
use host::directory::Directory;
use host::watch::Watch;
use serde_json::json;

const FILES: usize = 500;
const WATCHED: usize = 2000;
const ROUNDS: usize = 5;
/// How long an idle daemon is watched for waking up by itself: longer than the shortest timer it may have.
const QUIET: Duration = Duration::from_secs(35);

fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the disk");
    applying(folder.path());
    drift(folder.path());
    footprint(folder.path());
}

fn config(name: &str, files: usize, changed: usize) -> MachineConfig {
    let files: Vec<_> = (0..files)
        .map(|number| {
            let text = if number < changed { "y" } else { "x" }.repeat(1024);
            json!({"path": format!("/etc/bench/{number}"), "mode": 420, "overwrite": true, "contents": {"source": format!("data:,{text}")}})
        })
        .collect();
    let mut config = MachineConfig::default();
    config.metadata.name = Some(name.into());
    config.spec.config = Some(json!({"ignition": {"version": "3.4.0"}, "storage": {"files": files}}));
    config
}

fn update(host: &Directory, from: &MachineConfig, to: &MachineConfig) -> Duration {
    let start = Instant::now();
    let engine = Engine::new(host);
    let steps = engine.prepare(from, to).expect("a plan");
    let prepared = Prepared { from: from.clone(), to: to.clone(), steps, actions: Vec::new(), trial: None };
    engine.execute(&prepared).expect("an update");
    engine.finish().expect("an end");
    start.elapsed()
}

fn plain_loop(folder: &Path) -> Duration {
    fs::create_dir_all(folder).expect("a folder");
    let start = Instant::now();
    for number in 0..FILES {
        let mut file = fs::File::create(folder.join(number.to_string())).expect("a file");
        file.write_all("x".repeat(1024).as_bytes()).expect("a write");
        file.sync_all().expect("an fsync");
    }
    start.elapsed()
}

fn applying(folder: &Path) {
    // Disks vary from one second to the next, so each side is taken at its best, in turns.
    let mut best = (Duration::MAX, Duration::MAX, Duration::MAX);
    for round in 0..ROUNDS {
        best.0 = best.0.min(plain_loop(&folder.join(format!("plain-{round}"))));
        let root = folder.join(format!("root-{round}"));
        fs::create_dir_all(&root).expect("a folder");
        let host = Directory::open(&root).expect("a host");
        // First on a fresh host; then the files are there already, as they are on a node whose config changes.
        best.2 = best.2.min(update(&host, &MachineConfig::default(), &config("old", FILES, FILES)));
        best.1 = best.1.min(update(&host, &config("old", FILES, FILES), &config("new", FILES, 0)));
    }
    println!("bench: daemon, {FILES} files in a plain loop with fsync | {} ms | -", best.0.as_millis());
    for (time, what) in [(best.1, "changed"), (best.2, "new on a fresh host")] {
        let factor = time.as_secs_f64() / best.0.as_secs_f64();
        println!("bench: daemon, {FILES} files {what} | {} ms, {factor:.2} x the loop | at most 2 x", time.as_millis());
    }
    one_change(&folder.join("root-0"));
}

fn one_change(root: &Path) {
    use std::os::unix::fs::MetadataExt;
    let inodes = || -> Vec<u64> {
        (0..FILES).map(|number| fs::metadata(root.join(format!("etc/bench/{number}"))).expect("a file").ino()).collect()
    };
    let host = Directory::open(root).expect("a host");
    let before = inodes();
    let time = update(&host, &config("new", FILES, 0), &config("newer", FILES, 1));
    let written = before.iter().zip(inodes()).filter(|(old, new)| **old != *new).count();
    println!("bench: daemon, one of {FILES} files changed | {written} written in {} ms | 1 written", time.as_millis());
}

fn drift(folder: &Path) {
    let root = folder.join("drift");
    fs::create_dir_all(&root).expect("a folder");
    let host = Directory::open(&root).expect("a host");
    let config = config("watched", WATCHED, 0);
    update(&host, &MachineConfig::default(), &config);
    let target = engine::read(&config).expect("a target");
    let mut watch = Watch::open(&root).expect("a watch");
    watch.follow(verify::watched_paths(&host, &target)).expect("watches");
    let start = Instant::now();
    fs::write(root.join(format!("etc/bench/{}", WATCHED - 1)), "wrong").expect("a change");
    while !watch.drain() {}
    // The daemon waits this long for a burst of events to end before it looks.
    std::thread::sleep(Duration::from_millis(250));
    let found = verify::verify(&host as &dyn Host, &target);
    assert_eq!(found.len(), 1);
    println!(
        "bench: daemon, drift of one of {WATCHED} files seen | {} ms | under 1000 ms",
        start.elapsed().as_millis()
    );
}

fn footprint(folder: &Path) {
    let Some((binary, target)) = build() else { return };
    let size = fs::metadata(&binary).expect("a binary").len();
    println!("bench: daemon, binary ({target}, profile daemon) | {:.1} MB | under 12 MB", megabytes(size));
    // Both at once: they only wait.
    std::thread::scope(|scope| {
        scope.spawn(|| idle(folder, &binary, 0, "idle with a watch open"));
        scope.spawn(|| idle(folder, &binary, FILES, "idle after a config of 500 files"));
    });
}

#[allow(clippy::cast_precision_loss)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Starts the daemon on a node with this many files, and looks at it when it has nothing to do.
fn idle(folder: &Path, binary: &Path, files: usize, what: &str) {
    let root = folder.join(format!("idle-{files}"));
    fs::create_dir_all(root.join("etc/bench")).expect("a folder");
    for number in 0..files {
        fs::write(root.join(format!("etc/bench/{number}")), "x".repeat(1024)).expect("a file");
    }
    let (kubeconfig, ready) = stand_in(folder, files);
    let mut daemon = Command::new(binary)
        .args(["start", "--simulate", "--node", "bench", "--metrics-url", "127.0.0.1:0", "--root"])
        .arg(&root)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .env("RUST_LOG", "error")
        .spawn()
        .expect("machinistd starts");
    let is_watching = ready.recv_timeout(Duration::from_secs(20)).is_ok();
    // Threads that have nothing to do end after ten seconds.
    std::thread::sleep(Duration::from_secs(15));
    let before = wakeups(&daemon);
    std::thread::sleep(QUIET);
    let (after, memory) = (wakeups(&daemon), resident(&daemon));
    let _ = daemon.kill();
    let _ = daemon.wait();
    let memory = match memory {
        Some(bytes) if is_watching => {
            format!("{:.1} MiB", f64::from(u32::try_from(bytes / 1024).unwrap_or(0)) / 1024.0)
        }
        _ => "no watch was opened".to_owned(),
    };
    println!("bench: daemon, resident memory {what} | {memory} | at most 8 MiB");
    println!("bench: daemon, wake-ups in {} s, {what} | {} | 0", QUIET.as_secs(), after - before);
}

/// How often any of its threads has waited and gone on.
fn wakeups(child: &Child) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let count = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks.filter_map(count).sum()
}

const MUSL: &str = "x86_64-unknown-linux-musl";

/// As it is shipped: static, where the toolchain has the target for it.
fn build() -> Option<(PathBuf, &'static str)> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.to_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = |more: &[&str]| {
        let mut command = Command::new(&cargo);
        command.args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "machinistd",
            "--profile",
            "daemon",
            "--target-dir",
        ]);
        command.arg(&folder).args(more).current_dir(env!("CARGO_MANIFEST_DIR"));
        command.status().is_ok_and(|status| status.success())
    };
    let has_musl = rust_library(&cargo).is_some_and(|library| library.join(MUSL).is_dir());
    if has_musl && build(&["--target", MUSL]) {
        return Some((folder.join(MUSL).join("daemon/machinistd"), "static musl"));
    }
    build(&[]).then(|| (folder.join("daemon/machinistd"), "gnu"))
}

/// Where the toolchain that builds this keeps its targets: cargo and rustc of one toolchain stand side by side.
fn rust_library(cargo: &std::ffi::OsStr) -> Option<PathBuf> {
    let beside = Path::new(cargo).with_file_name("rustc");
    let rustc = if beside.is_absolute() { beside } else { "rustc".into() };
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    Some(Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib"))
}

fn resident(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// An API that knows one Node, whose config has this many files, and no ControllerConfig, and never has news. Says when the watch is open.
fn stand_in(folder: &Path, files: usize) -> (PathBuf, std::sync::mpsc::Receiver<()>) {
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])
        .expect("a certificate");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let authority = folder.join(format!("ca-{files}.pem"));
    fs::write(&authority, certified.cert.pem()).expect("a file");
    let kubeconfig = folder.join(format!("kubeconfig-{files}"));
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": format!("https://localhost:{port}"), "certificate-authority": authority}}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    });
    fs::write(&kubeconfig, text.to_string()).expect("a file");
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("a server");
    let (tell, told) = std::sync::mpsc::channel();
    let server = Arc::new(server);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (server, tell) = (Arc::clone(&server), tell.clone());
            std::thread::spawn(move || {
                let connection = rustls::ServerConnection::new(server).expect("a connection");
                let _ = serve(rustls::StreamOwned::new(connection, stream), &tell, files);
            });
        }
    });
    (kubeconfig, told)
}

fn serve(stream: impl Read + Write, tell: &std::sync::mpsc::Sender<()>, files: usize) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let annotations = match files {
        0 => json!({}),
        _ => json!({api::annotations::CURRENT_CONFIG: "bench", api::annotations::DESIRED_CONFIG: "bench"}),
    };
    let node = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "bench", "uid": "1", "resourceVersion": "1", "annotations": annotations}});
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let request = head.lines().next().unwrap_or_default();
        if request.contains("watch=true") {
            write!(
                stream.get_mut(),
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            )?;
            stream.get_mut().flush()?;
            let _ = tell.send(());
            loop {
                std::thread::sleep(Duration::from_secs(60));
            }
        }
        let is_node = request.contains(" /api/v1/nodes/");
        let (status, answer) = if request.starts_with("GET /api/v1/nodes?") {
            let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "1"}, "items": [node]});
            ("200 OK", list)
        } else if request.contains("/controllerconfigs?") {
            let kind = "machineconfiguration.openshift.io/v1";
            (
                "200 OK",
                json!({"apiVersion": kind, "kind": "ControllerConfigList", "metadata": {"resourceVersion": "1"}, "items": []}),
            )
        } else if request.contains("/machineconfigs/") {
            ("200 OK", serde_json::to_value(config("bench", files, 0)).expect("a config"))
        } else if is_node {
            // A report is kept: the next answer shows it.
            ("200 OK", reported(&node, &body))
        } else {
            (
                "404 Not Found",
                json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
            )
        };
        let answer = answer.to_string();
        write!(
            stream.get_mut(),
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        )?;
        stream.get_mut().flush()?;
    }
}

/// The Node with the annotations of a report.
fn reported(node: &serde_json::Value, report: &[u8]) -> serde_json::Value {
    let mut node = node.clone();
    let report: serde_json::Value = serde_json::from_slice(report).unwrap_or_default();
    for (key, value) in report["metadata"]["annotations"].as_object().into_iter().flatten() {
        node["metadata"]["annotations"][key] = value.clone();
    }
    node
}
