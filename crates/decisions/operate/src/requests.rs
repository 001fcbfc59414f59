//! Decides which certificate requests are approved: those of machines that Machinist knows, renewals of nodes that exist, and
//! no others.
//!
//! A node that asks with its own certificate has shown that somebody approved it before, so it gets its next one whoever
//! made its machine, and however many new machines are asking meanwhile. What its serving certificate may be for is told by
//! its machine's provider. Where there is no Machine, only its Node tells, which the kubelet writes itself: then it is its
//! own name and those of its addresses that nobody else has.
//!
//! A request that is not understood, or that asks for anything beyond what a kubelet needs, is left to a person. Nothing
//! is ever denied: a denial cannot be taken back, and somebody else may know better.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer as _;

/// Signer of the certificates with which kubelets speak to the API.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of the certificates with which kubelets are spoken to.
pub const SERVING: &str = "kubernetes.io/kubelet-serving";

/// A machine asks within this time after it was made, or after it was given its config; later requests are suspicious.
const WINDOW: SignedDuration = SignedDuration::from_hours(2);
/// Clocks differ a little, and a request may seem older than its machine.
const EARLIER: SignedDuration = SignedDuration::from_secs(10);
/// More open requests than machines could have made mean that somebody is trying.
const SPARE: usize = 100;
/// A machine that is coming up asks within minutes and again after its backoff. What nobody decided about in an hour is left
/// to a person, and says nothing about what is going on now.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// One request, as the API shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub signer: String,
    pub user: String,
    pub groups: Vec<String>,
    pub usages: Vec<String>,
    /// The PEM text inside.
    pub pem: Vec<u8>,
    pub created: Option<Timestamp>,
    /// It was approved, denied or has failed.
    pub decided: bool,
}

/// A machine that Machinist knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Names its node may have.
    pub names: BTreeSet<String>,
    /// Every name and address it has, as its provider told.
    pub addresses: BTreeSet<String>,
    /// Its node, once it has one.
    pub node: Option<String>,
    /// When it was made, or was last given its config.
    pub since: Option<Timestamp>,
    /// It is known by its token only, so no provider tells its addresses.
    pub by_token: bool,
}

/// What the decision is made from.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// `system:serviceaccount:<namespace>:node-bootstrapper`.
    pub bootstrapper: String,
    pub machines: Vec<Machine>,
    /// The nodes that exist, each with the addresses that its kubelet has told.
    pub nodes: BTreeMap<String, BTreeSet<String>>,
    /// Addresses and names of the cluster itself: of its API and its Services.
    pub reserved: BTreeSet<String>,
    /// How many machines seem to be waiting for a certificate; see [`pending`].
    pub pending: usize,
}

/// How many new machines have asked within the last hour and are still waiting.
///
/// A machine that asks again and again is one. Requests of nodes and people and to other signers do not count.
pub fn pending(requests: impl IntoIterator<Item = Request>, bootstrapper: &str, now: Timestamp) -> usize {
    let is_recent = |request: &Request| request.created.is_some_and(|created| now.duration_since(created) <= RECENT);
    let is_new = |request: &Request| request.user == bootstrapper && request.signer == CLIENT;
    let open = requests.into_iter().filter(|one| !one.decided && is_recent(one) && is_new(one));
    // One that cannot be read stands for a machine of its own.
    let (known, unknown): (Vec<_>, Vec<_>) = open.map(|one| Wanted::read(&one.pem).ok()).partition(Option::is_some);
    let names: BTreeSet<String> = known.into_iter().flatten().map(|wanted| wanted.node).collect();
    names.len() + unknown.len()
}

/// Why a request is left to a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Left {
    #[error("it was decided about already")]
    Decided,
    #[error("signer {0} is not a kubelet's")]
    OtherSigner(String),
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("it asks for more than a kubelet needs: {0}")]
    TooMuch(String),
    #[error("{0} may not ask for a certificate of node {1}")]
    OtherUser(String, String),
    #[error("no Machine and no BootstrapToken of ours is for node {0}")]
    Unknown(String),
    #[error("node {0} exists already")]
    NodeExists(String),
    #[error("machine of node {0} was made or served too long before the request, or after it")]
    OutOfWindow(String),
    #[error("{name} is not an address of the machine of node {node}")]
    ForeignName { node: String, name: String },
    #[error("node {node} has no Machine that tells its addresses, and {name} may belong to something else: {why}")]
    NotItsOwn { node: String, name: String, why: String },
    #[error(
        "{pending} machines have asked within an hour and wait, more than the {machines} that are known and a hundred"
    )]
    TooMany { pending: usize, machines: usize },
}

/// The node whose certificate may be approved, or why it is not.
pub fn decide(request: &Request, known: &Known) -> Result<String, Left> {
    if request.decided {
        return Err(Left::Decided);
    }
    let serving = match request.signer.as_str() {
        CLIENT => false,
        SERVING => true,
        other => return Err(Left::OtherSigner(other.to_owned())),
    };
    let wanted = Wanted::read(&request.pem)?;
    wanted.check(request, serving)?;
    if serving {
        decide_serving(request, &wanted, known)?
    } else {
        decide_client(request, &wanted, known)?
    }
    Ok(wanted.node)
}

/// A new machine asks with the bootstrap token; a node that has a certificate asks for its next with that one.
fn decide_client(request: &Request, wanted: &Wanted, known: &Known) -> Result<(), Left> {
    let node = &wanted.node;
    if let Some(name) = wanted.names.first() {
        return Err(Left::TooMuch(format!("the name {name}")));
    }
    if is_node(request, node) {
        return if known.nodes.contains_key(node) { Ok(()) } else { Err(Left::Unknown(node.clone())) };
    }
    if request.user != known.bootstrapper {
        return Err(Left::OtherUser(request.user.clone(), node.clone()));
    }
    if known.pending > known.machines.len() + SPARE {
        return Err(Left::TooMany { pending: known.pending, machines: known.machines.len() });
    }
    let machine = known.machines.iter().find(|machine| machine.node.is_none() && machine.names.contains(node));
    let Some(machine) = machine else {
        return Err(Left::Unknown(node.clone()));
    };
    if known.nodes.contains_key(node) {
        return Err(Left::NodeExists(node.clone()));
    }
    let in_window = machine.since.zip(request.created).is_some_and(|(since, created)| {
        let after = created.duration_since(since);
        after >= -EARLIER && after <= WINDOW
    });
    if in_window { Ok(()) } else { Err(Left::OutOfWindow(node.clone())) }
}

/// A kubelet may be known by the names and addresses its provider has told. By those it tells itself it may be only where no
/// provider tells any.
fn decide_serving(request: &Request, wanted: &Wanted, known: &Known) -> Result<(), Left> {
    let node = &wanted.node;
    if !is_node(request, node) {
        return Err(Left::OtherUser(request.user.clone(), node.clone()));
    }
    let Some(own) = known.nodes.get(node) else { return Err(Left::Unknown(node.clone())) };
    if wanted.names.is_empty() {
        return Err(Left::TooMuch("no name at all".to_owned()));
    }
    match known.machines.iter().find(|machine| machine.is(node) && !machine.by_token) {
        Some(machine) => match wanted.names.iter().find(|name| !machine.addresses.contains(*name)) {
            Some(name) => Err(Left::ForeignName { node: node.clone(), name: name.clone() }),
            None => Ok(()),
        },
        None => wanted.names.iter().try_for_each(|name| {
            let refused = |why| Left::NotItsOwn { node: node.clone(), name: name.clone(), why };
            known.may_be(node, own, name).map_err(refused)
        }),
    }
}

impl Known {
    /// Whether nothing speaks against a node being known by this name, or why not. A hostile kubelet may write any address
    /// into its Node, and with a certificate for it play whoever has it: another node, or the API itself.
    fn may_be(&self, node: &str, own: &BTreeSet<String>, name: &str) -> Result<(), String> {
        let address = address(name);
        if name != node && address.is_none() {
            return Err("it is a name, and not the node's own".to_owned());
        }
        let has = |all: &BTreeSet<String>| {
            all.iter().any(|one| one == name || (address.is_some() && self::address(one) == address))
        };
        if address.is_some_and(is_special) {
            return Err("it is no address of one host".to_owned());
        }
        if address.is_some() && !has(own) {
            return Err("it is no address of the Node".to_owned());
        }
        if has(&self.reserved) {
            return Err("the API or a Service has it".to_owned());
        }
        if let Some((other, _)) = self.nodes.iter().find(|(other, all)| *other != node && (*other == name || has(all)))
        {
            return Err(format!("node {other} has it too"));
        }
        match self.machines.iter().find(|machine| !machine.is(node) && (has(&machine.addresses) || has(&machine.names)))
        {
            Some(_) => Err("a Machine has it that is not this node's".to_owned()),
            None => Ok(()),
        }
    }
}

/// An address of IPv4 that is written as one of IPv6 is the same to whoever checks a certificate, so it is the same here.
fn address(name: &str) -> Option<IpAddr> {
    name.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Of an address as [`address`] reads it.
fn is_special(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    is_local || address.is_loopback() || address.is_unspecified() || address.is_multicast()
}

impl Machine {
    fn is(&self, node: &str) -> bool {
        match &self.node {
            Some(own) => own == node,
            None => self.names.contains(node),
        }
    }
}

fn is_node(request: &Request, node: &str) -> bool {
    request.user == format!("system:node:{node}") && request.groups.iter().any(|group| group == "system:nodes")
}

/// What a request asks for.
struct Wanted {
    node: String,
    names: Vec<String>,
}

impl Wanted {
    fn read(pem: &[u8]) -> Result<Self, Left> {
        let unreadable = |reason: &str| Left::Unreadable(reason.to_owned());
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem).map_err(|_| unreadable("not PEM"))?;
        let (rest, request) =
            X509CertificationRequest::from_der(&pem.contents).map_err(|_| unreadable("not a certificate request"))?;
        if !rest.is_empty() {
            return Err(unreadable("something follows the request"));
        }
        let subject = &request.certification_request_info.subject;
        let text =
            |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().map(str::to_owned).ok();
        let common: Vec<_> = subject.iter_common_name().filter_map(text).collect();
        let groups: Vec<_> = subject.iter_organization().filter_map(text).collect();
        if subject.iter_attributes().count() != 2 || groups != ["system:nodes"] {
            return Err(Left::TooMuch(format!("the subject {subject}")));
        }
        let node = common.first().and_then(|name| name.strip_prefix("system:node:")).filter(|name| !name.is_empty());
        let node = node.ok_or_else(|| Left::TooMuch(format!("the subject {subject}")))?.to_owned();
        let mut names = Vec::new();
        for extension in request.requested_extensions().into_iter().flatten() {
            let ParsedExtension::SubjectAlternativeName(all) = extension else {
                return Err(Left::TooMuch("an extension beside names".to_owned()));
            };
            for one in &all.general_names {
                let name = crate::certificates::name(one);
                names.push(name.ok_or_else(|| Left::TooMuch("a name that is neither DNS nor an address".to_owned()))?);
            }
        }
        Ok(Self { node, names })
    }

    fn check(&self, request: &Request, serving: bool) -> Result<(), Left> {
        let purpose = if serving { "server auth" } else { "client auth" };
        let allowed = ["digital signature", "key encipherment", purpose];
        if let Some(usage) = request.usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
            return Err(Left::TooMuch(format!("the usage {usage}")));
        }
        let needed = ["digital signature", purpose];
        match needed.iter().find(|needed| !request.usages.iter().any(|usage| usage == *needed)) {
            Some(needed) => Err(Left::TooMuch(format!("a certificate without the usage {needed}"))),
            None => Ok(()),
        }
    }
}
