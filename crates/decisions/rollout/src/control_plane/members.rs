//! Reads the members of etcd that a pod of etcd names.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::Named;

/// Who has which peer URL, as kubeadm writes it when a member joins.
const AT_JOIN: &str = "--initial-cluster=";
/// The clients' URLs of all members, which OpenShift's operator of etcd keeps up to date in every pod.
const NOW: &str = "ALL_ETCD_ENDPOINTS";

pub(super) fn named(pod: &Pod) -> Named {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.map(of_container).fold(Named::None, Named::max)
}

fn of_container(container: &Container) -> Named {
    let arguments = container.command.iter().chain(&container.args).flatten();
    let at_join = arguments.filter_map(|argument| argument.strip_prefix(AT_JOIN)).map(|list| {
        // A member with two URLs stands there twice.
        let names: BTreeSet<&str> = entries(list).filter_map(|entry| entry.split('=').next()).collect();
        Named::AtJoin(names.len())
    });
    let variables = container.env.iter().flatten().filter(|variable| variable.name == NOW);
    let now = variables.filter_map(|variable| variable.value.as_deref()).map(|list| Named::Now(entries(list).count()));
    at_join.chain(now).fold(Named::None, Named::max)
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(container: Value, expected: Named) {
        let pod = json!({"metadata": {"name": "etcd-m0"}, "spec": {"containers": [{"name": "a"}, container]}});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        assert_eq!(named(&pod), expected);
    }

    #[test]
    fn the_members_at_the_time_it_joined_are_read_from_its_arguments() {
        let list = "--initial-cluster=m0=https://10.0.0.1:2380,m1=https://10.0.0.2:2380,m1=https://[fd00::2]:2380";
        check(json!({"name": "etcd", "command": ["etcd", "--name=m1", list]}), Named::AtJoin(2));
        check(json!({"name": "etcd", "args": [list]}), Named::AtJoin(2));
        check(json!({"name": "etcd"}), Named::None);
    }

    #[test]
    fn a_list_that_is_kept_up_to_date_comes_first() {
        let variable = json!({"name": NOW, "value": "https://10.0.0.1:2379,https://10.0.0.2:2379"});
        let list = "--initial-cluster=a=x,b=y,c=z";
        check(json!({"name": "etcd", "command": ["etcd", list], "env": [variable]}), Named::Now(2));
    }
}
