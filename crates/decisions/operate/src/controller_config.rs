//! The ControllerConfig: what nodes and templates have to know of the cluster, put together from its objects.

use api::machineconfiguration::{ControllerConfigSpec, ImageRegistryBundle};
use api::{annotations, names};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::installation::Installation;
use crate::objects::{Desired, Keep, Step};

/// `None` while the cluster's own certificates are not known: half a ControllerConfig would reach every node.
pub(crate) fn object(installation: &Installation, facts: &Facts) -> Option<Desired> {
    let spec = spec(installation, facts)?;
    let version = &installation.images.release_version;
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "ControllerConfig",
        "metadata": {
            "name": names::CONTROLLER_CONFIG,
            "annotations": {annotations::GENERATED_BY_VERSION: version, annotations::RELEASE_IMAGE_VERSION: version},
        },
        "spec": serde_json::to_value(spec).ok()?,
    });
    Some(Desired::new(Step::MachineConfigController, Keep::Whole, object))
}

fn spec(installation: &Installation, facts: &Facts) -> Option<ControllerConfigSpec> {
    let sources = &facts.sources;
    let bytes = |text: &String| ByteString(text.clone().into_bytes());
    let registries =
        sources.registries.iter().map(|(file, ca)| ImageRegistryBundle { data: bytes(ca), file: file.clone() });
    let pull_secret = sources.pull_secret.as_ref().map(|_| ObjectReference {
        kind: Some("Secret".to_owned()),
        namespace: Some(installation.source_namespace.clone()),
        name: Some("pull-secret".to_owned()),
        ..ObjectReference::default()
    });
    let platform = facts.infrastructure.as_ref().and_then(|infra| infra.pointer("/status/platform")?.as_str());
    Some(ControllerConfigSpec {
        additional_trust_bundle: sources.trust_bundle.as_ref().filter(|text| is_pem(text)).map(bytes),
        base_os_container_image: String::new(),
        cloud_provider_ca_data: sources.cloud_ca.as_ref().map(bytes),
        cloud_provider_config: sources.cloud_config.clone().unwrap_or_default(),
        cluster_dns_ip: facts
            .dns_address
            .clone()
            .or_else(|| tenth(facts.service_addresses.first()?))
            .unwrap_or_default(),
        dns: facts.dns.as_ref().and_then(read),
        image_registry_bundle_user_data: registries.collect(),
        images: installation.images.for_templates(),
        infra: read(&infrastructure(facts)),
        // Validity is checked where it is read from; what is not a docker config never gets here.
        internal_registry_pull_secret: sources.pull_secret.clone().map(ByteString),
        ip_families: ip_families(&facts.service_addresses).to_owned(),
        kube_api_server_serving_ca_data: bytes(facts.api_ca.as_ref()?),
        platform: platform.map(str::to_owned),
        proxy: facts.proxy.as_ref().and_then(read),
        pull_secret,
        release_image: String::new(),
        root_ca_data: bytes(facts.server_ca.as_ref()?),
        ..ControllerConfigSpec::default()
    })
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

/// OpenShift's own object, or what we know ourselves in its form: daemons read the topology there.
fn infrastructure(facts: &Facts) -> Value {
    if let Some(infrastructure) = &facts.infrastructure {
        return infrastructure.clone();
    }
    // Nodes of a single replica are not drained, because their pods have nowhere to go. One control plane with workers,
    // as most small clusters are, is no such case.
    let topology = if facts.nodes.len() == 1 { "SingleReplica" } else { "HighlyAvailable" };
    let mut object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
        "spec": {"platformSpec": {"type": "None"}},
        "status": {
            "platform": "None", "platformStatus": {"type": "None"},
            "controlPlaneTopology": topology, "infrastructureTopology": topology,
        },
    });
    if let Some(url) = &facts.api_url {
        object["status"]["apiServerInternalURI"] = json!(url);
        object["status"]["apiServerURL"] = json!(url);
    }
    object
}

fn is_pem(text: &str) -> bool {
    text.contains("-----BEGIN CERTIFICATE-----")
}

fn ip_families(addresses: &[String]) -> &'static str {
    let is_six = |address: &String| address.contains(':');
    match addresses {
        [] => "IPv4",
        [first, rest @ ..] if rest.iter().all(|other| is_six(other) == is_six(first)) => {
            if is_six(first) {
                "IPv6"
            } else {
                "IPv4"
            }
        }
        [first, ..] if is_six(first) => "DualStackIPv6Primary",
        [_, ..] => "DualStack",
    }
}

/// DNS by convention: the API's service has the first address of its range, DNS the tenth.
fn tenth(first: &str) -> Option<String> {
    match first.parse().ok()? {
        std::net::IpAddr::V4(address) => {
            Some(std::net::Ipv4Addr::from_bits(address.to_bits().checked_add(9)?).to_string())
        }
        std::net::IpAddr::V6(address) => {
            Some(std::net::Ipv6Addr::from_bits(address.to_bits().checked_add(9)?).to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NodeFacts;

    fn facts() -> Facts {
        Facts {
            api_ca: Some("API".into()),
            server_ca: Some("CA".into()),
            service_addresses: vec!["10.96.0.1".into()],
            ..Facts::default()
        }
    }

    #[test]
    fn nothing_is_written_before_the_certificates_are_known() {
        for facts in [Facts { api_ca: None, ..facts() }, Facts { server_ca: None, ..facts() }] {
            assert_eq!(object(&Installation::default(), &facts), None);
        }
    }

    #[test]
    fn dns_and_families_follow_the_service_range() {
        let spec = |addresses: &[&str]| {
            let service_addresses = addresses.iter().map(|text| (*text).to_owned()).collect();
            let spec = spec(&Installation::default(), &Facts { service_addresses, ..facts() }).expect("a spec");
            (spec.cluster_dns_ip, spec.ip_families)
        };
        assert_eq!(spec(&["172.30.0.1"]), ("172.30.0.10".into(), "IPv4".into()));
        assert_eq!(spec(&["fd02::1"]), ("fd02::a".into(), "IPv6".into()));
        assert_eq!(spec(&["10.0.0.1", "fd02::1"]), ("10.0.0.10".into(), "DualStack".into()));
        assert_eq!(spec(&["fd02::1", "10.0.0.1"]), ("fd02::a".into(), "DualStackIPv6Primary".into()));
    }

    #[test]
    fn secrets_and_bundles_of_the_user_are_carried() {
        let mut facts = facts();
        facts.sources.pull_secret = Some(b"{\"auths\":{}}".to_vec());
        facts.sources.trust_bundle = Some("not PEM".into());
        facts.sources.registries.insert("registry.example..5000".into(), "CA".into());
        let spec = spec(&Installation::default(), &facts).expect("a spec");
        assert_eq!(spec.internal_registry_pull_secret.expect("a secret").0, b"{\"auths\":{}}");
        assert_eq!(spec.additional_trust_bundle, None, "what is not PEM reaches no host");
        assert_eq!(spec.image_registry_bundle_user_data[0].file, "registry.example..5000");
    }

    #[test]
    fn only_a_cluster_of_one_node_is_a_single_replica() {
        let topology = |nodes: usize| {
            let facts = Facts { nodes: vec![NodeFacts::default(); nodes], ..facts() };
            let spec = spec(&Installation::default(), &facts).expect("a spec");
            spec.infra.and_then(|infra| infra.status?.control_plane_topology).expect("a topology")
        };
        assert_eq!(topology(1), "SingleReplica");
        assert_eq!(topology(2), "HighlyAvailable", "pods of a node have somewhere to go, so nodes are drained");
    }
}
