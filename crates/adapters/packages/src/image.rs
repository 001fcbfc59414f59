//! Builds container images from files: an OCI layout in one tar file, without a daemon, a base image or a registry.
//!
//! The same files always give the same bytes: entries are sorted, owned by root, and have no time. A runtime takes such an
//! archive by `ctr images import`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::{Archive, Error, gzip, sha256};

/// Where a shell, and what runbooks call on a node's own root, look for programs.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An image in the making.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    /// As OCI calls it, `amd64` or `arm64`.
    architecture: String,
    entrypoint: Vec<String>,
    is_compressed: bool,
    /// Path in the image without the leading slash, and what is there.
    entries: BTreeMap<String, Entry>,
}

/// The parts of an image.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Digest of the manifest, by which the image can be pulled.
    pub manifest: String,
    /// The manifest, the config and the layer, by their digests.
    pub blobs: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Entry {
    /// The file that the content is read from.
    File(PathBuf),
    /// The content itself, which nobody executes.
    Text(String),
    /// The target of a symbolic link.
    Link(String),
}

impl Image {
    /// An empty image. Pods name it as it is named here, `machinist:test`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            architecture: architecture().to_owned(),
            entrypoint: Vec::new(),
            is_compressed: false,
            entries: BTreeMap::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The machines that its programs are for, as OCI calls them; unless this is said, machines like this one.
    #[must_use]
    pub fn architecture(mut self, architecture: &str) -> Self {
        architecture.clone_into(&mut self.architecture);
        self
    }

    /// The program that a pod runs unless it names another.
    #[must_use]
    pub fn entrypoint(mut self, words: &[&str]) -> Self {
        self.entrypoint = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Compresses the layer: smaller to carry, slower to make.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        self.is_compressed = true;
        self
    }

    /// Adds an executable file.
    #[must_use]
    pub fn file(self, path: &str, source: &Path) -> Self {
        self.entry(path, Entry::File(source.to_owned()))
    }

    /// Adds a file that everybody may read.
    #[must_use]
    pub fn text(self, path: &str, content: &str) -> Self {
        self.entry(path, Entry::Text(content.to_owned()))
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(self, path: &str, target: &str) -> Self {
        self.entry(path, Entry::Link(target.to_owned()))
    }

    fn entry(mut self, path: &str, entry: Entry) -> Self {
        self.entries.insert(path.trim_start_matches('/').to_owned(), entry);
        self
    }

    /// Adds a program with the shared libraries that it loads, at the paths where this machine has them.
    ///
    /// The program was linked on this machine, so this machine's C library is the one that is sure to fit.
    pub fn program(mut self, path: &str, source: &Path) -> Result<Self, Error> {
        for library in libraries(source)? {
            let find = |source| Error::Read { path: library.clone(), source };
            let file = library.canonicalize().map_err(find)?;
            self = self.file(&library.display().to_string(), &file);
        }
        Ok(self.file(path, source))
    }

    /// Writes the OCI layout as a tar file.
    pub fn write(&self, out: &Path) -> Result<(), Error> {
        crate::write(out, &self.archive()?)
    }

    /// The OCI layout as a tar file.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        let Layout { manifest, blobs } = self.layout()?;
        let content = blobs.get(&manifest).map(Vec::as_slice).unwrap_or_default();
        let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", content);
        listed["annotations"] = json!({
            "io.containerd.image.name": full_name(&self.name),
            "org.opencontainers.image.ref.name": self.name.rsplit_once(':').map_or("latest", |(_, tag)| tag),
        });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [listed],
        });
        let mut layout = Archive::default();
        layout.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        layout.file("index.json", 0o644, index.to_string().as_bytes())?;
        for (digest, blob) in &blobs {
            layout.file(&format!("blobs/{}", digest.replace(':', "/")), 0o644, blob)?;
        }
        Ok(layout.finish())
    }

    /// The parts of the image, as a registry serves them.
    pub fn layout(&self) -> Result<Layout, Error> {
        let plain = self.layer()?;
        let content = digest(&plain);
        let (layer, kind) = match self.is_compressed {
            true => (gzip(&plain)?, "application/vnd.oci.image.layer.v1.tar+gzip"),
            false => (plain, "application/vnd.oci.image.layer.v1.tar"),
        };
        let config = json!({
            "architecture": self.architecture,
            "os": "linux",
            "config": {"Env": [PATH], "Entrypoint": self.entrypoint},
            "rootfs": {"type": "layers", "diff_ids": [content]},
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor(kind, &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let name = digest(&manifest);
        Ok(Layout { manifest: name, blobs: [layer, config, manifest].map(|blob| (digest(&blob), blob)).into() })
    }

    fn layer(&self) -> Result<Vec<u8>, Error> {
        let mut layer = Archive::default();
        // Where the kernel's file systems and a pod's volumes are mounted; a read-only root cannot get them later.
        for folder in ["dev", "etc", "proc", "rootfs", "run", "sys", "tmp"] {
            layer.folder(folder)?;
        }
        for (path, entry) in &self.entries {
            match entry {
                Entry::File(source) => layer.file(path, 0o755, &crate::read(source)?)?,
                Entry::Text(content) => layer.file(path, 0o644, content.as_bytes())?,
                Entry::Link(target) => layer.link(path, target)?,
            }
        }
        Ok(layer.finish())
    }
}

/// A copy of a program without what only a debugger reads: a debug build shrinks to a quarter.
pub fn strip(program: &Path, out: &Path) -> Result<(), Error> {
    let output = Command::new("strip").arg("-o").arg(out).arg(program).output();
    let output = output.map_err(|source| Error::Run { program: "strip", source })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(complaint("strip", program, &String::from_utf8_lossy(&output.stderr))),
    }
}

fn complaint(tool: &'static str, path: &Path, said: &str) -> Error {
    Error::Program { program: tool, path: path.to_owned(), said: said.trim().to_owned() }
}

/// What `ldd` says a program loads, the loader among it. A static program loads nothing.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Error> {
    let output = Command::new("ldd").arg(program).output().map_err(|source| Error::Run { program: "ldd", source })?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let is_static = said.contains("statically linked") || complained.contains("not a dynamic executable");
    if is_static {
        return Ok(Vec::new());
    }
    if !output.status.success() || said.contains("not found") {
        return Err(complaint("ldd", program, &format!("{said}{complained}")));
    }
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(said.lines().filter_map(path).collect())
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
    format!("sha256:{}", sha256(content))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

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
        let image = Image::new("example.org/a:1").entrypoint(&["/usr/bin/a"]).file("/usr/bin/a", &program);
        image.link("/usr/bin/b", "a").write(&out).unwrap();
        let unpacked = folder.path().join("layout");
        fs::create_dir(&unpacked).unwrap();
        let tar = Command::new("tar").arg("-xf").arg(&out).arg("-C").arg(&unpacked).status().unwrap();
        assert!(tar.success());

        let blob = |descriptor: &Value| {
            let hex = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
            let content = fs::read(unpacked.join("blobs/sha256").join(&hex)).unwrap();
            assert_eq!(sha256(&content), hex);
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
        assert!(
            ["usr/bin/", "usr/bin/a", "usr/bin/b"].iter().all(|name| names.contains(&(*name).to_owned())),
            "{names:?}"
        );
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
        // This test's own binary is dynamic, as all binaries of a development build are.
        let image = Image::new("example.org/a:1").program("/a", &std::env::current_exe().unwrap()).unwrap();
        let paths: Vec<&String> = image.entries.keys().collect();
        assert!(paths.len() > 1 && paths.iter().any(|path| path.contains("libc.so")), "{paths:?}");
    }

    #[test]
    fn a_compressed_layer_is_known_by_the_digest_of_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "same").unwrap();
        let image = Image::new("example.org/a:1").file("/a", &program);
        let content = digest(&image.layer().unwrap());
        let archive = String::from_utf8_lossy(&image.compressed().archive().unwrap()).into_owned();
        assert!(archive.contains("layer.v1.tar+gzip") && archive.contains(&content), "the config names {content}");
    }
}
