//! The ports of a machine, and the trunks on them.

use machine::provider::{Error, Intent, Mark};
use serde_json::{Map, Value, json};

use super::children;
use crate::Settings;
use crate::client::Client;
use crate::mark;
use crate::services::wire::Port;
use crate::spec::{self, Network, OpenStackSpec, Subnet, port_key};

/// A port as it should be, without its name and mark.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Plan {
    body: Map<String, Value>,
    description: String,
    tags: Vec<String>,
    pub(super) trunk: bool,
}

impl Plan {
    /// A port of an entry of `networks`.
    pub(super) fn of_network(
        network: &Network,
        network_id: String,
        subnets: &[(String, &Subnet)],
        spec: &OpenStackSpec,
        groups: &Option<Vec<String>>,
        settings: &Settings,
    ) -> Self {
        let mut plan = Self { trunk: spec.trunk, tags: spec.tags.clone(), ..Self::default() };
        plan.set("network_id", network_id);
        if !subnets.is_empty() {
            let fixed: Vec<_> = subnets.iter().map(|(id, _)| json!({"subnet_id": id})).collect();
            plan.set("fixed_ips", fixed);
        }
        plan.tags.extend(network.port_tags.iter().cloned());
        plan.tags.extend(subnets.iter().flat_map(|(_, subnet)| subnet.port_tags.clone()));
        let pairs = if network.no_allowed_address_pairs { &[][..] } else { &settings.virtual_addresses };
        let pairs = pairs.iter().map(|address| json!({"ip_address": address})).collect();
        plan.secure(network.port_security, groups.clone(), pairs);
        plan.bind(&network.vnic_type, &network.profile);
        plan
    }

    /// An entry of `ports`.
    pub(super) fn of_port(port: &spec::Port, spec: &OpenStackSpec, groups: &Option<Vec<String>>) -> Self {
        let trunk = port.trunk.unwrap_or(spec.trunk);
        let tags = spec.tags.iter().chain(&port.tags).cloned().collect();
        let mut plan = Self { trunk, tags, description: port.description.clone(), ..Self::default() };
        plan.set("network_id", port.network_id.clone());
        if let Some(up) = port.admin_state_up {
            plan.set("admin_state_up", up);
        }
        if !port.mac_address.is_empty() {
            plan.set("mac_address", port.mac_address.clone());
        }
        if !port.fixed_ips.is_empty() {
            let fixed = port.fixed_ips.iter().map(|fixed| {
                object([("subnet_id", fixed.subnet_id.as_str()), ("ip_address", fixed.ip_address.as_str())])
            });
            plan.set("fixed_ips", fixed.collect::<Vec<_>>());
        }
        let pairs = port
            .allowed_address_pairs
            .iter()
            .map(|pair| object([("ip_address", pair.ip_address.as_str()), ("mac_address", pair.mac_address.as_str())]));
        let own = port.security_groups.clone().filter(|own| !own.is_empty());
        plan.secure(port.port_security, own.or_else(|| groups.clone()), pairs.collect());
        plan.bind(&port.vnic_type, &port.profile);
        plan
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.body.insert(key.to_owned(), value.into());
    }

    /// A port without port security can have neither groups nor pairs.
    fn secure(&mut self, security: Option<bool>, groups: Option<Vec<String>>, pairs: Vec<Value>) {
        if let Some(security) = security {
            self.set("port_security_enabled", security);
        }
        if security == Some(false) {
            self.set("security_groups", Vec::<Value>::new());
            return;
        }
        if let Some(groups) = groups {
            self.set("security_groups", groups);
        }
        if !pairs.is_empty() {
            self.set("allowed_address_pairs", pairs);
        }
    }

    fn bind(&mut self, vnic: &str, profile: &std::collections::BTreeMap<String, String>) {
        if !vnic.is_empty() {
            self.set("binding:vnic_type", vnic);
        }
        if !profile.is_empty() {
            self.set("binding:profile", profile_of(profile));
        }
    }

    /// The request that makes the port.
    fn request(&self, name: &str, owner: &Mark) -> Value {
        let mut body = self.body.clone();
        body.insert("name".to_owned(), json!(name));
        body.insert("description".to_owned(), json!(mark::describe(&self.description, owner)));
        Value::Object(body)
    }

    fn tags(&self, owner: &Mark) -> Vec<String> {
        let ours = [mark::cluster_tag(&owner.cluster), mark::uid_tag(&owner.uid)];
        let mut tags: Vec<String> = Vec::new();
        for tag in self.tags.iter().cloned().chain(ours) {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        tags
    }
}

/// Specs have text only; neutron wants the lists and numbers that the text holds, such as `["switchdev"]`.
fn profile_of(profile: &std::collections::BTreeMap<String, String>) -> Value {
    let entries = profile.iter().map(|(key, text)| {
        let structured = serde_json::from_str(text).ok().filter(|value: &Value| value.is_array() || value.is_object());
        (key.clone(), structured.unwrap_or_else(|| Value::String(text.clone())))
    });
    Value::Object(entries.collect())
}

/// Without the members that are empty.
fn object<const N: usize>(members: [(&str, &str); N]) -> Value {
    let members = members.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(members.map(|(key, value)| (key.to_owned(), json!(value))).collect())
}

/// Makes the ports and trunks that are missing. The answer is the ids of the ports, in order.
pub(super) async fn ensure(
    client: &Client,
    plans: &[Plan],
    owner: &Mark,
    intent: &Intent,
) -> Result<Vec<String>, Error> {
    let name_of = |index: usize| match intent.children.get(&port_key(index)) {
        Some(name) => name.clone(),
        None => format!("{}-{index}", owner.machine),
    };
    let names: Vec<_> = (0..plans.len()).map(name_of).collect();
    let present = made(client, plans, &names, owner).await?;
    let mut chosen = Vec::new();
    for (plan, name) in plans.iter().zip(&names) {
        let mut same = present.iter().filter(|port| port.name == *name);
        let Some(port) = same.next() else { continue };
        // Another process made one at the same time; both choose the same.
        for double in same.filter(|double| double.device_id.is_empty()) {
            let deleted = client.delete_port(&double.id).await;
            deleted.map_err(|fault| fault.error(&format!("cannot delete the second port {name}")))?;
        }
        let tags = plan.tags(owner);
        if tags.iter().any(|tag| !port.tags.contains(tag)) {
            let tagged = client.set_tags("ports", &port.id, &tags).await;
            tagged.map_err(|fault| fault.error(&format!("cannot tag port {name}")))?;
        }
        chosen.push(port.id.clone());
    }
    trunk(client, plans, &names, &chosen, owner).await?;
    Ok(chosen)
}

/// All ports of the machine, after those that were missing have been made.
async fn made(client: &Client, plans: &[Plan], names: &[String], owner: &Mark) -> Result<Vec<Port>, Error> {
    let mut present = children::ports(client, owner, names).await?;
    let missing = plans.iter().zip(names).filter(|(_, name)| !present.iter().any(|port| port.name == **name));
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return Ok(present);
    }
    for (plan, name) in missing {
        let created = client.create_port(&plan.request(name, owner)).await;
        created.map_err(|fault| fault.refusal(&format!("cannot create port {name}")))?;
    }
    present = children::ports(client, owner, names).await?;
    Ok(present)
}

async fn trunk(client: &Client, plans: &[Plan], names: &[String], ports: &[String], owner: &Mark) -> Result<(), Error> {
    let wanted = || plans.iter().zip(names).zip(ports).filter(|((plan, _), _)| plan.trunk);
    if wanted().next().is_none() {
        return Ok(());
    }
    let present = children::trunks(client, owner, names).await?.unwrap_or_default();
    for ((plan, name), port) in wanted() {
        let tags = plan.tags(owner);
        let (id, has_tags) = match present.iter().find(|trunk| trunk.port_id == *port) {
            Some(trunk) => (trunk.id.clone(), tags.iter().all(|tag| trunk.tags.contains(tag))),
            None => {
                let made = client.create_trunk(port, name, &mark::describe("", owner)).await;
                (made.map_err(|fault| fault.refusal(&format!("cannot create trunk {name}")))?, false)
            }
        };
        if !has_tags {
            let tagged = client.set_tags("trunks", &id, &tags).await;
            tagged.map_err(|fault| fault.error(&format!("cannot tag trunk {name}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use machine::spec::read::read;

    use super::*;

    #[track_caller]
    fn check(spec: Value, expected: Expect) {
        let spec: OpenStackSpec = read(&spec).unwrap().spec;
        let groups = Some(vec!["g".to_owned()]);
        let settings = Settings { virtual_addresses: vec!["10.0.0.5".to_owned()], ..Settings::default() };
        let of_networks = spec.networks.iter().map(|network| {
            let subnets: Vec<_> = network.subnets.iter().map(|subnet| (subnet.uuid.clone(), subnet)).collect();
            Plan::of_network(network, network.uuid.clone(), &subnets, &spec, &groups, &settings)
        });
        let of_ports = spec.ports.iter().map(|port| Plan::of_port(port, &spec, &groups));
        let [cluster, namespace, machine, uid] = ["c1", "ns", "m", "u"].map(str::to_owned);
        let owner = Mark { cluster, namespace, machine, uid };
        let told = of_networks.chain(of_ports).map(|plan| {
            format!(
                "{} {:?} {}",
                plan.request("m-0", &owner),
                plan.tags(&owner),
                if plan.trunk { "trunk" } else { "plain" }
            )
        });
        expected.assert_eq(&told.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn ports_of_networks_let_the_cluster_s_addresses_move() {
        check(
            json!({"trunk": true, "tags": ["a"], "networks": [
                {"uuid": "n1", "portTags": ["b", "a"], "subnets": [{"uuid": "s1", "portTags": ["c"]}]},
                {"uuid": "n2", "noAllowedAddressPairs": true, "vnicType": "direct",
                    "profile": {"capabilities": "[\"switchdev\"]", "k": "v"}},
                {"uuid": "n3", "portSecurity": false}]}),
            expect![[r#"
                {"allowed_address_pairs":[{"ip_address":"10.0.0.5"}],"description":"[machinist.dev u c1 ns m]","fixed_ips":[{"subnet_id":"s1"}],"name":"m-0","network_id":"n1","security_groups":["g"]} ["a", "b", "c", "machinist-cluster-c1", "machinist-uid-u"] trunk
                {"binding:profile":{"capabilities":["switchdev"],"k":"v"},"binding:vnic_type":"direct","description":"[machinist.dev u c1 ns m]","name":"m-0","network_id":"n2","security_groups":["g"]} ["a", "machinist-cluster-c1", "machinist-uid-u"] trunk
                {"description":"[machinist.dev u c1 ns m]","name":"m-0","network_id":"n3","port_security_enabled":false,"security_groups":[]} ["a", "machinist-cluster-c1", "machinist-uid-u"] trunk"#]],
        );
    }

    #[test]
    fn ports_of_their_own_say_everything_themselves() {
        check(
            json!({"trunk": true, "ports": [
                {"networkID": "n1", "description": "mine", "adminStateUp": false, "macAddress": "fa:16:3e:00:00:01",
                    "fixedIPs": [{"subnetID": "s1", "ipAddress": "10.0.0.9"}, {"subnetID": "s2"}], "trunk": false,
                    "securityGroups": ["own"], "allowedAddressPairs": [{"ipAddress": "10.0.0.0/24"}], "tags": ["t"]},
                {"networkID": "n2", "securityGroups": []}]}),
            expect![[r#"
                {"admin_state_up":false,"allowed_address_pairs":[{"ip_address":"10.0.0.0/24"}],"description":"mine [machinist.dev u c1 ns m]","fixed_ips":[{"ip_address":"10.0.0.9","subnet_id":"s1"},{"subnet_id":"s2"}],"mac_address":"fa:16:3e:00:00:01","name":"m-0","network_id":"n1","security_groups":["own"]} ["t", "machinist-cluster-c1", "machinist-uid-u"] plain
                {"description":"[machinist.dev u c1 ns m]","name":"m-0","network_id":"n2","security_groups":["g"]} ["machinist-cluster-c1", "machinist-uid-u"] trunk"#]],
        );
    }
}
