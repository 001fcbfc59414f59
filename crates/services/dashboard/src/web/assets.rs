//! The style and the script, part of the binary, under names that change with their contents.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

pub(super) struct Asset {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) text: &'static str,
}

pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("style", "css", "text/css; charset=utf-8", include_str!("../../assets/style.css")));

pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("dashboard", "js", "text/javascript; charset=utf-8", include_str!("../../assets/dashboard.js"))
});

impl Asset {
    fn new(stem: &str, end: &str, kind: &'static str, text: &'static str) -> Self {
        let hash = hex::encode(&Sha256::digest(text.as_bytes())[..6]);
        Self { name: format!("{stem}-{hash}.{end}"), kind, text }
    }

    pub(super) fn path(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

/// The asset of that name, contents included.
pub(super) fn find(name: &str) -> Option<&'static Asset> {
    [&STYLE, &SCRIPT].into_iter().map(|asset| &**asset).find(|asset| asset.name == name)
}
