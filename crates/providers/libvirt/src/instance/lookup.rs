//! Finds the domains of many machines with few calls: two for each host, and one more for every two hundred machines.

use std::collections::{HashMap, HashSet};

use futures::future::join_all;
use machine::provider::{Error, Instance, Mark, Request};
use uuid::Uuid;

use super::{Libvirt, convert, spec_of};
use crate::client::{Described, Host};
use crate::mark::{Label, Names, Stage};
use crate::spec::LibvirtSpec;

/// One answer for each request, in order.
pub(super) async fn instances(libvirt: &Libvirt, requests: &[Request]) -> Vec<Result<Vec<Instance>, Error>> {
    let mut answers: Vec<_> = requests.iter().map(|_| Ok(Vec::new())).collect();
    let mut hosts: HashMap<String, (Host, Vec<usize>)> = HashMap::new();
    for (index, request) in requests.iter().enumerate() {
        match spec_of(&request.spec).and_then(|spec| libvirt.host(&spec)) {
            Ok(host) => hosts.entry(host.uri.clone()).or_insert_with(|| (host, Vec::new())).1.push(index),
            Err(error) => answers[index] = Err(error),
        }
    }
    let looked = join_all(hosts.values().map(|(host, members)| look(libvirt, host, requests, members))).await;
    for (index, answer) in looked.into_iter().flatten() {
        answers[index] = answer;
    }
    answers
}

type Answer = (usize, Result<Vec<Instance>, Error>);

async fn look(libvirt: &Libvirt, host: &Host, requests: &[Request], members: &[usize]) -> Vec<Answer> {
    let asked: Vec<&Request> = members.iter().map(|index| &requests[*index]).collect();
    let found = match find(host, &asked).await {
        Ok(found) => found,
        Err(error) => return members.iter().map(|index| (*index, Err(error.clone()))).collect(),
    };
    let shown = |domains: Vec<Described>| {
        // What is half made is for `create` to finish, so it is no instance yet.
        let whole = domains.iter().filter(|domain| !convert::is_half_made(domain));
        let seen = whole.inspect(|domain| libvirt.seen.remember(&host.uri, domain));
        Ok(seen.map(convert::instance).collect())
    };
    members.iter().copied().zip(found.into_iter().map(shown)).collect()
}

/// The domains of each request, half-made ones among them. All requests are of one host.
pub(super) async fn find(host: &Host, requests: &[&Request]) -> Result<Vec<Vec<Described>>, Error> {
    let listed = host.domains().await.map_err(|fault| fault.error("cannot list domains"))?;
    let names: HashSet<&str> = requests.iter().map(|request| request.mark.machine.as_str()).collect();
    let ids: HashSet<Uuid> = requests.iter().flat_map(|request| ids(request)).collect();
    let candidates = listed.iter().filter(|(uuid, name)| ids.contains(uuid) || names.contains(name.as_str()));
    let candidates: Vec<Uuid> = candidates.map(|(uuid, _)| *uuid).collect();
    let domains = host.describe(&candidates).await.map_err(|fault| fault.error("cannot look at domains"))?;
    let of = |request: &&Request| domains.iter().filter(|domain| belongs(domain, request)).cloned().collect();
    Ok(requests.iter().map(of).collect())
}

pub(super) async fn by_id(host: &Host, uuid: Uuid) -> Result<Option<Described>, Error> {
    let found = host.describe(&[uuid]).await.map_err(|fault| fault.error("cannot look at the domain"))?;
    Ok(found.into_iter().next())
}

/// The label for a domain that OpenShift's controller made, with the names that it gives to volumes.
pub(super) fn adopted(mark: &Mark, spec: &LibvirtSpec) -> Label {
    let machine = &mark.machine;
    Label {
        mark: mark.clone(),
        stage: Stage::Made,
        created: None,
        pool: spec.volume.as_ref().map(|volume| volume.pool_name.clone()).unwrap_or_default(),
        volumes: vec![machine.clone(), format!("{machine}.ignition"), format!("{machine}_cloud-init")],
    }
}

/// Ids that the domain of a request may have.
fn ids(request: &Request) -> Vec<Uuid> {
    let mut ids = vec![Names::of(&request.mark).uuid];
    ids.extend(known_id(request));
    ids
}

fn known_id(request: &Request) -> Option<Uuid> {
    let in_status = || request.provider_status.as_ref()?["instanceID"].as_str()?.parse().ok();
    convert::uuid(request.provider_id.as_deref()).or_else(in_status)
}

/// The mark decides, and of it only the uid: labels of a Machine may be edited or lost. A domain without a mark is the
/// Machine's only if the Machine knows it by its id. A name is no proof: somebody may have a domain of that name, which must
/// not go when the Machine goes.
fn belongs(domain: &Described, request: &Request) -> bool {
    match Label::of(&domain.definition) {
        Some(label) => label.mark.uid == request.mark.uid,
        None => known_id(request) == Some(domain.uuid),
    }
}
