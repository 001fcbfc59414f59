//! Decides when the config server's authority and certificate are made anew, and reads what there is of them.
//!
//! An authority lives for ten years and is replaced after eight. Its successor is signed by itself and, for machines that
//! still know only the old one, by that too. Nothing is made while the clock cannot be believed, and nothing can be decided
//! about a Secret that was not read: a new authority over one that merely was not seen would shut out every machine.

use api::known::Fresh;
use jiff::{SignedDuration, Timestamp};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

/// Secret and ConfigMap of the authority.
pub const CA: &str = "machine-config-server-ca";
/// Secret of the server's certificate.
pub const TLS: &str = "machine-config-server-tls";
/// Secret of the token that a kubelet first speaks with.
pub const BOOTSTRAP_TOKEN: &str = "node-bootstrapper-token";

const DAY: i64 = 24;
pub const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(3650 * DAY);
const AUTHORITY_RENEW: SignedDuration = SignedDuration::from_hours(730 * DAY);
/// A leaf is renewed without anybody noticing, so it need not be old.
pub const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(365 * DAY);
pub(crate) const LEAF_RENEW: SignedDuration = SignedDuration::from_hours(120 * DAY);
/// Certificates begin this much earlier, for machines whose clock is a little behind.
pub const BACKDATE: SignedDuration = SignedDuration::from_hours(1);
/// Clocks that are set by the network differ by less.
pub const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// How long a kubelet's first token works; it is used within the hour in which its machine is served.
pub const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(DAY);

/// What is read of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    pub subject: String,
    pub issuer: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Names and addresses it is for.
    pub names: Vec<String>,
}

/// A certificate in a Secret, and whether the key beside it is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub certificate: Certificate,
    pub key_fits: bool,
}

/// What a Secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// There is no such Secret.
    Nothing,
    /// The Secret is there, and no certificate can be read from it.
    Garbage,
    Pair(Pair),
}

impl Held {
    pub fn pair(&self) -> Option<&Pair> {
        match self {
            Self::Pair(pair) => Some(pair),
            Self::Nothing | Self::Garbage => None,
        }
    }
}

/// What there is, and what is wanted.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub authority: Fresh<Held>,
    pub leaf: Fresh<Held>,
    /// What the leaf has to be for.
    pub names: Vec<String>,
    pub now: Timestamp,
    /// How far the API server's clock is ahead of ours, where it told.
    pub skew: Option<SignedDuration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub authority: Option<Why>,
    pub leaf: Option<Why>,
    /// When to look again though nothing changed.
    pub next: Option<Timestamp>,
    /// What keeps us from doing anything, in a sentence with the fix.
    pub trouble: Option<String>,
}

/// Why a certificate is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Missing,
    /// There is a Secret without a certificate.
    Garbage,
    /// The key in the Secret is not the certificate's.
    KeyDiffers,
    Due,
    /// It is not for a name or address that machines use.
    Names,
    /// Another authority signed it.
    Issuer,
}

pub fn plan(snapshot: &Snapshot) -> Plan {
    let nothing = |trouble| Plan { authority: None, leaf: None, next: None, trouble: Some(trouble) };
    if let Some(trouble) = clock(snapshot) {
        return nothing(trouble);
    }
    let now = snapshot.now;
    let authority = match &*snapshot.authority {
        Held::Nothing => Some(Why::Missing),
        Held::Garbage => Some(Why::Garbage),
        Held::Pair(pair) if !pair.key_fits => Some(Why::KeyDiffers),
        Held::Pair(pair) if pair.certificate.not_after.duration_since(now) <= AUTHORITY_RENEW => Some(Why::Due),
        Held::Pair(_) => None,
    };
    let issuer = snapshot.authority.pair().map(|pair| &pair.certificate.subject);
    let leaf = match &*snapshot.leaf {
        _ if snapshot.names.is_empty() => None,
        Held::Nothing => Some(Why::Missing),
        Held::Garbage => Some(Why::Garbage),
        Held::Pair(_) if authority.is_some() => Some(Why::Issuer),
        Held::Pair(leaf) if !leaf.key_fits => Some(Why::KeyDiffers),
        Held::Pair(leaf) if leaf.certificate.not_after.duration_since(now) <= LEAF_RENEW => Some(Why::Due),
        Held::Pair(leaf) if issuer.is_some_and(|issuer| leaf.certificate.issuer != *issuer) => Some(Why::Issuer),
        Held::Pair(leaf) if snapshot.names.iter().any(|name| !leaf.certificate.names.contains(name)) => {
            Some(Why::Names)
        }
        Held::Pair(_) => None,
    };
    let due = |held: &Held, before: SignedDuration| held.pair().map(|pair| pair.certificate.not_after - before);
    let next = due(&snapshot.authority, AUTHORITY_RENEW).into_iter().chain(due(&snapshot.leaf, LEAF_RENEW)).min();
    Plan { authority, leaf, next, trouble: None }
}

/// A clock that is wrong would make certificates that nobody can use, or throw good ones away.
fn clock(snapshot: &Snapshot) -> Option<String> {
    if let Some(skew) = snapshot.skew.filter(|skew| skew.abs() > SKEW) {
        return Some(clock_differs(skew));
    }
    let begins = [&snapshot.authority, &snapshot.leaf]
        .into_iter()
        .filter_map(|held| held.pair())
        .map(|pair| pair.certificate.not_before)
        .max()?;
    (begins > snapshot.now + SKEW).then(|| {
        format!(
            "a certificate in Secret {CA} or {TLS} is valid only from {begins}, and the clock here says {}: set the clocks of \
             the control plane by NTP; if they were wrong when it was made, delete both Secrets and they are made anew",
            snapshot.now
        )
    })
}

/// The sentence about a clock that is off.
pub fn clock_differs(skew: SignedDuration) -> String {
    let (word, skew) = if skew.is_negative() { ("ahead of", -skew) } else { ("behind", skew) };
    format!(
        "the clock of the operator's host is {skew:#} {word} the API server's: set both by NTP (chronyd or systemd-timesyncd); \
         no certificates or tokens are made until they agree"
    )
}

/// When a bootstrap token is replaced: at half its life.
pub fn token_due(expires: Option<Timestamp>, now: Timestamp) -> Result<(), Timestamp> {
    let half = TOKEN_LIFE / 2;
    match expires {
        Some(expires) if expires.duration_since(now) > half => Err(expires - half),
        Some(_) | None => Ok(()),
    }
}

/// Reads every certificate of a PEM text.
pub fn read(pem: &[u8]) -> Result<Vec<Certificate>, String> {
    let mut certificates = Vec::new();
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|error| format!("not PEM: {error}"))?;
        if block.label != "CERTIFICATE" {
            continue;
        }
        let certificate = block.parse_x509().map_err(|error| format!("not a certificate: {error}"))?;
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).unwrap_or_default();
        let names = certificate.subject_alternative_name().ok().flatten();
        certificates.push(Certificate {
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            not_before: time(certificate.validity().not_before),
            not_after: time(certificate.validity().not_after),
            names: names.map(|names| names.value.general_names.iter().filter_map(name).collect()).unwrap_or_default(),
        });
    }
    Ok(certificates)
}

/// A DNS name or an address as text.
pub(crate) fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// The certificates of `pem` that are still valid, as PEM blocks.
pub fn valid(pem: &str, now: Timestamp) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    pem.split_inclusive(END)
        .filter_map(|block| block.find("-----BEGIN CERTIFICATE-----").map(|at| block[at..].to_owned() + "\n"))
        .filter(|block| read(block.as_bytes()).is_ok_and(|read| read.first().is_some_and(|one| one.not_after > now)))
        .collect()
}

#[cfg(test)]
mod tests {
    use api::known::Reading;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn read_now(held: Held) -> Fresh<Held> {
        let reading = Reading::known((), now());
        reading.fresh("secrets", now()).expect("it was just read").map(|()| held)
    }

    fn held(left: SignedDuration, issuer: &str, names: &[&str]) -> Fresh<Held> {
        read_now(Held::Pair(pair(left, issuer, names)))
    }

    fn pair(left: SignedDuration, issuer: &str, names: &[&str]) -> Pair {
        let certificate = Certificate {
            subject: "CN=ca".into(),
            issuer: issuer.into(),
            not_before: now() - SignedDuration::from_hours(1),
            not_after: now() + left,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        Pair { certificate, key_fits: true }
    }

    fn settled() -> Snapshot {
        Snapshot {
            authority: held(AUTHORITY_LIFE, "CN=ca", &[]),
            leaf: held(LEAF_LIFE, "CN=ca", &["a", "b"]),
            names: vec!["a".into()],
            now: now(),
            skew: Some(SignedDuration::ZERO),
        }
    }

    #[track_caller]
    fn check(snapshot: &Snapshot, authority: Option<Why>, leaf: Option<Why>) {
        let plan = plan(snapshot);
        assert_eq!((plan.authority, plan.leaf, plan.trouble), (authority, leaf, None));
    }

    #[test]
    fn a_settled_server_needs_nothing_until_the_first_is_due() {
        check(&settled(), None, None);
        assert_eq!(plan(&settled()).next, Some(now() + LEAF_LIFE - LEAF_RENEW));
    }

    #[test]
    fn both_are_made_where_there_is_nothing_but_no_leaf_without_a_name() {
        let nothing = Snapshot { authority: read_now(Held::Nothing), leaf: read_now(Held::Nothing), ..settled() };
        check(&nothing, Some(Why::Missing), Some(Why::Missing));
        check(&Snapshot { names: Vec::new(), ..nothing }, Some(Why::Missing), None);
        let garbage = Snapshot { authority: read_now(Held::Garbage), leaf: read_now(Held::Garbage), ..settled() };
        check(&garbage, Some(Why::Garbage), Some(Why::Garbage));
    }

    #[test]
    fn each_is_renewed_before_it_ends_and_a_new_authority_signs_a_new_leaf() {
        let leaf = held(LEAF_RENEW, "CN=ca", &["a"]);
        check(&Snapshot { leaf, ..settled() }, None, Some(Why::Due));
        let authority = held(AUTHORITY_RENEW, "CN=ca", &[]);
        check(&Snapshot { authority, ..settled() }, Some(Why::Due), Some(Why::Issuer));
    }

    #[test]
    fn a_new_name_a_foreign_issuer_and_a_foreign_key_make_a_new_leaf() {
        check(&Snapshot { names: vec!["c".into()], ..settled() }, None, Some(Why::Names));
        check(&Snapshot { leaf: held(LEAF_LIFE, "CN=x", &["a"]), ..settled() }, None, Some(Why::Issuer));
        let foreign = Pair { key_fits: false, ..pair(LEAF_LIFE, "CN=ca", &["a"]) };
        check(&Snapshot { leaf: read_now(Held::Pair(foreign)), ..settled() }, None, Some(Why::KeyDiffers));
    }

    #[test]
    fn a_wrong_clock_makes_nothing_and_says_what_to_do() {
        for skew in [SignedDuration::from_mins(6), SignedDuration::from_hours(-24 * 400)] {
            let off = plan(&Snapshot { authority: read_now(Held::Nothing), skew: Some(skew), ..settled() });
            assert_eq!((off.authority, off.leaf), (None, None));
            assert!(off.trouble.expect("a trouble").contains("NTP"));
        }
        let early = Snapshot { now: now() - SignedDuration::from_hours(24), skew: None, ..settled() };
        let trouble = plan(&early).trouble.expect("a trouble");
        assert!(trouble.contains(CA) && trouble.contains("clock"), "{trouble}");
    }

    #[test]
    fn certificates_are_read_and_those_that_ended_are_dropped() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).expect("parameters");
        parameters.subject_alt_names.push(rcgen::SanType::IpAddress("10.0.0.1".parse().expect("an address")));
        (parameters.not_before, parameters.not_after) =
            (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2030, 1, 1));
        let pem = parameters.self_signed(&key).expect("a certificate").pem();
        let read = read(pem.as_bytes()).expect("it reads");
        assert_eq!(read[0].names, ["a.example", "10.0.0.1"]);
        assert_eq!(valid(&format!("{pem}garbage\n{pem}"), now()).len(), 2);
        assert!(valid(&pem, "2031-01-01T00:00:00Z".parse().expect("a time")).is_empty());
    }
}
