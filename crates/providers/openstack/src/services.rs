//! The calls of nova, neutron, glance and cinder that machines need.

pub(crate) mod wire;

use serde_json::{Value, json};

use crate::client::{Client, Fault, Service};
use wire::{Flavor, FloatingIp, Group, Named, Port, Server, ServerGroup, Trunk, Volume};

/// The fields of ports that are read; a list of thousands is then a fraction of its size.
const PORT_FIELDS: [&str; 8] =
    ["id", "name", "description", "tags", "device_id", "network_id", "created_at", "fixed_ips"];

impl Client {
    pub(crate) async fn servers(&self, query: &[(&str, String)]) -> Result<Vec<Server>, Fault> {
        self.list(Service::Compute, "/servers/detail", "servers", query).await
    }

    /// `None` if there is no such server.
    pub(crate) async fn server(&self, id: &str) -> Result<Option<Server>, Fault> {
        #[derive(serde::Deserialize)]
        struct Answer {
            server: Server,
        }
        match self.get::<Answer>(Service::Compute, &format!("/servers/{id}"), &[]).await {
            Ok(answer) => Ok(Some(answer.server)),
            Err(fault) if fault.is_not_found() => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The answer is the server's id.
    pub(crate) async fn create_server(&self, body: &Value) -> Result<String, Fault> {
        let answer: Value = self.post(Service::Compute, "/servers", body).await?;
        id_in(&answer, "server")
    }

    pub(crate) async fn delete_server(&self, id: &str) -> Result<(), Fault> {
        self.delete(Service::Compute, &format!("/servers/{id}")).await
    }

    /// `os-start`, `os-stop` or `reboot`.
    pub(crate) async fn act(&self, id: &str, action: &Value) -> Result<(), Fault> {
        self.post::<Value>(Service::Compute, &format!("/servers/{id}/action"), action).await.map(drop)
    }

    /// Adds to a server's metadata.
    pub(crate) async fn add_metadata(&self, id: &str, metadata: &Value) -> Result<(), Fault> {
        let body = json!({"metadata": metadata});
        self.post::<Value>(Service::Compute, &format!("/servers/{id}/metadata"), &body).await.map(drop)
    }

    pub(crate) async fn add_server_tag(&self, id: &str, tag: &str) -> Result<(), Fault> {
        self.put(Service::Compute, &format!("/servers/{id}/tags/{}", encoded(tag)), None).await
    }

    pub(crate) async fn flavors(&self) -> Result<Vec<Flavor>, Fault> {
        self.list(Service::Compute, "/flavors/detail", "flavors", &[]).await
    }

    pub(crate) async fn server_groups(&self) -> Result<Vec<ServerGroup>, Fault> {
        // Nova pages these by offset and gives a thousand at once, more than a project may have.
        #[derive(serde::Deserialize)]
        struct Answer {
            server_groups: Vec<ServerGroup>,
        }
        let answer: Answer = self.get(Service::Compute, "/os-server-groups", &[]).await?;
        Ok(answer.server_groups)
    }

    pub(crate) async fn create_server_group(&self, name: &str, policy: &str) -> Result<String, Fault> {
        let body = json!({"server_group": {"name": name, "policies": [policy]}});
        let answer: Value = self.post(Service::Compute, "/os-server-groups", &body).await?;
        id_in(&answer, "server_group")
    }

    pub(crate) async fn images(&self, query: &[(&str, String)]) -> Result<Vec<Named>, Fault> {
        self.list(Service::Image, "/images", "images", query).await
    }

    pub(crate) async fn networks(&self, query: &[(&str, String)]) -> Result<Vec<Named>, Fault> {
        self.list(Service::Network, "/networks", "networks", query).await
    }

    pub(crate) async fn subnets(&self, query: &[(&str, String)]) -> Result<Vec<wire::Subnet>, Fault> {
        self.list(Service::Network, "/subnets", "subnets", query).await
    }

    pub(crate) async fn security_groups(&self, query: &[(&str, String)]) -> Result<Vec<Group>, Fault> {
        self.list(Service::Network, "/security-groups", "security_groups", query).await
    }

    pub(crate) async fn ports(&self, query: &[(&str, String)]) -> Result<Vec<Port>, Fault> {
        let fields = PORT_FIELDS.iter().map(|field| ("fields", (*field).to_owned()));
        let query: Vec<_> = query.iter().cloned().chain(fields).collect();
        self.list(Service::Network, "/ports", "ports", &query).await
    }

    pub(crate) async fn create_port(&self, port: &Value) -> Result<Port, Fault> {
        #[derive(serde::Deserialize)]
        struct Answer {
            port: Port,
        }
        let answer: Answer = self.post(Service::Network, "/ports", &json!({"port": port})).await?;
        Ok(answer.port)
    }

    pub(crate) async fn describe_port(&self, id: &str, description: &str) -> Result<(), Fault> {
        let body = json!({"port": {"description": description}});
        self.put(Service::Network, &format!("/ports/{id}"), Some(&body)).await
    }

    /// Replaces the tags of a port or trunk.
    pub(crate) async fn set_tags(&self, kind: &str, id: &str, tags: &[String]) -> Result<(), Fault> {
        self.put(Service::Network, &format!("/{kind}/{id}/tags"), Some(&json!({"tags": tags}))).await
    }

    pub(crate) async fn delete_port(&self, id: &str) -> Result<(), Fault> {
        self.delete(Service::Network, &format!("/ports/{id}")).await
    }

    /// `None` where the cloud has no trunks.
    pub(crate) async fn trunks(&self, query: &[(&str, String)]) -> Result<Option<Vec<Trunk>>, Fault> {
        match self.list(Service::Network, "/trunks", "trunks", query).await {
            Ok(trunks) => Ok(Some(trunks)),
            Err(fault) if fault.is_not_found() => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn create_trunk(&self, port: &str, name: &str, description: &str) -> Result<String, Fault> {
        let body = json!({"trunk": {"port_id": port, "name": name, "description": description}});
        let answer: Value = self.post(Service::Network, "/trunks", &body).await?;
        id_in(&answer, "trunk")
    }

    pub(crate) async fn delete_trunk(&self, id: &str) -> Result<(), Fault> {
        self.delete(Service::Network, &format!("/trunks/{id}")).await
    }

    pub(crate) async fn floating_ips(&self, query: &[(&str, String)]) -> Result<Vec<FloatingIp>, Fault> {
        self.list(Service::Network, "/floatingips", "floatingips", query).await
    }

    pub(crate) async fn associate(&self, floating_ip: &str, port: &str) -> Result<(), Fault> {
        let body = json!({"floatingip": {"port_id": port}});
        self.put(Service::Network, &format!("/floatingips/{floating_ip}"), Some(&body)).await
    }

    pub(crate) async fn volumes(&self, query: &[(&str, String)]) -> Result<Vec<Volume>, Fault> {
        self.list(Service::Volume, "/volumes/detail", "volumes", query).await
    }

    pub(crate) async fn create_volume(&self, volume: &Value) -> Result<Volume, Fault> {
        #[derive(serde::Deserialize)]
        struct Answer {
            volume: Volume,
        }
        let answer: Answer = self.post(Service::Volume, "/volumes", &json!({"volume": volume})).await?;
        Ok(answer.volume)
    }

    pub(crate) async fn delete_volume(&self, id: &str) -> Result<(), Fault> {
        self.delete(Service::Volume, &format!("/volumes/{id}")).await
    }
}

fn id_in(answer: &Value, key: &str) -> Result<String, Fault> {
    let id = answer[key]["id"].as_str().map(str::to_owned);
    id.ok_or_else(|| Fault::Unreadable(format!("the new {key} has no id")))
}

/// A tag as a part of a path.
fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}
