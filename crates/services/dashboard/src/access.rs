//! Who may look: on a laptop whoever has the link, in a cluster whoever has a token of its API; then a session of that browser.
//!
//! On a shared machine everybody reaches loopback, so an address alone lets nobody in. Links and sessions are random, never
//! logged, kept in memory as hashes only, and end with the process: while nobody listens, another user may listen on the same
//! port and be sent the cookie of an open page. A token is used once, to learn whose it is, and not kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

use crate::rights::{Person, Rights};

/// Links that nobody has used. A person who asks for more has lost the older ones.
const LINKS: usize = 16;

/// Browsers that are let in at once; the oldest must ask for a new link.
const SESSIONS: usize = 256;

/// About as long as tokens live. The API is not asked again whether a token still holds, so after that a person shows one anew.
const LASTS: Duration = Duration::from_secs(3600);

/// How long the answers about a person's rights are good for.
pub(crate) const RIGHTS: Duration = Duration::from_secs(60);

/// How soon the API is asked again when it did not answer everything.
const AGAIN: Duration = Duration::from_secs(5);

/// The links that were given out and the browsers that were let in.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    links: VecDeque<[u8; 32]>,
    sessions: VecDeque<Session>,
}

#[derive(Clone)]
struct Session {
    secret: [u8; 32],
    visitor: Visitor,
    began: Instant,
}

/// Somebody who was let in.
#[derive(Clone)]
pub(crate) enum Visitor {
    /// Whoever started the dashboard, or was given its link: sees what its kubeconfig may read.
    Owner,
    /// Sees what the API lets this person list.
    Person(Arc<Known>),
}

/// A person, and what is known of their rights.
pub(crate) struct Known {
    pub(crate) person: Person,
    rights: tokio::sync::Mutex<Option<(Instant, Rights)>>,
}

impl Keys {
    /// A new secret for one link.
    #[must_use]
    pub(crate) fn issue(&self) -> String {
        let secret = random();
        let mut kept = self.kept.lock();
        kept.links.push_back(hash(&secret));
        while kept.links.len() > LINKS {
            kept.links.pop_front();
        }
        secret
    }

    /// Takes a link's secret for a session's, if it was not used yet.
    pub(crate) fn exchange(&self, link: &str) -> Option<String> {
        let mut kept = self.kept.lock();
        let place = kept.links.iter().position(|kept| *kept == hash(link))?;
        kept.links.remove(place);
        Some(kept.open(Visitor::Owner))
    }

    /// Opens a session for a person whose token the API knows.
    pub(crate) fn welcome(&self, person: Person) -> String {
        let known = Known { person, rights: tokio::sync::Mutex::default() };
        self.kept.lock().open(Visitor::Person(Arc::new(known)))
    }

    /// Who a browser's session belongs to.
    pub(crate) fn visitor(&self, session: &str) -> Option<Visitor> {
        let mut kept = self.kept.lock();
        kept.sessions.retain(|session| matches!(session.visitor, Visitor::Owner) || session.began.elapsed() < LASTS);
        let secret = hash(session);
        kept.sessions.iter().find(|session| session.secret == secret).map(|session| session.visitor.clone())
    }

    /// Ends a session.
    pub(crate) fn leave(&self, session: &str) {
        let secret = hash(session);
        self.kept.lock().sessions.retain(|session| session.secret != secret);
    }
}

impl Kept {
    fn open(&mut self, visitor: Visitor) -> String {
        let secret = random();
        self.sessions.push_back(Session { secret: hash(&secret), visitor, began: Instant::now() });
        while self.sessions.len() > SESSIONS {
            self.sessions.pop_front();
        }
        secret
    }
}

impl Visitor {
    /// What this visitor may see now. Requests of one visitor wait for one round of questions, which has a deadline.
    pub(crate) async fn rights(&self, client: &Client, live: &crate::live::Live) -> Rights {
        let Visitor::Person(known) = self else { return Rights::all() };
        let mut rights = known.rights.lock().await;
        let good_for = |rights: &Rights| if rights.is_known() { RIGHTS } else { AGAIN };
        if let Some((_, rights)) = rights.as_ref().filter(|(at, rights)| at.elapsed() < good_for(rights)) {
            return rights.clone();
        }
        let namespaces = live.namespaces();
        let fresh = Rights::of(client, &known.person, &namespaces.clone().unwrap_or_default()).await;
        // Before the first look nobody knows which namespaces to ask about, so that answer is not kept.
        *rights = namespaces.map(|_| (Instant::now(), fresh.clone()));
        fresh
    }
}

/// Asks the API whose token it is; nobody's, if it does not know it.
///
/// # Errors
/// When the API does not answer.
pub(crate) async fn review(client: &Client, token: &str) -> Result<Option<Person>, kube::Error> {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let review = TokenReview { spec, ..TokenReview::default() };
    let answer = cluster::write::in_time(reviews.create(&PostParams::default(), &review)).await?;
    let status = answer.status.filter(|status| status.authenticated == Some(true));
    let person = status.and_then(|status| status.user).map(|user| Person {
        name: user.username.unwrap_or_default(),
        uid: user.uid,
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    });
    Ok(person)
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn random() -> String {
    let mut bytes = [0; 24];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    hex::encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_lets_one_browser_in_once() {
        let keys = Keys::default();
        let link = keys.issue();
        assert!(keys.visitor(&link).is_none(), "a link is no session");
        let session = keys.exchange(&link).expect("it is new");
        assert!(keys.visitor(&session).is_some());
        assert_eq!(keys.exchange(&link), None, "it was used");
        assert!(keys.visitor("").is_none() && keys.visitor(&"0".repeat(48)).is_none());
    }

    #[test]
    fn whoever_leaves_is_not_known_any_more() {
        let keys = Keys::default();
        let person = Person { name: "eve".to_owned(), uid: None, groups: Vec::new(), extra: Default::default() };
        let session = keys.welcome(person);
        assert!(matches!(keys.visitor(&session), Some(Visitor::Person(known)) if known.person.name == "eve"));
        keys.leave(&session);
        assert!(keys.visitor(&session).is_none());
    }

    #[test]
    fn the_oldest_links_and_sessions_end_when_there_are_too_many() {
        let keys = Keys::default();
        let first = keys.exchange(&keys.issue()).expect("it is new");
        for _ in 0..SESSIONS {
            let _ = keys.exchange(&keys.issue()).expect("it is new");
        }
        assert!(keys.visitor(&first).is_none());
    }
}
