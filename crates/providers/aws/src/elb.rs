//! The calls to load balancers that control-plane machines need, typed.

use serde::Deserialize;

use crate::client::{Client, Fault, Params, Service};

/// A target group of a network load balancer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct TargetGroup {
    pub(crate) target_group_arn: String,
    /// `instance` or `ip`: what a target is named by.
    pub(crate) target_type: String,
}

impl Client {
    /// Puts an instance behind a classic load balancer; again does no harm.
    pub(crate) async fn register_classic(&self, balancer: &str, instance: &str) -> Result<(), Fault> {
        let params = Params::new().set("LoadBalancerName", balancer).set("Instances.member.1.InstanceId", instance);
        self.query::<Done>(Service::Elb, "RegisterInstancesWithLoadBalancer", params).await.map(|_| ())
    }

    /// The target groups of all these network load balancers.
    pub(crate) async fn target_groups(&self, balancers: &[&str]) -> Result<Vec<TargetGroup>, Fault> {
        let params = Params::new().list("Names.member", balancers);
        let found: DescribeLoadBalancers = self.query(Service::ElbV2, "DescribeLoadBalancers", params).await?;
        let mut groups = Vec::new();
        for balancer in found.result.load_balancers.member {
            let params = Params::new().set("LoadBalancerArn", balancer.load_balancer_arn);
            let found: DescribeTargetGroups = self.query(Service::ElbV2, "DescribeTargetGroups", params).await?;
            groups.extend(found.result.target_groups.member);
        }
        Ok(groups)
    }

    /// Ids of the targets of a group. AWS tells them only together with their health.
    pub(crate) async fn targets(&self, group: &str) -> Result<Vec<String>, Fault> {
        let params = Params::new().set("TargetGroupArn", group);
        let found: DescribeTargetHealth = self.query(Service::ElbV2, "DescribeTargetHealth", params).await?;
        Ok(found.result.descriptions.member.into_iter().map(|description| description.target.id).collect())
    }

    pub(crate) async fn register_target(&self, group: &str, target: &str) -> Result<(), Fault> {
        let params = target_params(group, target);
        self.query::<Done>(Service::ElbV2, "RegisterTargets", params).await.map(|_| ())
    }

    pub(crate) async fn deregister_target(&self, group: &str, target: &str) -> Result<(), Fault> {
        let params = target_params(group, target);
        self.query::<Done>(Service::ElbV2, "DeregisterTargets", params).await.map(|_| ())
    }
}

fn target_params(group: &str, target: &str) -> Params {
    Params::new().set("TargetGroupArn", group).set("Targets.member.1.Id", target)
}

#[derive(Debug, Deserialize)]
struct Done {}

/// A list of the load balancers' API.
#[derive(Debug, Deserialize)]
struct Members<T> {
    #[serde(default = "Vec::new")]
    member: Vec<T>,
}

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self { member: Vec::new() }
    }
}

#[derive(Debug, Deserialize)]
struct DescribeLoadBalancers {
    #[serde(rename = "DescribeLoadBalancersResult")]
    result: LoadBalancers,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LoadBalancers {
    #[serde(default)]
    load_balancers: Members<LoadBalancer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LoadBalancer {
    load_balancer_arn: String,
}

#[derive(Debug, Deserialize)]
struct DescribeTargetGroups {
    #[serde(rename = "DescribeTargetGroupsResult")]
    result: TargetGroups,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TargetGroups {
    #[serde(default)]
    target_groups: Members<TargetGroup>,
}

#[derive(Debug, Deserialize)]
struct DescribeTargetHealth {
    #[serde(rename = "DescribeTargetHealthResult")]
    result: TargetHealth,
}

#[derive(Debug, Deserialize)]
struct TargetHealth {
    #[serde(rename = "TargetHealthDescriptions", default)]
    descriptions: Members<Description>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Description {
    target: Target,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Target {
    id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_from_their_health() {
        let text = "<DescribeTargetHealthResponse><DescribeTargetHealthResult><TargetHealthDescriptions><member>\
                    <TargetHealth><State>initial</State></TargetHealth><Target><Id>i-1</Id><Port>6443</Port></Target>\
                    </member></TargetHealthDescriptions></DescribeTargetHealthResult></DescribeTargetHealthResponse>";
        let health: DescribeTargetHealth = quick_xml::de::from_str(text).expect("well formed");
        assert_eq!(health.result.descriptions.member[0].target.id, "i-1");
    }
}
