//! Who gets a certificate.

use std::collections::{BTreeMap, BTreeSet};

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

fn nodes(all: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
    all.iter().map(|(name, addresses)| ((*name).to_owned(), set(addresses))).collect()
}

/// A machine that was made five minutes ago and has no node yet.
fn known() -> Known {
    let machine = Machine {
        names: set(&["worker-1"]),
        addresses: set(&["worker-1", "10.0.0.7"]),
        node: None,
        since: Some(now() - SignedDuration::from_mins(5)),
        by_token: false,
    };
    let (nodes, reserved) = (BTreeMap::new(), set(&["10.96.0.1", "api.example.com", "10.0.0.100"]));
    Known { bootstrapper: BOOTSTRAPPER.into(), machines: vec![machine], nodes, reserved, pending: 1 }
}

/// The same machine once it has joined.
fn joined() -> Known {
    let mut known = known();
    known.machines[0].node = Some("worker-1".into());
    known.nodes = nodes(&[("worker-1", &["worker-1", "10.0.0.7"])]);
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
    left(&client(), &Known { nodes: nodes(&[("worker-1", &[])]), ..known() }, "exists already");
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

fn renewal() -> Request {
    Request { user: "system:node:worker-1".into(), groups: vec!["system:nodes".into()], ..client() }
}

/// A node whose token was collected long ago, and that has no Machine.
fn without_machine() -> Known {
    let all: [(&str, &[&str]); 2] =
        [("worker-1", &["worker-1", "10.0.0.7", "fd00:0::7", "127.0.0.1", "api"]), ("worker-2", &["10.0.0.8"])];
    Known { machines: Vec::new(), nodes: nodes(&all), ..known() }
}

#[test]
fn a_flood_of_requests_stops_new_machines_and_no_node() {
    left(&client(), &Known { pending: 102, ..known() }, "102 machines have asked within an hour");
    approved(&renewal(), &Known { pending: 5000, ..joined() });
    approved(&serving(&["worker-1"]), &Known { pending: 5000, ..joined() });
}

#[test]
fn a_node_without_a_machine_renews_its_certificate() {
    approved(&renewal(), &without_machine());
    left(&renewal(), &Known { nodes: BTreeMap::new(), ..without_machine() }, "no Machine");
    let stranger = Request { user: "system:node:worker-2".into(), ..renewal() };
    left(&stranger, &without_machine(), "may not ask");
    left(&client(), &without_machine(), "no Machine");
}

#[test]
fn a_node_without_a_machine_is_known_by_its_name_and_by_addresses_that_nobody_else_has() {
    approved(&serving(&["worker-1", "10.0.0.7", "fd00::7"]), &without_machine());
    let mut token = without_machine();
    token.machines = vec![Machine { names: set(&["worker-1"]), by_token: true, ..Machine::default() }];
    approved(&serving(&["worker-1", "10.0.0.7"]), &token);
    left(&serving(&["10.0.0.9"]), &without_machine(), "no address of the Node");
    left(&serving(&["127.0.0.1"]), &without_machine(), "no address of one host");
    left(&serving(&["worker-1", "api"]), &without_machine(), "a name, and not the node's own");
    let claims = |address: &str| {
        let mut known = without_machine();
        known.nodes.get_mut("worker-1").unwrap().insert(address.to_owned());
        known
    };
    left(&serving(&["10.0.0.8"]), &claims("10.0.0.8"), "node worker-2 has it too");
    left(&serving(&["10.96.0.1"]), &claims("10.96.0.1"), "the API or a Service has it");
    left(&serving(&["::ffff:10.96.0.1"]), &claims("::ffff:10.96.0.1"), "the API or a Service has it");
    left(&serving(&["10.96.0.1"]), &claims("::ffff:10.96.0.1"), "the API or a Service has it");
    left(&serving(&["::ffff:10.0.0.8"]), &claims("::ffff:10.0.0.8"), "node worker-2 has it too");
    left(&serving(&["::ffff:127.0.0.1"]), &claims("::ffff:127.0.0.1"), "no address of one host");
    let mut machine = claims("10.0.0.9");
    machine.machines = vec![Machine { addresses: set(&["10.0.0.9"]), ..Machine::default() }];
    left(&serving(&["10.0.0.9"]), &machine, "a Machine has it");
}

#[test]
fn a_machine_whose_provider_tells_no_address_yet_gets_no_serving_certificate() {
    let mut known = joined();
    known.machines[0].addresses = BTreeSet::new();
    left(&serving(&["worker-1", "10.0.0.7"]), &known, "is not an address of the machine");
}

#[test]
fn old_foreign_and_repeated_requests_are_no_flood() {
    let old = Request { created: Some(now() - SignedDuration::from_mins(61)), ..client() };
    let foreign = Request { signer: "example.com/serving".into(), ..client() };
    let persons = Request { user: "kubernetes-admin".into(), ..client() };
    let decided = Request { decided: true, ..client() };
    let pile = [old, foreign, persons, decided, renewal(), serving(&["worker-1"])].into_iter().cycle().take(1000);
    let count = |requests: Vec<Request>| pending(requests, BOOTSTRAPPER, now());
    assert_eq!(count(pile.clone().collect()), 0);
    let other = Request { pem: pem("system:node:worker-2", "system:nodes", &[]), ..client() };
    assert_eq!(count(pile.chain(vec![client(); 300]).chain([other]).collect()), 2, "one that asks again is one");
    let garbage = Request { pem: b"x".to_vec(), ..client() };
    assert_eq!(count(vec![garbage; 300]), 300, "who floods with the token of new machines is noticed");
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
