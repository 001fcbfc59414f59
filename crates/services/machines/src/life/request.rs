//! What the provider is told about a Machine.

use std::sync::Arc;

use api::labels;
use api::machine::Machine;
use machine::lifecycle::{Draft, Record, provider_spec, request_spec};
use machine::provider::{Error, Mark, Request, SecretPurpose, Secrets, SpecRules};
use serde_json::Value;

use super::Machines;

/// What a request is for. User data holds credentials of the cluster, so only a creation reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Creation,
    Other,
}

impl Machines {
    /// The request for a Machine, with the Secrets that its spec names and the call needs.
    ///
    /// # Errors
    /// When a Secret could not be read. One that does not exist is left out, and the provider says what that means.
    pub(super) async fn request(&self, machine: &Machine, purpose: Purpose) -> Result<Request, Error> {
        let mut request = without_secrets(machine);
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        let mut secrets = Secrets::default();
        for need in self.context.provider.rules().secrets(&request.spec) {
            if need.purpose == SecretPurpose::UserData && purpose != Purpose::Creation {
                continue;
            }
            let namespace = need.namespace.as_deref().unwrap_or(namespace);
            let data = self.secrets.get(namespace, &need.name, &need.field).await?;
            match need.purpose {
                SecretPurpose::Credentials => secrets.credentials = data,
                SecretPurpose::UserData => secrets.user_data = data,
            }
        }
        request.secrets = Arc::new(secrets);
        Ok(request)
    }
}

/// The pure half of an intent, from the spec as it is written now: requests carry the place that was recorded.
pub(super) fn draft(machine: &Machine, rules: &dyn SpecRules) -> Draft {
    let mut request = without_secrets(machine);
    if let Some(spec) = provider_spec(machine) {
        request.spec = Arc::new(spec.clone());
    }
    Draft { children: rules.children(&request), place: rules.place(&request.spec) }
}

/// The place that a Machine's instance is in, to tell places apart.
pub(super) fn place(machine: &Machine, rules: &dyn SpecRules) -> String {
    rules.place(&request_spec(machine).unwrap_or(Value::Null)).to_string()
}

fn without_secrets(machine: &Machine) -> Request {
    let metadata = &machine.metadata;
    let labels = metadata.labels.clone().unwrap_or_default();
    let intent = Record::of(machine).map(|record| record.intent);
    let is_master = |key: &str| labels.get(key).is_some_and(|role| role == "master");
    Request {
        mark: Mark {
            cluster: labels.get(labels::MACHINE_CLUSTER).cloned().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            machine: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        },
        control_plane: is_master(labels::MACHINE_ROLE) || is_master(labels::MACHINE_TYPE),
        spec: Arc::new(request_spec(machine).unwrap_or(Value::Null)),
        provider_id: machine.spec.provider_id.clone().filter(|id| !id.is_empty()),
        provider_status: machine.status.as_ref().and_then(|status| status.provider_status.clone()),
        secrets: Arc::default(),
        intent,
        labels,
    }
}
