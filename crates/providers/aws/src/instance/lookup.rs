//! Finds the instances of many machines with few calls.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::join_all;
use machine::provider::{Error, ErrorKind, Instance, Request};

use super::{Aws, convert, failed, launch, spec_of, tags};
use crate::client::{self, Client};
use crate::ec2::{filter, wire};
use crate::spec::AwsSpec;

/// AWS takes as many values in one filter.
const VALUES: usize = 200;

/// Requests that one list answers: those of one cluster in one region of one account.
struct Group<'a> {
    client: Arc<Client>,
    cluster: &'a str,
    members: Vec<(usize, AwsSpec)>,
}

/// One answer for each request, in order.
pub(super) async fn instances(aws: &Aws, requests: &[Request]) -> Vec<Result<Vec<Instance>, Error>> {
    let mut answers: Vec<_> = requests.iter().map(|_| Ok(Vec::new())).collect();
    let mut groups: Vec<Group> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        match place(aws, request).await {
            Err(error) => answers[index] = Err(error),
            Ok((client, spec)) => {
                let cluster = request.mark.cluster.as_str();
                let same = |group: &&mut Group| Arc::ptr_eq(&group.client, &client) && group.cluster == cluster;
                match groups.iter_mut().find(same) {
                    Some(group) => group.members.push((index, spec)),
                    None => groups.push(Group { client, cluster, members: vec![(index, spec)] }),
                }
            }
        }
    }
    let looked = join_all(groups.iter().map(|group| look(aws, requests, group))).await;
    for (index, answer) in looked.into_iter().flatten() {
        answers[index] = answer;
    }
    answers
}

async fn place(aws: &Aws, request: &Request) -> Result<(Arc<Client>, AwsSpec), Error> {
    let spec = spec_of(&request.spec)?;
    let client = aws.client(&spec, &request.secrets).await?;
    Ok((client, spec))
}

async fn look(aws: &Aws, requests: &[Request], group: &Group<'_>) -> Vec<(usize, Result<Vec<Instance>, Error>)> {
    let asked: Vec<&Request> = group.members.iter().map(|(index, _)| &requests[*index]).collect();
    let found = match find(&group.client, &asked).await {
        Ok(found) => found,
        Err(error) => return group.members.iter().map(|(index, _)| (*index, Err(error.clone()))).collect(),
    };
    let mut answers = Vec::new();
    for ((index, spec), found) in group.members.iter().zip(found) {
        answers.push((*index, Ok(shown(aws, &group.client, spec, &requests[*index], &found).await)));
    }
    answers
}

/// What a machine has: its living instances or, if it never had one, the one that AWS let go.
async fn shown(
    aws: &Aws,
    client: &Client,
    spec: &AwsSpec,
    request: &Request,
    found: &[wire::Instance],
) -> Vec<Instance> {
    let mut shown = Vec::new();
    for instance in found.iter().filter(|instance| !is_terminated(instance)) {
        aws.memory.remember(instance);
        shown.push(aws.seen(client, spec, instance).await);
    }
    if shown.is_empty()
        && let Some((instance, error)) = lost(request, found)
    {
        shown.push(failed(Some(aws.seen(client, spec, instance).await), error));
    }
    shown
}

/// The instance of the present attempt, if AWS let it go on its own before the machine knew it.
fn lost<'a>(request: &Request, found: &'a [wire::Instance]) -> Option<(&'a wire::Instance, Error)> {
    let token = launch::client_token(&request.intent.as_ref()?.token);
    if request.provider_id.is_some() {
        return None;
    }
    let of_attempt = found.iter().filter(|instance| is_terminated(instance) && instance.client_token == token);
    let newest = of_attempt.max_by(|one, other| one.launch_time.cmp(&other.launch_time))?;
    let reason = newest.state_reason.as_ref()?;
    let by_hand = matches!(reason.code.as_str(), "Client.UserInitiatedShutdown" | "Client.InstanceInitiatedShutdown");
    (!by_hand && !reason.code.is_empty()).then(|| (newest, lost_error(newest, reason)))
}

pub(super) fn lost_error(instance: &wire::Instance, reason: &wire::StateReason) -> Error {
    let message = format!("AWS let instance {} go before it ran: {}", instance.instance_id, reason.message);
    Error::new(client::kind_of_reason(&reason.code), message)
}

pub(super) fn is_terminated(instance: &wire::Instance) -> bool {
    instance.instance_state.name == "terminated"
}

/// The instances of each request, terminated ones among them. All requests are of one cluster.
pub(super) async fn find(client: &Client, requests: &[&Request]) -> Result<Vec<Vec<wire::Instance>>, Error> {
    let mut listed = listed(client, requests).await?;
    let present: HashSet<&str> = listed.iter().map(|instance| instance.instance_id.as_str()).collect();
    // Somebody may have taken the tags away.
    let ids = requests.iter().filter_map(|request| known_id(request)).filter(|id| !present.contains(id));
    for ids in ids.collect::<Vec<_>>().chunks(VALUES) {
        listed.extend(describe(client, &[filter("instance-id", ids.iter().copied())]).await?);
    }
    let of = |request: &&Request| listed.iter().filter(|instance| belongs(instance, request)).cloned().collect();
    Ok(requests.iter().map(of).collect())
}

/// What is listed by tags: all of the cluster for many requests. A few are asked for by the uid that we write or, where we
/// never made anything, by the name that upstream writes.
async fn listed(client: &Client, requests: &[&Request]) -> Result<Vec<wire::Instance>, Error> {
    let Some(first) = requests.first() else { return Ok(Vec::new()) };
    let of_cluster = filter(format!("tag:{}", tags::cluster(&first.mark.cluster)), [tags::OWNED]);
    if requests.len() > VALUES {
        return describe(client, &[of_cluster]).await;
    }
    let (ours, others): (Vec<&Request>, Vec<&Request>) =
        requests.iter().copied().partition(|request| request.intent.is_some());
    let mut listed = Vec::new();
    if !ours.is_empty() {
        let uids = filter(format!("tag:{}", tags::UID), ours.iter().map(|request| &request.mark.uid));
        listed.extend(describe(client, &[uids]).await?);
    }
    if !others.is_empty() {
        let names = filter(format!("tag:{}", tags::NAME), others.iter().map(|request| &request.mark.machine));
        listed.extend(describe(client, &[of_cluster, names]).await?);
    }
    let mut seen = HashSet::new();
    listed.retain(|instance| seen.insert(instance.instance_id.clone()));
    Ok(listed)
}

pub(super) async fn by_id(client: &Client, id: &str) -> Result<wire::Instance, Error> {
    let found = describe(client, &[filter("instance-id", [id])]).await?;
    let gone = || Error::new(ErrorKind::NotFound, format!("instance {id} is not in region {}", client.region()));
    found.into_iter().next().ok_or_else(gone)
}

async fn describe(client: &Client, filters: &[crate::spec::Filter]) -> Result<Vec<wire::Instance>, Error> {
    client.describe_instances(filters).await.map_err(|fault| fault.error("cannot list instances"))
}

/// The id that the machine already knows.
fn known_id(request: &Request) -> Option<&str> {
    let of_status = || request.provider_status.as_ref()?.get("instanceId")?.as_str().filter(|id| id.starts_with("i-"));
    convert::instance_id(request.provider_id.as_deref()).or_else(of_status)
}

/// Whether an instance is the machine's: by the uid that it carries. One that carries none was made by upstream, and is
/// the machine's by its id or, if we never asked for one ourselves, by name and cluster.
fn belongs(instance: &wire::Instance, request: &Request) -> bool {
    let mark = &request.mark;
    match instance.tag(tags::UID) {
        Some(uid) => uid == mark.uid,
        None if known_id(request) == Some(instance.instance_id.as_str()) => true,
        None => {
            request.intent.is_none()
                && instance.tag(tags::NAME) == Some(&mark.machine)
                && instance.tag(&tags::cluster(&mark.cluster)) == Some(tags::OWNED)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use machine::provider::{Intent, Mark, Secrets};
    use serde_json::{Value, json};

    use super::*;

    fn request() -> Request {
        let [cluster, namespace, machine, uid] = ["c1", "ns", "m-1", "u-1"].map(str::to_owned);
        Request {
            mark: Mark { cluster, namespace, machine, uid },
            labels: BTreeMap::new(),
            control_plane: false,
            spec: Arc::new(Value::Null),
            provider_id: None,
            provider_status: None,
            intent: None,
            secrets: Arc::new(Secrets::default()),
        }
    }

    fn intent() -> Intent {
        let (token, place) = ("token-1".to_owned(), Value::Null);
        Intent { token, attempt: 1, children: BTreeMap::new(), place, recorded: Timestamp::UNIX_EPOCH }
    }

    fn tagged(pairs: &[(&str, &str)]) -> wire::Instance {
        let mut instance = wire::Instance { instance_id: "i-1".to_owned(), ..wire::Instance::default() };
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        tags::add(&mut instance.tags, &pairs);
        instance
    }

    #[test]
    fn the_uid_decides_whose_an_instance_is() {
        let known = Request { provider_id: Some("aws:///us-east-1a/i-1".to_owned()), ..request() };
        let ours = tagged(&[("machinist.dev/uid", "u-1"), ("Name", "other")]);
        let theirs = tagged(&[("machinist.dev/uid", "u-2"), ("Name", "m-1"), ("kubernetes.io/cluster/c1", "owned")]);
        assert!(belongs(&ours, &request()) && belongs(&ours, &known));
        assert!(!belongs(&theirs, &request()) && !belongs(&theirs, &known));
    }

    #[test]
    fn instances_that_upstream_made_are_taken_over_by_name_only_if_we_made_none() {
        let theirs = tagged(&[("Name", "m-1"), ("kubernetes.io/cluster/c1", "owned")]);
        assert!(belongs(&theirs, &request()));
        assert!(!belongs(&theirs, &Request { intent: Some(intent()), ..request() }));
        assert!(!belongs(&tagged(&[("Name", "m-1"), ("kubernetes.io/cluster/c2", "owned")]), &request()));
        let known =
            Request { provider_status: Some(json!({"instanceId": "i-1"})), intent: Some(intent()), ..request() };
        assert!(belongs(&tagged(&[]), &known));
    }

    fn terminated(token: &str, reason: &str) -> wire::Instance {
        wire::Instance {
            instance_id: "i-1".to_owned(),
            instance_state: wire::InstanceState { name: "terminated".to_owned() },
            client_token: token.to_owned(),
            state_reason: Some(wire::StateReason { code: reason.to_owned(), message: "words".to_owned() }),
            ..wire::Instance::default()
        }
    }

    #[test]
    fn an_instance_that_aws_let_go_says_why() {
        let asked = Request { intent: Some(intent()), ..request() };
        let reason = |request: &Request, token: &str, reason: &str| {
            lost(request, &[terminated(token, reason)]).map(|(_, error)| error.kind)
        };
        let full = "Server.InsufficientInstanceCapacity";
        assert_eq!(reason(&asked, "token-1", full), Some(ErrorKind::NoCapacity));
        assert_eq!(reason(&asked, "token-0", full), None, "an earlier attempt");
        assert_eq!(reason(&asked, "token-1", "Client.UserInitiatedShutdown"), None, "a person did it");
        let known = Request { provider_id: Some("aws:///us-east-1a/i-1".to_owned()), ..asked };
        assert_eq!(reason(&known, "token-1", full), None, "it ran, and is simply gone");
    }
}
