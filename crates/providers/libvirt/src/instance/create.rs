//! Makes a machine's domain, or finishes making it.

use machine::provider::{Error, ErrorKind, Instance, Intent, Request};
use uuid::Uuid;

use super::{Libvirt, convert, lookup};
use crate::cidata;
use crate::client::{Described, Host, Image, Pool};
use crate::domain::{self, Definition, FirstBoot, Hypervisor};
use crate::mark::{Label, Names, Stage};
use crate::network::{self, Range};
use crate::spec::{self, Boot, DISK, LibvirtSpec, Volume, quantity};

/// The key of user data in its Secret.
const USER_DATA: &str = "userData";

/// Two machines that take the same address at the same moment choose again; more often than this it is something else.
const CHOICES: usize = 8;

/// A disk takes room as it is written to. A pool that has less than this left would stop the machine at its first boot.
const ROOM: u64 = 64 << 20;

/// What has to be there before anything is made.
struct Ground {
    spec: LibvirtSpec,
    volume: Volume,
    pool: Pool,
    hypervisor: Hypervisor,
    image: Image,
    range: Option<Range>,
    first_boot: Source,
}

/// What the machine reads at its first boot.
enum Source {
    /// A volume that is there already, by path.
    Ready(String),
    Ignition(Vec<u8>),
    CloudInit(Vec<u8>),
}

pub(super) async fn create(libvirt: &Libvirt, request: &Request, intent: &Intent) -> Result<Instance, Error> {
    let spec =
        spec::usable(&request.spec).map_err(|problem| Error::new(ErrorKind::InvalidSpec, problem.to_string()))?;
    let host = libvirt.host(&spec)?;
    let names = Names::of(&request.mark);
    if let Some(domain) = existing(&host, request, names.uuid).await?
        && !convert::is_half_made(&domain)
    {
        return Ok(convert::instance(&domain));
    }
    let ground = ground(libvirt, &host, request, spec, &names).await?;
    let domain = make(&host, request, intent, &names, &ground).await?;
    libvirt.seen.forget(&host.uri, names.uuid);
    Ok(convert::instance(&domain))
}

/// The machine's domain, if it is there. A name that somebody else has is an error.
async fn existing(host: &Host, request: &Request, uuid: Uuid) -> Result<Option<Described>, Error> {
    let listed = host.domains().await.map_err(|fault| fault.error("cannot list domains"))?;
    if let Some((other, name)) = listed.iter().find(|(id, name)| *name == request.mark.machine && *id != uuid) {
        let message = format!(
            "the host has another domain {name} ({other}) that does not belong to this Machine; remove it with \
             `virsh undefine` or give the Machine another name"
        );
        return Err(Error::new(ErrorKind::Other, message));
    }
    if listed.iter().any(|(id, _)| *id == uuid) { lookup::by_id(host, uuid).await } else { Ok(None) }
}

/// Looks at everything that the spec names, so that a creation which cannot succeed makes nothing.
async fn ground(
    libvirt: &Libvirt,
    host: &Host,
    request: &Request,
    spec: LibvirtSpec,
    names: &Names,
) -> Result<Ground, Error> {
    let volume = spec.volume.clone().unwrap_or_default();
    let capabilities = host.capabilities().await.map_err(|fault| fault.error("cannot ask what the host can run"))?;
    let hypervisor = Hypervisor::choose(&capabilities, libvirt.settings.acceleration).ok_or_else(|| {
        let message = "the host runs no virtual machines of its own architecture; install qemu on it";
        Error::new(ErrorKind::Other, message)
    })?;
    let image = host.image(&volume.pool_name, &volume.base_volume_id).await;
    let image = image.map_err(|fault| fault.error("cannot use providerSpec.volume.baseVolumeID"))?;
    let pool = host.pool(&volume.pool_name).await;
    let pool = pool.map_err(|fault| fault.error("cannot use providerSpec.volume.poolName"))?;
    if let Some(left) = pool.left.filter(|left| *left < ROOM) {
        let message = format!("storage pool {} is full: {left} bytes are left; free some", volume.pool_name);
        return Err(Error::new(ErrorKind::NoCapacity, message));
    }
    let network = host.network(&spec.network_interface_name).await;
    let network = network.map_err(|fault| fault.error("cannot use providerSpec.networkInterfaceName"))?;
    let leases = host.leases(&network.name).await.map_err(|fault| fault.error("cannot list the network's leases"))?;
    let range = spec.network_interface_address.parse::<Range>().ok().filter(|_| network.has_dhcp());
    if range.is_none()
        && let Some(all) = network.exhausted(&leases, &names.mac)
    {
        let message = format!(
            "network {} has no free address: DHCP has given out or reserved all {all}; widen its range, shorten its \
             leases, or remove machines",
            network.name
        );
        return Err(Error::new(ErrorKind::NoCapacity, message));
    }
    let first_boot = source(host, request, &spec, &volume).await?;
    Ok(Ground { spec, volume, pool, hypervisor, image, range, first_boot })
}

async fn source(host: &Host, request: &Request, spec: &LibvirtSpec, volume: &Volume) -> Result<Source, Error> {
    let user_data = |field: &str| {
        let found = request.secrets.user_data.as_ref().and_then(|secret| secret.bytes(USER_DATA));
        found.map(<[u8]>::to_vec).ok_or_else(|| {
            let message =
                format!("the Secret of providerSpec.{field}.userDataSecret does not exist or has no key {USER_DATA}");
            Error::new(ErrorKind::NotFound, message)
        })
    };
    match Boot::of(spec) {
        Some(Boot::Ignition(_)) => user_data("ignition").map(Source::Ignition),
        Some(Boot::CloudInit(_)) => {
            let user_data = user_data("cloudInit")?;
            Ok(Source::CloudInit(cidata::image(&user_data, &request.mark.machine)))
        }
        Some(Boot::Volume(key)) => match host.image(&volume.pool_name, key).await {
            Ok(image) => Ok(Source::Ready(image.path)),
            Err(fault) => Err(fault.error("cannot use providerSpec.ignKey")),
        },
        None => Err(Error::new(ErrorKind::InvalidSpec, "providerSpec.ignition: Required value")),
    }
}

/// Every step may be the first of a new process, and finds what earlier ones left. Another process may even be at the same
/// machine: each defines the same domain, and none starts it before it has written the config itself.
async fn make(
    host: &Host,
    request: &Request,
    intent: &Intent,
    names: &Names,
    ground: &Ground,
) -> Result<Described, Error> {
    let Ground { spec, volume, pool, hypervisor, image, range, first_boot } = ground;
    let machine = request.mark.machine.as_str();
    let mut label = Label {
        mark: request.mark.clone(),
        stage: Stage::Making,
        created: Some(whole_seconds(intent.recorded)),
        pool: volume.pool_name.clone(),
        volumes: vec![names.disk.clone(), names.boot.clone()],
    };
    let path = format!("{}/{}", pool.folder.trim_end_matches('/'), names.boot);
    let (reads, content) = match first_boot {
        Source::Ready(path) => (FirstBoot::Ignition(path), None),
        Source::Ignition(content) => (FirstBoot::Ignition(&path), Some(content)),
        Source::CloudInit(content) => (FirstBoot::CloudInit(&path), Some(content)),
    };
    let definition = Definition {
        name: machine,
        uuid: names.uuid,
        mac: &names.mac,
        label: &label,
        spec,
        hypervisor,
        disk: &names.disk,
        first_boot: reads,
    };
    host.define(&domain::define(&definition)).await.map_err(|fault| fault.error("cannot define the domain"))?;
    make_volumes(host, volume, names, image, content.map(Vec::as_slice)).await?;
    if let Some(range) = range {
        reserve(host, spec, *range, names, machine).await?;
    }
    if spec.autostart {
        let set = host.set_autostart(names.uuid, true).await;
        set.map_err(|fault| fault.error("cannot make the domain start with its host"))?;
    }
    host.start(names.uuid).await.map_err(|fault| fault.error("cannot start the domain"))?;
    label.stage = Stage::Made;
    host.label(names.uuid, &label, true).await.map_err(|fault| fault.error("cannot mark the domain"))?;
    let domain = lookup::by_id(host, names.uuid).await?;
    domain.ok_or_else(|| Error::new(ErrorKind::Other, "the domain was started and is gone"))
}

async fn make_volumes(
    host: &Host,
    volume: &Volume,
    names: &Names,
    image: &Image,
    content: Option<&[u8]>,
) -> Result<(), Error> {
    let Volume { pool_name: pool, volume_size, .. } = volume;
    let size = volume_size.as_deref().and_then(quantity::bytes).unwrap_or(DISK).max(image.capacity);
    match host.create_disk(pool, &names.disk, size, image).await {
        // Its name is nobody else's, so an earlier try made it.
        Err(fault) if fault.is_taken() => {}
        made => made.map_err(|fault| fault.error("cannot make the disk"))?,
    }
    if let Some(content) = content {
        let made = host.create_file(pool, &names.boot, content).await;
        made.map_err(|fault| fault.error("cannot make the volume of the first boot"))?;
    }
    Ok(())
}

/// Reserves an address of the range for the machine.
async fn reserve(host: &Host, spec: &LibvirtSpec, range: Range, names: &Names, machine: &str) -> Result<(), Error> {
    let name = &spec.network_interface_name;
    for _ in 0..CHOICES {
        let network = host.network(name).await.map_err(|fault| fault.error("cannot look at the network"))?;
        if network.reservation(&names.mac).is_some() {
            return Ok(());
        }
        let leases = host.leases(name).await.map_err(|fault| fault.error("cannot list the network's leases"))?;
        let Some(address) = network.choose(range, &leases, &names.mac) else {
            let message = format!(
                "network {name} has no free address from the 51st on in providerSpec.networkInterfaceAddress {}; \
                 widen the range or remove machines",
                spec.network_interface_address
            );
            return Err(Error::new(ErrorKind::NoCapacity, message));
        };
        match host.reserve(name, &network::entry(&names.mac, address, machine)).await {
            Ok(()) => return Ok(()),
            // Another machine was faster.
            Err(fault) if fault.says("existing dhcp host entry") => {}
            Err(fault) => return Err(fault.error("cannot reserve an address for the machine")),
        }
    }
    let message = format!("network {name}: other machines took every address that was chosen for this one");
    Err(Error::new(ErrorKind::Other, message))
}

/// Times are read by people too.
fn whole_seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    time.round(jiff::TimestampRound::new().smallest(jiff::Unit::Second)).unwrap_or(time)
}
