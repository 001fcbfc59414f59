//! What a spec says when the user says nothing.

use machine::provider::{Architecture, Surroundings};
use machine::spec::secret;

use super::types::{AzureSpec, Image};

/// Where OpenShift keeps the credentials of its machine controllers.
const NAMESPACE: &str = "openshift-machine-api";

pub(super) fn fill(spec: &mut AzureSpec, surroundings: &Surroundings) {
    let Surroundings { cluster, architecture, .. } = surroundings;
    if spec.vm_size.is_empty() {
        spec.vm_size = default_size(*architecture).to_owned();
    }
    // One of the two without the other is a mistake that validation reports.
    if spec.vnet.is_empty() && spec.subnet.is_empty() {
        spec.vnet = format!("{cluster}-vnet");
        spec.subnet = format!("{cluster}-worker-subnet");
    }
    if spec.image == Image::default() {
        spec.image = default_image(spec, surroundings);
    }
    secret::default_secret(&mut spec.user_data_secret, secret::WORKER_USER_DATA);
    secret::default_secret(&mut spec.credentials_secret, super::CREDENTIALS);
    if let Some(reference) = spec.credentials_secret.as_mut().filter(|reference| reference.namespace.is_empty()) {
        let namespace = &surroundings.namespace;
        reference.namespace = if namespace.is_empty() { NAMESPACE.to_owned() } else { namespace.clone() };
    }
}

fn default_size(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Arm64 => "Standard_D4ps_V5",
        Architecture::Amd64 | Architecture::Ppc64le | Architecture::S390x => "Standard_D4s_V3",
    }
}

/// The image that upstream's current release names; with a security profile, the one that its installer puts in the
/// cluster's own gallery, because the marketplace has no confidential images.
fn default_image(spec: &AzureSpec, surroundings: &Surroundings) -> Image {
    let cluster = &surroundings.cluster;
    if spec.security_profile.is_some() {
        // Names of galleries have no dashes.
        let gallery = cluster.replace('-', "_");
        let resource_id = format!(
            "/resourceGroups/{cluster}-rg/providers/Microsoft.Compute/galleries/gallery_{gallery}/images/{cluster}-gen2/versions/latest"
        );
        return Image { resource_id, ..Image::default() };
    }
    let sku = match surroundings.architecture {
        Architecture::Arm64 => "420-arm",
        Architecture::Amd64 | Architecture::Ppc64le | Architecture::S390x => "aro_420",
    };
    Image {
        publisher: "azureopenshift".to_owned(),
        offer: "aro4".to_owned(),
        sku: sku.to_owned(),
        version: "9.6.20251015".to_owned(),
        ..Image::default()
    }
}
