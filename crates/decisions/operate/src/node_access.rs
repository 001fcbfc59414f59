//! Decides what nodes may read of the cluster's configs: a pool's nodes the rendered configs of that pool, and all nodes the
//! certificates that belong on every host.
//!
//! Which pool a node is in is not decided here. Why it is done this way is in `docs/adr/0020-a-node-reads-its-own-pool.md`.

use std::collections::{BTreeMap, BTreeSet};

use api::machineconfiguration::{ControllerConfig, GROUP};
use api::{annotations, names};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::objects::PART_OF;

/// On roles and bindings of pools: the pool.
pub const POOL: &str = "machinist.dev/pool-access";
/// How the names of these roles and bindings begin.
pub const PREFIX: &str = "machinist:pool:";
/// The key of the Secret [`names::NODE_CREDENTIALS`].
pub const KEY: &str = "credentials.json";

/// Nodes of one binding, about. A subject has some 130 bytes, and up to 400 with the longest names, so a binding stays far
/// below the API's limit and cheap to write.
const PER_BINDING: usize = 500;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A pool, its nodes, and the configs that were rendered for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    pub uid: String,
    pub nodes: BTreeSet<String>,
    pub configs: BTreeSet<String>,
    /// The PinnedImageSets that the pool names.
    pub image_sets: BTreeSet<String>,
}

impl Pool {
    /// The role that reads the pool's configs.
    pub fn role(&self) -> Value {
        let named = [("machineconfigs", &self.configs), ("pinnedimagesets", &self.image_sets)];
        // A rule with an empty list of names would be one for all names.
        let rules = named.into_iter().filter(|(_, names)| !names.is_empty()).map(|(resource, names)| {
            json!({"apiGroups": [GROUP], "resources": [resource], "resourceNames": names, "verbs": ["get"]})
        });
        self.object("ClusterRole", role_name(&self.name), "rules", rules.collect())
    }

    /// Who has the role. Those of `present` that no node is in any more come out empty.
    pub fn bindings<'a>(&self, present: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
        let count = self.nodes.len().div_ceil(PER_BINDING).next_power_of_two();
        let mut shards: BTreeMap<String, Vec<&str>> =
            present.into_iter().map(|name| (name.to_owned(), Vec::new())).collect();
        for node in &self.nodes {
            let name = format!("{}:{}", role_name(&self.name), shard(node, count));
            shards.entry(name).or_default().push(node);
        }
        let subject = |node: &&str| json!({"apiGroup": RBAC, "kind": "User", "name": format!("system:node:{node}")});
        let binding = |(name, nodes): (String, Vec<&str>)| {
            let subjects = nodes.iter().map(subject).collect();
            let mut binding = self.object("ClusterRoleBinding", name, "subjects", subjects);
            binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": role_name(&self.name)});
            binding
        };
        shards.into_iter().map(binding).collect()
    }

    /// It goes with its pool.
    fn object(&self, kind: &str, name: String, part: &str, value: Value) -> Value {
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": kind,
            "metadata": {
                "name": name, "labels": {PART_OF.0: PART_OF.1, POOL: self.name},
                "ownerReferences": [{
                    "apiVersion": format!("{GROUP}/v1"), "kind": "MachineConfigPool", "name": self.name, "uid": self.uid,
                }],
            },
            part: value,
        })
    }
}

fn role_name(pool: &str) -> String {
    format!("{PREFIX}{pool}")
}

/// FNV-1a: the same in every version of this program, so that an upgrade moves no node to another binding.
fn shard(node: &str, count: usize) -> u64 {
    let hash = node
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The low bits of short names are alike.
    (hash ^ (hash >> 32)) % u64::try_from(count.max(1)).unwrap_or(1)
}

/// The Secret with what belongs on every host, as the ControllerConfig has it, and nothing else of that.
pub fn credentials(config: &ControllerConfig, namespace: &str) -> Value {
    let spec = serde_json::to_value(&config.spec).unwrap_or_default();
    let fields = [
        "kubeAPIServerServingCAData",
        "cloudProviderCAData",
        "internalRegistryPullSecret",
        "imageRegistryBundleData",
        "imageRegistryBundleUserData",
    ];
    let chosen: serde_json::Map<String, Value> = fields
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), spec.get(field)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    let mut secret = empty_credentials(namespace);
    let version = config.metadata.resource_version.as_deref().unwrap_or_default();
    secret["metadata"]["annotations"] = json!({annotations::CONTROLLER_CONFIG_VERSION: version});
    secret["data"] = json!({KEY: STANDARD.encode(Value::Object(chosen).to_string())});
    secret
}

/// Whether the Secret says what `wanted`, made by [`credentials`], does.
pub fn is_filled_in(present: &Secret, wanted: &Value) -> bool {
    let data = present.data.as_ref().and_then(|data| data.get(KEY)).map(|bytes| STANDARD.encode(&bytes.0));
    let version = annotations::CONTROLLER_CONFIG_VERSION;
    let told = present.metadata.annotations.as_ref().and_then(|annotations| annotations.get(version));
    data.as_deref() == wanted["data"][KEY].as_str()
        && told.map(String::as_str) == wanted["metadata"]["annotations"][version].as_str()
}

/// The same before anything is known, so that whoever fills it in needs no right to make Secrets.
pub(crate) fn empty_credentials(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": names::NODE_CREDENTIALS, "namespace": namespace, "labels": {PART_OF.0: PART_OF.1},
        },
    })
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::{ControllerConfigSpec, ImageRegistryBundle};
    use k8s_openapi::ByteString;

    use super::*;

    fn pool(nodes: usize) -> Pool {
        Pool {
            name: "worker".into(),
            uid: "u".into(),
            nodes: (0..nodes)
                .map(|number| format!("ip-10-0-{}-{}.example.internal", number / 250, number % 250))
                .collect(),
            configs: BTreeSet::from(["rendered-worker-1".to_owned()]),
            image_sets: BTreeSet::new(),
        }
    }

    fn subjects(bindings: &[Value]) -> Vec<usize> {
        bindings.iter().map(|one| one["subjects"].as_array().map_or(0, Vec::len)).collect()
    }

    #[test]
    fn a_pool_without_configs_reads_none_rather_than_all() {
        let none = Pool { configs: BTreeSet::new(), ..pool(1) };
        assert_eq!(none.role()["rules"], json!([]));
        assert_eq!(pool(1).role()["rules"][0]["resourceNames"], json!(["rendered-worker-1"]));
        let pinning = Pool { image_sets: BTreeSet::from(["tools".to_owned()]), ..none };
        assert_eq!(pinning.role()["rules"][0]["resources"], json!(["pinnedimagesets"]));
        assert_eq!(pinning.role()["rules"][0]["resourceNames"], json!(["tools"]));
    }

    #[test]
    fn few_nodes_share_one_binding_and_many_are_spread_evenly() {
        let one = pool(3).bindings([]);
        assert_eq!(subjects(&one), [3]);
        assert_eq!(one[0]["metadata"]["name"], "machinist:pool:worker:0");
        assert_eq!(one[0]["subjects"][0]["name"], "system:node:ip-10-0-0-0.example.internal");
        let many = pool(10_000).bindings([]);
        let counts = subjects(&many);
        assert_eq!(counts.iter().sum::<usize>(), 10_000);
        assert!(counts.len() == 32 && counts.iter().all(|count| (150..600).contains(count)), "{counts:?}");
        assert!(many.iter().all(|one| one.to_string().len() < 200_000));
    }

    #[test]
    fn bindings_that_are_too_many_now_are_emptied() {
        let left = pool(3).bindings(["machinist:pool:worker:0", "machinist:pool:worker:1"]);
        assert_eq!(subjects(&left), [3, 0]);
        assert_eq!(left[1]["roleRef"]["name"], "machinist:pool:worker");
    }

    #[test]
    fn a_secret_of_hosts_that_was_emptied_or_is_old_is_filled_in_again() {
        let mut config = ControllerConfig::new(names::CONTROLLER_CONFIG, ControllerConfigSpec::default());
        config.metadata.resource_version = Some("7".into());
        let secret = |value: Value| serde_json::from_value::<Secret>(value).expect("a Secret");
        let wanted = credentials(&config, "home");
        assert!(is_filled_in(&secret(wanted.clone()), &wanted));
        assert!(!is_filled_in(&secret(empty_credentials("home")), &wanted));
        config.metadata.resource_version = Some("8".into());
        assert!(!is_filled_in(&secret(wanted), &credentials(&config, "home")));
    }

    #[test]
    fn hosts_get_certificates_and_not_the_rest_of_the_controller_config() {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let spec = ControllerConfigSpec {
            kube_api_server_serving_ca_data: bytes("CA"),
            root_ca_data: bytes("ROOT"),
            cloud_provider_config: "[secret]\npassword=1".into(),
            internal_registry_pull_secret: Some(bytes("{}")),
            image_registry_bundle_user_data: vec![ImageRegistryBundle { file: "r".into(), data: bytes("REG") }],
            ..ControllerConfigSpec::default()
        };
        let mut config = ControllerConfig::new(names::CONTROLLER_CONFIG, spec);
        config.metadata.resource_version = Some("7".into());
        let secret = credentials(&config, "home");
        assert_eq!(secret["metadata"]["annotations"][annotations::CONTROLLER_CONFIG_VERSION], "7");
        let text = STANDARD.decode(secret["data"][KEY].as_str().unwrap_or_default()).expect("base64");
        let text = String::from_utf8(text).expect("text");
        assert!(!text.contains("password") && !text.contains("rootCAData"), "{text}");
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["kubeAPIServerServingCAData"], "Q0E=");
        assert_eq!(read["imageRegistryBundleUserData"][0]["data"], "UkVH");
    }
}
