//! Judgements: for each built-in kind a valid object, then everything that can be wrong with it, judged by both servers.
//!
//! Nothing here knows what is right. Each mutation is created and, where the kind allows updates, written over the stored
//! object, both with `dryRun=All`; code, reason, message, causes and accepted objects must be the same on both servers.
//! What may differ stands in `judgements/allowed.txt`, with its reason. `JUDGE=/pods` judges only what contains this.
//!
//! A sample that is `given` is there on both servers from the start. One that is asked about `at` a subresource has the
//! patches of `first` behind it, and its own patches are all that is asked.

mod answers;
mod mutations;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use referee::{Kind, control_plane};
use serde_json::Value;

use super::wire::{Answer, MERGE, Scope, Server, version};
use mutations::Mutation;

const SAMPLES: &str = include_str!("judgements/samples.json");
const ALLOWED: &str = include_str!("judgements/allowed.txt");

/// As many as keep both servers busy.
const AT_ONCE: usize = 12;

#[tokio::test]
async fn built_in_kinds_are_judged_as_by_the_real_server() {
    let (Some(real), Some(embedded)) = (control_plane(Kind::Real).await, control_plane(Kind::Embedded).await) else {
        return;
    };
    let mut scopes = Vec::new();
    for control_plane in [real, embedded] {
        let server = Arc::new(Server::new(control_plane).await);
        let scope = Scope::create(server, "judgements".to_owned()).await.unwrap();
        let account = scope.core("serviceaccounts/default");
        scope.until(&account, "the account of pods", |answer| answer.code == 200).await.unwrap();
        scopes.push(scope);
    }
    let (mut compared, mut differences) = (0, BTreeMap::new());
    let wanted = std::env::var("JUDGE").unwrap_or_default();
    for sample in samples().into_iter().filter(|sample| sample.id().contains(&wanted)) {
        let questions = match sample.questions(&scopes).await {
            Ok(questions) => questions,
            Err(error) => {
                differences.insert(sample.id(), format!("{error:#}").into());
                continue;
            }
        };
        let total = questions.len();
        let answers = questions.into_iter().map(|question| ask(&scopes, &sample, question));
        let mut answers = futures::stream::iter(answers).buffer_unordered(AT_ONCE);
        let mut differing = 0;
        while let Some(answer) = answers.next().await {
            if let Some((question, difference)) = answer.unwrap() {
                differing += 1;
                differences.insert(question, difference);
            }
        }
        compared += total;
        println!("{}: {total} judged, {differing} differ", sample.id());
    }
    println!("{compared} judged, {} differ", differences.len());
    if let Ok(path) = std::env::var("JUDGED") {
        std::fs::write(path, serde_json::to_string_pretty(&differences).unwrap()).unwrap();
    }
    let allowed = allowed();
    let unexplained: Vec<_> =
        differences.iter().filter(|(question, _)| !allowed.contains_key(question.as_str())).collect();
    let shown: Vec<String> =
        unexplained.iter().take(40).map(|(question, told)| format!("{question}\n{told:#}")).collect();
    assert!(unexplained.is_empty(), "{} of {compared} differ:\n{}", unexplained.len(), shown.join("\n"));
    let stale: Vec<_> =
        allowed.keys().filter(|line| line.contains(&wanted) && !differences.contains_key(**line)).collect();
    assert!(stale.is_empty(), "these no longer differ, so they go from allowed.txt: {stale:#?}");
}

/// Questions whose answers may differ, each with its reason: lines of `question | reason`.
fn allowed() -> BTreeMap<&'static str, &'static str> {
    let lines = ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(" | ").unwrap_or_else(|| panic!("allowed.txt: no reason in {line:?}"))).collect()
}

fn samples() -> Vec<Sample> {
    let all: Vec<Value> = serde_json::from_str(SAMPLES).expect("the samples are JSON");
    let sample = |mut sample: Value| {
        expand(&mut sample);
        let texts = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (resource, about) = (texts(&sample["resource"]), texts(&sample["about"]));
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (extras, first, at) = (list(&sample["also"]), list(&sample["first"]), texts(&sample["at"]));
        let (cluster, given) = (sample["cluster"] == true, sample["given"] == true);
        Sample { resource, about, cluster, given, object: sample["object"].take(), first, at, extras }
    };
    all.into_iter().map(sample).collect()
}

/// Writes out what stands shorter in the samples: `{"of": "x", "times": 3}` is a long text, and in a list that many items,
/// with their number in place of `#`.
fn expand(value: &mut Value) {
    let times = |value: &Value| value["times"].as_u64().filter(|_| value.get("of").is_some());
    match value {
        Value::Array(items) => {
            let mut written = Vec::new();
            for mut item in items.drain(..) {
                match times(&item) {
                    None => written.push(item),
                    Some(times) => {
                        let of = item["of"].take().to_string();
                        let numbered = (0..times).map(|number| of.replace('#', &number.to_string()));
                        written.extend(numbered.map(|text| serde_json::from_str(&text).unwrap_or_default()));
                    }
                }
            }
            *items = written;
            items.iter_mut().for_each(expand);
        }
        Value::Object(_) => match times(value) {
            Some(times) => *value = value["of"].as_str().unwrap_or_default().repeat(times as usize).into(),
            None => value.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()).for_each(expand),
        },
        _ => {}
    }
}

struct Sample {
    /// `v1/pods`, `apps/v1/deployments`.
    resource: String,
    about: String,
    cluster: bool,
    /// Whether it is there already.
    given: bool,
    object: Value,
    /// Patches of subresources that come before the questions: `{"at": "status", "patch": {}}`.
    first: Vec<Value>,
    /// The subresource that updates are sent to.
    at: String,
    /// Merge patches for what the mutations do not think of.
    extras: Vec<Value>,
}

struct Question {
    id: String,
    update: bool,
    mutation: Mutation,
}

impl Sample {
    fn id(&self) -> String {
        format!("/{} {}", self.resource, self.about)
    }

    fn path(&self, scope: &Scope) -> String {
        let root = if self.resource.starts_with("v1/") { "/api" } else { "/apis" };
        let (version, plural) = self.resource.rsplit_once('/').unwrap_or_default();
        match self.cluster {
            true => format!("{root}/{version}/{plural}"),
            false => format!("{root}/{version}/namespaces/{}/{plural}", scope.namespace),
        }
    }

    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Stores the object on both servers, and makes up what is asked about it.
    async fn questions(&self, scopes: &[Scope]) -> Result<Vec<Question>> {
        let mut stored = Vec::new();
        for scope in scopes {
            stored.push(self.store(scope).await.context("the object is valid")?);
        }
        let create = mutations::of(&self.object, &self.extras, false).into_iter();
        let create =
            create.map(|mutation| Question { id: format!("create {} {mutation}", self.id()), update: false, mutation });
        let create = create.filter(|_| !self.given && self.at.is_empty());
        let update = match self.at.as_str() {
            "" => mutations::of(&stored[0], &self.extras, true),
            _ => self.extras.iter().cloned().map(Mutation::Merge).collect(),
        };
        let update = update.into_iter();
        let update =
            update.map(|mutation| Question { id: format!("update {} {mutation}", self.id()), update: true, mutation });
        let mut all: Vec<Question> = create.chain(update).collect();
        all.dedup_by(|one, other| one.id == other.id);
        Ok(all)
    }

    async fn store(&self, scope: &Scope) -> Result<Value> {
        let path = self.path(scope);
        let own = format!("{path}/{}", self.name());
        let mut stored = match self.given {
            true => scope.get(&own).await?.expect(200)?,
            false => scope.post(&path, &self.object).await?.expect(201)?,
        };
        for step in &self.first {
            let place = format!("{own}/{}", step["at"].as_str().unwrap_or_default());
            stored = scope.patch(&place, MERGE, &step["patch"]).await?.expect(200)?;
        }
        Ok(stored)
    }

    /// Writes the changed object over the stored one; again, if a controller wrote in between.
    async fn update(&self, scope: &Scope, own: &str, place: &str, mutation: &Mutation) -> Result<Answer> {
        loop {
            let mut object = scope.get(own).await?.expect(200)?;
            let before = version(&object);
            mutation.apply(&mut object);
            let answer = scope.put(place, &object).await?;
            if answer.code != 409 || version(&scope.get(own).await?.expect(200)?) == before {
                return Ok(answer);
            }
        }
    }

    async fn answer(&self, scope: &Scope, question: &Question) -> Result<Value> {
        let path = self.path(scope);
        let own = format!("{path}/{}", self.name());
        let answer = if question.update {
            let place = if self.at.is_empty() { own.clone() } else { format!("{own}/{}", self.at) };
            self.update(scope, &own, &format!("{place}?dryRun=All"), &question.mutation).await
        } else {
            let mut object = self.object.clone();
            if object["metadata"]["name"] == self.name() {
                object["metadata"]["name"] = format!("{}2", self.name()).into();
            }
            question.mutation.apply(&mut object);
            scope.post(&format!("{path}?dryRun=All"), &object).await
        };
        // A server that hangs up over a question has answered it, badly.
        Ok(answer.map_or_else(|error| format!("{error:#}").into(), |answer| answers::normal(answer.code, answer.body)))
    }
}

/// The question and both answers, if they differ.
async fn ask(scopes: &[Scope], sample: &Sample, question: Question) -> Result<Option<(String, Value)>> {
    let (real, mut embedded) =
        futures::try_join!(sample.answer(&scopes[0], &question), sample.answer(&scopes[1], &question))?;
    // The real server ends a request that it fails over, which tells nothing of what is right.
    if real.is_string() {
        return Ok(None);
    }
    answers::forgive_types(&real, &mut embedded);
    Ok((real != embedded).then(|| (question.id, answers::difference(&real, &embedded))))
}
