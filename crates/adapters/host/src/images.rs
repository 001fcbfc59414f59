//! The images of a real runtime, through `crictl`, and through `ctr` where containerd has to be told what to keep.

use std::path::Path;

use change::host::{Error, ErrorKind, HostImage, RuntimeVersion, Space};
use serde_json::Value;

use crate::os::Run;

/// What containerd's CRI plugin looks at before it removes an image.
const PINNED: &str = "io.cri-containerd.pinned";

/// Where runtimes keep images, in case theirs does not tell.
const PLACES: [&str; 3] = ["var/lib/containers", "var/lib/containerd", "var/lib"];

pub(crate) fn runtime(tools: &dyn Run) -> Result<RuntimeVersion, Error> {
    let text = tools.run("crictl", &words(&["version"]))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    };
    match (field("RuntimeName"), field("RuntimeVersion")) {
        (Some(name), Some(version)) => Ok(RuntimeVersion { name, version }),
        _ => Err(not_understood("version")),
    }
}

pub(crate) fn list(tools: &dyn Run) -> Result<Vec<HostImage>, Error> {
    let answer: Value = serde_json::from_str(&tools.run("crictl", &words(&["images", "-o", "json"]))?)
        .map_err(|_| not_understood("images"))?;
    let images = answer["images"].as_array().ok_or_else(|| not_understood("images"))?;
    let names = |image: &Value, key: &str| -> Vec<String> {
        let names = image[key].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let read = |image: &Value| HostImage {
        names: [names(image, "repoTags"), names(image, "repoDigests")].concat(),
        // crictl writes 64-bit numbers as text.
        size: image["size"].as_str().and_then(|size| size.parse().ok()).unwrap_or_default(),
        pinned: image["pinned"].as_bool().unwrap_or_default(),
    };
    Ok(images.iter().map(read).collect())
}

pub(crate) fn pull(tools: &dyn Run, image: &str) -> Result<(), Error> {
    tools.run("crictl", &words(&["pull", image])).map(drop)
}

pub(crate) fn mark(tools: &dyn Run, image: &str, keep: bool) -> Result<(), Error> {
    // A label with an empty value goes.
    let label = if keep { format!("{PINNED}=pinned") } else { format!("{PINNED}=") };
    tools.run("ctr", &words(&["--namespace", "k8s.io", "images", "label", image, &label])).map(drop)
}

pub(crate) fn space(tools: &dyn Run, root: &Path) -> Result<Space, Error> {
    let told = tools.run("crictl", &words(&["imagefsinfo", "-o", "json"]));
    let told = told.ok().and_then(|text| mountpoint(&text)).map(|path| path.trim_start_matches('/').to_owned());
    let places = told.into_iter().chain(PLACES.map(str::to_owned));
    let place = places.map(|place| root.join(place)).find(|place| place.exists());
    let place =
        place.ok_or_else(|| Error::new(ErrorKind::Unsupported, "measure", "the disk of images", "no such folder"))?;
    let failed =
        |error: rustix::io::Errno| Error::new(ErrorKind::Failed, "measure", "the disk of images", error.to_string());
    let found = rustix::fs::statvfs(&place).map_err(failed)?;
    Ok(Space { total: found.f_blocks * found.f_frsize, free: found.f_bavail * found.f_frsize })
}

fn mountpoint(text: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let status = &answer["status"];
    let found = status.pointer("/imageFilesystems/0/fsId/mountpoint").or_else(|| status.pointer("/fsId/mountpoint"))?;
    Some(found.as_str()?.to_owned())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn not_understood(what: &str) -> Error {
    Error::new(ErrorKind::Failed, "understand", format!("crictl {what}"), "its answer has another form")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    /// Answers as crictl 1.33 does, and keeps what it was asked.
    #[derive(Default)]
    struct Played(Mutex<Vec<String>>);

    impl Run for Played {
        fn has(&self, _: &str) -> bool {
            true
        }
        fn run(&self, program: &str, arguments: &[String]) -> Result<String, Error> {
            self.0.lock().unwrap().push(format!("{program} {}", arguments.join(" ")));
            Ok(match arguments[0].as_str() {
                "version" => {
                    "Version:  0.1.0\nRuntimeName:  containerd\nRuntimeVersion:  v1.7.24\nRuntimeApiVersion:  v1\n"
                        .into()
                }
                "images" => r#"{"images":[{"id":"sha256:1","repoTags":["r.io/a:1"],"repoDigests":["r.io/a@sha256:1"],
                    "size":"314159","pinned":true,"uid":null,"username":""},{"id":"sha256:2","repoTags":[],
                    "repoDigests":["r.io/b@sha256:2"],"size":"7","pinned":false}]}"#
                    .into(),
                _ => String::new(),
            })
        }
        fn lay(&self, _: &str, _: Option<&str>) -> Result<(), Error> {
            Ok(())
        }
        fn is_there(&self, _: &str) -> bool {
            false
        }
        fn link(&self, _: &str, _: &str) -> Result<(), Error> {
            Ok(())
        }
        fn pause(&self, _: Duration) {}
    }

    #[test]
    fn answers_of_crictl_are_read() {
        let tools = Played::default();
        let found = runtime(&tools).unwrap();
        assert_eq!((found.name.as_str(), found.version.as_str()), ("containerd", "v1.7.24"));
        let images = list(&tools).unwrap();
        assert_eq!(images[0].names, ["r.io/a:1", "r.io/a@sha256:1"]);
        assert_eq!((images[0].size, images[0].pinned, images[1].pinned), (314_159, true, false));
        let answer = r#"{"status":{"imageFilesystems":[{"timestamp":"1","fsId":{"mountpoint":"/var/lib/x"}}]}}"#;
        assert_eq!(mountpoint(answer).as_deref(), Some("/var/lib/x"));
        assert_eq!(mountpoint("{}"), None);
    }

    #[test]
    fn containerd_is_told_by_a_label() {
        let tools = Played::default();
        mark(&tools, "r.io/a@sha256:1", true).unwrap();
        mark(&tools, "r.io/a@sha256:1", false).unwrap();
        let asked = tools.0.lock().unwrap().clone();
        assert_eq!(asked[0], "ctr --namespace k8s.io images label r.io/a@sha256:1 io.cri-containerd.pinned=pinned");
        assert_eq!(asked[1], "ctr --namespace k8s.io images label r.io/a@sha256:1 io.cri-containerd.pinned=");
    }
}
