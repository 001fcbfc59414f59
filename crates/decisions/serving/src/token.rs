//! Decides whether a token gives access to a pool's config.
//!
//! All refusals look the same to the client, so that it cannot find out which tokens exist. The reason goes to the log
//! and the event.

use std::borrow::Borrow;

use api::machinist::{BootstrapToken, BootstrapTokenSpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest as _, Sha256};

/// What a new token gives access to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    pub pool: String,
    /// The machine that the token is for: the name of its Machine or, without a Machine, the name of its future node.
    pub machine: Option<String>,
    /// The uid of that Machine. `None` means that the machine is not managed by the Machine API.
    pub machine_uid: Option<String>,
    /// `None`: the token does not expire.
    pub expires: Option<Timestamp>,
    /// `None`: the number of uses is not limited.
    pub max_uses: Option<i64>,
}

/// The state of a Machine when its token is presented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub name: String,
    pub uid: Option<String>,
    pub addresses: Vec<String>,
    /// The Machine is being deleted.
    pub is_leaving: bool,
    /// The Machine has a node, so its first boot is over.
    pub has_node: bool,
}

/// The state of all Machines when a token for one of them is presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines<M> {
    pub all: Vec<M>,
    /// A node with the name that the token is for exists.
    pub has_node: bool,
}

/// A request for a config.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub secret: Option<&'a str>,
    pub pool: &'a str,
    /// The client's address. Behind a load balancer this is the balancer's address.
    pub address: &'a str,
    pub now: Timestamp,
}

/// Why a token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no token was sent")]
    Missing,
    #[error("the token is not known")]
    Unknown,
    #[error("the token is for another pool")]
    OtherPool,
    #[error("the token has expired")]
    Expired,
    #[error("the token has been used up")]
    UsedUp,
    #[error("the token is for another machine")]
    OtherMachine,
    #[error("the machine that the token is for is gone, leaving, or a node already")]
    MachineIsOver,
}

/// Returns the object for a token. It contains only the hash of `secret`.
pub fn object(grant: &Grant, secret: &str) -> BootstrapToken {
    let spec = BootstrapTokenSpec {
        pool: grant.pool.clone(),
        sha256: hash(secret),
        machine: grant.machine.clone(),
        machine_uid: grant.machine_uid.clone(),
        expires: grant.expires.map(Time),
        max_uses: grant.max_uses,
    };
    BootstrapToken::new(&name(&grant.pool, secret), spec)
}

/// Returns the name of a token's object, which is derived from the secret and does not reveal it.
pub fn name(pool: &str, secret: &str) -> String {
    // A name may have 253 characters, and the pool's name alone may be that long.
    let pool = &pool[..pool.len().min(200)];
    format!("{}-{}", pool.trim_end_matches(['-', '.']), &hash(secret)[..12])
}

/// Looks up the token object of a secret by hash and checks it, or returns why access is refused.
///
/// Secrets are never compared; their SHA-256 sums are, in constant time. `machines` is called only if the token is for
/// one machine.
pub fn check<T: Borrow<BootstrapToken>, M: Borrow<Machine>>(
    asking: Asking<'_>,
    tokens: impl IntoIterator<Item = T>,
    machines: impl FnOnce() -> Machines<M>,
) -> Result<T, Refusal> {
    let token = find(asking.secret, asking.pool, tokens)?;
    let known = token.borrow();
    let uses = known.status.as_ref().map_or(0, |status| status.uses);
    if known.spec.expires.as_ref().is_some_and(|expires| expires.0 <= asking.now) {
        return Err(Refusal::Expired);
    }
    if known.spec.max_uses.is_some_and(|limit| uses >= limit) {
        return Err(Refusal::UsedUp);
    }
    if let Some(machine) = &known.spec.machine {
        check_machine(machine, known.spec.machine_uid.as_deref(), asking.address, &machines())?;
    }
    Ok(token)
}

/// Looks up the token object of a secret for a pool, even if it is expired or used up: a machine that has fetched its
/// config may still report on its first boot.
pub fn find<T: Borrow<BootstrapToken>>(
    secret: Option<&str>,
    pool: &str,
    tokens: impl IntoIterator<Item = T>,
) -> Result<T, Refusal> {
    let secret = secret.filter(|secret| !secret.is_empty()).ok_or(Refusal::Missing)?;
    let sum = hash(secret);
    let mut refusal = Refusal::Unknown;
    for token in tokens {
        let spec = &token.borrow().spec;
        if is_equal(spec.sha256.as_bytes(), sum.as_bytes()) {
            if spec.pool == pool {
                return Ok(token);
            }
            refusal = Refusal::OtherPool;
        }
    }
    Err(refusal)
}

/// Returns the hash of a secret, which is all that a token object stores of it.
pub fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

/// A stolen token must not work after the first boot of its machine. The client's address leads to a refusal only if it
/// belongs to another Machine: the machine's own address may not be known yet, and a load balancer hides it.
fn check_machine<M: Borrow<Machine>>(
    name: &str,
    uid: Option<&str>,
    address: &str,
    known: &Machines<M>,
) -> Result<(), Refusal> {
    let machines = || known.all.iter().map(Borrow::borrow);
    let machine = machines().find(|machine| machine.name == name);
    let is_over = match machine {
        // A Machine that was recreated under the same name is a different machine.
        Some(machine) if uid.is_some_and(|uid| machine.uid.as_deref() != Some(uid)) => true,
        Some(machine) => machine.is_leaving || machine.has_node,
        None => uid.is_some() || known.has_node,
    };
    if is_over {
        return Err(Refusal::MachineIsOver);
    }
    let is_at = |machine: &Machine| machine.addresses.iter().any(|known| known == address);
    if !machine.is_some_and(is_at) && machines().any(is_at) {
        return Err(Refusal::OtherMachine);
    }
    Ok(())
}

/// Compares in constant time: every byte is read, wherever the first difference is.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use api::machinist::BootstrapTokenStatus;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn token(change: impl FnOnce(&mut BootstrapTokenSpec), uses: i64) -> BootstrapToken {
        let mut spec = BootstrapTokenSpec { pool: "worker".to_owned(), sha256: hash("secret"), ..Default::default() };
        change(&mut spec);
        let mut token = BootstrapToken::new("one", spec);
        token.status = Some(BootstrapTokenStatus { uses, ..Default::default() });
        token
    }

    fn asking(secret: Option<&str>) -> Asking<'_> {
        Asking { secret, pool: "worker", address: "10.0.0.1", now: now() }
    }

    #[track_caller]
    fn verdict(secret: Option<&str>, token: &BootstrapToken, expected: Result<(), Refusal>) {
        let nobody = || Machines { all: Vec::<Machine>::new(), has_node: false };
        assert_eq!(check(asking(secret), [token], nobody).map(drop), expected);
    }

    #[test]
    fn the_right_secret_gives_access_to_its_pool() {
        verdict(Some("secret"), &token(|_| {}, 0), Ok(()));
    }

    #[test]
    fn no_secret_and_a_foreign_secret_are_refused() {
        verdict(None, &token(|_| {}, 0), Err(Refusal::Missing));
        verdict(Some(""), &token(|_| {}, 0), Err(Refusal::Missing));
        verdict(Some("guess"), &token(|_| {}, 0), Err(Refusal::Unknown));
    }

    #[test]
    fn the_hash_itself_is_not_a_secret() {
        verdict(Some(&hash("secret")), &token(|_| {}, 0), Err(Refusal::Unknown));
    }

    #[test]
    fn another_pools_token_is_refused() {
        verdict(Some("secret"), &token(|spec| spec.pool = "infra".to_owned(), 0), Err(Refusal::OtherPool));
    }

    #[test]
    fn a_token_ends_at_its_time_and_after_its_uses() {
        verdict(Some("secret"), &token(|spec| spec.expires = Some(Time(now())), 0), Err(Refusal::Expired));
        verdict(Some("secret"), &token(|spec| spec.max_uses = Some(2), 1), Ok(()));
        verdict(Some("secret"), &token(|spec| spec.max_uses = Some(2), 2), Err(Refusal::UsedUp));
    }

    #[test]
    fn a_machines_token_ends_with_its_first_boot_and_opens_nothing_to_another_machine() {
        let token = token(|spec| spec.machine = Some("mine".to_owned()), 0);
        let mine = || Machine { name: "mine".to_owned(), addresses: vec!["10.0.0.1".to_owned()], ..Machine::default() };
        let verdict = |machines: &[Machine]| {
            let known = || Machines { all: machines.to_vec(), has_node: false };
            check(asking(Some("secret")), [&token], known).map(drop).err()
        };
        assert_eq!(verdict(&[mine()]), None);
        assert_eq!(verdict(&[Machine { addresses: Vec::new(), ..mine() }]), None, "its address is not known yet");
        assert_eq!(verdict(&[Machine { addresses: vec!["10.0.0.2".to_owned()], ..mine() }]), None, "a load balancer");
        let other = Machine { name: "other".to_owned(), ..mine() };
        assert_eq!(verdict(&[Machine { addresses: Vec::new(), ..mine() }, other]), Some(Refusal::OtherMachine));
        assert_eq!(verdict(&[Machine { has_node: true, ..mine() }]), Some(Refusal::MachineIsOver));
        assert_eq!(verdict(&[Machine { is_leaving: true, ..mine() }]), Some(Refusal::MachineIsOver));
    }

    #[test]
    fn a_token_for_a_machine_without_a_machine_object_works_until_its_node_is_there() {
        let token = |uid: Option<&str>| {
            token(|spec| (spec.machine, spec.machine_uid) = (Some("mine".to_owned()), uid.map(str::to_owned)), 0)
        };
        let verdict = |token: &BootstrapToken, all: &[Machine], has_node: bool| {
            check(asking(Some("secret")), [token], || Machines { all: all.to_vec(), has_node }).map(drop).err()
        };
        let other = Machine { name: "other".to_owned(), addresses: vec!["10.0.0.1".to_owned()], ..Machine::default() };
        assert_eq!(verdict(&token(None), &[], false), None);
        assert_eq!(verdict(&token(None), &[], true), Some(Refusal::MachineIsOver));
        assert_eq!(verdict(&token(None), &[other], false), Some(Refusal::OtherMachine));
        let machine = |uid: &str| Machine { name: "mine".to_owned(), uid: Some(uid.to_owned()), ..Machine::default() };
        assert_eq!(verdict(&token(Some("1")), &[machine("1")], false), None);
        assert_eq!(verdict(&token(Some("1")), &[], false), Some(Refusal::MachineIsOver), "its Machine is gone");
        assert_eq!(verdict(&token(Some("1")), &[machine("2")], false), Some(Refusal::MachineIsOver), "made anew");
    }

    #[test]
    fn an_object_is_found_by_its_secret_and_does_not_hold_it() {
        let grant = Grant { pool: "worker".to_owned(), max_uses: Some(1), ..Grant::default() };
        let token = object(&grant, "secret");
        assert_eq!(token.metadata.name, Some(name("worker", "secret")));
        assert!(!serde_json::to_string(&token).expect("JSON").contains("secret\""));
        verdict(Some("secret"), &token, Ok(()));
        assert!(name(&"a".repeat(253), "secret").len() <= 253);
    }
}
