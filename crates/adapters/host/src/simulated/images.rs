//! Images of a simulated runtime: names in a file, none of which is ever fetched.
//!
//! Images of a registry whose name begins with `unreachable.` cannot be pulled. CRI-O is told by its drop-in what it keeps, as
//! on a real host.

use std::collections::BTreeMap;

use change::host::{Attributes, Error, ErrorKind, Files, HostImage, HostPath, RuntimeVersion, Space};
use change::pinned::DROPIN;
use serde::{Deserialize, Serialize};

/// Where they are kept, so that another process sees the same ones, and a test can say what runtime and disk there are.
const PLACE: &str = "/var/lib/machinist/simulated-images.json";

/// Every image is this large.
const SIZE: u64 = 256 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Store {
    runtime: String,
    total: u64,
    /// Names, and whether they are marked.
    images: BTreeMap<String, bool>,
}

impl Store {
    pub(crate) fn load(files: &dyn Files) -> Result<Self, Error> {
        let stored = files.read(&place(PLACE)?)?.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let fresh = || Self { runtime: "cri-o 1.33.0".into(), total: 100 << 30, images: BTreeMap::new() };
        Ok(stored.unwrap_or_else(fresh))
    }

    fn save(&self, files: &dyn Files) -> Result<(), Error> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        files.put(&place(PLACE)?, &text, &Attributes::root(0o644))
    }

    pub(crate) fn runtime(&self) -> Result<RuntimeVersion, Error> {
        let (name, version) = self.runtime.split_once(' ').unwrap_or((&self.runtime, ""));
        Ok(RuntimeVersion { name: name.to_owned(), version: version.to_owned() })
    }

    pub(crate) fn list(&self, files: &dyn Files) -> Vec<HostImage> {
        let dropin = place(DROPIN).and_then(|place| files.read(&place)).ok().flatten().unwrap_or_default();
        let dropin = String::from_utf8_lossy(&dropin).into_owned();
        let image = |(name, marked): (&String, &bool)| HostImage {
            names: vec![name.clone()],
            size: SIZE,
            pinned: *marked || dropin.contains(&format!("\"{name}\"")),
        };
        self.images.iter().map(image).collect()
    }

    pub(crate) fn pull(mut self, files: &dyn Files, image: &str) -> Result<(), Error> {
        if image.starts_with("unreachable.") {
            return Err(Error::new(ErrorKind::Failed, "pull", image, "no such host"));
        }
        self.images.entry(image.to_owned()).or_default();
        self.save(files)
    }

    pub(crate) fn mark(mut self, files: &dyn Files, image: &str, keep: bool) -> Result<(), Error> {
        match self.images.get_mut(image) {
            Some(marked) => *marked = keep,
            None => return Err(Error::new(ErrorKind::Failed, "mark", image, "there is no such image")),
        }
        self.save(files)
    }

    pub(crate) fn space(&self) -> Space {
        let used = SIZE.saturating_mul(u64::try_from(self.images.len()).unwrap_or(u64::MAX));
        Space { total: self.total, free: self.total.saturating_sub(used) }
    }
}

fn place(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "read", path, error.problem))
}
