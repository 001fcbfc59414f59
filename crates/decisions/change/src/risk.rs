//! How much a change could cost a node its way to the cluster, and so how it is looked at afterwards.
//!
//! A change that reboots, that anything is told of (a unit is changed, reloaded or restarted), or that touches files which
//! something reads without being told (the kubelet, the runtime, the network, names) is tried: it must stay well for some
//! seconds. Every other change takes effect, if at all, as soon as it is written; there one answer of the API is enough,
//! which takes no time. So no change passes without the API being heard after it.

use crate::host::HostPath;
use crate::policy::Action;
use crate::step::Step;

/// How a change is looked at once it has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Nothing on the host changes.
    None,
    /// Nothing is told of it: the API must answer once.
    Look,
    /// It can cut the node off now or in a moment: it must stay well for a while.
    Trial,
    /// It takes effect with the next boot.
    Reboot,
}

/// Folders and files that something reads without being told: the kubelet and the runtimes, this daemon, everything that
/// sets up the network, where names of hosts are looked up, and cron, which runs what it reads within a minute.
const READ_UNASKED: [&str; 35] = [
    "/etc/kubernetes",
    "/etc/rancher",
    "/var/lib/kubelet",
    "/var/lib/rancher",
    "/var/lib/k0s",
    "/etc/cni",
    "/etc/machinist",
    "/etc/crio",
    "/etc/containerd",
    "/etc/containers",
    "/etc/docker",
    "/etc/NetworkManager",
    "/etc/systemd",
    "/etc/nmstate",
    "/etc/netplan",
    "/etc/network",
    "/etc/sysconfig/network",
    "/etc/sysconfig/network-scripts",
    "/etc/wpa_supplicant",
    "/etc/dhcp",
    "/etc/dhcpcd.conf",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/nftables",
    "/etc/nftables.conf",
    "/etc/iptables",
    "/etc/sysconfig/iptables",
    "/etc/sysconfig/ip6tables",
    "/etc/firewalld",
    "/etc/sysctl.d",
    "/etc/udev",
    "/etc/cron.d",
    "/etc/crontab",
];

/// The risk of doing `steps` and then `actions`.
pub fn of(steps: &[Step], actions: &[Action]) -> Risk {
    let steps = steps.iter().map(of_step);
    let actions = actions.iter().map(|action| match action {
        // Pods leave before the first write.
        Action::None | Action::Drain => Risk::None,
        Action::DaemonReload | Action::Reload(_) | Action::Restart(_) | Action::Special => Risk::Trial,
        Action::Reboot => Risk::Reboot,
    });
    steps.chain(actions).max().unwrap_or(Risk::None)
}

fn of_step(step: &Step) -> Risk {
    match step {
        Step::Keep { .. } | Step::KeepEnablement { .. } => Risk::None,
        Step::SetKeys { .. } | Step::SetPassword { .. } => Risk::Look,
        Step::MakeFolder { path } | Step::WriteFile { path } | Step::WriteLink { path } | Step::PutBack { path } => {
            of_path(path)
        }
        Step::StopUnit { .. }
        | Step::DisableUnit { .. }
        | Step::WriteUnit { .. }
        | Step::WriteDropin { .. }
        | Step::MaskUnit { .. }
        | Step::DaemonReload
        | Step::PutBackEnablement { .. }
        | Step::EnableUnit { .. }
        | Step::PresetUnit { .. }
        | Step::StageImage { .. }
        | Step::KernelArguments { .. }
        | Step::Packages { .. } => Risk::Trial,
    }
}

fn of_path(path: &HostPath) -> Risk {
    if READ_UNASKED.iter().any(|place| path.is_beneath(place)) { Risk::Trial } else { Risk::Look }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn write(path: &str) -> Step {
        Step::WriteFile { path: HostPath::parse(path).unwrap() }
    }

    #[track_caller]
    fn check(steps: &[Step], actions: &[Action], expected: Risk) {
        assert_eq!(of(steps, actions), expected, "{steps:?} {actions:?}");
    }

    #[test]
    fn whatever_sets_up_the_network_is_tried_though_nothing_is_told_of_it() {
        let network = [
            "/etc/netplan/50-cloud-init.yaml",
            "/etc/network/interfaces",
            "/etc/cron.d/firewall",
            "/etc/crontab",
            "/etc/sysconfig/network-scripts/route-eth0",
            "/etc/NetworkManager/system-connections/uplink.nmconnection",
            "/etc/systemd/network/10-uplink.network",
            "/etc/systemd/resolved.conf",
            "/etc/resolv.conf",
            "/etc/hosts",
            "/etc/nftables.conf",
            "/etc/iptables/rules.v4",
            "/etc/firewalld/zones/public.xml",
            "/etc/sysctl.d/90-routes.conf",
            "/etc/wpa_supplicant/wpa_supplicant.conf",
            "/etc/dhcp/dhclient.conf",
            "/etc/kubernetes/manifests/etcd.yaml",
        ];
        for path in network {
            check(&[write(path)], &[], Risk::Trial);
        }
    }

    #[test]
    fn whatever_a_service_is_told_of_is_tried() {
        let motd = [write("/etc/motd")];
        check(&motd, &[Action::Restart("chronyd.service".into())], Risk::Trial);
        check(&motd, &[Action::Reload("firewalld.service".into())], Risk::Trial);
        check(&motd, &[Action::DaemonReload], Risk::Trial);
        check(&motd, &[Action::Special], Risk::Trial);
        check(&[Step::StopUnit { unit: "ssh.service".into() }], &[], Risk::Trial);
        check(&[Step::EnableUnit { unit: "nftables.service".into() }], &[], Risk::Trial);
        check(&[Step::WriteUnit { unit: "a.timer".into() }], &[], Risk::Trial);
    }

    #[test]
    fn a_file_that_nothing_is_told_of_needs_one_answer_and_no_time() {
        check(&[Step::Keep { path: HostPath::parse("/etc/motd").unwrap() }, write("/etc/motd")], &[], Risk::Look);
        check(&[write("/etc/hostsx")], &[Action::None], Risk::Look);
        check(&[Step::SetKeys { user: "core".into() }], &[], Risk::Look);
    }

    #[test]
    fn a_change_that_boots_is_tried_after_the_boot_and_one_of_nothing_not_at_all() {
        check(&[write("/etc/motd")], &[Action::Reboot], Risk::Reboot);
        check(&[], &[], Risk::None);
    }
}
