//! Who gets a certificate.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use operate::requests::{CLIENT, Known, Left, Machine, Request, SERVING, decide, pending};
use rcgen::{CertificateParams, DnType, KeyPair, SanType};

const BOOTSTRAPPER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn pem(common: &str, organisation: &str, names: &[&str]) -> Vec<u8> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, organisation);
    parameters.distinguished_name.push(DnType::CommonName, common);
    parameters.subject_alt_names = names
        .iter()
        .map(|name| match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName((*name).try_into().unwrap()),
        })
        .collect();
    let key = KeyPair::generate().unwrap();
    parameters.serialize_request(&key).unwrap().pem().unwrap().into_bytes()
}

fn client() -> Request {
    Request {
        signer: CLIENT.into(),
        user: BOOTSTRAPPER.into(),
        groups: vec!["system:serviceaccounts".into(), "system:authenticated".into()],
        usages: vec!["digital signature".into(), "client auth".into()],
        pem: pem("system:node:worker-1", "system:nodes", &[]),
        created: Some(now()),
        decided: false,
    }
}

fn serving(names: &[&str]) -> Request {
    Request {
        signer: SERVING.into(),
        user: "system:node:worker-1".into(),
        groups: vec!["system:nodes".into(), "system:authenticated".into()],
        usages: vec!["digital signature".into(), "key encipherment".into(), "server auth".into()],
        pem: pem("system:node:worker-1", "system:nodes", names),
        ..client()
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A machine that was made five minutes ago and has no node yet.
fn known() -> Known {
    let machine = Machine {
        names: set(&["worker-1"]),
        addresses: set(&["worker-1", "10.0.0.7"]),
        node: None,
        since: Some(now() - SignedDuration::from_mins(5)),
    };
    Known { bootstrapper: BOOTSTRAPPER.into(), machines: vec![machine], nodes: BTreeSet::new(), pending: 1 }
}

/// The same machine once it has joined.
fn joined() -> Known {
    let mut known = known();
    known.machines[0].node = Some("worker-1".into());
    known.nodes = set(&["worker-1"]);
    known
}

#[track_caller]
fn approved(request: &Request, known: &Known) {
    assert_eq!(decide(request, known), Ok("worker-1".to_owned()));
}

#[track_caller]
fn left(request: &Request, known: &Known, words: &str) {
    let reason = decide(request, known).expect_err("it is left to a person").to_string();
    assert!(reason.contains(words), "{reason}");
}

#[test]
fn a_machine_that_was_just_made_gets_its_first_certificate() {
    approved(&client(), &known());
}

#[test]
fn a_node_renews_its_own_certificate_and_nobody_elses() {
    let renewal = Request { user: "system:node:worker-1".into(), groups: vec!["system:nodes".into()], ..client() };
    approved(&renewal, &joined());
    let foreign = Request { user: "system:node:worker-2".into(), ..renewal.clone() };
    left(&foreign, &joined(), "may not ask");
    let without_group = Request { groups: Vec::new(), ..renewal };
    left(&without_group, &joined(), "may not ask");
}

#[test]
fn a_machine_that_nobody_knows_gets_nothing() {
    left(&client(), &Known { machines: Vec::new(), ..known() }, "no Machine");
    let mut other = known();
    other.machines[0].names = set(&["worker-2"]);
    left(&client(), &other, "no Machine");
}

#[test]
fn a_node_that_exists_cannot_be_taken_over_with_the_bootstrap_token() {
    left(&client(), &joined(), "no Machine");
    left(&client(), &Known { nodes: set(&["worker-1"]), ..known() }, "exists already");
}

#[test]
fn a_person_or_another_account_cannot_become_a_node() {
    for user in ["kubernetes-admin", "system:serviceaccount:default:node-bootstrapper", ""] {
        left(&Request { user: user.into(), ..client() }, &known(), "may not ask");
    }
}

#[test]
fn late_and_early_requests_are_left_to_a_person() {
    for (minutes, is_good) in [(-1, false), (0, true), (115, true), (121, false)] {
        let mut known = known();
        known.machines[0].since = Some(now() - SignedDuration::from_mins(minutes));
        assert_eq!(decide(&client(), &known).is_ok(), is_good, "{minutes} minutes after the machine");
    }
    let mut unknown = known();
    unknown.machines[0].since = None;
    left(&client(), &unknown, "too long");
}

#[test]
fn what_a_kubelet_does_not_need_is_refused() {
    let asks = |common: &str, organisation: &str, names: &[&str]| Request {
        pem: pem(common, organisation, names),
        ..client()
    };
    left(&asks("system:node:worker-1", "system:masters", &[]), &known(), "the subject");
    left(&asks("admin", "system:nodes", &[]), &known(), "the subject");
    left(&asks("system:node:", "system:nodes", &[]), &known(), "the subject");
    left(&asks("system:node:worker-1", "system:nodes", &["api.example.com"]), &known(), "the name api.example.com");
    for usages in [
        vec!["client auth"],
        vec!["digital signature", "server auth"],
        vec!["digital signature", "client auth", "cert sign"],
    ] {
        let usages = usages.into_iter().map(str::to_owned).collect();
        left(&Request { usages, ..client() }, &known(), "usage");
    }
    left(&Request { signer: "kubernetes.io/kube-apiserver-client".into(), ..client() }, &known(), "not a kubelet's");
}

#[test]
fn a_kubelet_is_known_by_the_addresses_of_its_machine_only() {
    approved(&serving(&["worker-1", "10.0.0.7"]), &joined());
    left(&serving(&["worker-1", "10.0.0.8"]), &joined(), "10.0.0.8 is not an address");
    left(&serving(&["api-int.example.com"]), &joined(), "is not an address");
    left(&serving(&[]), &joined(), "no name");
    left(&serving(&["worker-1"]), &known(), "no Machine");
    let foreign = Request { user: "system:node:worker-2".into(), ..serving(&["worker-1"]) };
    left(&foreign, &joined(), "may not ask");
}

#[test]
fn a_flood_of_requests_stops_every_approval() {
    left(&client(), &Known { pending: 102, ..known() }, "102 machines have asked within an hour");
}

#[test]
fn old_foreign_and_repeated_requests_are_no_flood() {
    let old = Request { created: Some(now() - SignedDuration::from_mins(61)), ..client() };
    let foreign = Request { signer: "example.com/serving".into(), ..client() };
    let persons = Request { user: "kubernetes-admin".into(), ..client() };
    let decided = Request { decided: true, ..client() };
    let again = serving(&["worker-1"]);
    let pile = [old, foreign, persons, decided].into_iter().cycle().take(1000);
    let count = |requests: Vec<Request>| pending(requests, BOOTSTRAPPER, now());
    assert_eq!(count(pile.clone().collect()), 0);
    assert_eq!(count(pile.chain(vec![again; 500]).chain([client(), client()]).collect()), 3);
    assert_eq!(count(vec![client(); 300]), 300, "who floods with the token of new machines is noticed");
}

#[test]
fn garbage_is_unreadable_and_what_was_decided_stays_so() {
    for pem in
        [&b""[..], b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", &[0xff; 64]]
    {
        let answer = decide(&Request { pem: pem.to_vec(), ..client() }, &known());
        assert!(matches!(answer, Err(Left::Unreadable(_))), "{answer:?}");
    }
    left(&Request { decided: true, ..client() }, &known(), "already");
}
