//! Programs of Debian read what is generated for container runtimes: containerd its drop-ins, and skopeo, which resolves
//! names as CRI-O does, a mirror in registries.conf. The registry is a few lines on a loopback address.

#![allow(clippy::disallowed_methods, reason = "the programs read files, and the registry is a thread")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use testkit::needs;
use typed::runtime::main_file::MainFile;
use typed::runtime::{Settings, containerd};

use crate::registries::{file, image, mirror_set, snapshot, step};

#[test]
fn containerd_reads_the_drop_ins_that_are_generated_for_it() {
    if !needs::program("containerd", "install Debian's containerd") {
        return;
    }
    let version = String::from_utf8(Command::new("containerd").arg("--version").output().unwrap().stdout).unwrap();
    let major = version.split_whitespace().find_map(|word| {
        let number = word.trim_start_matches('v').split('.').next()?.parse::<u64>().ok()?;
        word.contains('.').then_some(number)
    });
    let major = major.unwrap_or_else(|| panic!("{version} names no version"));
    let settings = Settings {
        log_level: Some("debug".to_owned()),
        default_runtime: Some("crun".to_owned()),
        ..Settings::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let form = if major >= 2 { 3 } else { 2 };
    let text = format!("version = {form}\nimports = [\"{}/*.toml\"]\n", folder.path().display());
    for dropin in containerd::dropins(&settings, major, &MainFile::parse("a test", &text)).files {
        let name = dropin.path.strip_prefix(containerd::FOLDER).unwrap().trim_start_matches('/');
        std::fs::write(folder.path().join(name), dropin.contents).unwrap();
    }
    let main = folder.path().join("config");
    std::fs::write(&main, text).unwrap();
    let dump = Command::new("containerd").arg("--config").arg(&main).args(["config", "dump"]).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&dump.stdout), String::from_utf8_lossy(&dump.stderr));
    assert!(dump.status.success(), "{errors}");
    // Newer releases quote with one character, older ones with the other.
    let said = said.replace('\'', "\"");
    for line in
        ["level = \"debug\"", "default_runtime_name = \"crun\"", "BinaryName = \"crun\"", "SystemdCgroup = true"]
    {
        assert!(said.contains(line), "{line} is missing in:\n{said}");
    }
}

/// Answers every request for a manifest with this one, and tells which path was asked for.
fn serve(listener: &TcpListener, manifest: &str, asked: &Sender<String>) {
    for stream in listener.incoming().flatten() {
        let _ = answer(stream, manifest, asked);
    }
}

fn answer(mut stream: TcpStream, manifest: &str, asked: &Sender<String>) -> std::io::Result<()> {
    // An insecure registry is asked with TLS first, which begins with this byte.
    let mut first = [0];
    if stream.peek(&mut first)? == 0 || first == [0x16] {
        return Ok(());
    }
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header == "\r\n" {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = if path.contains("/manifests/") { manifest } else { "{}" };
    // The test may have ended.
    let _ = asked.send(path);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[test]
fn skopeo_finds_a_mirrored_image_at_the_mirror() {
    if !needs::program("skopeo", "install Debian's skopeo") {
        return;
    }
    let layer = json!({"mediaType": "application/vnd.oci.image.config.v1+json", "size": 2, "digest": digest("{}")});
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": layer, "layers": [],
    })
    .to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mirror = listener.local_addr().unwrap().to_string();
    let (sender, asked) = channel();
    let served = manifest.clone();
    std::thread::spawn(move || serve(&listener, &served, &sender));

    // The source's name resolves nowhere, so only the mirror can answer.
    let mut world = snapshot();
    world.image = Some(image(&json!({"insecureRegistries": [mirror]})));
    world.digest_mirrors.push(mirror_set("m", "registry.invalid/team", &[&format!("{mirror}/copies")]));
    step(&mut world);
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("registries.conf");
    std::fs::write(&conf, file(&world, typed::registries::REGISTRIES).unwrap()).unwrap();
    let name = format!("docker://registry.invalid/team/app@{}", digest(&manifest));
    let found =
        Command::new("skopeo").arg("--registries-conf").arg(&conf).args(["inspect", "--raw", &name]).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    assert_eq!(String::from_utf8_lossy(&found.stdout), manifest);
    let paths: Vec<String> = asked.try_iter().collect();
    assert!(paths.iter().any(|path| path.starts_with("/v2/copies/app/manifests/sha256:")), "{paths:?}");
}

fn digest(text: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(text.as_bytes())))
}
