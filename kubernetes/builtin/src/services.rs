//! Addresses and ports of services: what a service needs by its type, what it keeps of what it had, and what it is given.

use std::{collections::BTreeSet, net::Ipv4Addr};

use schema::FieldError;
use serde_json::{Value, json};

use crate::text;

/// Where the addresses of services come from, unless other ranges are added.
pub const RANGE: &str = "10.96.0.0/16";
const PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// What is left for others, and dice.
pub struct Pool<'a> {
    /// First address and size of each range.
    pub ranges: Vec<(u32, u32)>,
    pub is_taken: &'a dyn Fn(&str) -> bool,
    pub random: &'a dyn Fn() -> u32,
}

/// The first address of a range and how many it has.
pub fn range(text: &str) -> Option<(u32, u32)> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits): (Ipv4Addr, u32) = (address.parse().ok()?, bits.parse().ok()?);
    Some((address.to_bits(), 1_u32.checked_shl(32_u32.checked_sub(bits)?)?))
}

/// What a service holds: addresses, and ports by their numbers.
pub fn held(service: &Value) -> BTreeSet<String> {
    let spec = &service["spec"];
    let address = Some(text(&spec["clusterIP"])).filter(|address| !matches!(*address, "" | "None"));
    let ports = list(&spec["ports"]).iter().map(|port| &port["nodePort"]).chain([&spec["healthCheckNodePort"]]);
    let ports = ports.filter_map(Value::as_i64).filter(|port| *port > 0).map(|port| port.to_string());
    address.map(str::to_owned).into_iter().chain(ports).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn needs_address(service: &Value) -> bool {
    service["spec"]["type"] != "ExternalName"
}

fn may_have_ports(service: &Value) -> bool {
    matches!(text(&service["spec"]["type"]), "NodePort" | "LoadBalancer")
}

fn needs_ports(service: &Value) -> bool {
    may_have_ports(service)
        && !(service["spec"]["type"] == "LoadBalancer" && service["spec"]["allocateLoadBalancerNodePorts"] == false)
}

fn needs_health_port(service: &Value) -> bool {
    service["spec"]["type"] == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local"
}

/// A service that names its address has it in the list of its addresses too.
pub(crate) fn list_address(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    let address =
        spec.get("clusterIP").and_then(Value::as_str).filter(|address| !address.is_empty()).map(str::to_owned);
    if let Some(address) = address
        && spec.get("clusterIPs").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        spec.insert("clusterIPs".into(), json!([address]));
    }
}

/// A change keeps what was given, and drops what its type has no use for, unless the change itself is about that.
pub(crate) fn keep(old: &Value, new: &mut Value) {
    if needs_address(old) && needs_address(new) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if new["spec"][field].is_null() || new["spec"][field] == "" {
                new["spec"][field] = old["spec"][field].clone();
            }
        }
    }
    // The one address and the first of all are the same; whichever was changed wins.
    let (one, all) = (new["spec"]["clusterIP"].clone(), &mut new["spec"]["clusterIPs"]);
    if one != old["spec"]["clusterIP"]
        && *all == old["spec"]["clusterIPs"]
        && let Some(first) = all.as_array_mut().and_then(|all| all.first_mut())
    {
        *first = one;
    }
    if needs_ports(old) && needs_ports(new) {
        let ports = new["spec"].get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter(|port| port["nodePort"].as_i64().unwrap_or(0) == 0) {
            let same = |before: &&Value| before["port"] == port["port"] && before["protocol"] == port["protocol"];
            if let Some(before) = list(&old["spec"]["ports"]).iter().find(same).filter(|old| !old["nodePort"].is_null())
            {
                port["nodePort"] = before["nodePort"].clone();
            }
        }
    }
    if needs_health_port(old) && needs_health_port(new) && new["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0) == 0
    {
        new["spec"]["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
    }
    drop_useless(old, new);
    if let Some(spec) = new["spec"].as_object_mut() {
        spec.retain(|_, field| !field.is_null());
    }
}

fn drop_useless(old: &Value, new: &mut Value) {
    let mut useless: Vec<&[&str]> = Vec::new();
    if needs_address(old) && !needs_address(new) {
        useless.extend([
            &["clusterIP", "clusterIPs"][..],
            &["ipFamilies"],
            &["ipFamilyPolicy"],
            &["internalTrafficPolicy"],
        ]);
    }
    if needs_health_port(old) && !needs_health_port(new) {
        useless.push(&["healthCheckNodePort"]);
    }
    if old["spec"]["type"] == "LoadBalancer" && new["spec"]["type"] != "LoadBalancer" {
        useless.extend([&["allocateLoadBalancerNodePorts"][..], &["loadBalancerClass"]]);
    }
    let outside = |service: &Value| {
        let named = service["spec"]["type"] == "ClusterIP" && !list(&service["spec"]["externalIPs"]).is_empty();
        may_have_ports(service) || named
    };
    if outside(old) && !outside(new) {
        useless.push(&["externalTrafficPolicy"]);
    }
    for fields in useless {
        if fields.iter().all(|field| old["spec"][*field] == new["spec"][*field]) {
            fields.iter().for_each(|field| new["spec"][*field] = Value::Null);
        }
    }
    let ports = |service: &Value| -> BTreeSet<i64> {
        list(&service["spec"]["ports"]).iter().filter_map(|port| port["nodePort"].as_i64()).collect()
    };
    if may_have_ports(old) && !may_have_ports(new) && ports(old) == ports(new) {
        for port in new["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
    if new["spec"]["type"] != "LoadBalancer" {
        new["status"]["loadBalancer"] = json!({});
    }
}

/// Gives a service what it needs and does not have. What is asked for must be free, or held already.
pub fn allocate(service: &mut Value, held: &BTreeSet<String>, pool: &Pool<'_>) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut own = BTreeSet::new();
    let is_free =
        |key: &str, own: &BTreeSet<String>| held.contains(key) || !((pool.is_taken)(key) || own.contains(key));
    if needs_address(service) {
        let spec = &mut service["spec"];
        let asked = text(&spec["clusterIP"]).to_owned();
        let given = match asked.as_str() {
            "" => free_address(pool),
            "None" => Some(asked),
            asked => match problem(asked, pool, is_free(asked, &own)) {
                None => Some(asked.to_owned()),
                Some(problem) => {
                    let detail = format!("failed to allocate IP {asked}: {problem}");
                    errors.push(FieldError::invalid("spec.clusterIPs", json!([asked]), detail));
                    None
                }
            },
        };
        if let Some(given) = given {
            spec["clusterIPs"] = json!([given]);
            spec["clusterIP"] = given.into();
        }
        if spec["ipFamilies"].is_null() {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if spec["ipFamilyPolicy"].is_null() {
            spec["ipFamilyPolicy"] = "SingleStack".into();
        }
    }
    if needs_ports(service) {
        node_ports(service, pool, &is_free, &mut own, &mut errors);
    }
    if needs_health_port(service) && service["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0) == 0 {
        let port = free_port(pool, &|key| is_free(key, &own));
        service["spec"]["healthCheckNodePort"] = port.into();
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn node_ports(
    service: &mut Value,
    pool: &Pool<'_>,
    is_free: &dyn Fn(&str, &BTreeSet<String>) -> bool,
    own: &mut BTreeSet<String>,
    errors: &mut Vec<FieldError>,
) {
    // The same port in two protocols has the same number outside.
    let mut pairs: Vec<(Value, Value, i64)> = Vec::new();
    let ports = service["spec"].get_mut("ports").and_then(Value::as_array_mut);
    for (at, port) in ports.into_iter().flatten().enumerate() {
        let asked = port["nodePort"].as_i64().unwrap_or(0);
        let (number, protocol) = (port["port"].clone(), port["protocol"].clone());
        let shared = |wanted: i64| pairs.iter().any(|(_, other, node)| *node == wanted && *other != protocol);
        let given = if asked == 0 {
            let pair = pairs.iter().find(|(own, other, _)| *own == number && *other != protocol);
            pair.map_or_else(|| free_port(pool, &|key| is_free(key, own)), |(_, _, node)| Some(*node))
        } else {
            let problem = if !PORTS.contains(&asked) {
                Some("provided port is not in the valid range. The range of valid ports is 30000-32767")
            } else if !is_free(&asked.to_string(), own) && !shared(asked)
                || pairs.iter().any(|(_, other, node)| *node == asked && *other == protocol)
            {
                Some("provided port is already allocated")
            } else {
                None
            };
            if let Some(problem) = problem {
                errors.push(FieldError::invalid(format!("spec.ports[{at}].nodePort"), asked, problem));
            }
            Some(asked)
        };
        if let Some(given) = given {
            own.insert(given.to_string());
            pairs.push((number, protocol, given));
            port["nodePort"] = given.into();
        }
    }
}

fn problem(asked: &str, pool: &Pool<'_>, free: bool) -> Option<&'static str> {
    let Ok(address) = asked.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits) else {
        return Some("the provided network does not match the current range");
    };
    if !pool.ranges.iter().any(|(first, size)| address.wrapping_sub(*first) < *size) {
        return Some("the provided network does not match the current range");
    }
    (!free).then_some("provided IP is already allocated")
}

/// Any address that nobody has, but the first and the last of a range.
fn free_address(pool: &Pool<'_>) -> Option<String> {
    pool.ranges.iter().filter(|(_, size)| *size > 2).find_map(|(first, size)| {
        let (usable, start) = (size - 2, (pool.random)());
        let mut candidates = (0..usable).map(|step| first + 1 + (start.wrapping_add(step)) % usable);
        candidates.find_map(|address| {
            let address = Ipv4Addr::from_bits(address).to_string();
            (!(pool.is_taken)(&address)).then_some(address)
        })
    })
}

fn free_port(pool: &Pool<'_>, is_free: &dyn Fn(&str) -> bool) -> Option<i64> {
    let (count, start) = (PORTS.end() - PORTS.start() + 1, i64::from((pool.random)()));
    (0..count).map(|step| PORTS.start() + (start + step) % count).find(|port| is_free(&port.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn pool<'a>(is_taken: &'a dyn Fn(&str) -> bool) -> Pool<'a> {
        Pool { ranges: vec![range("10.0.0.0/29").unwrap()], is_taken, random: &|| 4 }
    }

    #[test]
    fn a_full_range_gives_nothing_and_a_free_address_is_found() {
        let taken = |key: &str| key != "10.0.0.2";
        let mut service = json!({"spec": {"type": "ClusterIP"}});
        allocate(&mut service, &BTreeSet::new(), &pool(&taken)).unwrap();
        assert_eq!(service["spec"]["clusterIP"], "10.0.0.2");
        let mut service = json!({"spec": {"type": "ClusterIP"}});
        allocate(&mut service, &BTreeSet::new(), &pool(&|_| true)).unwrap();
        assert_eq!(service["spec"]["clusterIP"], Value::Null);
    }

    #[test]
    fn the_same_port_in_two_protocols_has_one_number_and_others_have_others() {
        let mut service = json!({"spec": {"type": "NodePort", "ports": [
            {"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]}});
        allocate(&mut service, &BTreeSet::new(), &pool(&|key| key == "30004")).unwrap();
        let ports: Vec<i64> =
            list(&service["spec"]["ports"]).iter().filter_map(|port| port["nodePort"].as_i64()).collect();
        assert_eq!(ports, [30005, 30005, 30006]);
    }

    #[test]
    fn a_range_is_read_and_nonsense_is_not() {
        assert_eq!(range("10.0.0.0/24"), Some((0x0a00_0000, 256)));
        for text in ["", "10.0.0.0", "x/8", "10.0.0.0/33", "10.0.0.0/-1"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
