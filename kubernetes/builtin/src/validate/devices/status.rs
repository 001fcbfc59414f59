//! What a claim got: devices, those that use it, and what drivers say of each device.

use schema::FieldError;
use serde_json::Value;

use super::super::place::{Find, Findings, Place};
use super::super::{pods, rules, sources};
use super::{MOST, claims::Requests, parts};

pub(super) fn check(object: &Place<'_>, old: &Value, findings: &mut Findings) {
    const USERS: usize = 256;
    let (status, before) = (object.field("status"), &old["status"]);
    let (users, allocation) = (status.field("reservedFor"), status.field("allocation"));
    parts::set(&users, USERS, findings, user, |user| user.field("uid").text().to_owned());
    let results = allocation.field("devices").field("results");
    let given: Vec<String> = results.items().map(|result| id(&result)).collect();
    parts::set(
        &status.field("devices"),
        usize::MAX,
        findings,
        |device, findings| device_status(device, &given, findings),
        id,
    );
    if !users.is_empty() && !allocation.is_set() {
        findings.forbidden(&users, "may not be specified when `allocated` is not set");
    } else if !old["metadata"]["deletionTimestamp"].is_null() {
        let known = Place::root(&before["reservedFor"]);
        if users.items().any(|user| !known.items().any(|known| rules::same(known.value, user.value))) {
            let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            findings.forbidden(&users, detail);
        }
    }
    if allocation.is_set() && !before["allocation"].is_null() {
        rules::immutable(&allocation, &before["allocation"], findings);
    } else if allocation.is_set() {
        allocated(&allocation, &Requests::of(&object.field("spec").field("devices")), findings);
    }
}

/// A device, or a share of it, by the names of its driver, pool and self.
fn id(device: &Place<'_>) -> String {
    let names = ["driver", "pool", "device"].map(|field| device.field(field).text());
    let share = device.field("shareID");
    match share.is_set() {
        true => format!("{}/{}", names.join("/"), share.text()),
        false => names.join("/"),
    }
}

fn user(user: &Place<'_>, findings: &mut Findings) {
    for field in ["resource", "name", "uid"].map(|field| user.field(field)) {
        if field.is_empty() {
            findings.required(&field, "");
        }
    }
}

fn allocated(allocation: &Place<'_>, requests: &Requests<'_>, findings: &mut Findings) {
    let devices = allocation.field("devices");
    parts::each(&devices.field("results"), MOST, findings, |result, findings| {
        requests.check(&result.field("request"), findings);
        device(result, findings);
        parts::binding_conditions(result, findings);
    });
    parts::each(&devices.field("config"), 2 * MOST, findings, |own, findings| {
        findings.required_one_of(&own.field("source"), &["FromClaim", "FromClass"]);
        requests.check_all(&own.field("requests"), findings);
        parts::configuration(own, findings);
    });
    let selector = allocation.field("nodeSelector");
    if selector.is_set() {
        pods::node_selector(&selector, findings);
    }
}

fn device(own: &Place<'_>, findings: &mut Findings) {
    sources::driver_name(&own.field("driver"), findings);
    parts::pool_name(&own.field("pool"), findings);
    rules::label(&own.field("device"), findings);
    if own.field("shareID").is_set() {
        parts::uid(&own.field("shareID"), findings);
    }
}

fn device_status(own: &Place<'_>, given: &[String], findings: &mut Findings) {
    const CONDITIONS: usize = 8;
    const DATA: usize = 10 * 1024;
    device(own, findings);
    let known = id(own);
    if !given.contains(&known) {
        findings.invalid_as(own, known, "must be an allocated device in the claim");
    }
    let list = own.field("conditions");
    if list.count() > CONDITIONS {
        findings.push(FieldError::too_many(&list.path, list.count(), CONDITIONS as u64));
    }
    conditions(&list, findings);
    if own.field("data").is_set() {
        parts::free_object(&own.field("data"), DATA, findings);
    }
    network(&own.field("networkData"), findings);
}

/// Conditions as newer kinds have them.
fn conditions(list: &Place<'_>, findings: &mut Findings) {
    const LONGEST: usize = 1024;
    const MESSAGE: usize = 32 * 1024;
    const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
    let mut seen = Vec::new();
    for condition in list.items() {
        let field = |name: &str| condition.field(name);
        let (kind, reason) = (field("type"), field("reason"));
        match seen.contains(&kind.text()) {
            true => findings.duplicate_as(&kind, kind.text()),
            false => seen.push(kind.text()),
        }
        rules::qualified_name(&kind, findings);
        if !matches!(field("status").text(), "True" | "False" | "Unknown") {
            findings.unsupported(&field("status"), &["False", "True", "Unknown"]);
        }
        findings.non_negative(&field("observedGeneration"));
        if field("lastTransitionTime").is_empty() {
            findings.required(&field("lastTransitionTime"), "");
        }
        if reason.is_empty() {
            findings.required(&reason, "");
        } else {
            let text = reason.text();
            let ends = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let fits = text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.as_bytes().last().is_some_and(ends)
                && text.bytes().all(|byte| ends(&byte) || byte == b',' || byte == b':');
            if !fits {
                findings.invalid(&reason, REASON);
            }
            if text.len() > LONGEST {
                findings.too_long(&reason, LONGEST as u64);
            }
        }
        if field("message").text().len() > MESSAGE {
            findings.too_long(&field("message"), MESSAGE as u64);
        }
    }
}

fn network(data: &Place<'_>, findings: &mut Findings) {
    const ADDRESSES: usize = 16;
    for (field, longest) in [("interfaceName", 256), ("hardwareAddress", 128)] {
        if data.field(field).text().len() > longest {
            findings.too_long(&data.field(field), longest as u64);
        }
    }
    parts::set(&data.field("ips"), ADDRESSES, findings, interface_address, parts::text_of);
}

fn interface_address(place: &Place<'_>, findings: &mut Findings) {
    let Some((address, length)) = rules::sloppy_network(place.text()) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return findings.invalid_as(place, place.text(), detail);
    };
    let canonical = match address {
        std::net::IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => format!("{four}/{}", if length > 32 { length.saturating_sub(96) } else { length }),
            None => format!("{six}/{length}"),
        },
        four => format!("{four}/{length}"),
    };
    if place.text() != canonical {
        findings.invalid(place, format!("must be in canonical form ({canonical:?})"));
    }
}
