//! The files of CRI-O: one drop-in for each field, and storage.conf.

use toml::Value;

use super::{Error, STORAGE, Settings, storage};
use crate::fragment::File;

/// The drop-in of a field.
pub fn path(field: &str) -> String {
    format!("/etc/crio/crio.conf.d/01-ctrcfg-{field}")
}

/// The files that settings need. `stores` says whether the runtime knows additional stores; `default_storage` is the
/// template's storage.conf.
pub fn files(settings: &Settings, default_storage: &str, stores: bool) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    if let Some(contents) = storage::edit(settings, default_storage, stores)? {
        files.push(File::new(STORAGE, contents));
    }
    let artifacts = settings.artifact_stores.iter().filter(|_| stores).cloned().map(Value::String).collect::<Vec<_>>();
    let fields = [
        ("logLevel", "log_level", settings.log_level.clone().map(Value::String)),
        ("pidsLimit", "pids_limit", settings.pids_limit.map(Value::Integer)),
        ("logSizeMax", "log_size_max", settings.log_size_max.map(Value::Integer)),
        ("defaultRuntime", "default_runtime", settings.default_runtime.clone().map(Value::String)),
        (
            "additionalArtifactStores",
            "additional_artifact_stores",
            Some(Value::Array(artifacts)).filter(|stores| stores.as_array().is_some_and(|stores| !stores.is_empty())),
        ),
    ];
    for (field, key, value) in fields {
        if let Some(value) = value {
            files.push(File::new(path(field), format!("[crio]\n  [crio.runtime]\n    {key} = {value}\n")));
        }
    }
    Ok(files)
}
