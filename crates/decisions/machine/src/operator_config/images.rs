//! The images file: which image is for what.

use serde_json::Value;

use super::{NoOp, Platform};

/// The images that are needed, from a file that may hold many more: unknown keys are of other eras.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    pub operator: String,
    pub kube_rbac_proxy: String,
    all: Value,
}

/// What is wrong with the images file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImagesError {
    #[error("images: cannot unmarshal {found} into Images: must be an object of image names")]
    NotAnObject { found: &'static str },
    #[error("images.{key}: cannot unmarshal {value} into an image: must be a string")]
    NotAnImage { key: String, value: String },
    #[error("failed gettingMachineAPIOperator image. It is empty: set images.machineAPIOperator")]
    NoOperator,
    #[error("failed getting kubeRBACProxy image. It is empty: set images.kubeRBACProxy")]
    NoProxy,
    #[error("images.{key} is empty: name the image of the provider for platform {platform:?}")]
    NoProvider { key: &'static str, platform: Platform },
}

impl Images {
    /// Reads the file.
    pub fn read(file: &Value) -> Result<Self, ImagesError> {
        let Value::Object(members) = file else {
            return Err(ImagesError::NotAnObject { found: kind(file) });
        };
        for (key, value) in members {
            if !value.is_string() && !value.is_null() && is_known(key) {
                return Err(ImagesError::NotAnImage { key: key.clone(), value: value.to_string() });
            }
        }
        let text = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
        let images =
            Self { operator: text("machineAPIOperator"), kube_rbac_proxy: text("kubeRBACProxy"), all: file.clone() };
        match (images.operator.is_empty(), images.kube_rbac_proxy.is_empty()) {
            (true, _) => Err(ImagesError::NoOperator),
            (false, true) => Err(ImagesError::NoProxy),
            (false, false) => Ok(images),
        }
    }

    /// The image of a platform's provider, or why there is none.
    pub(super) fn provider(&self, platform: Platform) -> Result<Result<String, NoOp>, ImagesError> {
        let named = |key: &str| self.all[key].as_str().filter(|image| !image.is_empty()).map(str::to_owned);
        let needed = |key: &'static str| named(key).map(Ok).ok_or(ImagesError::NoProvider { key, platform });
        let optional = |key: &'static str| Ok(named(key).ok_or(NoOp::NoImage { key }));
        match platform {
            Platform::Aws => needed("clusterAPIControllerAWS"),
            Platform::Azure => needed("clusterAPIControllerAzure"),
            Platform::BareMetal => needed("clusterAPIControllerBareMetal"),
            Platform::Gcp => needed("clusterAPIControllerGCP"),
            Platform::OpenStack => needed("clusterAPIControllerOpenStack"),
            Platform::VSphere => needed("clusterAPIControllerVSphere"),
            // The simulated provider answers for it, and that is part of the operator's own image.
            Platform::Kubemark => Ok(Ok(named("clusterAPIControllerKubemark").unwrap_or(self.operator.clone()))),
            Platform::Libvirt => optional("clusterAPIControllerLibvirt"),
            Platform::Ovirt => optional("clusterAPIControllerOvirt"),
            Platform::Foreign => Ok(Err(NoOp::NoProvider)),
            Platform::WithoutMachines => Ok(Err(NoOp::NoMachines)),
            Platform::Unknown => Ok(Err(NoOp::Unknown)),
        }
    }
}

/// Keys of all eras that name an image which we or upstream run.
const PROVIDERS: [&str; 12] = [
    "AWS",
    "Azure",
    "BareMetal",
    "GCP",
    "IBMCloud",
    "Kubemark",
    "Libvirt",
    "Nutanix",
    "OpenStack",
    "Ovirt",
    "PowerVS",
    "VSphere",
];

fn is_known(key: &str) -> bool {
    let provider = key.strip_prefix("clusterAPIController");
    provider.is_some_and(|name| PROVIDERS.contains(&name)) || matches!(key, "machineAPIOperator" | "kubeRBACProxy")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
