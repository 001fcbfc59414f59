//! What is cloned, where to, and with which configuration.

use machine::provider::{Error, ErrorKind, Request};

use super::create::option;
use super::lookup::Vm;
use super::{Site, Vsphere, devices, first_boot};
use crate::claims::{Address, Wish};
use crate::client::inventory::{Inventory, Sought};
use crate::client::property::Object;
use crate::client::{Client, Fault, Reference};
use crate::mark::{KEY, Label, instance_uuid};
use crate::spec::{VsphereSpec, claims};
use crate::xml::{Element, leaf, node};

/// The first hardware version that OpenShift's images run on.
const OLDEST_HARDWARE: u32 = 15;

/// Everything that the spec names, looked at before anything is made.
pub(super) struct Ground {
    pub(super) inventory: Inventory,
    pub(super) template: Reference,
    pub(super) folder: Reference,
    pool: Reference,
    datastore: Reference,
    snapshot: Option<Reference>,
    /// Devices of the template.
    hardware: Vec<Element>,
    /// Backings of the network devices, in order.
    networks: Vec<Element>,
    /// Addresses of each network device: those that the spec has, and those of pools.
    addresses: Vec<Vec<Address>>,
}

pub(super) async fn ground(
    vsphere: &Vsphere,
    site: &Site,
    spec: &VsphereSpec,
    request: &Request,
    known: &[Vm],
) -> Result<Ground, Error> {
    let inventory = Inventory::load(&site.client, &site.datacenter).await;
    let inventory = inventory.map_err(|fault| fault.error("cannot look at the datacenter"))?;
    let workspace = &site.workspace;
    let pool =
        inventory.one_or_only(Sought::ResourcePool, "providerSpec.workspace.resourcePool", &workspace.resource_pool)?;
    let datastore =
        inventory.one_or_only(Sought::Datastore, "providerSpec.workspace.datastore", &workspace.datastore)?;
    let folder = match workspace.folder.as_str() {
        "" => site.datacenter.vm_folder.clone(),
        folder => inventory.one(Sought::Folder, "providerSpec.workspace.folder", folder)?,
    };
    let template = template(site, &inventory, &spec.template, known)?;
    let cannot = |fault: Fault| fault.error("cannot look at providerSpec.template");
    let found =
        site.client.of(&template, &["config.version", "config.hardware.device", "snapshot"]).await.map_err(cannot)?;
    let found = found.ok_or_else(|| Error::new(ErrorKind::NotFound, "providerSpec.template: the template is gone"))?;
    check_hardware(found.text("config.version").unwrap_or_default())?;
    let snapshot = snapshot(spec, &found)?;
    let networks = networks(site, &inventory, &pool, spec).await?;
    let hardware = found.get("config.hardware.device").map(Element::children).unwrap_or_default().to_vec();
    // Last, because a claim that was made is to be let go.
    let addresses = addresses(vsphere, spec, request).await?;
    Ok(Ground { inventory, template, folder, pool, datastore, snapshot, hardware, networks, addresses })
}

/// The template by name or path.
fn template(site: &Site, inventory: &Inventory, text: &str, known: &[Vm]) -> Result<Reference, Error> {
    let field = "providerSpec.template";
    let path = |vm: &Vm| {
        let parent = vm.parent.as_ref().map(|parent| inventory.path(parent)).unwrap_or_default();
        format!("{parent}/{}", vm.name)
    };
    let is_meant = |vm: &&Vm| match text.rsplit_once('/') {
        Some(_) if text.starts_with('/') => path(vm) == text,
        Some(_) => path(vm) == format!("{}/vm/{text}", site.datacenter.path),
        None => vm.name == text,
    };
    // A machine of ours that is called like its template is not meant.
    let found: Vec<&Vm> = known.iter().filter(|vm| vm.label.is_none()).filter(is_meant).collect();
    match found.as_slice() {
        [only] => Ok(only.reference.clone()),
        [] => {
            let message =
                format!("{field}: there is no template or virtual machine {text:?}, or the credentials do not show it");
            Err(Error::new(ErrorKind::NotFound, message))
        }
        _ => {
            let mut paths: Vec<String> = found.iter().map(|vm| path(vm)).collect();
            paths.sort_unstable();
            let message =
                format!("{field}: {text:?} may be any of several; write the path of one of them: {}", paths.join(", "));
            Err(Error::new(ErrorKind::InvalidSpec, message))
        }
    }
}

/// `vmx-15` and later.
fn check_hardware(version: &str) -> Result<(), Error> {
    let number = version.strip_prefix("vmx-").and_then(|number| number.parse::<u32>().ok());
    if number.is_none_or(|number| number >= OLDEST_HARDWARE) {
        return Ok(());
    }
    let message = format!(
        "providerSpec.template: the template has hardware version {version}, and vmx-{OLDEST_HARDWARE} is the oldest that \
         is supported; upgrade the template"
    );
    Err(Error::new(ErrorKind::InvalidSpec, message))
}

/// The snapshot that a linked clone grows from.
fn snapshot(spec: &VsphereSpec, template: &Object) -> Result<Option<Reference>, Error> {
    if spec.clone_mode != "linkedClone" {
        return Ok(None);
    }
    let field = "providerSpec.snapshot";
    let info = template.get("snapshot");
    if spec.snapshot.is_empty() {
        let current = info.and_then(|info| info.at(&["currentSnapshot"])).and_then(Reference::of);
        return current.map(Some).ok_or_else(|| {
            let message = format!("{field}: a linkedClone grows from a snapshot, and the template has none; make one");
            Error::new(ErrorKind::NotFound, message)
        });
    }
    let roots = info.into_iter().flat_map(|info| info.all("rootSnapshotList"));
    let mut found = Vec::new();
    roots.for_each(|root| named_snapshots(root, &spec.snapshot, &mut found));
    match found.len() {
        1 => Ok(found.pop()),
        0 => {
            let message = format!("{field}: the template has no snapshot {:?}", spec.snapshot);
            Err(Error::new(ErrorKind::NotFound, message))
        }
        _ => {
            let message = format!("{field}: the template has several snapshots {:?}; rename one", spec.snapshot);
            Err(Error::new(ErrorKind::InvalidSpec, message))
        }
    }
}

fn named_snapshots(tree: &Element, name: &str, found: &mut Vec<Reference>) {
    if tree.text_at(&["name"]) == Some(name) {
        found.extend(tree.at(&["snapshot"]).and_then(Reference::of));
    }
    tree.all("childSnapshotList").for_each(|child| named_snapshots(child, name, found));
}

/// Backings for the network devices of the spec.
async fn networks(
    site: &Site,
    inventory: &Inventory,
    pool: &Reference,
    spec: &VsphereSpec,
) -> Result<Vec<Element>, Error> {
    let mut backings = Vec::new();
    for (index, device) in spec.network.devices.iter().enumerate() {
        let field = format!("providerSpec.network.devices[{index}].networkName");
        let mut found = inventory.all(Sought::Network, &device.network_name);
        if found.len() > 1 {
            let of_cluster =
                networks_of(&site.client, pool).await.map_err(|fault| fault.error(&format!("cannot use {field}")))?;
            found.retain(|network| of_cluster.contains(network));
        }
        let network = match found.as_slice() {
            [only] => only,
            [] => return Err(crate::client::inventory::missing(Sought::Network, &field, &device.network_name)),
            _ => return Err(inventory.ambiguous(Sought::Network, &field, &device.network_name, &found)),
        };
        let backing = devices::backing(&site.client, network, inventory.name(network)).await;
        backings.push(backing.map_err(|fault| fault.error(&format!("cannot use {field}")))?);
    }
    Ok(backings)
}

/// Networks that the hosts of a pool have.
async fn networks_of(client: &Client, pool: &Reference) -> Result<Vec<Reference>, Fault> {
    let Some(owner) = client.of(pool, &["owner"]).await?.and_then(|pool| pool.reference("owner")) else {
        return Ok(Vec::new());
    };
    let cluster = client.of(&owner, &["network"]).await?;
    Ok(cluster.map(|cluster| cluster.references("network")).unwrap_or_default())
}

/// The addresses of each device. All have to be there before the machine is cloned: they are part of its first boot.
async fn addresses(vsphere: &Vsphere, spec: &VsphereSpec, request: &Request) -> Result<Vec<Vec<Address>>, Error> {
    let wishes = claims(spec, &request.mark.machine)
        .map(|(_, name, pool)| Wish { name, pool: (pool.group.clone(), pool.resource.clone(), pool.name.clone()) });
    let wishes: Vec<Wish> = wishes.collect();
    let given =
        if wishes.is_empty() { Default::default() } else { vsphere.claims.claim(&request.mark, &wishes).await? };
    let waiting: Vec<&str> =
        wishes.iter().map(|wish| wish.name.as_str()).filter(|name| !given.contains_key(*name)).collect();
    if !waiting.is_empty() {
        let message = format!(
            "no address was given yet to IPAddressClaim {}; whoever runs the pool has to answer it",
            waiting.join(", ")
        );
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let of_device = |(index, device): (usize, &crate::spec::NetworkDevice)| {
        let fixed =
            device.ip_addrs.iter().map(|address| Address { address: address.clone(), gateway: device.gateway.clone() });
        let pools = 0..device.addresses_from_pools.len();
        let claimed =
            pools.filter_map(|number| given.get(&crate::spec::claim_name(&request.mark.machine, index, number)));
        fixed.chain(claimed.cloned()).collect()
    };
    Ok(spec.network.devices.iter().enumerate().map(of_device).collect())
}

/// The arguments of `CloneVM_Task`, in the order that vCenter wants.
pub(super) fn arguments(
    ground: &Ground,
    spec: &VsphereSpec,
    request: &Request,
    label: &Label,
) -> Result<Vec<Element>, Error> {
    let is_linked = ground.snapshot.is_some();
    let movement = if is_linked { "createNewChildDiskBacking" } else { "moveAllDiskBackingsAndConsolidate" };
    let location = node(
        "location",
        [ground.datastore.element("datastore"), leaf("diskMoveType", movement), ground.pool.element("pool")],
    );
    let mut config = vec![
        leaf("instanceUuid", instance_uuid(&request.mark.uid)),
        leaf("annotation", &request.mark.machine),
        node("flags", [leaf("diskUuidEnabled", true)]),
    ];
    if spec.num_cpus > 0 {
        let per_socket = if spec.num_cores_per_socket > 0 { spec.num_cores_per_socket } else { spec.num_cpus };
        config.push(leaf("numCPUs", spec.num_cpus));
        config.push(leaf("numCoresPerSocket", per_socket));
    }
    if spec.memory_mib > 0 {
        config.push(leaf("memoryMB", spec.memory_mib));
    }
    config.extend(devices::changes(&ground.hardware, &ground.networks, spec, &ground.datastore, is_linked)?);
    config.push(option(KEY, &label.text()));
    config.extend(first_boot::options(spec, request, &ground.addresses)?);
    let mut clone = vec![location, leaf("template", false), node("config", config), leaf("powerOn", false)];
    clone.extend(ground.snapshot.iter().map(|snapshot| snapshot.element("snapshot")));
    Ok(vec![ground.folder.element("folder"), leaf("name", &request.mark.machine), node("spec", clone)])
}
