//! Turns the names and filters of a spec into ids, before anything is made.

use std::collections::HashMap;

use machine::provider::{Error, ErrorKind};
use machine::spec::Path;

use super::ports::Plan;
use crate::Settings;
use crate::client::Client;
use crate::services::wire::Flavor;
use crate::spec::{Network, OpenStackSpec, SecurityGroup, Subnet, image};

/// The policy of server groups that are made here, as upstream's.
const POLICY: &str = "soft-anti-affinity";

/// What a spec means on this cloud.
pub(super) struct Resolved {
    pub(super) image: String,
    pub(super) flavor: String,
    pub(super) group: Option<String>,
    pub(super) ports: Vec<Plan>,
}

pub(super) async fn resolve(client: &Client, spec: &OpenStackSpec, settings: &Settings) -> Result<Resolved, Error> {
    let flavors = client.flavors().await.map_err(|fault| fault.error("cannot list flavors"))?;
    let flavor = flavor_in(&flavors, &spec.flavor).ok_or_else(|| missing(&path("flavor"), "flavor", &spec.flavor))?;
    let image = image_id(client, image(spec)).await?;
    let ports = ports(client, spec, settings).await?;
    if ports.iter().any(|port| port.trunk) {
        check_trunks(client).await?;
    }
    let group = group(client, spec).await?;
    Ok(Resolved { image, flavor: flavor.id.clone(), group, ports })
}

/// By name, or by id.
pub(super) fn flavor_in<'a>(flavors: &'a [Flavor], wanted: &str) -> Option<&'a Flavor> {
    let by_name = flavors.iter().find(|flavor| flavor.name == wanted);
    by_name.or_else(|| flavors.iter().find(|flavor| flavor.id == wanted))
}

fn path(field: &str) -> Path {
    Path::spec().child(field)
}

fn missing(path: &Path, what: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{path}: there is no {what} {name:?}"))
}

/// The only one that was found.
fn only(path: &Path, what: &str, mut ids: Vec<String>) -> Result<String, Error> {
    match ids.len() {
        0 => Err(Error::new(ErrorKind::NotFound, format!("{path}: no {what} matches"))),
        1 => Ok(ids.remove(0)),
        _ => {
            ids.sort();
            let message = format!("{path}: several match: {what}s {}; name one by its id", ids.join(", "));
            Err(Error::new(ErrorKind::Other, message))
        }
    }
}

async fn image_id(client: &Client, wanted: &str) -> Result<String, Error> {
    let path = path("image");
    for key in ["name", "id"] {
        let value = if key == "id" { format!("in:{wanted}") } else { wanted.to_owned() };
        // Ids have a form of their own; glance refuses others.
        if key == "id" && !is_id(wanted) {
            break;
        }
        let found = client.images(&[(key, value), ("status", "active".to_owned())]).await;
        let found = found.map_err(|fault| fault.error("cannot look for the image"))?;
        let ids: Vec<_> = found.into_iter().map(|image| image.id).collect();
        if !ids.is_empty() {
            return only(&path, "image", ids);
        }
    }
    Err(missing(&path, "active image", wanted))
}

fn is_id(text: &str) -> bool {
    text.len() == 36 && text.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-')
}

/// The ports in the order of their names in the intent.
async fn ports(client: &Client, spec: &OpenStackSpec, settings: &Settings) -> Result<Vec<Plan>, Error> {
    let groups = security_groups(client, &spec.security_groups).await?;
    let mut plans = Vec::new();
    for (index, network) in spec.networks.iter().enumerate() {
        let path = path("networks").index(index);
        for (network_id, subnets) in networks(client, network, &path).await? {
            plans.push(Plan::of_network(network, network_id, &subnets, spec, &groups, settings));
        }
    }
    plans.extend(spec.ports.iter().map(|port| Plan::of_port(port, spec, &groups)));
    if plans.is_empty() {
        let network = only_network(client).await?;
        plans.push(Plan::of_network(&Network::default(), network, &[], spec, &groups, settings));
    }
    Ok(plans)
}

/// The ports of an entry: one in the network that is named, or one in each subnet.
async fn networks<'a>(
    client: &Client,
    network: &'a Network,
    path: &Path,
) -> Result<Vec<(String, Vec<(String, &'a Subnet)>)>, Error> {
    let id = if network.uuid.is_empty() { &network.filter.id } else { &network.uuid };
    let known = if !id.is_empty() {
        Some(id.clone())
    } else if network.is_named() {
        let found = client.networks(&network.filter.query()).await;
        let found = found.map_err(|fault| fault.error("cannot look for networks"))?;
        Some(only(&path.child("filter"), "network", found.into_iter().map(|it| it.id).collect())?)
    } else {
        None
    };
    let mut subnets = Vec::new();
    for (index, subnet) in network.subnets.iter().enumerate() {
        let (of, id) = subnet_id(client, subnet, known.as_deref(), &path.child("subnets").index(index)).await?;
        subnets.push((of, (id, subnet)));
    }
    Ok(match known {
        Some(network) => vec![(network, subnets.into_iter().map(|(_, subnet)| subnet).collect())],
        None => subnets.into_iter().map(|(network, subnet)| (network, vec![subnet])).collect(),
    })
}

/// A subnet and its network.
async fn subnet_id(
    client: &Client,
    subnet: &Subnet,
    network: Option<&str>,
    path: &Path,
) -> Result<(String, String), Error> {
    let mut query = subnet.filter.query();
    if !subnet.uuid.is_empty() {
        query = vec![("id", subnet.uuid.clone())];
    }
    query.extend(network.map(|network| ("network_id", network.to_owned())));
    let found = client.subnets(&query).await.map_err(|fault| fault.error("cannot look for subnets"))?;
    let mut networks: HashMap<_, _> = found.into_iter().map(|subnet| (subnet.id, subnet.network_id)).collect();
    let id = only(path, "subnet", networks.keys().cloned().collect())?;
    Ok((networks.remove(&id).unwrap_or_default(), id))
}

/// The network of a project that has one.
async fn only_network(client: &Client) -> Result<String, Error> {
    let project = client.project().await.map_err(|fault| fault.error("cannot log in"))?;
    let query: Vec<_> = project.into_iter().map(|project| ("project_id", project)).collect();
    let found = client.networks(&query).await.map_err(|fault| fault.error("cannot look for networks"))?;
    only(&path("networks"), "network", found.into_iter().map(|network| network.id).collect())
}

/// The groups that the entries name or match. `None` if there are no entries: neutron then takes the project's default one.
async fn security_groups(client: &Client, entries: &[SecurityGroup]) -> Result<Option<Vec<String>>, Error> {
    let mut groups: Vec<String> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let mut ids = match [&entry.uuid, &entry.filter.id].into_iter().find(|id| !id.is_empty()) {
            Some(id) => vec![id.clone()],
            None => {
                let mut filter = entry.filter.clone();
                if !entry.name.is_empty() {
                    filter.name.clone_from(&entry.name);
                }
                let found = client.security_groups(&filter.query()).await;
                let found = found.map_err(|fault| fault.error("cannot look for security groups"))?;
                found.into_iter().map(|group| group.id).collect()
            }
        };
        if ids.is_empty() {
            let path = path("securityGroups").index(index);
            return Err(Error::new(ErrorKind::NotFound, format!("{path}: no security group matches")));
        }
        ids.sort();
        ids.retain(|id| !groups.contains(id));
        groups.extend(ids);
    }
    Ok((!entries.is_empty()).then_some(groups))
}

async fn check_trunks(client: &Client) -> Result<(), Error> {
    let trunks = client.trunks(&[("name", "-".to_owned())]).await;
    if trunks.map_err(|fault| fault.error("cannot list trunks"))?.is_some() {
        return Ok(());
    }
    let message =
        "providerSpec.trunk: the cloud has no trunks; write trunk: false, or enable neutron's extension trunk";
    Err(Error::new(ErrorKind::InvalidSpec, message))
}

async fn group(client: &Client, spec: &OpenStackSpec) -> Result<Option<String>, Error> {
    let (id, name) = (&spec.server_group_id, &spec.server_group_name);
    if name.is_empty() {
        return Ok(Some(id.clone()).filter(|id| !id.is_empty()));
    }
    let _alone = client.groups.lock().await;
    let groups = client.server_groups().await.map_err(|fault| fault.error("cannot list server groups"))?;
    let named: Vec<_> = groups.into_iter().filter(|group| group.name == *name).map(|group| group.id).collect();
    let path = path("serverGroupName");
    if !id.is_empty() && !named.contains(id) {
        let message = format!("{path}: server group {id} of serverGroupID is not called {name:?}");
        return Err(Error::new(ErrorKind::InvalidSpec, message));
    }
    if !id.is_empty() {
        return Ok(Some(id.clone()));
    }
    if named.is_empty() {
        let made = client.create_server_group(name, POLICY).await;
        return made.map(Some).map_err(|fault| fault.refusal("cannot create the server group"));
    }
    only(&path, "server group", named).map(Some)
}
