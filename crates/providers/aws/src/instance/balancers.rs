//! Puts machines of the control plane behind the load balancers that their spec names, and takes them away.

use machine::provider::{Error, ErrorKind};

use crate::client::Client;
use crate::ec2::wire;
use crate::elb::TargetGroup;
use crate::spec::LoadBalancer;

/// Registers a running instance wherever it is missing.
pub(super) async fn register(
    client: &Client,
    balancers: &[LoadBalancer],
    instance: &wire::Instance,
) -> Result<(), Error> {
    for balancer in of_type(balancers, "classic") {
        let result = client.register_classic(balancer, &instance.instance_id).await;
        result.map_err(|fault| fault.error(&format!("cannot join load balancer {balancer}")))?;
    }
    for group in groups(client, balancers).await? {
        let Some(target) = target(&group, instance) else { continue };
        let arn = &group.target_group_arn;
        let doing = |fault: crate::client::Fault| fault.error(&format!("cannot join target group {}", short(arn)));
        if !client.targets(arn).await.map_err(doing)?.iter().any(|other| other == target) {
            client.register_target(arn, target).await.map_err(doing)?;
        }
    }
    Ok(())
}

/// Takes an instance's address out of the groups that know it by address. AWS forgets instances by itself, but an address
/// would stay, and may one day be somebody else's. A load balancer that is gone has no groups, and the others are left.
pub(super) async fn deregister(
    client: &Client,
    balancers: &[LoadBalancer],
    instance: &wire::Instance,
) -> Result<(), Error> {
    // AWS answers a list of names with an error for all of them if one is unknown.
    for balancer in balancers {
        match groups(client, std::slice::from_ref(balancer)).await {
            Err(error) if error.kind == ErrorKind::NotFound => {}
            groups => leave(client, &groups?, instance).await?,
        }
    }
    Ok(())
}

async fn leave(client: &Client, groups: &[TargetGroup], instance: &wire::Instance) -> Result<(), Error> {
    for group in groups.iter().filter(|group| group.target_type == "ip") {
        let Some(target) = target(group, instance) else { continue };
        match client.deregister_target(&group.target_group_arn, target).await {
            Err(fault) if matches!(fault.code(), "InvalidTarget" | "TargetGroupNotFound") => {}
            result => {
                let doing = format!("cannot leave target group {}", short(&group.target_group_arn));
                result.map_err(|fault| fault.error(&doing))?;
            }
        }
    }
    Ok(())
}

async fn groups(client: &Client, balancers: &[LoadBalancer]) -> Result<Vec<TargetGroup>, Error> {
    let names: Vec<&str> = of_type(balancers, "network").collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let doing = format!("cannot look for load balancers {}", names.join(", "));
    client.target_groups(&names).await.map_err(|fault| fault.error(&doing))
}

fn of_type<'a>(balancers: &'a [LoadBalancer], type_: &'a str) -> impl Iterator<Item = &'a str> {
    balancers.iter().filter(move |balancer| balancer.type_ == type_).map(|balancer| balancer.name.as_str())
}

/// What a group calls an instance.
fn target<'a>(group: &TargetGroup, instance: &'a wire::Instance) -> Option<&'a str> {
    let target = match group.target_type.as_str() {
        "instance" => &instance.instance_id,
        "ip" => &instance.private_ip_address,
        _ => return None,
    };
    Some(target.as_str()).filter(|target| !target.is_empty())
}

/// The name in `arn:aws:elasticloadbalancing:…:targetgroup/<name>/<id>`, without the account's number.
fn short(arn: &str) -> &str {
    arn.split('/').nth(1).unwrap_or(arn)
}
