//! Finds the servers of many machines with few calls.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::join_all;
use machine::provider::{Error, ErrorKind, Instance, Request};

use super::{OpenStack, convert};
use crate::client::Client;
use crate::mark;
use crate::services::wire::Server;

/// Machines that are asked for by their own tags. More of them, and all servers of the project are listed.
const FEW: usize = 20;
/// Servers without a mark that are asked for one by one.
const SINGLE: usize = 3;

/// One answer for each request, in order.
pub(super) async fn instances(openstack: &OpenStack, requests: &[Request]) -> Vec<Result<Vec<Instance>, Error>> {
    let mut answers: Vec<_> = requests.iter().map(|_| Ok(Vec::new())).collect();
    let mut groups: Vec<(Arc<Client>, Vec<usize>)> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        match openstack.place(request) {
            Err(error) => answers[index] = Err(error),
            Ok((client, _)) => match groups.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &client)) {
                Some((_, members)) => members.push(index),
                None => groups.push((client, vec![index])),
            },
        }
    }
    let looked = join_all(groups.iter().map(|(client, members)| look(openstack, client, requests, members))).await;
    for (index, answer) in looked.into_iter().flatten() {
        answers[index] = answer;
    }
    answers
}

type Answer = (usize, Result<Vec<Instance>, Error>);

async fn look(openstack: &OpenStack, client: &Client, requests: &[Request], members: &[usize]) -> Vec<Answer> {
    let asked: Vec<&Request> = members.iter().map(|index| &requests[*index]).collect();
    let found = match find(client, &asked).await {
        Ok(found) => found,
        Err(error) => return members.iter().map(|index| (*index, Err(error.clone()))).collect(),
    };
    let shown = found
        .into_iter()
        .zip(&asked)
        .map(|(servers, request)| Ok(servers.iter().map(|server| openstack.seen(client, request, server)).collect()));
    members.iter().copied().zip(shown).collect()
}

/// The servers of each request that are not gone. All requests are of one client.
pub(super) async fn find(client: &Client, requests: &[&Request]) -> Result<Vec<Vec<Server>>, Error> {
    let is_ours = requests.iter().all(|request| request.intent.is_some());
    let mut listed = if is_ours && requests.len() <= FEW {
        let tags: Vec<_> = requests.iter().map(|request| mark::uid_tag(&request.mark.uid)).collect();
        list(client, &[("tags-any", tags.join(","))]).await?
    } else {
        list(client, &[]).await?
    };
    let present: HashSet<&str> = listed.iter().map(|server| server.id.as_str()).collect();
    // Somebody may have taken the tags away.
    let missing = requests.iter().filter_map(|request| known_id(request)).filter(|id| !present.contains(id));
    let missing: Vec<String> = missing.map(str::to_owned).collect();
    if is_ours && requests.len() <= FEW && missing.len() > SINGLE {
        listed = list(client, &[]).await?;
    } else if is_ours && requests.len() <= FEW {
        for id in missing {
            let server = client.server(&id).await.map_err(|fault| fault.error("cannot look for the server"))?;
            listed.extend(server.filter(|server| !convert::is_gone(server)));
        }
    }
    let of = |request: &&Request| listed.iter().filter(|server| belongs(server, request)).cloned().collect();
    Ok(requests.iter().map(of).collect())
}

async fn list(client: &Client, query: &[(&str, String)]) -> Result<Vec<Server>, Error> {
    let mut servers = client.servers(query).await.map_err(|fault| fault.error("cannot list servers"))?;
    servers.retain(|server| !convert::is_gone(server));
    Ok(servers)
}

pub(super) async fn by_id(client: &Client, id: &str) -> Result<Server, Error> {
    let found = client.server(id).await.map_err(|fault| fault.error("cannot look for the server"))?;
    found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no server {id}")))
}

/// The id that the machine already knows.
fn known_id(request: &Request) -> Option<&str> {
    let of_status = || request.provider_status.as_ref()?.get("instanceId")?.as_str().filter(|id| !id.is_empty());
    convert::server_id(request.provider_id.as_deref()).or_else(of_status)
}

/// The mark decides, and of it only the uid: labels of a Machine may be edited or lost. A server without a mark is the
/// Machine's only if the Machine knows it by its id. A name is no proof: names of servers are not unique.
fn belongs(server: &Server, request: &Request) -> bool {
    match mark::of_metadata(&server.metadata) {
        Some(mark) => mark.uid == request.mark.uid,
        None => known_id(request) == Some(&server.id),
    }
}
