//! What is put into a node's root before its first boot: containerd, kubelet and kube-proxy as units of its own systemd.
//!
//! Each setting that a node on a machine of its own would not need says what goes wrong without it.

use anyhow::Result;
use containers::Root;
use serde_json::json;

use super::control_plane::Files;
use super::network;

/// Where the nodes find the archives of images, and the programs of Kubernetes.
pub(super) const IMAGES: &str = "/opt/images";
pub(super) const PROGRAMS: &str = "/opt/kubernetes";

/// Debian's names of what a node needs beyond the smallest system.
pub(super) const PACKAGES: &str = "systemd,systemd-sysv,dbus,iproute2,iptables,nftables,containerd,runc,\
    containernetworking-plugins,conntrack,procps,kmod,util-linux,ca-certificates";

/// Files by which a finished root with these packages is known.
pub(super) const PACKAGED: [&str; 4] =
    ["usr/bin/containerd", "usr/sbin/runc", "usr/lib/cni/bridge", "usr/bin/dbus-daemon"];

/// The image that holds a pod's namespaces open; a pod's own image may run nothing as its first process.
pub(super) const PAUSE: &str = "machinist.test/pause:1";

/// Mounted by systemd-nspawn read-only, as a container's should be; the kubelet makes groups for pods there.
///
/// The files that the kubelet sets beneath `/proc/sys` belong to the whole machine, so it gets plain files in their place.
const PREPARE: &str = r#"#!/bin/sh
set -e
for mount in $(awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts); do
    mount -o remount,bind,rw "$mount"
done
mkdir -p /run/sysctl
while read -r name value; do
    echo "$value" > "/run/sysctl/$(echo "$name" | tr / .)"
    mount --bind "/run/sysctl/$(echo "$name" | tr / .)" "/proc/sys/$name"
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END
echo 1 > /proc/sys/net/ipv4/ip_forward
"#;

const PREPARE_UNIT: &str = "[Unit]
Before=containerd.service kubelet.service kube-proxy.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/bin/prepare-node
";

const IMAGES_UNIT: &str = "[Unit]
After=containerd.service
Requires=containerd.service
Before=kubelet.service
ConditionPathExists=!/var/lib/containerd/imported
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'for image in /opt/images/*.tar; do ctr -n k8s.io images import \"$image\"; done; touch /var/lib/containerd/imported'
";

/// `KillMode=process`: pods outlive a restart of the kubelet. The variable and the file are those of hosts that kubeadm made.
const KUBELET_UNIT: &str = "[Unit]
After=containerd.service prepare-node.service images.service
Wants=containerd.service prepare-node.service images.service
StartLimitIntervalSec=0
[Service]
EnvironmentFile=/etc/kubernetes/node.env
Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"
ExecStart=/opt/kubernetes/kubelet $KUBELET_CONFIG_ARGS --bootstrap-kubeconfig=/etc/kubernetes/bootstrap.kubeconfig --kubeconfig=/var/lib/kubelet/kubeconfig --node-ip=${NODE_IP} $KUBELET_FLAGS
Restart=always
RestartSec=500ms
Delegate=yes
KillMode=process
[Install]
WantedBy=multi-user.target
";

const PROXY_UNIT: &str = "[Unit]
After=network.target prepare-node.service
StartLimitIntervalSec=0
[Service]
ExecStart=/opt/kubernetes/kube-proxy --config=/etc/kubernetes/kube-proxy.yaml
Restart=always
RestartSec=500ms
";

/// `restrict_oom_score_adj`: a container may not lower its own score, and runc gives up when it tries.
const CONTAINERD: &str = r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
"#;

/// A node that is not furnished yet.
pub(super) struct Furniture<'a> {
    pub(super) name: &'a str,
    pub(super) number: u8,
    /// Keeps ordinary pods away, as on a control plane.
    pub(super) is_control_plane: bool,
}

impl Furniture<'_> {
    pub(super) fn put_into(&self, root: &Root<'_>, files: &Files) -> Result<()> {
        root.name(self.name)?;
        // Empty, it is made at the first boot and kept.
        root.write("etc/machine-id", "")?;
        root.write("etc/containerd/config.toml", &CONTAINERD.replace("PAUSE", PAUSE))?;
        root.write("etc/cni/net.d/10-pods.conflist", &self.cni().to_string())?;
        root.write("etc/kubernetes/pki/ca.crt", &files.read("ca.crt")?)?;
        root.write("etc/kubernetes/bootstrap.kubeconfig", &files.read("bootstrap.kubeconfig")?)?;
        root.write("etc/kubernetes/kube-proxy.kubeconfig", &files.read("proxy.kubeconfig")?)?;
        root.write("etc/kubernetes/kube-proxy.yaml", &proxy().to_string())?;
        root.write("etc/kubernetes/resolv.conf", "nameserver 10.96.0.10\n")?;
        root.write("etc/kubernetes/node.env", &self.environment())?;
        root.make_folder("etc/kubernetes/manifests")?;
        root.program("usr/local/bin/prepare-node", PREPARE)?;
        root.enable("prepare-node.service", PREPARE_UNIT)?;
        root.enable("images.service", IMAGES_UNIT)?;
        root.enable("kubelet.service", KUBELET_UNIT)?;
        root.enable("kube-proxy.service", PROXY_UNIT)?;
        Ok(())
    }

    fn environment(&self) -> String {
        let taint = "--register-with-taints=node-role.kubernetes.io/control-plane=:NoSchedule";
        let flags = if self.is_control_plane { taint } else { "" };
        format!("NODE_IP={}\nKUBELET_FLAGS={flags}\n", network::address(self.number))
    }

    fn cni(&self) -> serde_json::Value {
        json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": network::pods(self.number)}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ],
        })
    }
}

/// The kubelet's own configuration, in the folder of its state.
pub(super) fn kubelet() -> serde_json::Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "failSwapOn": false,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "staticPodPath": "/etc/kubernetes/manifests",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "rotateCertificates": true,
        "clusterDomain": "cluster.local",
        "clusterDNS": ["10.96.0.10"],
        "resolvConf": "/etc/kubernetes/resolv.conf",
        // All nodes share this machine's disk; its being rather full is no matter of theirs.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
    })
}

fn proxy() -> serde_json::Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": network::PODS,
        "detectLocalMode": "ClusterCIDR",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.kubeconfig"},
        // These are settings of the whole machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    })
}
