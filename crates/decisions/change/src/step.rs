//! One move of an update on a host.
//!
//! Steps name what they touch and carry no contents: those are in the two configs that the daemon keeps anyway. So a journal
//! of steps is small, holds no secret and can be printed. Every step may be done again after it was done.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::host::HostPath;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "step")]
pub enum Step {
    /// Remember what stood at a path before the config took it over.
    Keep {
        path: HostPath,
    },
    /// Remember whether a unit was enabled before the config took it over.
    KeepEnablement {
        unit: String,
    },
    StopUnit {
        unit: String,
    },
    DisableUnit {
        unit: String,
    },
    MakeFolder {
        path: HostPath,
    },
    WriteFile {
        path: HostPath,
    },
    WriteLink {
        path: HostPath,
    },
    WriteUnit {
        unit: String,
    },
    /// Write a drop-in, or remove it where the config wants it empty.
    WriteDropin {
        unit: String,
        name: String,
    },
    /// Link the unit to `/dev/null`.
    MaskUnit {
        unit: String,
    },
    /// Put back what stood at a path, or leave nothing there.
    PutBack {
        path: HostPath,
    },
    /// The service manager reads unit files again.
    DaemonReload,
    PutBackEnablement {
        unit: String,
    },
    EnableUnit {
        unit: String,
    },
    PresetUnit {
        unit: String,
    },
    SetKeys {
        user: String,
    },
    SetPassword {
        user: String,
    },
    StageImage {
        image: String,
    },
    KernelArguments {
        delete: Vec<String>,
        append: Vec<String>,
    },
    Packages {
        install: Vec<String>,
        uninstall: Vec<String>,
        kernel: Option<(String, String)>,
        /// The image that holds the packages.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        image: String,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Keep { path } => write!(formatter, "keep the original of {path}"),
            Step::KeepEnablement { unit } => {
                write!(formatter, "remember whether {unit} is enabled")
            }
            Step::StopUnit { unit } => write!(formatter, "stop {unit}"),
            Step::DisableUnit { unit } => write!(formatter, "disable {unit}"),
            Step::MakeFolder { path } => write!(formatter, "make folder {path}"),
            Step::WriteFile { path } => write!(formatter, "write {path}"),
            Step::WriteLink { path } => write!(formatter, "link {path}"),
            Step::WriteUnit { unit } => write!(formatter, "write unit {unit}"),
            Step::WriteDropin { unit, name } => write!(formatter, "write drop-in {name} of {unit}"),
            Step::MaskUnit { unit } => write!(formatter, "mask {unit}"),
            Step::PutBack { path } => write!(formatter, "put back the original of {path}"),
            Step::DaemonReload => write!(formatter, "read unit files again"),
            Step::PutBackEnablement { unit } => {
                write!(formatter, "put back whether {unit} is enabled")
            }
            Step::EnableUnit { unit } => write!(formatter, "enable {unit}"),
            Step::PresetUnit { unit } => write!(formatter, "apply presets to {unit}"),
            Step::SetKeys { user } => write!(formatter, "set SSH keys of {user}"),
            Step::SetPassword { user } => write!(formatter, "set password of {user}"),
            Step::StageImage { image } => write!(formatter, "stage OS image {image}"),
            Step::KernelArguments { delete, append } => {
                write!(formatter, "kernel arguments: delete {delete:?}, append {append:?}")
            }
            Step::Packages { install, uninstall, kernel, image: _ } => {
                write!(formatter, "packages: install {install:?}, uninstall {uninstall:?}")?;
                match kernel {
                    Some((from, to)) => write!(formatter, ", kernel {from} to {to}"),
                    None => Ok(()),
                }
            }
        }
    }
}
