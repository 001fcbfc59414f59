//! Finds the instances of many machines with few calls: those of a zone come in pages of hundreds.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use machine::provider::{Error, Instance, Request, State};
use serde_json::Value;

use super::operation::{self, Outcome};
use super::{Gcp, Site, convert, spec_of};

/// What is read of instances. Their metadata is not: it holds user data.
const FIELDS: &str = "nextPageToken,items(name,status,machineType,labels,creationTimestamp,scheduling,\
                      networkInterfaces(networkIP,accessConfigs(natIP)))";

/// One answer for each request, in order.
pub(super) async fn instances(gcp: &Gcp, requests: &[Request]) -> Vec<Result<Vec<Instance>, Error>> {
    let mut answers: Vec<_> = requests.iter().map(|_| Ok(Vec::new())).collect();
    let mut groups: Vec<(Site, Vec<usize>)> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        match spec_of(&request.spec).and_then(|spec| gcp.site(&spec, &request.secrets)) {
            Ok(site) => {
                let is_same = |other: &Site| {
                    Arc::ptr_eq(&other.client, &site.client) && other.project == site.project && other.zone == site.zone
                };
                match groups.iter_mut().find(|(other, _)| is_same(other)) {
                    Some((_, members)) => members.push(index),
                    None => groups.push((site, vec![index])),
                }
            }
            Err(error) => answers[index] = Err(error),
        }
    }
    let looked = join_all(groups.iter().map(|(site, members)| look(site, requests, members))).await;
    for ((_, members), found) in groups.iter().zip(looked) {
        for (place, index) in members.iter().enumerate() {
            answers[*index] = found.clone().map(|found| found[place].clone());
        }
    }
    answers
}

async fn look(site: &Site, requests: &[Request], members: &[usize]) -> Result<Vec<Vec<Instance>>, Error> {
    let all = list(site).await?;
    let asked: Vec<&Request> = members.iter().map(|index| &requests[*index]).collect();
    let of = |request: &&Request| all.iter().filter(|it| belongs(it, site, request)).collect::<Vec<_>>();
    let found: Vec<Vec<&Value>> = asked.iter().map(of).collect();
    let absent = asked.iter().zip(&found).filter(|(_, found)| found.is_empty());
    let operations: Vec<&str> = absent.filter_map(|(request, _)| operation::recorded(request)).collect();
    let outcomes = outcomes(site, &operations).await?;
    let show = |(request, found): (&&Request, &Vec<&Value>)| {
        if !found.is_empty() {
            let operation = operation::recorded(request);
            return found.iter().map(|it| convert::instance(it, site, request, operation)).collect();
        }
        let Some(name) = operation::recorded(request) else { return Vec::new() };
        match outcomes.get(name) {
            Some(Outcome::Running) => vec![convert::under_way(name, request)],
            Some(Outcome::Failed(error)) => {
                vec![Instance { state: State::Failed(error.clone()), ..convert::under_way(name, request) }]
            }
            Some(Outcome::Done | Outcome::Forgotten) | None => Vec::new(),
        }
    };
    Ok(asked.iter().zip(&found).map(show).collect())
}

/// What came of operations, with one call for the newest hundreds and one more for each that is older.
async fn outcomes(site: &Site, names: &[&str]) -> Result<HashMap<String, Outcome>, Error> {
    let cannot = |fault: crate::client::Fault| fault.error("cannot look at the recorded operations");
    let mut outcomes = HashMap::new();
    if names.len() > 1 {
        let query = [("orderBy", "creationTimestamp desc"), ("maxResults", "500")];
        let page = site.client.get(&site.zonal("operations"), &query).await.map_err(cannot)?;
        for operation in page["items"].as_array().into_iter().flatten() {
            let name = operation["name"].as_str().unwrap_or_default();
            outcomes.insert(name.to_owned(), operation::outcome(operation));
        }
    }
    for name in names {
        if !outcomes.contains_key(*name) {
            outcomes.insert((*name).to_owned(), operation::look(site, name).await.map_err(cannot)?);
        }
    }
    Ok(outcomes)
}

/// Every instance of a zone.
pub(super) async fn list(site: &Site) -> Result<Vec<Value>, Error> {
    let query = [("maxResults", "500"), ("fields", FIELDS)];
    site.client.list(&site.zonal("instances"), &query).await.map_err(|fault| fault.error("cannot list instances"))
}

/// The mark decides, and of it only the uid. An instance without a mark is the Machine's only if the Machine knows it by its
/// id, as one that OpenShift's controller made. A name is no proof.
pub(super) fn belongs(found: &Value, site: &Site, request: &Request) -> bool {
    match convert::mark(found) {
        Some(mark) => mark.uid == request.mark.uid,
        None => {
            let name = found["name"].as_str().unwrap_or_default();
            request.provider_id.as_deref() == Some(convert::provider_id(&site.project, &site.zone, name).as_str())
        }
    }
}
