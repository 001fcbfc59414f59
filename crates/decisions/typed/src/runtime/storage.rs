//! `storage.conf`: where images and containers are kept. It is one file, so it is edited as a whole.

use toml::{Table, Value};

use super::{Error, Settings};
use crate::quantity::Quantity;

pub const STORAGE: &str = "/etc/containers/storage.conf";

/// The template's storage.conf with the settings in it; `None` when none of them belongs there.
pub(super) fn edit(settings: &Settings, default: &str, stores: bool) -> Result<Option<String>, Error> {
    if !needs_storage(settings, stores) {
        return Ok(None);
    }
    let mut conf: Table = toml::from_str(default).map_err(|error| Error::Storage(error.message().to_owned()))?;
    let options = options(&mut conf)?;
    if let Some(size) = &settings.overlay_size {
        options.insert("size".to_owned(), Value::String(written(size)));
    }
    if stores {
        // The suffix makes the library look layers up by reference, which is the only way these stores answer.
        let layers = settings.layer_stores.iter().map(|path| match path.ends_with(":ref") {
            true => path.clone(),
            false => format!("{path}:ref"),
        });
        for (key, paths) in
            [("additionallayerstores", layers.collect()), ("additionalimagestores", settings.image_stores.clone())]
        {
            if !paths.is_empty() {
                options.insert(key.to_owned(), Value::Array(paths.into_iter().map(Value::String).collect()));
            }
        }
    }
    toml::to_string(&conf).map(Some).map_err(|error| Error::Storage(error.to_string()))
}

/// A size in a form that storage.conf reads as Kubernetes does: there `m` is a million, and it knows neither exponents nor
/// `E`. Such a size is written in bytes.
fn written(size: &Quantity) -> String {
    let unit = size.as_str().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    match size.is_whole() && ["", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"].contains(&unit) {
        true => size.as_str().to_owned(),
        false => size.value().to_string(),
    }
}

/// Whether any of the settings belongs there.
pub(super) fn needs_storage(settings: &Settings, stores: bool) -> bool {
    let has_stores = stores && !(settings.layer_stores.is_empty() && settings.image_stores.is_empty());
    settings.overlay_size.is_some() || has_stores
}

/// `[storage.options]`, after a look at whether the file is what it should be.
fn options(conf: &mut Table) -> Result<&mut Table, Error> {
    let wrong = |what: &str| Error::Storage(what.to_owned());
    let storage = conf.entry("storage").or_insert_with(|| Value::Table(Table::new()));
    let storage = storage.as_table_mut().ok_or_else(|| wrong("storage is not a table"))?;
    for key in ["driver", "runroot", "graphroot"] {
        if storage.get(key).is_some_and(|value| !value.is_str()) {
            return Err(wrong(&format!("storage.{key} is not a text")));
        }
    }
    let options = storage.entry("options").or_insert_with(|| Value::Table(Table::new()));
    let options = options.as_table_mut().ok_or_else(|| wrong("storage.options is not a table"))?;
    match options.iter().find(|(key, value)| !is_of_type(key, value)) {
        Some((key, value)) => Err(wrong(&format!("storage.options.{key} cannot be {}", value.type_str()))),
        None => Ok(options),
    }
}

/// Whether an option has the type that the library reads it with. Of options that it does not know, nothing is known here.
fn is_of_type(key: &str, value: &Value) -> bool {
    match key {
        "size"
        | "imagestore"
        | "ignore_chown_errors"
        | "use_composefs"
        | "root-auto-userns-user"
        | "skip_mount_home"
        | "mount_program"
        | "mountopt" => value.is_str(),
        "additionalimagestores" | "additionallayerstores" => {
            value.as_array().is_some_and(|items| items.iter().all(Value::is_str))
        }
        "aufs" | "btrfs" | "overlay" | "vfs" | "zfs" | "pull_options" => {
            value.as_table().is_some_and(|members| members.values().all(Value::is_str))
        }
        "auto-userns-min-size" | "auto-userns-max-size" | "force_mask" => value.is_integer(),
        "disable-volatile" => value.is_bool(),
        _ => true,
    }
}
