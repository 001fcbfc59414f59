//! The calls that machines need, on one host.

use std::sync::Arc;

use uuid::Uuid;

use super::batch::{self, Described};
use super::fault::Fault;
use super::{Call, Virsh};
use crate::mark::{Label, NAMESPACE, PREFIX};
use crate::network::{self, Lease, Network};
use crate::xml::Element;

/// libvirt at one URI.
#[derive(Clone)]
pub(crate) struct Host {
    virsh: Arc<dyn Virsh>,
    pub(crate) uri: String,
}

/// A storage pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Bytes that are free; `None` where it does not say.
    pub(crate) left: Option<u64>,
    /// Where its volumes are on the host.
    pub(crate) folder: String,
}

/// A volume that others are based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) path: String,
    pub(crate) format: String,
    pub(crate) capacity: u64,
}

impl Host {
    pub(crate) fn new(virsh: Arc<dyn Virsh>, uri: &str) -> Self {
        Self { virsh, uri: uri.to_owned() }
    }

    async fn call(&self, arguments: &[&str], input: &[u8]) -> Result<String, Fault> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let output = self.virsh.run(&self.uri, &Call { arguments, input: input.to_vec() }).await?;
        if output.succeeded { Ok(output.stdout) } else { Err(Fault::refused(&output.stderr)) }
    }

    async fn document(&self, arguments: &[&str]) -> Result<Element, Fault> {
        let text = self.call(arguments, &[]).await?;
        Element::parse(&text).map_err(|error| Fault::Unreadable(error.to_string()))
    }

    pub(crate) async fn capabilities(&self) -> Result<Element, Fault> {
        self.document(&["capabilities"]).await
    }

    /// Every domain on the host, running or not.
    pub(crate) async fn domains(&self) -> Result<Vec<(Uuid, String)>, Fault> {
        let listed = self.call(&["list", "--all", "--uuid", "--name"], &[]).await?;
        let domain = |line: &str| {
            let (uuid, name) = line.trim().split_once(char::is_whitespace)?;
            Some((uuid.parse().ok()?, name.trim().to_owned()))
        };
        let lines = listed.lines().filter(|line| !line.trim().is_empty());
        let unreadable = |line: &str| Fault::Unreadable(format!("in the list of domains: {line:?}"));
        lines.map(|line| domain(line).ok_or_else(|| unreadable(line))).collect()
    }

    /// Domains with their state and addresses; those that are gone are left out.
    pub(crate) async fn describe(&self, domains: &[Uuid]) -> Result<Vec<Described>, Fault> {
        let mut described = Vec::new();
        for domains in domains.chunks(batch::DOMAINS) {
            let nonce = Uuid::new_v4().simple().to_string();
            let arguments = vec![batch::script(domains, &nonce)];
            let output = self.virsh.run(&self.uri, &Call { arguments, input: Vec::new() }).await?;
            described.extend(batch::read(domains, &nonce, &output.stdout, &output.stderr)?);
        }
        Ok(described)
    }

    pub(crate) async fn define(&self, definition: &str) -> Result<(), Fault> {
        self.call(&["define", "--file", "/dev/stdin"], definition.as_bytes()).await.map(drop)
    }

    pub(crate) async fn start(&self, domain: Uuid) -> Result<(), Fault> {
        let started = self.call(&["start", "--domain", &domain.to_string()], &[]).await;
        ignoring(started, |fault| fault.says("already active") || fault.says("already running"))
    }

    pub(crate) async fn set_autostart(&self, domain: Uuid, on: bool) -> Result<(), Fault> {
        let domain = domain.to_string();
        let mut arguments = vec!["autostart", "--domain", &domain];
        arguments.extend((!on).then_some("--disable"));
        self.call(&arguments, &[]).await.map(drop)
    }

    /// Writes the label on a domain, and on its running copy if there is one.
    pub(crate) async fn label(&self, domain: Uuid, label: &Label, is_running: bool) -> Result<(), Fault> {
        let (domain, text) = (domain.to_string(), label.bare().render());
        let mut arguments = vec!["metadata", "--domain", &domain, "--uri", NAMESPACE, "--key", PREFIX];
        arguments.extend(["--set", &text, "--config"]);
        arguments.extend(is_running.then_some("--live"));
        self.call(&arguments, &[]).await.map(drop)
    }

    /// Takes the power away; a domain that has none is fine.
    pub(crate) async fn destroy(&self, domain: Uuid) -> Result<(), Fault> {
        let destroyed = self.call(&["destroy", "--domain", &domain.to_string()], &[]).await;
        ignoring(destroyed, |fault| fault.says("is not running") || fault.is_not_found())
    }

    /// Off and on again, without asking the operating system.
    pub(crate) async fn reset(&self, domain: Uuid) -> Result<(), Fault> {
        self.call(&["reset", "--domain", &domain.to_string()], &[]).await.map(drop)
    }

    pub(crate) async fn undefine(&self, domain: &Described) -> Result<(), Fault> {
        let uuid = domain.uuid.to_string();
        let mut arguments = vec!["undefine", "--domain", &uuid, "--managed-save", "--snapshots-metadata"];
        arguments.extend(domain.definition.at(&["os", "nvram"]).map(|_| "--nvram"));
        ignoring(self.call(&arguments, &[]).await, Fault::is_not_found)
    }

    pub(crate) async fn pool(&self, name: &str) -> Result<Pool, Fault> {
        let pool = self.document(&["pool-dumpxml", "--pool", name]).await?;
        let bytes = |name| pool.at(&[name]).and_then(|it| it.text().parse::<u64>().ok());
        let left = bytes("capacity").filter(|capacity| *capacity > 0).and(bytes("available"));
        let folder = pool.at(&["target", "path"]).map(|path| path.text().to_owned());
        let folder = folder.ok_or_else(|| Fault::Unreadable(format!("pool {name} has no folder for volumes")))?;
        Ok(Pool { left, folder })
    }

    /// A volume by its name in a pool or by its key.
    pub(crate) async fn image(&self, pool: &str, volume: &str) -> Result<Image, Fault> {
        let named = self.document(&["vol-dumpxml", "--vol", volume, "--pool", pool]).await;
        let found = match named {
            Err(fault) if fault.is_not_found() => match self.document(&["vol-dumpxml", "--vol", volume]).await {
                // The first answer says which pool was searched.
                Err(second) if second.is_not_found() => return Err(fault),
                found => found?,
            },
            found => found?,
        };
        let capacity = found.at(&["capacity"]).and_then(|it| it.text().parse().ok());
        let path = found.at(&["target", "path"]).map(|path| path.text().to_owned());
        let format = found.at(&["target", "format"]).and_then(|it| it.attribute("type")).unwrap_or("raw").to_owned();
        match (path, capacity) {
            (Some(path), Some(capacity)) => Ok(Image { path, format, capacity }),
            _ => Err(Fault::Unreadable(format!("volume {volume} has no path or no size"))),
        }
    }

    /// Makes a disk on top of an image, which stays as it is.
    pub(crate) async fn create_disk(&self, pool: &str, name: &str, size: u64, image: &Image) -> Result<(), Fault> {
        let target = Element::new("target").holding(Element::new("format").with("type", "qcow2"));
        let backing = Element::new("backingStore")
            .holding(Element::new("path").saying(&image.path))
            .holding(Element::new("format").with("type", &image.format));
        let volume = volume(name, size).holding(target).holding(backing);
        self.create_volume(pool, &volume).await
    }

    /// Makes a volume with this content. One that is there and has another size is replaced; of the same size, it is written
    /// again in place, which nobody notices who reads it at that moment.
    pub(crate) async fn create_file(&self, pool: &str, name: &str, content: &[u8]) -> Result<(), Fault> {
        let target = Element::new("target").holding(Element::new("format").with("type", "raw"));
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let volume = volume(name, size).holding(target);
        match self.create_volume(pool, &volume).await {
            Err(fault) if fault.is_taken() => {
                if self.image(pool, name).await?.capacity != size {
                    self.delete_volume(pool, name).await?;
                    self.create_volume(pool, &volume).await?;
                }
            }
            made => made?,
        }
        self.call(&["vol-upload", "--pool", pool, "--vol", name, "--file", "/dev/stdin"], content).await.map(drop)
    }

    async fn create_volume(&self, pool: &str, volume: &Element) -> Result<(), Fault> {
        let text = volume.render();
        self.call(&["vol-create", "--pool", pool, "--file", "/dev/stdin"], text.as_bytes()).await.map(drop)
    }

    pub(crate) async fn delete_volume(&self, pool: &str, name: &str) -> Result<(), Fault> {
        let deleted = self.call(&["vol-delete", "--pool", pool, "--vol", name], &[]).await;
        ignoring(deleted, |fault| fault.is_not_found() && !fault.is_pool_missing())
    }

    pub(crate) async fn network(&self, name: &str) -> Result<Network, Fault> {
        Ok(Network::read(&self.document(&["net-dumpxml", "--network", name]).await?))
    }

    /// The addresses that are given out; none where the hypervisor cannot tell.
    pub(crate) async fn leases(&self, network: &str) -> Result<Vec<Lease>, Fault> {
        match self.call(&["net-dhcp-leases", "--network", network], &[]).await {
            Ok(listing) => Ok(network::leases(&listing)),
            Err(fault) if fault.is_unsupported() => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn reserve(&self, network: &str, entry: &str) -> Result<(), Fault> {
        self.update_network(network, "add-last", entry).await
    }

    /// Gives a machine's address back; a network without it is fine.
    pub(crate) async fn release(&self, network: &str, mac: &str) -> Result<(), Fault> {
        match self.network(network).await {
            Err(fault) if fault.is_not_found() => return Ok(()),
            Ok(network) if network.reservation(mac).is_none() => return Ok(()),
            found => found?,
        };
        let entry = Element::new("host").with("mac", mac).render();
        let released = self.update_network(network, "delete", entry.trim()).await;
        ignoring(released, |fault| fault.says("couldn't locate a matching"))
    }

    async fn update_network(&self, network: &str, command: &str, entry: &str) -> Result<(), Fault> {
        let mut arguments = vec!["net-update", "--network", network, "--command", command];
        arguments.extend(["--section", "ip-dhcp-host", "--xml", entry, "--live", "--config"]);
        match self.call(&arguments, &[]).await {
            Err(fault) if fault.says("transient network") => {
                arguments.pop();
                self.call(&arguments, &[]).await.map(drop)
            }
            result => result.map(drop),
        }
    }
}

fn volume(name: &str, size: u64) -> Element {
    Element::new("volume")
        .holding(Element::new("name").saying(name))
        .holding(Element::new("capacity").with("unit", "bytes").saying(size))
        .holding(Element::new("allocation").with("unit", "bytes").saying(0))
}

fn ignoring<T>(result: Result<T, Fault>, is_fine: impl Fn(&Fault) -> bool) -> Result<(), Fault> {
    match result {
        Err(fault) if is_fine(&fault) => Ok(()),
        result => result.map(drop),
    }
}
