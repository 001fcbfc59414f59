//! Machines behind load balancers.

use machine::provider::{Provider, Request};
use serde_json::json;

use crate::world::{World, id_of, only};

impl World {
    async fn elbv2(&self, action: &str, fields: &[(&str, &str)]) -> String {
        self.ask_service("elasticloadbalancing", "2015-12-01", action, fields).await
    }

    /// A network load balancer with a target group by instance and one by address.
    async fn network_balancer(&self, name: &str) -> [String; 2] {
        let fields = [("Name", name), ("Type", "network"), ("Subnets.member.1", self.subnet.as_str())];
        let balancer = only(&self.elbv2("CreateLoadBalancer", &fields).await, "LoadBalancerArn");
        let mut groups = Vec::new();
        for (port, type_) in [("6443", "instance"), ("22623", "ip")] {
            let name = format!("{name}-{type_}");
            let fields = [
                ("Name", name.as_str()),
                ("Protocol", "TCP"),
                ("Port", port),
                ("VpcId", self.vpc.as_str()),
                ("TargetType", type_),
            ];
            let group = only(&self.elbv2("CreateTargetGroup", &fields).await, "TargetGroupArn");
            let fields = [
                ("LoadBalancerArn", balancer.as_str()),
                ("Protocol", "TCP"),
                ("Port", port),
                ("DefaultActions.member.1.Type", "forward"),
                ("DefaultActions.member.1.TargetGroupArn", group.as_str()),
            ];
            self.elbv2("CreateListener", &fields).await;
            groups.push(group);
        }
        groups.try_into().unwrap()
    }

    async fn targets(&self, group: &str) -> String {
        self.elbv2("DescribeTargetHealth", &[("TargetGroupArn", group)]).await
    }
}

#[tokio::test]
async fn a_running_machine_joins_its_target_groups_once_and_leaves_those_that_know_its_address() {
    let Some(world) = World::start("groups").await else { return };
    let [by_id, by_address] = world.network_balancer("groups-int").await;
    let spec = world.spec_with("loadBalancers", json!([{"name": "groups-int", "type": "network"}]));
    // One that was deleted since stands beside it.
    let with_gone = json!([{"name": "groups-gone", "type": "network"}, {"name": "groups-int", "type": "network"}]);
    let request = Request { control_plane: true, ..world.machine("one", &spec) };
    let made = world.create(&request).await.unwrap();
    assert!(!world.targets(&by_id).await.contains(id_of(&made)), "only a running instance can be registered");
    let seen = world.look(&request).await.pop().unwrap();
    let known = Request { provider_id: seen.provider_id.clone(), ..request };
    world.provider.update(&known, &seen).await.unwrap();
    let address = seen.addresses.iter().find(|address| address.type_ == "InternalIP").unwrap().address.clone();
    assert!(world.targets(&by_id).await.contains(&format!("<Id>{}</Id>", id_of(&made))));
    assert!(world.targets(&by_address).await.contains(&format!("<Id>{address}</Id>")));
    let registered = world.edge.arrived("RegisterTargets").len();
    world.provider.update(&known, &seen).await.unwrap();
    assert_eq!(world.edge.arrived("RegisterTargets").len(), registered, "it is there already");
    // With no more than the place that the intent kept.
    let mut place = known.intent.as_ref().unwrap().place.clone();
    place["loadBalancers"] = with_gone;
    let bare = Request { spec: place.into(), ..known };
    world.provider.delete(&bare).await.unwrap();
    assert!(!world.targets(&by_address).await.contains(&address));
}

#[tokio::test]
async fn a_machine_joins_a_classic_load_balancer() {
    let Some(world) = World::start("classic").await else { return };
    let fields = [
        ("LoadBalancerName", "classic-int"),
        ("Subnets.member.1", world.subnet.as_str()),
        ("Listeners.member.1.Protocol", "TCP"),
        ("Listeners.member.1.LoadBalancerPort", "6443"),
        ("Listeners.member.1.InstancePort", "6443"),
    ];
    world.ask_service("elasticloadbalancing", "2012-06-01", "CreateLoadBalancer", &fields).await;
    let spec = world.spec_with("loadBalancers", json!([{"name": "classic-int", "type": "classic"}]));
    let request = world.machine("one", &spec);
    world.create(&request).await.unwrap();
    let seen = world.look(&request).await.pop().unwrap();
    let known = Request { provider_id: seen.provider_id.clone(), ..request };
    world.provider.update(&known, &seen).await.unwrap();
    let fields = [("LoadBalancerNames.member.1", "classic-int")];
    let described = world.ask_service("elasticloadbalancing", "2012-06-01", "DescribeLoadBalancers", &fields).await;
    assert!(described.contains(id_of(&seen)), "{described}");
}

#[tokio::test]
async fn a_load_balancer_that_does_not_exist_is_named_and_does_not_stop_the_deletion() {
    let Some(world) = World::start("nobalancer").await else { return };
    let spec = world.spec_with("loadBalancers", json!([{"name": "nobalancer-int", "type": "network"}]));
    let request = world.machine("one", &spec);
    world.create(&request).await.unwrap();
    let seen = world.look(&request).await.pop().unwrap();
    let known = Request { provider_id: seen.provider_id.clone(), ..request };
    let error = world.provider.update(&known, &seen).await.unwrap_err();
    assert!(error.message.contains("nobalancer-int") && !error.is_final(), "{error:?}");
    world.provider.delete(&known).await.unwrap();
}
