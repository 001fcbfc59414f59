//! One template: a head that says what the result is, and the content below it.
//!
//! ```text
//! ---
//! path: /etc/sysctl.d/inotify.conf
//! mode: 0644
//! ---
//! fs.inotify.max_user_watches = 65536
//! ```

use serde::Deserialize;

use super::Problem;
use crate::fragment::{File, Unit};

/// What a template makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Document {
    File(File),
    Unit(Unit),
    /// Nothing, because the content is blank: whoever wrote it decided so from the parameters.
    Blank,
}

impl Document {
    /// The places it fills, of which Ignition wants each once.
    pub(super) fn paths(&self) -> Vec<String> {
        match self {
            Self::File(file) => vec![file.path.clone()],
            Self::Unit(unit) => {
                unit.dropins.iter().map(|(name, _)| format!("/etc/systemd/system/{}.d/{name}", unit.name)).collect()
            }
            Self::Blank => Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// Where a file goes.
    path: Option<String>,
    mode: Option<u32>,
    /// The name of a unit.
    unit: Option<String>,
    enabled: Option<bool>,
    mask: Option<bool>,
    /// The name of a drop-in of the unit; the content is the drop-in's then.
    dropin: Option<String>,
}

const FENCE: &str = "---\n";

/// Reads a template after its parameters were filled in.
pub(super) fn parse(rendered: &str) -> Result<Document, Problem> {
    let head = rendered.strip_prefix(FENCE).and_then(|rest| rest.split_once(&format!("\n{FENCE}")));
    let Some((head, content)) = head else {
        return Err(Problem::Head("it must begin with a head between two lines of ---".to_owned()));
    };
    let head: Head = serde_saphyr::from_str_with_options(head, options())
        .map_err(|error| Problem::Head(error.to_string().lines().next().unwrap_or_default().to_owned()))?;
    let is_blank = content.trim().is_empty();
    match head {
        Head { path: Some(path), mode, unit: None, enabled: None, mask: None, dropin: None } => {
            if !path.starts_with('/') {
                return Err(Problem::Head(format!("path {path:?} is not absolute")));
            }
            let file = File::new(path, content).mode(mode.unwrap_or(0o644));
            Ok(if is_blank { Document::Blank } else { Document::File(file) })
        }
        Head { path: None, mode: None, unit: Some(name), enabled, mask, dropin } => {
            let mut unit = Unit { name, enabled, mask, ..Unit::default() };
            match dropin {
                Some(_) if is_blank => return Ok(Document::Blank),
                Some(dropin) => unit.dropins.push((dropin, content.to_owned())),
                None if is_blank && mask.is_none() && enabled.is_none() => return Ok(Document::Blank),
                None if is_blank => {}
                None => unit.contents = Some(content.to_owned()),
            }
            Ok(Document::Unit(unit))
        }
        _ => Err(Problem::Head(
            "it must have either path and perhaps mode, or unit with enabled, mask or dropin".to_owned(),
        )),
    }
}

fn options() -> serde_saphyr::Options {
    // Modes are written as 0644.
    serde_saphyr::options! { legacy_octal_numbers: true }
}
