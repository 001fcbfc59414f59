//! What a pool wants its nodes to reach: a rendered config, and in layered pools an OS image built for it.

use api::machineconfiguration::{MachineOSBuild, MachineOSConfig};
use api::names::status;

use crate::node::NodeFacts;

/// The target of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Name of the rendered config; empty while the pool has none.
    pub config: String,
    /// Set when the pool builds its own OS image.
    pub layering: Option<Layering>,
}

/// The on-cluster image build of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layering {
    /// Name of the MachineOSConfig; absent when only a leftover build is there.
    pub config: Option<String>,
    /// Pull spec of the image that nodes shall run.
    pub image: Option<String>,
    pub build: Option<Build>,
}

/// One image build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    pub name: String,
    /// The rendered config it was made from.
    pub config: String,
    pub image: Option<String>,
    pub stage: BuildStage,
}

/// How far a build is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BuildStage {
    #[default]
    Initial,
    Prepared,
    Building,
    Succeeded,
    Failed,
    Interrupted,
}

impl Goal {
    /// The image that nodes get together with the config.
    pub fn image(&self) -> Option<&str> {
        self.layering.as_ref()?.image.as_deref()
    }

    /// Whether the node was asked to reach this goal.
    pub fn is_desired_by(&self, node: &NodeFacts) -> bool {
        match &self.layering {
            None => node.desired.as_deref() == Some(&self.config) && node.desired_image.is_none(),
            Some(layering) => layering.is_desired_by(node),
        }
    }

    /// Whether the node has reached this goal.
    pub fn is_reached_by(&self, node: &NodeFacts) -> bool {
        node.is_done() && node.desired.as_deref() == Some(&self.config) && self.is_desired_by(node)
    }

    /// Why nodes cannot be given the goal yet, in a layered pool.
    pub fn image_not_ready(&self) -> Option<String> {
        let layering = self.layering.as_ref()?;
        let (Some(_), Some(build)) = (&layering.config, &layering.build) else {
            return Some("the OS image build has not been created".to_owned());
        };
        match (build.stage, &layering.image) {
            (BuildStage::Succeeded, Some(image)) if build.image.as_ref() == Some(image) => None,
            (BuildStage::Succeeded, _) => Some(format!("the image of build {} is not published yet", build.name)),
            (BuildStage::Failed, _) => Some(format!("build {} failed", build.name)),
            (BuildStage::Interrupted, _) => Some(format!("build {} was interrupted", build.name)),
            (BuildStage::Initial | BuildStage::Prepared | BuildStage::Building, _) => {
                Some(format!("build {} is not finished", build.name))
            }
        }
    }
}

impl Layering {
    /// Reads a pool's image build; nothing when the pool has none.
    pub fn from_objects(config: Option<&MachineOSConfig>, build: Option<&MachineOSBuild>) -> Option<Self> {
        if config.is_none() && build.is_none() {
            return None;
        }
        let image = config.and_then(|config| config.status.as_ref()?.current_image_pull_spec.clone());
        Some(Self {
            config: config.map(|config| config.metadata.name.clone().unwrap_or_default()),
            image: image.filter(|image| !image.is_empty()),
            build: build.map(Build::from_object),
        })
    }

    fn is_desired_by(&self, node: &NodeFacts) -> bool {
        let image = self.config.is_some()
            && node.desired_image.as_deref().is_some_and(|image| !image.is_empty())
            && node.desired_image == self.image;
        let config = self.build.as_ref().is_some_and(|build| node.desired.as_deref() == Some(build.config.as_str()));
        image && config
    }

    /// Whether the build keeps nodes from being up to date even though they run what they were asked to.
    pub fn is_unsettled(&self) -> bool {
        let (Some(_), Some(build)) = (&self.config, &self.build) else { return false };
        match build.stage {
            BuildStage::Prepared | BuildStage::Building | BuildStage::Failed | BuildStage::Interrupted => true,
            BuildStage::Succeeded => build.image.is_some() && build.image != self.image,
            BuildStage::Initial => false,
        }
    }
}

impl Build {
    fn from_object(build: &MachineOSBuild) -> Self {
        let image = build.status.as_ref().and_then(|status| status.digested_image_push_spec.clone());
        Self {
            name: build.metadata.name.clone().unwrap_or_default(),
            config: build.spec.machine_config.name.clone(),
            image: image.filter(|image| !image.is_empty()),
            stage: BuildStage::from_object(build),
        }
    }
}

impl BuildStage {
    fn from_object(build: &MachineOSBuild) -> Self {
        let conditions = build.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let is_true = |type_: &str| conditions.iter().any(|it| it.type_ == type_ && it.status == status::TRUE);
        let stages = [
            ("Prepared", Self::Prepared),
            ("Building", Self::Building),
            ("Succeeded", Self::Succeeded),
            ("Failed", Self::Failed),
            ("Interrupted", Self::Interrupted),
        ];
        stages.into_iter().find(|(type_, _)| is_true(type_)).map_or(Self::Initial, |(_, stage)| stage)
    }
}
