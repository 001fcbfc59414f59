//! The `Provider`: translates between the port and the account.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider::{
    Deletion, Error, ErrorKind, Instance, Intent, Marked, Power, Problem, Provider, Request, Search, SpecRules, State,
    Surroundings,
};
use serde_json::{Value, json};

use crate::cloud::{Cloud, Failure, Life, New, Record, ids};
use crate::spec::{Behaviour, KubemarkRules, Refusal, Rules, translated};

/// The key of user data in its Secret.
const USER_DATA: &str = "userData";

/// The simulated cloud as a provider.
#[derive(Clone)]
pub struct Memory {
    cloud: Cloud,
    flavour: Flavour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Memory,
    Kubemark,
}

impl Memory {
    pub fn new(cloud: Cloud) -> Self {
        Self { cloud, flavour: Flavour::Memory }
    }

    /// The same cloud under the name of kubemark, with kubemark's spec and provider ids.
    pub fn kubemark(cloud: Cloud) -> Self {
        Self { cloud, flavour: Flavour::Kubemark }
    }

    fn make(&self, request: &Request, intent: &Intent) -> Result<Instance, Error> {
        let surroundings = Surroundings { cluster: request.mark.cluster.clone(), ..Surroundings::default() };
        let spec = self.spec(&request.spec, &surroundings).map_err(|problem| invalid(&problem))?;
        let behaviour = Behaviour::of(&spec, &surroundings).map_err(|problem| invalid(&problem))?;
        let exists = self.cloud.look(|account| account.with_token(&intent.token).is_some());
        if !exists && let Some(refusal) = self.refusal(&behaviour, &intent.token) {
            return Err(refusal);
        }
        let user_data = user_data(request)?;
        let (flavour, zone) = (self.flavour, behaviour.zone.clone());
        let new = New {
            mark: request.mark.clone(),
            token: intent.token.clone(),
            spec,
            user_data,
            is_pending: !behaviour.create_delay.is_zero(),
            provider_id: Box::new(move |id| match flavour {
                Flavour::Memory => format!("memory:///{zone}/{id}"),
                Flavour::Kubemark => format!("kubemark://{id}"),
            }),
        };
        match self.cloud.create(new) {
            Ok((record, true)) if behaviour.loses_answer => {
                let message = "the answer of the simulated cloud was lost, as the spec asks";
                tracing::info!(instance = record.id, "made, and nobody is told");
                Err(Error::new(ErrorKind::Unreachable, message))
            }
            Ok((record, _)) => Ok(self.instance(&record)),
            Err(Failure::Spent(id)) => Ok(spent(&id)),
            Err(Failure::Unkept(error)) => Err(Error::new(ErrorKind::Unreachable, error.to_string())),
        }
    }

    fn spec(&self, spec: &Value, surroundings: &Surroundings) -> Result<Value, Problem> {
        match self.flavour {
            Flavour::Memory => Rules.default(spec, surroundings),
            Flavour::Kubemark => translated(spec, surroundings).and_then(|spec| Rules.default(&spec, surroundings)),
        }
    }

    /// The refusal that the spec asks for, if it is due.
    fn refusal(&self, behaviour: &Behaviour, token: &str) -> Option<Error> {
        let Refusal { kind, times } = behaviour.refusal.clone()?;
        let before = self.cloud.count_call(token);
        let is_due = times == 0 || before < times;
        is_due.then(|| Error::new(kind, format!("the simulated cloud answers {kind}, as the spec asks")))
    }

    fn instance(&self, record: &Record) -> Instance {
        let behaviour = Behaviour::of(&record.spec, &Surroundings::default()).unwrap_or_default();
        let (state, word) = match record.life {
            Life::Pending => (State::Pending, "pending"),
            Life::Running | Life::Adopted => (State::Running, "running"),
            Life::Deleting => (State::Deleting, "terminating"),
        };
        let address = |type_: &str| NodeAddress { type_: type_.to_owned(), address: record.mark.machine.clone() };
        Instance {
            provider_id: Some(record.provider_id.clone()),
            power: if state == State::Running { Power::On } else { Power::Unknown },
            state,
            state_word: word.to_owned(),
            addresses: vec![address("Hostname"), address("InternalDNS")],
            region: Some(behaviour.region),
            zone: Some(behaviour.zone),
            instance_type: Some(behaviour.instance_type),
            provider_status: Some(json!({
                "apiVersion": "machinist.dev/v1alpha1", "kind": "MemoryMachineProviderStatus",
                "instanceId": record.id, "instanceState": word,
            })),
            created: Some(record.created),
            ..Instance::default()
        }
    }

    async fn end(&self, ids: Vec<String>) -> Deletion {
        if self.cloud.delete(ids).await { Deletion::Gone } else { Deletion::Requested }
    }
}

impl Provider for Memory {
    fn name(&self) -> &'static str {
        match self.flavour {
            Flavour::Memory => "memory",
            Flavour::Kubemark => "kubemark",
        }
    }

    fn rules(&self) -> &dyn SpecRules {
        match self.flavour {
            Flavour::Memory => &Rules,
            Flavour::Kubemark => &KubemarkRules,
        }
    }

    fn instances<'a>(&'a self, requests: &'a [Request]) -> BoxFuture<'a, Vec<Result<Vec<Instance>, Error>>> {
        Box::pin(async move {
            let found = self.cloud.look(|account| {
                let of = |request| account.of(request).cloned().collect::<Vec<_>>();
                requests.iter().map(of).collect::<Vec<_>>()
            });
            found.iter().map(|records| Ok(records.iter().map(|record| self.instance(record)).collect())).collect()
        })
    }

    fn create<'a>(&'a self, request: &'a Request, intent: &'a Intent) -> BoxFuture<'a, Result<Instance, Error>> {
        Box::pin(async move { self.make(request, intent) })
    }

    /// Nothing of a simulated instance may change while it lives.
    fn update<'a>(&'a self, request: &'a Request, instance: &'a Instance) -> BoxFuture<'a, Result<Instance, Error>> {
        Box::pin(async move {
            let id = instance.provider_id.as_deref();
            let found = self
                .cloud
                .look(|account| account.of(request).find(|record| Some(record.provider_id.as_str()) == id).cloned());
            found.map(|record| self.instance(&record)).ok_or_else(|| {
                let message = format!("instance {} is gone", id.unwrap_or_default());
                Error::new(ErrorKind::NotFound, message)
            })
        })
    }

    fn delete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Deletion, Error>> {
        Box::pin(async move { Ok(self.end(self.cloud.look(|account| ids(account, request))).await) })
    }

    fn marked<'a>(&'a self, search: &'a Search) -> BoxFuture<'a, Result<Vec<Marked>, Error>> {
        Box::pin(async move {
            Ok(self.cloud.look(|account| {
                let ours = account.all().filter(|record| record.mark.cluster == search.cluster);
                ours.map(|record| Marked {
                    mark: record.mark.clone(),
                    kind: "instance".to_owned(),
                    id: record.id.clone(),
                    provider_id: Some(record.provider_id.clone()),
                    created: Some(record.created),
                })
                .collect()
            }))
        })
    }

    fn remove<'a>(&'a self, search: &'a Search, orphan: &'a Marked) -> BoxFuture<'a, Result<Deletion, Error>> {
        Box::pin(async move {
            let is_ours = |record: &&Record| record.mark.cluster == search.cluster && record.mark == orphan.mark;
            let id = self.cloud.look(|account| account.get(&orphan.id).filter(is_ours).map(|record| record.id.clone()));
            Ok(self.end(id.into_iter().collect()).await)
        })
    }
}

fn user_data(request: &Request) -> Result<Vec<u8>, Error> {
    let found = request.secrets.user_data.as_ref().and_then(|secret| secret.bytes(USER_DATA));
    found.map(<[u8]>::to_vec).ok_or_else(|| {
        let message = format!("the Secret of providerSpec.userDataSecret does not exist or has no key {USER_DATA}");
        Error::new(ErrorKind::NotFound, message)
    })
}

/// A token works once: its instance is gone, and the controller takes another.
fn spent(id: &str) -> Instance {
    let error = Error::new(ErrorKind::Other, format!("instance {id} of this token is gone"));
    Instance { state: State::Failed(error), state_word: "terminated".to_owned(), ..Instance::default() }
}

fn invalid(problem: &Problem) -> Error {
    Error::new(ErrorKind::InvalidSpec, problem.to_string())
}
