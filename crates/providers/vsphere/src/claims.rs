//! Addresses from pools: an IPAddressClaim for each, which whoever runs the pool answers with an IPAddress.
//!
//! A claim carries a finalizer of ours. It keeps the address until the virtual machine is gone, so that nobody else gets it
//! while it is in use.

use std::collections::BTreeMap;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use machine::provider::{Error, ErrorKind, Mark};
use serde_json::{Value, json};

/// Upstream's, so that its controller lets go of our claims and we of its.
pub const FINALIZER: &str = "machine.openshift.io/ip-claim-protection";
const MANAGER: &str = "machinist-machines";
const GROUP: &str = "ipam.cluster.x-k8s.io";
const VERSION: &str = "v1beta1";

/// What a device asks a pool for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Name of the claim.
    pub name: String,
    /// The pool: its group, its kind and its name.
    pub pool: (String, String, String),
}

/// An address that a pool gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// With its prefix length.
    pub address: String,
    pub gateway: String,
}

/// Where addresses are claimed.
pub trait Claims: Send + Sync {
    /// Claims an address for each wish, and returns those that were given so far, by the name of the claim.
    fn claim<'a>(
        &'a self,
        mark: &'a Mark,
        wishes: &'a [Wish],
    ) -> BoxFuture<'a, Result<BTreeMap<String, Address>, Error>>;

    /// Gives addresses back. Claims of other Machines stay.
    fn release<'a>(&'a self, mark: &'a Mark, names: &'a [String]) -> BoxFuture<'a, Result<(), Error>>;
}

/// Claims in a cluster.
pub struct InCluster(Client);

impl InCluster {
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    fn api(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, kind));
        Api::namespaced_with(self.0.clone(), namespace, &resource)
    }

    async fn claimed(&self, mark: &Mark, wish: &Wish) -> Result<Option<Address>, Error> {
        let api = self.api(&mark.namespace, "IPAddressClaim");
        let found = cluster::error::if_found(cluster::write::in_time(api.get(&wish.name)).await);
        let found = found.map_err(|error| refused("get", wish, &error))?;
        let claim = match found {
            Some(claim) if !is_of(&claim, mark) => {
                let message = format!(
                    "IPAddressClaim {} belongs to another Machine of this name; wait until it is gone",
                    wish.name
                );
                return Err(Error::new(ErrorKind::Other, message));
            }
            Some(claim) => claim,
            None => {
                let claim = json!(claim(mark, wish));
                let params = PatchParams::apply(MANAGER).force();
                let applied = cluster::write::in_time(api.patch(&wish.name, &params, &Patch::Apply(&claim))).await;
                applied.map_err(|error| refused("make", wish, &error))?
            }
        };
        let Some(name) = claim.data["status"]["addressRef"]["name"].as_str() else { return Ok(None) };
        let address =
            cluster::error::if_found(cluster::write::in_time(self.api(&mark.namespace, "IPAddress").get(name)).await);
        let address = address.map_err(|error| refused("read the address of", wish, &error))?;
        Ok(address.and_then(|address| given(&address.data["spec"])))
    }

    async fn released(&self, mark: &Mark, name: &str) -> Result<(), Error> {
        let api = self.api(&mark.namespace, "IPAddressClaim");
        let wish = Wish { name: name.to_owned(), pool: Default::default() };
        let found = match cluster::error::if_found(cluster::write::in_time(api.get(name)).await) {
            // A cluster without the kind has no claims.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            found => found.map_err(|error| refused("get", &wish, &error))?,
        };
        let Some(claim) = found.filter(|claim| is_of(claim, mark)) else { return Ok(()) };
        let kept = claim.metadata.finalizers.iter().flatten().filter(|finalizer| *finalizer != FINALIZER);
        let kept: Vec<&String> = kept.collect();
        let metadata = json!({"metadata": {"finalizers": kept, "resourceVersion": claim.metadata.resource_version}});
        let patch = cluster::write::in_time(api.patch(name, &PatchParams::default(), &Patch::Merge(&metadata))).await;
        cluster::error::if_found(patch).map_err(|error| refused("let go of", &wish, &error))?;
        let deleted = cluster::write::in_time(api.delete(name, &DeleteParams::default())).await;
        cluster::error::if_found(deleted).map_err(|error| refused("delete", &wish, &error))?;
        Ok(())
    }
}

impl Claims for InCluster {
    fn claim<'a>(
        &'a self,
        mark: &'a Mark,
        wishes: &'a [Wish],
    ) -> BoxFuture<'a, Result<BTreeMap<String, Address>, Error>> {
        async move {
            let mut given = BTreeMap::new();
            // All claims are made before the first is waited for.
            for wish in wishes {
                if let Some(address) = self.claimed(mark, wish).await? {
                    given.insert(wish.name.clone(), address);
                }
            }
            Ok(given)
        }
        .boxed()
    }

    fn release<'a>(&'a self, mark: &'a Mark, names: &'a [String]) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            for name in names {
                self.released(mark, name).await?;
            }
            Ok(())
        }
        .boxed()
    }
}

/// The claim as it is applied.
fn claim(mark: &Mark, wish: &Wish) -> Value {
    let (group, kind, name) = &wish.pool;
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "IPAddressClaim",
        "metadata": {
            "name": wish.name, "namespace": mark.namespace, "finalizers": [FINALIZER],
            "ownerReferences": [{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": mark.machine, "uid": mark.uid}],
        },
        "spec": {"poolRef": {"apiGroup": group, "kind": kind, "name": name}},
    })
}

fn is_of(claim: &DynamicObject, mark: &Mark) -> bool {
    claim.metadata.owner_references.iter().flatten().any(|owner| owner.uid == mark.uid)
}

fn given(spec: &Value) -> Option<Address> {
    let (address, prefix) = (spec["address"].as_str()?, spec["prefix"].as_u64()?);
    let gateway = spec["gateway"].as_str().unwrap_or_default().to_owned();
    Some(Address { address: format!("{address}/{prefix}"), gateway })
}

fn refused(doing: &str, wish: &Wish, error: &kube::Error) -> Error {
    Error::new(ErrorKind::Other, format!("cannot {doing} IPAddressClaim {}: {error}", wish.name))
}
