//! What a config may cost the daemon in memory: its own size, never the size of what its files unpack to.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// Well above what the program needs, well below what ten such files hold, and a part of what its unit allows.
const ALLOWED: usize = 64 << 20;
/// A part of what one file may unpack to, so that the test stays quick.
const FILE: usize = 12 << 20;
const FILES: usize = 10;

fn zeros(last: u8) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&vec![0; FILE]).unwrap();
    gzip.write_all(&[last]).unwrap();
    ignition::data_url::encode(&gzip.finish().unwrap())
}

fn config(folder: &Path, name: &str, contents: &str) -> String {
    let file = |number: usize| json!({"path": format!("/etc/zeros/{number}"), "contents": {"source": contents, "compression": "gzip"}});
    let files: Vec<Value> = (0..FILES).map(file).collect();
    let config = json!({
        "metadata": {"name": name},
        "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": files}}},
    });
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, config.to_string()).unwrap();
    path.display().to_string()
}

/// Runs the program where it can have [`ALLOWED`] bytes of memory of its own and no more.
fn bounded(root: &Path, arguments: &[&str]) -> Output {
    let script = format!("ulimit -d {}; exec \"$0\" \"$@\"", ALLOWED >> 10);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_machinistd"), "--simulate", "--root"]).arg(root).args(arguments);
    shell.env_remove("NODE_NAME").env_remove("KUBECONFIG").output().unwrap()
}

#[test]
fn ten_files_of_zeros_do_not_cost_the_memory_they_unpack_to() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    // The second config differs in the last byte of each file, so that both have to be read to the end to be told apart.
    for (name, last) in [("first", 1), ("second", 2)] {
        let file = config(folder.path(), name, &zeros(last));
        let output = bounded(&root, &["once-from", "--skip-reboot", &file]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        for number in 0..FILES {
            let written = std::fs::read(root.join(format!("etc/zeros/{number}"))).unwrap();
            assert_eq!((written.len(), written.last()), (FILE + 1, Some(&last)), "{name}");
        }
    }
    let output = bounded(&root, &["diff"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(root.join("etc/zeros/7"), "torn").unwrap();
    let output = bounded(&root, &["diff"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("/etc/zeros/7"));
}
