//! The members of etcd on the machines of the control plane.
//!
//! A machine that has booted is not a member by that: somebody makes it one, at once, later or never. A member whose machine
//! is gone stays one until somebody removes it.

use std::collections::BTreeMap;

use machine::control_plane_set::Etcd;
use rollout::control_plane;
use rollout::{EtcdMember, Named};

use super::cloud::{CLUSTER, Cloud};
use super::hosts::{Host, Hosts, Illness};
use crate::random::Random;

/// Which of the machines that boot after the first three become members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Joins {
    #[default]
    All,
    /// Some of them, by their instance's id.
    Some,
    None,
}

#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) joins: Joins,
    /// An operator removes members whose machines are gone, and keeps the list in the pods up to date.
    pub(crate) has_operator: bool,
    /// The members cannot be listed.
    pub(crate) unread: bool,
    /// Ids of the instances, with the number of members that each was told of when it joined.
    all: BTreeMap<String, usize>,
    /// What the ledger of the pool remembers.
    recorded: Option<i32>,
}

impl Members {
    /// Of a world at its beginning.
    pub(crate) fn draw(&mut self, random: &mut Random) {
        self.joins = [Joins::All, Joins::All, Joins::Some, Joins::None][random.below(4)];
        self.has_operator = random.once_in(2);
    }

    /// Lets new machines join, and forgets or remembers those that are gone.
    pub(crate) fn live(&mut self, hosts: &Hosts, cloud: &Cloud) {
        if self.has_operator {
            self.all.retain(|id, _| hosts.all.contains_key(id));
        }
        for (id, _) in masters(hosts, cloud) {
            let joins = match self.joins {
                Joins::All => true,
                Joins::Some => id.bytes().map(usize::from).sum::<usize>() % 2 == 0,
                Joins::None => false,
            };
            if (joins || self.all.len() < 3) && !self.all.contains_key(id) {
                self.all.insert(id.to_owned(), self.all.len() + 1);
            }
        }
        let members = control_plane::members(&self.pods(hosts, cloud), self.recorded);
        self.recorded = i32::try_from(members).ok();
    }

    /// From now on every machine becomes a member, and members without machines are removed.
    pub(crate) fn mend(&mut self) {
        (self.joins, self.has_operator, self.unread) = (Joins::All, true, false);
    }

    /// What a controller sees.
    pub(crate) fn seen(&self, hosts: &Hosts, cloud: &Cloud) -> Etcd {
        let pods = self.pods(hosts, cloud);
        if self.unread || pods.is_empty() {
            return Etcd::Unknown;
        }
        // Nobody removes members where pods say what they were told, so the one that was told of most joined last.
        let told = |pod: &&EtcdMember| if let Named::AtJoin(count) = pod.named { count } else { 0 };
        let newest = pods.iter().max_by_key(told).map(|pod| pod.node.as_str());
        let all = control_plane::members_to_lose(&pods, self.recorded, newest);
        Etcd::Members { seen: pods.into_iter().map(|pod| (pod.node, pod.ready)).collect(), all }
    }

    /// How many healthy members are left without a machine, and how many members there are in truth.
    pub(crate) fn without(&self, machine: &str, hosts: &Hosts, cloud: &Cloud) -> (usize, usize) {
        let healthy =
            masters(hosts, cloud).filter(|(id, host)| self.all.contains_key(*id) && is_healthy(id, host, cloud));
        let left = healthy.filter(|(id, _)| cloud.entries[*id].mark.machine != machine).count();
        (left, self.all.len())
    }

    fn pods(&self, hosts: &Hosts, cloud: &Cloud) -> Vec<EtcdMember> {
        let pod = |(id, host): (&str, &Host)| {
            let named = if self.has_operator { Named::Now(self.all.len()) } else { Named::AtJoin(*self.all.get(id)?) };
            let ready = is_healthy(id, host, cloud);
            self.all.contains_key(id).then(|| EtcdMember { node: host.node.clone(), ready, named })
        };
        masters(hosts, cloud).filter_map(pod).collect()
    }
}

fn masters<'a>(hosts: &'a Hosts, cloud: &'a Cloud) -> impl Iterator<Item = (&'a str, &'a Host)> {
    let is_master = |id: &str| {
        let entry = cloud.entries.get(id);
        entry.is_some_and(|it| it.mark.cluster == CLUSTER && it.mark.machine.contains("master"))
    };
    hosts.all.iter().map(|(id, host)| (id.as_str(), host)).filter(move |(id, _)| is_master(id))
}

fn is_healthy(id: &str, host: &Host, cloud: &Cloud) -> bool {
    host.illness == Illness::None && cloud.entries.get(id).is_some_and(|entry| entry.leaving.is_none())
}
