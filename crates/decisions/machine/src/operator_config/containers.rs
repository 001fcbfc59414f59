//! The containers of the controllers, with their arguments.

use std::collections::BTreeMap;

use super::{Controllers, Deployment, Platform, Proxy, Snapshot};

/// One container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub name: &'static str,
    pub image: String,
    /// Empty for images that have an entry point.
    pub command: Vec<&'static str>,
    pub args: Vec<String>,
    pub env: Vec<Env>,
}

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Env {
    Value {
        name: &'static str,
        value: String,
    },
    /// Filled in from a field of the pod.
    Field {
        name: &'static str,
        path: &'static str,
    },
}

/// What runs for a platform that has machines.
pub(super) fn deployment(
    snapshot: &Snapshot,
    platform: Platform,
    controllers: &Controllers,
    features: &BTreeMap<String, bool>,
    tls: &[String],
) -> Deployment {
    let parts = Parts { snapshot, platform, controllers, features, tls };
    let mut containers = vec![parts.machine_set(), parts.machine(), parts.node_link()];
    let has_health_checks = !controllers.machine_health_check.is_empty();
    containers.extend(has_health_checks.then(|| parts.health_check()));
    containers.push(parts.metrics("kube-rbac-proxy-machineset-mtrc", 8442, 8082));
    containers.push(parts.metrics("kube-rbac-proxy-machine-mtrc", 8441, 8081));
    containers.extend(has_health_checks.then(|| parts.metrics("kube-rbac-proxy-mhc-mtrc", 8444, 8083)));
    let termination = platform.has_spot().then(|| parts.termination());
    Deployment::Run { containers, termination: termination.into_iter().collect() }
}

struct Parts<'a> {
    snapshot: &'a Snapshot,
    platform: Platform,
    controllers: &'a Controllers,
    features: &'a BTreeMap<String, bool>,
    tls: &'a [String],
}

impl Parts<'_> {
    fn machine_set(&self) -> Container {
        let mut args = self.common_args();
        args.push(self.feature_gates());
        args.extend(self.tls.iter().cloned());
        let image = self.controllers.machine_set.clone();
        Container {
            name: "machineset-controller",
            image,
            command: vec!["/machineset-controller"],
            args,
            env: self.proxy(),
        }
    }

    fn machine(&self) -> Container {
        let mut args = self.common_args();
        args.push(self.feature_gates());
        match self.platform {
            Platform::Azure | Platform::Gcp => args.push("--max-concurrent-reconciles=10".to_owned()),
            // The provider of bare metal serves webhooks of its own.
            Platform::BareMetal => args.extend(self.tls.iter().cloned()),
            _ => {}
        }
        let mut env = self.proxy();
        env.push(Env::Field { name: "NODE_NAME", path: "spec.nodeName" });
        env.push(Env::Value { name: "RELEASE_VERSION", value: self.snapshot.release_version.clone() });
        Container {
            name: "machine-controller",
            image: self.controllers.provider.clone(),
            command: vec!["/machine-controller-manager"],
            args,
            env,
        }
    }

    fn node_link(&self) -> Container {
        Container {
            name: "nodelink-controller",
            image: self.controllers.node_link.clone(),
            command: vec!["/nodelink-controller"],
            args: self.common_args(),
            env: self.proxy(),
        }
    }

    fn health_check(&self) -> Container {
        Container {
            name: "machine-healthcheck-controller",
            image: self.controllers.machine_health_check.clone(),
            command: vec!["/machine-healthcheck"],
            args: self.common_args(),
            env: self.proxy(),
        }
    }

    fn metrics(&self, name: &'static str, secure: u16, plain: u16) -> Container {
        let mut args = vec![
            format!("--secure-listen-address=0.0.0.0:{secure}"),
            format!("--upstream=http://localhost:{plain}"),
            "--config-file=/etc/kube-rbac-proxy/config-file.yaml".to_owned(),
            "--tls-cert-file=/etc/tls/private/tls.crt".to_owned(),
            "--tls-private-key-file=/etc/tls/private/tls.key".to_owned(),
        ];
        args.extend(self.tls.iter().cloned());
        args.extend(["--logtostderr=true", "--v=3"].map(str::to_owned));
        let image = self.controllers.kube_rbac_proxy.clone();
        Container { name, image, command: Vec::new(), args, env: Vec::new() }
    }

    fn termination(&self) -> Container {
        let mut args = ["--logtostderr=true", "--v=3", "--node-name=$(NODE_NAME)"].map(str::to_owned).to_vec();
        args.push(format!("--namespace={}", self.snapshot.namespace));
        args.push("--poll-interval-seconds=5".to_owned());
        let mut env = self.proxy();
        env.push(Env::Value { name: "KUBECONFIG", value: "/var/lib/kubelet/kubeconfig".to_owned() });
        env.push(Env::Field { name: "NODE_NAME", path: "spec.nodeName" });
        Container {
            name: "termination-handler",
            image: self.controllers.termination_handler.clone(),
            command: vec!["/termination-handler"],
            args,
            env,
        }
    }

    fn common_args(&self) -> Vec<String> {
        let fixed = ["--logtostderr=true", "--v=3", "--leader-elect=true", "--leader-elect-lease-duration=120s"];
        let namespace = format!("--namespace={}", self.snapshot.namespace);
        fixed.map(str::to_owned).into_iter().chain([namespace]).collect()
    }

    fn feature_gates(&self) -> String {
        let gates: Vec<_> = self.features.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
        format!("--feature-gates={}", gates.join(","))
    }

    fn proxy(&self) -> Vec<Env> {
        let Proxy { http, https, no_proxy } = &self.snapshot.proxy;
        let all = [("HTTP_PROXY", http), ("HTTPS_PROXY", https), ("NO_PROXY", no_proxy)];
        let set = all.into_iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, value)| Env::Value { name, value: value.clone() }).collect()
    }
}
