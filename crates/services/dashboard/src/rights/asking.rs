//! Asks the API what a visitor may list: side by side, within bounds, and with a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::{Kind, Rights, Scope};

/// Who a visitor is to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Person {
    /// The namespace of a ServiceAccount, where its own objects probably are.
    fn home(&self) -> Option<&str> {
        self.name.strip_prefix("system:serviceaccount:")?.split(':').next()
    }
}

/// Namespaces of one kind that a visitor's rights are asked about: the visitor's own, then the first by name.
const NAMESPACES: usize = 100;

/// Questions that are asked at once about one visitor, and about all of them.
const AT_ONCE: usize = 8;
static ASKING: Semaphore = Semaphore::const_new(32);

/// Nobody waits longer for a page than this. What was not answered by then is unknown.
const DEADLINE: Duration = Duration::from_secs(10);

impl Rights {
    /// Asks the API about every kind, and about namespaces where not everything may be read. What it does not answer is unknown.
    pub(crate) async fn of(client: &Client, person: &Person, namespaces: &BTreeMap<Kind, BTreeSet<String>>) -> Self {
        Self::asked(person, namespaces, |question| ask(client, person, question)).await
    }

    async fn asked<F: Future<Output = Option<bool>>>(
        person: &Person,
        namespaces: &BTreeMap<Kind, BTreeSet<String>>,
        ask: impl Fn(Question) -> F,
    ) -> Self {
        let end = Instant::now() + DEADLINE;
        // Administrators are asked about once.
        if answers(vec![Question::Everything], &ask, end).await.get(&Question::Everything) == Some(&true) {
            return Self::all();
        }
        let wide: Vec<_> = Kind::ALL.into_iter().map(|kind| Question::Of(kind, None)).collect();
        let wide = answers(wide, &ask, end).await;
        let mut scopes: BTreeMap<Kind, Scope> = BTreeMap::new();
        let mut narrow = Vec::new();
        for kind in Kind::ALL {
            let scope = match wide.get(&Question::Of(kind, None)) {
                Some(true) => Scope::Everywhere,
                Some(false) => Scope::Within(BTreeSet::new()),
                None => Scope::Unknown,
            };
            if kind.is_namespaced() && scope == Scope::Within(BTreeSet::new()) {
                let all = namespaces.get(&kind).cloned().unwrap_or_default();
                let home = person.home().filter(|home| all.contains(*home)).map(str::to_owned);
                let rest = all.iter().filter(|it| Some(*it) != home.as_ref()).cloned();
                let chosen = home.clone().into_iter().chain(rest).take(NAMESPACES);
                narrow.extend(chosen.map(|namespace| Question::Of(kind, Some(namespace))));
                if all.len() > NAMESPACES {
                    scopes.insert(kind, Scope::Among(BTreeSet::new()));
                    continue;
                }
            }
            scopes.insert(kind, scope);
        }
        let told = answers(narrow.clone(), &ask, end).await;
        for question in narrow {
            let Question::Of(kind, Some(namespace)) = &question else { continue };
            let Some(scope) = scopes.get_mut(kind) else { continue };
            match (told.get(&question), &mut *scope) {
                (Some(true), Scope::Within(within) | Scope::Among(within)) => {
                    within.insert(namespace.clone());
                }
                (None, scope) => *scope = Scope::Unknown,
                (Some(_), _) => {}
            }
        }
        Self { scopes }
    }
}

/// Something that the API is asked about a visitor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Everything,
    Of(Kind, Option<String>),
}

/// The answers that came before the deadline, asked side by side.
async fn answers<F: Future<Output = Option<bool>>>(
    questions: Vec<Question>,
    ask: &impl Fn(Question) -> F,
    end: Instant,
) -> BTreeMap<Question, bool> {
    let asked = stream::iter(questions).map(async |question| (question.clone(), ask(question).await));
    let mut asked = std::pin::pin!(asked.buffer_unordered(AT_ONCE));
    let mut told = BTreeMap::new();
    while let Ok(Some((question, answer))) = timeout_at(end, asked.next()).await {
        if let Some(answer) = answer {
            told.insert(question, answer);
        }
    }
    told
}

/// Asks the API; nothing where it does not answer.
async fn ask(client: &Client, person: &Person, question: Question) -> Option<bool> {
    let (group, resource, namespace) = match question {
        Question::Everything => ("*", "*", None),
        Question::Of(kind, namespace) => (kind.resource().0, kind.resource().1, namespace),
    };
    let attributes = ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        namespace,
        // Whoever may list may read each object's whole contents.
        verb: Some("list".to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(person.name.clone()),
            uid: person.uid.clone(),
            groups: Some(person.groups.clone()),
            extra: Some(person.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let _turn = ASKING.acquire().await.ok()?;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    match cluster::write::in_time(reviews.create(&PostParams::default(), &review)).await {
        Ok(answer) => answer.status.map(|status| status.allowed),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a right of a visitor is not known");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use explain::{Drains, Input, Objects};

    use super::*;

    fn eve() -> Person {
        let name = "system:serviceaccount:zoo:eve".to_owned();
        Person { name, uid: None, groups: Vec::new(), extra: BTreeMap::new() }
    }

    #[tokio::test]
    async fn the_visitors_own_namespace_is_asked_about_first_and_the_rest_is_told() {
        let all: BTreeSet<String> = (0..500).map(|number| format!("n{number:03}")).chain(["zoo".to_owned()]).collect();
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let rights = Rights::asked(&eve(), &[(Kind::Machines, all)].into(), |question| {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move { Some(question == Question::Of(Kind::Machines, Some("zoo".to_owned()))) }
        })
        .await;
        assert!(rights.sees(Kind::Machines, "zoo") && !rights.sees(Kind::Machines, "n001"));
        assert_eq!(asked.into_inner(), 1 + Kind::ALL.len() + NAMESPACES);
        let notes = rights.notes();
        assert!(
            notes.iter().any(|note| note.contains("more namespaces with these") && note.contains("machines")),
            "{notes:?}"
        );
    }

    #[tokio::test]
    async fn what_the_api_does_not_answer_is_unknown_and_not_refused() {
        let rights = Rights::asked(&eve(), &BTreeMap::new(), |question| async move {
            match question {
                Question::Of(Kind::Pools, _) => None,
                Question::Of(Kind::Nodes, _) => Some(true),
                Question::Of(..) | Question::Everything => Some(false),
            }
        })
        .await;
        assert!(!rights.is_known() && rights.has(Kind::Nodes) && !rights.has(Kind::Pools));
        let notes = rights.notes();
        assert!(
            notes.iter().any(|note| note.contains("has not said") && note.contains("machineconfigpools")),
            "{notes:?}"
        );
        assert!(!notes[0].contains("machineconfigpools"), "{notes:?}");
        let mut objects = Objects::default();
        rights.narrow(&mut objects, &mut Drains::default(), &mut Vec::new());
        assert_eq!(objects.unread.why(Input::Pools), Some("whether you may list machineconfigpools is not known now"));
        let lack = rights.lack("A plan", &[Kind::Pools, Kind::Nodes]).expect("pools are not known");
        assert!(lack.contains("has not said"), "{lack}");
        let lack = rights.lack("A plan", &[Kind::Pools, Kind::Ledgers]).expect("ledgers are missing");
        assert_eq!(lack, "A plan needs the right to list poolledgers, which you do not have.");
    }

    #[tokio::test]
    async fn questions_are_asked_side_by_side() {
        let (running, most) = (std::sync::atomic::AtomicUsize::new(0), std::sync::atomic::AtomicUsize::new(0));
        let order = std::sync::atomic::Ordering::SeqCst;
        let _ = Rights::asked(&eve(), &BTreeMap::new(), |_| async {
            most.fetch_max(running.fetch_add(1, order) + 1, order);
            tokio::task::yield_now().await;
            running.fetch_sub(1, order);
            Some(false)
        })
        .await;
        assert_eq!(most.into_inner(), AT_ONCE);
    }

    #[tokio::test]
    async fn an_administrator_is_asked_about_once() {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let rights = Rights::asked(&eve(), &BTreeMap::new(), |_| async {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Some(true)
        })
        .await;
        assert_eq!((rights, asked.into_inner()), (Rights::all(), 1));
    }
}
