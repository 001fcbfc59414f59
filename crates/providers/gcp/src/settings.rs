//! What the cluster says about Google, besides the Machines.

use std::time::Duration;

use serde_json::Value;

/// Read once when the process starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The address of Compute Engine, without the version.
    pub endpoint: String,
    /// The address of the metadata service, which gives credentials to pods on Google's machines.
    pub metadata: String,
    /// The project of Machines that name none.
    pub project: String,
    /// Labels of everything that is made for the cluster. A Machine's own labels come first.
    pub labels: Vec<(String, String)>,
    /// How long one call watches the operation that it started.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: "https://compute.googleapis.com".to_owned(),
            metadata: "http://metadata.google.internal".to_owned(),
            project: String::new(),
            labels: Vec::new(),
            patience: Duration::from_secs(3),
        }
    }
}

impl Settings {
    /// Reads `status.platformStatus` of the Infrastructure object.
    #[must_use]
    pub fn from_platform_status(status: &Value) -> Self {
        let gcp = &status["gcp"];
        let labels = gcp["resourceLabels"].as_array().into_iter().flatten();
        let labels =
            labels.filter_map(|label| Some((label["key"].as_str()?.to_owned(), label["value"].as_str()?.to_owned())));
        let project = gcp["projectID"].as_str().unwrap_or_default().to_owned();
        Self { project, labels: labels.collect(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_from_the_infrastructure_object() {
        let status = json!({"gcp": {"projectID": "p-1", "region": "r", "resourceLabels": [{"key": "team", "value": "red"}, {}]}});
        let settings = Settings::from_platform_status(&status);
        assert_eq!(settings.project, "p-1");
        assert_eq!(settings.labels, [("team".to_owned(), "red".to_owned())]);
        assert_eq!(Settings::from_platform_status(&json!({})), Settings::default());
    }
}
