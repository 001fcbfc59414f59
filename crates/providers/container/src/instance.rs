//! The `Provider`: translates between the port and the containers of this host.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{
    Capacity, Deletion, Error, ErrorKind, Instance, Intent, Marked, Power, Problem, Provider, Request, Search,
    SpecRules, State, Surroundings,
};
use serde_json::json;

use crate::host::{Failure, Host, Life, New, Record};
use crate::spec::{INSTANCE_TYPE, REGION, Rules, zone};

/// The key of user data in its Secret.
const USER_DATA: &str = "userData";

/// The containers of this host as a provider.
#[derive(Clone)]
pub struct Container(Host);

impl Container {
    pub fn new(host: Host) -> Self {
        Self(host)
    }

    fn make(&self, request: &Request, intent: &Intent) -> Result<Instance, Error> {
        let surroundings = Surroundings { cluster: request.mark.cluster.clone(), ..Surroundings::default() };
        let zone = zone(&request.spec, &surroundings).map_err(|problem| invalid(&problem))?;
        let new = New { mark: request.mark.clone(), token: intent.token.clone(), zone, user_data: user_data(request)? };
        match self.0.create(new) {
            Ok(record) => Ok(instance(&record)),
            Err(Failure::Spent(id)) => Ok(spent(&id)),
            Err(Failure::Taken { id, uid }) => {
                let name = &request.mark.machine;
                let message = format!(
                    "container {name} ({id}) is still there and belongs to another Machine of this name, with uid {uid}; \
                     this one gets its own when that one is gone"
                );
                Err(Error::new(ErrorKind::Other, message))
            }
            Err(Failure::Unkept(error)) => Err(Error::new(ErrorKind::Other, error.to_string())),
        }
    }

    async fn end(&self, ids: Vec<String>) -> Result<Deletion, Error> {
        match self.0.delete(ids).await {
            Ok(true) => Ok(Deletion::Gone),
            Ok(false) => Ok(Deletion::Requested),
            Err(message) => Err(Error::new(ErrorKind::Other, message)),
        }
    }
}

impl Provider for Container {
    fn name(&self) -> &'static str {
        "container"
    }

    fn rules(&self) -> &dyn SpecRules {
        &Rules
    }

    fn instances<'a>(&'a self, requests: &'a [Request]) -> BoxFuture<'a, Vec<Result<Vec<Instance>, Error>>> {
        let of = |request| Ok(self.0.of(request).iter().map(instance).collect());
        Box::pin(std::future::ready(requests.iter().map(of).collect()))
    }

    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>> {
        Box::pin(async move { self.make(request, intent) })
    }

    /// Nothing of a container may change while it lives.
    fn update<'a>(&'a self, request: &'a Request, instance: &'a Instance) -> BoxFuture<'a, Result<Instance, Error>> {
        Box::pin(async move {
            let id = instance.provider_id.as_deref();
            let found = self.0.of(request).into_iter().find(|record| Some(record.provider_id.as_str()) == id);
            found.map(|record| self::instance(&record)).ok_or_else(|| {
                let message = format!("container {} is gone", id.unwrap_or_default());
                Error::new(ErrorKind::NotFound, message)
            })
        })
    }

    fn delete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Deletion, Error>> {
        Box::pin(async move { self.end(self.0.of(request).into_iter().map(|record| record.id).collect()).await })
    }

    fn marked<'a>(&'a self, search: &'a Search) -> BoxFuture<'a, Result<Vec<Marked>, Error>> {
        let is_its = |record: &&Record| record.life != Life::Gone && record.mark.cluster == search.cluster;
        let marked = self.0.look(|records| records.values().filter(is_its).map(marked).collect());
        Box::pin(std::future::ready(Ok(marked)))
    }

    fn remove<'a>(&'a self, search: &'a Search, orphan: &'a Marked) -> BoxFuture<'a, Result<Deletion, Error>> {
        Box::pin(async move {
            let is_ours = |record: &&Record| record.mark.cluster == search.cluster && record.mark == orphan.mark;
            let id = self.0.look(|records| records.get(&orphan.id).filter(is_ours).map(|record| record.id.clone()));
            self.end(id.into_iter().collect()).await
        })
    }

    /// A container may use all of the host.
    fn capacity<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Option<Capacity>, Error>> {
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let table = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let capacity = total_memory(&table).map(|memory_mib| Capacity { cpus, memory_mib, ..Capacity::default() });
        Box::pin(std::future::ready(Ok(capacity)))
    }
}

fn instance(record: &Record) -> Instance {
    let (state, word) = match record.life {
        Life::Running | Life::Adopted => (State::Running, "running"),
        Life::Deleting | Life::Gone => (State::Deleting, "terminating"),
    };
    let address = |type_: &str| NodeAddress { type_: type_.to_owned(), address: record.mark.machine.clone() };
    Instance {
        provider_id: Some(record.provider_id.clone()),
        power: if state == State::Running { Power::On } else { Power::Unknown },
        state,
        state_word: word.to_owned(),
        addresses: vec![address("Hostname"), address("InternalDNS")],
        region: Some(REGION.to_owned()),
        zone: Some(record.zone.clone()),
        instance_type: Some(INSTANCE_TYPE.to_owned()),
        provider_status: Some(json!({
            "apiVersion": "machinist.dev/v1alpha1", "kind": "ContainerMachineProviderStatus",
            "instanceId": record.id, "instanceState": word,
        })),
        created: Some(record.created),
        ..Instance::default()
    }
}

fn marked(record: &Record) -> Marked {
    Marked {
        mark: record.mark.clone(),
        kind: "instance".to_owned(),
        id: record.id.clone(),
        provider_id: Some(record.provider_id.clone()),
        created: Some(record.created),
    }
}

fn user_data(request: &Request) -> Result<Vec<u8>, Error> {
    let found = request.secrets.user_data.as_ref().and_then(|secret| secret.bytes(USER_DATA));
    found.map(<[u8]>::to_vec).ok_or_else(|| {
        let message = format!("the Secret of providerSpec.userDataSecret does not exist or has no key {USER_DATA}");
        Error::new(ErrorKind::NotFound, message)
    })
}

/// A token works once: its container is gone, and the controller takes another.
fn spent(id: &str) -> Instance {
    let error = Error::new(ErrorKind::Other, format!("container {id} of this token is gone"));
    Instance { state: State::Failed(error), state_word: "terminated".to_owned(), ..Instance::default() }
}

fn invalid(problem: &Problem) -> Error {
    Error::new(ErrorKind::InvalidSpec, problem.to_string())
}

/// Mebibytes of memory in the text of `/proc/meminfo`.
fn total_memory(table: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_host_is_read_in_mebibytes() {
        assert_eq!(total_memory("MemTotal:       24094404 kB\nMemFree: 1 kB\n"), Some(23_529));
        assert_eq!(total_memory(""), None);
    }
}
