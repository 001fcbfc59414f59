//! Who may look: a link that is good for one browser, then a session of that browser.
//!
//! On a shared machine everybody reaches loopback, so an address alone lets nobody in. Links and sessions are random, never
//! logged, kept in memory as hashes only, and end with the process: while nobody listens, another user may listen on the same
//! port and be sent the cookie of an open page.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

/// Links that nobody has used. A person who asks for more has lost the older ones.
const LINKS: usize = 16;

/// Browsers that are let in at once; the oldest must ask for a new link.
const SESSIONS: usize = 256;

/// The links that were given out and the browsers that used one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    links: VecDeque<[u8; 32]>,
    sessions: VecDeque<[u8; 32]>,
}

impl Keys {
    /// A new secret for one link.
    #[must_use]
    pub(crate) fn issue(&self) -> String {
        let secret = random();
        push(&mut self.kept.lock().links, &secret, LINKS);
        secret
    }

    /// Takes a link's secret for a session's, if it was not used yet.
    pub(crate) fn exchange(&self, link: &str) -> Option<String> {
        let mut kept = self.kept.lock();
        let place = kept.links.iter().position(|kept| *kept == hash(link))?;
        kept.links.remove(place);
        let secret = random();
        push(&mut kept.sessions, &secret, SESSIONS);
        Some(secret)
    }

    /// Whether a browser was let in.
    pub(crate) fn knows(&self, session: &str) -> bool {
        self.kept.lock().sessions.contains(&hash(session))
    }
}

fn push(secrets: &mut VecDeque<[u8; 32]>, secret: &str, most: usize) {
    secrets.push_back(hash(secret));
    while secrets.len() > most {
        secrets.pop_front();
    }
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
        assert!(!keys.knows(&link), "a link is no session");
        let session = keys.exchange(&link).expect("it is new");
        assert!(keys.knows(&session));
        assert_eq!(keys.exchange(&link), None, "it was used");
        assert!(!keys.knows("") && !keys.knows(&"0".repeat(48)));
    }

    #[test]
    fn the_oldest_links_and_sessions_end_when_there_are_too_many() {
        let keys = Keys::default();
        let first = keys.exchange(&keys.issue()).expect("it is new");
        for _ in 0..SESSIONS {
            let _ = keys.exchange(&keys.issue()).expect("it is new");
        }
        assert!(!keys.knows(&first));
    }
}
