//! Network cards and disks of a clone.

use machine::provider::{Error, ErrorKind};

use crate::client::{Client, Fault, Reference};
use crate::spec::{DataDisk, VsphereSpec};
use crate::xml::{Element, leaf, node};

const KIB_PER_GIB: i64 = 1 << 20;
/// Keys of devices that do not exist yet are negative, and vCenter gives them their own.
const FIRST_CARD: i32 = -100;
const FIRST_DISK: i32 = -200;
/// Places on a controller, of which SCSI controllers keep one for themselves.
const UNITS: i32 = 64;
const OWN_UNIT: i32 = 7;
const UNITS_OF_SCSI: i32 = 16;

/// How a card is joined to a network.
pub(super) async fn backing(client: &Client, network: &Reference, name: &str) -> Result<Element, Fault> {
    match network.kind.as_str() {
        "DistributedVirtualPortgroup" => {
            let group = client.of(network, &["key", "config.distributedVirtualSwitch"]).await?;
            let switch = group.as_ref().and_then(|group| group.reference("config.distributedVirtualSwitch"));
            let switch = match switch {
                Some(switch) => client.of(&switch, &["uuid"]).await?,
                None => None,
            };
            let key = group.as_ref().and_then(|group| group.text("key"));
            let uuid = switch.as_ref().and_then(|switch| switch.text("uuid"));
            let (Some(key), Some(uuid)) = (key, uuid) else {
                return Err(Fault::Unreadable(format!("port group {name} has no switch that the credentials show")));
            };
            let port = node("port", [leaf("switchUuid", uuid), leaf("portgroupKey", key)]);
            Ok(node("backing", [port]).typed("VirtualEthernetCardDistributedVirtualPortBackingInfo"))
        }
        "OpaqueNetwork" => {
            let found = client.of(network, &["summary"]).await?;
            let summary = found.as_ref().and_then(|network| network.get("summary"));
            let text = |name| summary.and_then(|summary| summary.text_at(&[name])).unwrap_or_default();
            let (id, kind) = (text("opaqueNetworkId"), text("opaqueNetworkType"));
            let backing = node("backing", [leaf("opaqueNetworkId", id), leaf("opaqueNetworkType", kind)]);
            Ok(backing.typed("VirtualEthernetCardOpaqueNetworkBackingInfo"))
        }
        _ => {
            let backing = node("backing", [leaf("deviceName", name), network.element("network")]);
            Ok(backing.typed("VirtualEthernetCardNetworkBackingInfo"))
        }
    }
}

/// What a clone has that its template has not: its own cards instead of the template's, a larger disk, further disks.
pub(super) fn changes(
    hardware: &[Element],
    networks: &[Element],
    spec: &VsphereSpec,
    datastore: &Reference,
    is_linked: bool,
) -> Result<Vec<Element>, Error> {
    let mut changes: Vec<Element> = hardware.iter().filter(|device| is_card(device)).map(removal).collect();
    changes.extend(FIRST_CARD_KEYS.zip(networks).map(|(key, backing)| addition(card(key, backing), None)));
    let Some(disk) = hardware.iter().find(|device| is_disk(device)) else {
        let message = "providerSpec.template: the template has no disk to boot from";
        return Err(Error::new(ErrorKind::InvalidSpec, message));
    };
    if spec.disk_gib > 0 && !is_linked {
        changes.extend(resized(disk, spec.disk_gib)?);
    }
    changes.extend(data_disks(hardware, disk, &spec.data_disks, datastore)?);
    Ok(changes)
}

const FIRST_CARD_KEYS: std::ops::RangeFrom<i32> = FIRST_CARD..;

fn change(operation: &str, file: Option<&str>, device: Element) -> Element {
    let mut parts = vec![leaf("operation", operation)];
    parts.extend(file.map(|file| leaf("fileOperation", file)));
    parts.push(device);
    node("deviceChange", parts).typed("VirtualDeviceConfigSpec")
}

fn addition(device: Element, file: Option<&str>) -> Element {
    change("add", file, device)
}

/// Takes a device away. The file of a disk stays.
pub(super) fn removal(device: &Element) -> Element {
    let key = leaf("key", device.text_at(&["key"]).unwrap_or_default());
    let mut parts = vec![key];
    if is_disk(device) {
        parts.extend(device.at(&["backing"]).cloned().map(with_type));
        parts.extend(["controllerKey", "unitNumber"].iter().filter_map(|name| device.at(&[name]).cloned()));
        parts.push(leaf("capacityInKB", device.text_at(&["capacityInKB"]).unwrap_or("0")));
    }
    change("remove", None, node("device", parts).typed(device.kind().unwrap_or("VirtualDevice")))
}

/// An element of an answer as part of a request: types are told with our prefix.
fn with_type(element: Element) -> Element {
    let kind = element.kind().map(str::to_owned);
    let children = element.children().iter().cloned().map(with_type);
    let copy =
        if element.children().is_empty() { leaf(&element.name, element.text()) } else { node(&element.name, children) };
    let copy = match element.attribute("type") {
        Some(object) => copy.with("type", object),
        None => copy,
    };
    match kind {
        Some(kind) => copy.typed(&kind),
        None => copy,
    }
}

fn card(key: i32, backing: &Element) -> Element {
    let connectable =
        node("connectable", [leaf("startConnected", true), leaf("allowGuestControl", true), leaf("connected", true)]);
    let parts = [
        leaf("key", key),
        backing.clone(),
        connectable,
        leaf("addressType", "generated"),
        leaf("wakeOnLanEnabled", true),
    ];
    node("device", parts).typed("VirtualVmxnet3")
}

/// The first disk with the size of the spec. Nothing is asked for if it has that size.
fn resized(disk: &Element, gib: i32) -> Result<Option<Element>, Error> {
    let wanted = i64::from(gib) * KIB_PER_GIB;
    let has = disk.text_at(&["capacityInKB"]).and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
    if has > wanted {
        let message = format!(
            "providerSpec.diskGiB: {gib} is less than the disk of the template has ({} GiB); disks cannot shrink",
            (has + KIB_PER_GIB - 1) / KIB_PER_GIB
        );
        return Err(Error::new(ErrorKind::InvalidSpec, message));
    }
    if has == wanted {
        return Ok(None);
    }
    let mut parts = vec![leaf("key", disk.text_at(&["key"]).unwrap_or_default())];
    parts.extend(disk.at(&["backing"]).cloned().map(with_type));
    parts.extend(["controllerKey", "unitNumber"].iter().filter_map(|name| disk.at(&[name]).cloned()));
    parts.extend([leaf("capacityInKB", wanted), leaf("capacityInBytes", wanted << 10)]);
    Ok(Some(change("edit", None, node("device", parts).typed("VirtualDisk"))))
}

/// Further disks, on the controller of the first one.
fn data_disks(
    hardware: &[Element],
    first: &Element,
    disks: &[DataDisk],
    datastore: &Reference,
) -> Result<Vec<Element>, Error> {
    let controller = first.text_at(&["controllerKey"]).unwrap_or_default();
    let is_scsi = hardware
        .iter()
        .any(|device| device.text_at(&["key"]) == Some(controller) && device.at(&["scsiCtlrUnitNumber"]).is_some());
    let on_it = hardware.iter().filter(|device| device.text_at(&["controllerKey"]) == Some(controller));
    let taken: Vec<i32> = on_it.filter_map(|device| device.text_at(&["unitNumber"])?.parse().ok()).collect();
    let most = if is_scsi { UNITS_OF_SCSI } else { UNITS };
    let mut free = (0..most).filter(|unit| !(taken.contains(unit) || is_scsi && *unit == OWN_UNIT));
    let mut added = Vec::new();
    for (key, disk) in (FIRST_DISK..).zip(disks) {
        let Some(unit) = free.next() else {
            let message = format!(
                "providerSpec.dataDisks: the disk controller of the template has no place for {}; it takes {most} devices",
                disk.name
            );
            return Err(Error::new(ErrorKind::InvalidSpec, message));
        };
        let mut backing = vec![leaf("fileName", ""), datastore.element("datastore"), leaf("diskMode", "persistent")];
        match disk.provisioning_mode.as_str() {
            "Thin" => backing.push(leaf("thinProvisioned", true)),
            "Thick" => backing.push(leaf("thinProvisioned", false)),
            "EagerlyZeroed" => backing.extend([leaf("thinProvisioned", false), leaf("eagerlyScrub", true)]),
            _ => {}
        }
        let parts = [
            leaf("key", key),
            node("backing", backing).typed("VirtualDiskFlatVer2BackingInfo"),
            leaf("controllerKey", controller),
            leaf("unitNumber", unit),
            leaf("capacityInKB", i64::from(disk.size_gib) * KIB_PER_GIB),
        ];
        added.push(addition(node("device", parts).typed("VirtualDisk"), Some("create")));
    }
    Ok(added)
}

pub(super) fn is_disk(device: &Element) -> bool {
    device.kind() == Some("VirtualDisk")
}

/// Cards of any make have an address and a way to get one.
fn is_card(device: &Element) -> bool {
    device.at(&["macAddress"]).is_some() && device.at(&["addressType"]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware() -> Vec<Element> {
        let device = |kind: &str, body: &str| {
            Element::parse(&format!("<VirtualDevice xmlns:x='i' x:type='{kind}'>{body}</VirtualDevice>")).unwrap()
        };
        vec![
            device("ParaVirtualSCSIController", "<key>1000</key><scsiCtlrUnitNumber>7</scsiCtlrUnitNumber>"),
            device("VirtualE1000", "<key>4000</key><addressType>generated</addressType><macAddress>m</macAddress>"),
            device(
                "VirtualDisk",
                "<key>2000</key><backing x:type='B'><fileName>f</fileName></backing><controllerKey>1000</controllerKey>\
                 <unitNumber>0</unitNumber><capacityInKB>10485760</capacityInKB>",
            ),
        ]
    }

    fn datastore() -> Reference {
        Reference::new("Datastore", "datastore-1")
    }

    #[test]
    fn a_disk_grows_and_never_shrinks() {
        let spec = |disk_gib| VsphereSpec { disk_gib, ..VsphereSpec::default() };
        let edits = |disk_gib, is_linked| {
            let changes = changes(&hardware(), &[], &spec(disk_gib), &datastore(), is_linked)?;
            let edits = changes.iter().filter(|it| it.text_at(&["operation"]) == Some("edit"));
            Ok::<_, Error>(
                edits.filter_map(|it| it.text_at(&["device", "capacityInKB"]).map(str::to_owned)).collect::<Vec<_>>(),
            )
        };
        assert_eq!(edits(20, false).unwrap(), ["20971520"]);
        assert!(edits(10, false).unwrap().is_empty(), "it has that size");
        assert!(edits(0, false).unwrap().is_empty(), "the template's size is meant");
        assert!(edits(20, true).unwrap().is_empty(), "a linked clone has the template's disk");
        assert!(edits(5, false).unwrap_err().message.contains("(10 GiB)"));
    }

    #[test]
    fn data_disks_take_the_free_places_of_a_controller() {
        let disk = |name: &str| DataDisk { name: name.to_owned(), size_gib: 1, ..DataDisk::default() };
        let disks: Vec<DataDisk> = (0..14).map(|number| disk(&number.to_string())).collect();
        let hardware = hardware();
        let added = data_disks(&hardware, &hardware[2], &disks, &datastore()).unwrap();
        let units: Vec<_> = added.iter().filter_map(|it| it.text_at(&["device", "unitNumber"])).collect();
        assert_eq!(units, ["1", "2", "3", "4", "5", "6", "8", "9", "10", "11", "12", "13", "14", "15"]);
        let more: Vec<DataDisk> = disks.into_iter().chain([disk("last")]).collect();
        let error = data_disks(&hardware, &hardware[2], &more, &datastore()).unwrap_err();
        assert!(error.is_final() && error.message.contains("no place for last"), "{error}");
    }

    #[test]
    fn cards_of_the_template_are_replaced() {
        let backing = node("backing", [leaf("deviceName", "n")]);
        let changes = changes(&hardware(), &[backing], &VsphereSpec::default(), &datastore(), false).unwrap();
        let told: Vec<_> = changes
            .iter()
            .map(|it| {
                format!("{} {}", it.text_at(&["operation"]).unwrap(), it.at(&["device"]).unwrap().kind().unwrap())
            })
            .collect();
        assert_eq!(told, ["remove VirtualE1000", "add VirtualVmxnet3"]);
    }
}
