//! The floating address that a spec names.

use machine::provider::{Error, ErrorKind};

use crate::client::Client;
use crate::services::wire::Server;
use crate::spec::OpenStackSpec;

/// Gives the address to the server's first port. Whether something was changed.
pub(super) async fn associate(client: &Client, spec: &OpenStackSpec, server: &Server) -> Result<bool, Error> {
    let address = spec.floating_ip.as_str();
    let has_it = server.addresses.values().flatten().any(|known| known.addr == address);
    if address.is_empty() || has_it || server.status != "ACTIVE" {
        return Ok(false);
    }
    let found = client.floating_ips(&[("floating_ip_address", address.to_owned())]).await;
    let found = found.map_err(|fault| fault.error("cannot look for the floating IP"))?;
    let Some(floating) = found.first() else {
        let message = format!("providerSpec.floatingIP: the project has no floating IP {address}; allocate it");
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    let mut ports = client
        .ports(&[("device_id", server.id.clone())])
        .await
        .map_err(|fault| fault.error("cannot list the server's ports"))?;
    ports.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    match (&floating.port_id, ports.first()) {
        // Nova shows it a little later.
        (Some(holder), _) if ports.iter().any(|port| port.id == *holder) => Ok(false),
        (Some(holder), _) => {
            let message = format!("providerSpec.floatingIP: port {holder} has {address}; take it away there first");
            Err(Error::new(ErrorKind::Other, message))
        }
        (None, None) => Ok(false),
        (None, Some(port)) => {
            let given = client.associate(&floating.id, &port.id).await;
            given.map_err(|fault| fault.error("cannot give the floating IP to the server")).map(|()| true)
        }
    }
}
