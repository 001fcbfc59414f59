//! Builds container images from files: an OCI layout in one tar file, without a daemon, a base image or a registry.
//!
//! The same files always give the same bytes: entries are sorted, owned by root, and have no time. A runtime takes such an
//! archive by `ctr images import`.

mod archive;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use archive::Archive;

/// An image in the making.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    entrypoint: Vec<String>,
    /// Path in the image without the leading slash, and the file it is read from.
    files: BTreeMap<String, PathBuf>,
}

impl Image {
    /// An empty image. Pods name it as it is named here, `machinist:test`.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), entrypoint: Vec::new(), files: BTreeMap::new() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program that a pod runs unless it names another.
    #[must_use]
    pub fn entrypoint(mut self, words: &[&str]) -> Self {
        self.entrypoint = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Adds an executable file.
    #[must_use]
    pub fn file(mut self, path: &str, source: &Path) -> Self {
        self.files.insert(path.trim_start_matches('/').to_owned(), source.to_owned());
        self
    }

    /// Adds a program with the shared libraries that it loads, at the paths where this machine has them.
    ///
    /// The program was linked on this machine, so this machine's C library is the one that is sure to fit.
    pub fn program(mut self, path: &str, source: &Path) -> Result<Self> {
        for library in libraries(source)? {
            let file = library.canonicalize().with_context(|| format!("cannot find {}", library.display()))?;
            self = self.file(&library.display().to_string(), &file);
        }
        Ok(self.file(path, source))
    }

    /// Writes the OCI layout as a tar file.
    pub fn write(&self, out: &Path) -> Result<()> {
        let layer = self.layer()?;
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": self.entrypoint},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        let config = serde_json::to_vec(&config)?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
        });
        let manifest = serde_json::to_vec(&manifest)?;
        let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
        listed["annotations"] = json!({"io.containerd.image.name": full_name(&self.name)});
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [listed],
        });
        let mut layout = Archive::default();
        layout.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        layout.file("index.json", 0o644, &serde_json::to_vec(&index)?)?;
        for blob in [&layer, &config, &manifest] {
            layout.file(&format!("blobs/sha256/{}", hash(blob)), 0o644, blob)?;
        }
        fs::write(out, layout.finish()).with_context(|| format!("cannot write {}", out.display()))
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut layer = Archive::default();
        // Where the kernel's file systems and a pod's volumes are mounted; a read-only root cannot get them later.
        for folder in ["dev", "etc", "proc", "rootfs", "run", "sys", "tmp"] {
            layer.folder(folder)?;
        }
        for (path, source) in &self.files {
            let content = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
            layer.file(path, 0o755, &content)?;
        }
        Ok(layer.finish())
    }
}

/// A copy of a program without what only a debugger reads: a debug build shrinks to a quarter.
pub fn strip(program: &Path, out: &Path) -> Result<()> {
    let output = Command::new("strip").arg("-o").arg(out).arg(program).output().context("cannot run strip")?;
    ensure!(output.status.success(), "strip {}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What `ldd` says a program loads, the loader among it. A static program loads nothing.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let is_static = said.contains("statically linked") || complaint.contains("not a dynamic executable");
    ensure!(output.status.success() || is_static, "ldd {}: {said}{complaint}", program.display());
    ensure!(!said.contains("not found"), "{} lacks a library: {said}", program.display());
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(if is_static { Vec::new() } else { said.lines().filter_map(path).collect() })
}

/// The name by which a runtime looks for an image. It completes short names and takes an imported image by its name as is.
fn full_name(name: &str) -> String {
    let host = name.split_once('/').map(|(first, _)| first);
    match host {
        None => format!("docker.io/library/{name}"),
        Some(host) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    }
}

fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(content), "size": content.len()})
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hash(content))
}

fn hash(content: &[u8]) -> String {
    // The layers of debug builds are large, and this hash is fast in debug builds too: it is written in assembly.
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(archive: &Path) -> Vec<String> {
        let output = Command::new("tar").arg("-tf").arg(archive).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_blob_of_the_layout_is_named_by_its_hash_and_the_index_leads_to_the_layer() {
        let folder = tempfile::tempdir().unwrap();
        let (out, program) = (folder.path().join("image.tar"), folder.path().join("program"));
        fs::write(&program, "#!/bin/sh\n").unwrap();
        Image::new("example.org/a:1").entrypoint(&["/usr/bin/a"]).file("/usr/bin/a", &program).write(&out).unwrap();
        let unpacked = folder.path().join("layout");
        fs::create_dir(&unpacked).unwrap();
        let tar = Command::new("tar").arg("-xf").arg(&out).arg("-C").arg(&unpacked).status().unwrap();
        assert!(tar.success());

        let blob = |descriptor: &Value| {
            let hex = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
            let content = fs::read(unpacked.join("blobs/sha256").join(&hex)).unwrap();
            assert_eq!(hash(&content), hex);
            assert_eq!(descriptor["size"], content.len());
            content
        };
        let read = |content: &[u8]| serde_json::from_slice::<Value>(content).unwrap();
        let index = read(&fs::read(unpacked.join("index.json")).unwrap());
        assert_eq!(index["manifests"][0]["annotations"]["io.containerd.image.name"], "example.org/a:1");
        let manifest = read(&blob(&index["manifests"][0]));
        let config = read(&blob(&manifest["config"]));
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/a"]));
        let layer = blob(&manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let path = folder.path().join("layer.tar");
        fs::write(&path, layer).unwrap();
        let names = listed(&path);
        assert!(names.contains(&"usr/bin/a".to_owned()) && names.contains(&"usr/bin/".to_owned()), "{names:?}");
    }

    #[test]
    fn the_same_files_give_the_same_bytes_whenever_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let images = ["one", "two"].map(|name| {
            let program = folder.path().join(name);
            fs::write(&program, "same").unwrap();
            let out = folder.path().join(format!("{name}.tar"));
            Image::new("example.org/a:1").file("/a", &program).write(&out).unwrap();
            fs::read(out).unwrap()
        });
        assert_eq!(images[0], images[1]);
    }

    #[test]
    fn short_names_are_completed_as_a_runtime_completes_them() {
        assert_eq!(full_name("machinist:test"), "docker.io/library/machinist:test");
        assert_eq!(full_name("some/machinist:test"), "docker.io/some/machinist:test");
        for full in ["example.org/machinist:test", "localhost/machinist:test", "registry:5000/machinist:test"] {
            assert_eq!(full_name(full), full);
        }
    }

    #[test]
    fn a_program_brings_the_libraries_it_loads() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        // This test's own binary is dynamic, as all binaries of a development build are.
        let image = Image::new("example.org/a:1").program("/a", &std::env::current_exe().unwrap()).unwrap();
        for (path, source) in &image.files {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::copy(source, root.join(path)).unwrap();
        }
        assert!(image.files.len() > 1, "{:?}", image.files);
        assert!(image.files.keys().any(|path| path.contains("libc.so")), "{:?}", image.files);
    }
}
