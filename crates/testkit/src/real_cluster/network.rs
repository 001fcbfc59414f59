//! The network of one cluster: a namespace for the control plane in the middle, and one for each node.
//!
//! All addresses exist in these namespaces only, so every cluster has the same ones, and nothing of this machine's own
//! network is touched. The test reaches the API by a port on the loopback that [`Network::forward`] connects with it.

use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

/// What the names of namespaces, cgroups and folders of clusters begin with.
pub(super) const PREFIX: &str = "machinist-real-";

/// The control plane's address.
pub(super) const HUB: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// Addresses of Services, and the first of them, which is the API's own.
pub(super) const SERVICES: &str = "10.96.0.0/16";
pub(super) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// Addresses of all pods.
pub(super) const PODS: &str = "10.244.0.0/16";

/// Routes are laid for this many nodes from the start, so that a later one is reached without a change to the others.
pub(super) const MOST_NODES: u8 = 7;

/// The namespaces of a cluster. They are removed with its claim.
#[derive(Clone, Debug)]
pub(super) struct Network {
    id: String,
}

/// A port of the loopback that leads into a namespace, until dropped.
pub(super) struct Forward {
    port: u16,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A node's address.
pub(super) fn address(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 10 + node)
}

/// The addresses of a node's pods.
pub(super) fn pods(node: u8) -> String {
    format!("10.244.{node}.0/24")
}

impl Network {
    /// Makes the namespace in the middle, with a bridge that nodes are plugged into.
    pub(super) fn create(id: &str) -> Result<Self> {
        let network = Self { id: id.to_owned() };
        let hub = network.name("hub");
        ip(&["netns", "add", &hub], "")?;
        let routes = (1..=MOST_NODES).map(|node| format!("route add {} via {}\n", pods(node), address(node)));
        let lines = format!(
            "link set lo up\n\
             link add br0 type bridge\n\
             addr add {HUB}/24 dev br0\n\
             link set br0 up\n{}",
            routes.collect::<String>()
        );
        ip(&["-n", &hub, "-batch", "-"], &lines)?;
        Ok(network)
    }

    /// Makes a node's namespace anew, as a boot does: interfaces, routes and firewall rules of the last boot are gone.
    pub(super) fn boot(&self, node: u8) -> Result<()> {
        let (hub, own) = (self.name("hub"), self.name(&node.to_string()));
        if self.node(node).exists() {
            ip(&["netns", "del", &own], "")?;
        }
        ip(&["netns", "add", &own], "")?;
        // The pair of the last boot goes with its namespace, but not at once.
        let _ = ip(&["-n", &hub, "link", "del", &format!("node{node}")], "");
        let plug = format!(
            "link add node{node} type veth peer name eth0 netns {own}\n\
             link set node{node} master br0\n\
             link set node{node} up\n"
        );
        ip(&["-n", &hub, "-batch", "-"], &plug)?;
        let others = (1..=MOST_NODES).filter(|other| *other != node);
        let routes = others.map(|other| format!("route add {} via {}\n", pods(other), address(other)));
        let lines = format!(
            "link set lo up\n\
             addr add {}/24 dev eth0\n\
             link set eth0 up\n\
             route add default via {HUB}\n{}",
            address(node),
            routes.collect::<String>()
        );
        ip(&["-n", &own, "-batch", "-"], &lines)
    }

    /// The control plane's namespace.
    pub(super) fn hub(&self) -> PathBuf {
        place(&self.name("hub"))
    }

    /// A node's namespace; another one after each boot.
    pub(super) fn node(&self, node: u8) -> PathBuf {
        place(&self.name(&node.to_string()))
    }

    /// Connects a free port of the loopback with an address in the control plane's namespace.
    pub(super) fn forward(&self, to: SocketAddr) -> Result<Forward> {
        // The listener belongs to the namespace it is made in, which is this machine's own.
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (end, ended) = oneshot::channel();
        let thread = spawn_inside(&self.hub(), move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be made");
            runtime.block_on(async {
                tokio::select! {
                    () = forward(listener, to) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Forward { port, end: Some(end), thread: Some(thread) })
    }

    fn name(&self, part: &str) -> String {
        format!("{PREFIX}{}-{part}", self.id)
    }
}

impl Forward {
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs `work` on a thread of its own in a network namespace. Sockets that it makes stay there.
pub(super) fn spawn_inside<T: Send + 'static>(
    namespace: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let opened = File::open(namespace).with_context(|| format!("cannot open {}", namespace.display()))?;
    Ok(std::thread::spawn(move || {
        move_into_link_name_space(opened.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may change namespaces");
        work()
    }))
}

/// Removes all namespaces of a cluster. Interfaces in them go too.
pub(super) fn remove(id: &str) {
    let names = std::fs::read_dir(NAMESPACES).into_iter().flatten().filter_map(Result::ok);
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    for name in names.filter(|name| name.starts_with(&format!("{PREFIX}{id}-"))) {
        if let Err(error) = ip(&["netns", "del", &name], "") {
            eprintln!("testkit: cluster {id}: {error:#}");
        }
    }
}

/// Where `ip netns` keeps them.
const NAMESPACES: &str = "/run/netns";

fn place(name: &str) -> PathBuf {
    Path::new(NAMESPACES).join(name)
}

async fn forward(listener: TcpListener, to: SocketAddr) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the listener does not block");
    while let Ok((mut client, _)) = listener.accept().await {
        tokio::spawn(async move {
            if let Ok(mut server) = tokio::net::TcpStream::connect(to).await {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

fn ip(arguments: &[&str], lines: &str) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run ip")?;
    child.stdin.take().context("its input is a pipe")?.write_all(lines.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::needs;
    use crate::real_cluster::claim::Claim;

    #[test]
    fn a_port_of_the_loopback_leads_to_a_server_in_the_namespace() {
        if !needs::real_cluster() {
            return;
        }
        let claim = Claim::take().unwrap();
        let network = Network::create(claim.id()).unwrap();
        let (ready, listening) = std::sync::mpsc::channel();
        let server = spawn_inside(&network.hub(), move || {
            let listener = TcpListener::bind((HUB, 6443)).unwrap();
            ready.send(()).unwrap();
            listener.accept().unwrap().0.write_all(b"hello").unwrap();
        });
        listening.recv().unwrap();
        let forward = network.forward((HUB, 6443).into()).unwrap();
        let mut text = String::new();
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", forward.port())).unwrap();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        server.unwrap().join().unwrap();
        drop(forward);
        drop(claim);
        assert!(!network.hub().exists());
    }
}
