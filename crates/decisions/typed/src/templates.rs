//! Makes the MachineConfigs that every host of a role starts from: `00-<role>`, `01-<role>-kubelet` and
//! `01-<role>-container-runtime`.
//!
//! Templates lie in folders that say when they count:
//!
//! ```text
//! common/<config>/<name>                 for every role
//! role/<role>/<config>/<name>            for one role
//! platform/<platform>/<config>/<name>    on one platform
//! runtime/<runtime>/<config>/<name>      with one container runtime
//! ```
//!
//! `<config>` is `00`, `01-kubelet` or `01-container-runtime`. A template replaces one of the same name from an earlier
//! folder; an empty one removes it. Custom roles use the templates of workers.

mod builtin;
mod document;
pub mod parameters;
pub mod plan;
pub mod profile;

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};

pub use parameters::Parameters;
pub use profile::{Profile, Runtime};

use crate::fragment::Fragment;
use document::Document;

/// A template and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Path below the folder of templates, for example `common/00/sysctl-inotify`.
    pub path: String,
    pub text: String,
}

/// A set of templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Templates {
    templates: Vec<Template>,
}

/// The MachineConfigs that templates make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Config {
    Base,
    Kubelet,
    ContainerRuntime,
}

/// A template that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template {path}: {problem}")]
pub struct Error {
    pub path: String,
    pub problem: Problem,
}

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(
        "it lies in no folder that we know; write common/<config>/<name>, role/<role>/…, platform/<platform>/… or runtime/<runtime>/… with 00, 01-kubelet or 01-container-runtime for <config>"
    )]
    Place,
    #[error("it cannot be filled in: {0}")]
    Fill(String),
    #[error("its head is wrong: {0}")]
    Head(String),
    #[error(
        "{path} is also made by template {other}; give both one name, so that the later folder counts, or remove one"
    )]
    Twice { path: String, other: String },
}

impl Config {
    pub const ALL: [Self; 3] = [Self::Base, Self::Kubelet, Self::ContainerRuntime];

    /// The name of the MachineConfig for a role.
    pub fn name(self, role: &str) -> String {
        match self {
            Self::Base => format!("00-{role}"),
            Self::Kubelet => format!("01-{role}-kubelet"),
            Self::ContainerRuntime => format!("01-{role}-container-runtime"),
        }
    }

    fn of_folder(folder: &str) -> Option<Self> {
        match folder {
            "00" => Some(Self::Base),
            "01-kubelet" => Some(Self::Kubelet),
            "01-container-runtime" => Some(Self::ContainerRuntime),
            _ => None,
        }
    }
}

impl Templates {
    /// The templates that come with a profile.
    pub fn builtin(profile: Profile) -> Self {
        let own = |(path, text): &(&str, &str)| Template { path: (*path).to_owned(), text: (*text).to_owned() };
        Self { templates: builtin::of(profile).iter().map(own).collect() }
    }

    /// Templates that a user gives instead of ours.
    pub fn new(mut templates: Vec<Template>) -> Self {
        templates.sort_by(|a, b| a.path.cmp(&b.path));
        Self { templates }
    }

    /// The files that templates write, where their paths do not depend on anything.
    pub fn paths(&self) -> Vec<String> {
        let heads =
            self.templates.iter().filter_map(|template| template.text.strip_prefix("---\n")?.split("\n---").next());
        let paths = heads.filter_map(|head| head.lines().find_map(|line| line.strip_prefix("path:")));
        paths.map(|path| path.trim().to_owned()).filter(|path| path.starts_with('/') && !path.contains('{')).collect()
    }

    /// Whether hosts start from nothing.
    pub fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }

    /// What hosts of the role that the parameters name start from.
    pub fn render(&self, parameters: &Parameters) -> Result<BTreeMap<Config, Fragment>, Error> {
        let environment = environment()
            .map_err(|error| Error { path: "environment".to_owned(), problem: Problem::Fill(told(&error)) })?;
        let values = Value::from(Serde(parameters));
        let mut fragments: BTreeMap<Config, Fragment> =
            Config::ALL.into_iter().map(|config| (config, Fragment::default())).collect();
        for (config, chosen) in self.choose(parameters)? {
            let fragment = fragments.entry(config).or_default();
            let mut places: BTreeMap<String, &str> = BTreeMap::new();
            for template in chosen.values() {
                let refuse = |problem| Error { path: template.path.clone(), problem };
                let filled = environment
                    .render_str(&template.text, values.clone())
                    .map_err(|error| refuse(Problem::Fill(told(&error))))?;
                let document = document::parse(&filled).map_err(refuse)?;
                for path in document.paths() {
                    if let Some(other) = places.insert(path.clone(), &template.path) {
                        return Err(refuse(Problem::Twice { path, other: other.to_owned() }));
                    }
                }
                match document {
                    Document::File(file) => fragment.files.push(file),
                    Document::Unit(unit) => fragment.add_unit(unit),
                    Document::Blank => {}
                }
            }
        }
        for fragment in fragments.values_mut() {
            fragment.files.sort_by(|a, b| a.path.cmp(&b.path));
        }
        Ok(fragments)
    }

    /// The template that counts for each config and name.
    fn choose(&self, parameters: &Parameters) -> Result<BTreeMap<Config, BTreeMap<&str, &Template>>, Error> {
        let mut chosen: BTreeMap<Config, BTreeMap<&str, &Template>> = BTreeMap::new();
        for layer in 0..LAYERS {
            for template in &self.templates {
                let place = Place::of(&template.path);
                let place = place.ok_or(Error { path: template.path.clone(), problem: Problem::Place })?;
                if place.layer != layer || !place.counts(parameters) {
                    continue;
                }
                let names = chosen.entry(place.config).or_default();
                match template.text.is_empty() {
                    true => names.remove(place.name),
                    false => names.insert(place.name, template),
                };
            }
        }
        Ok(chosen)
    }
}

const LAYERS: usize = 4;

/// Where a template lies, taken apart.
struct Place<'a> {
    /// Later layers replace earlier ones.
    layer: usize,
    /// The role, platform or runtime it is for.
    of: &'a str,
    config: Config,
    name: &'a str,
}

impl<'a> Place<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let (layer, of, config, name) = match parts.as_slice() {
            ["common", config, name] => (0, "", *config, *name),
            ["role", role, config, name] => (1, *role, *config, *name),
            ["platform", platform, config, name] => (2, *platform, *config, *name),
            ["runtime", runtime, config, name] => (3, *runtime, *config, *name),
            _ => return None,
        };
        Some(Self { layer, of, config: Config::of_folder(config)?, name })
    }

    fn counts(&self, parameters: &Parameters) -> bool {
        match self.layer {
            0 => true,
            1 => self.of == parameters.role,
            2 => self.of == parameters.platform,
            _ => self.of == parameters.runtime,
        }
    }
}

fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?;
    environment.set_syntax(syntax);
    Ok(environment)
}

/// An error with its place, without the template's text: what it was filled with may be a secret.
fn told(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{}{detail}{line}", error.kind())
}
