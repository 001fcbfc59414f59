//! Who may look: a link that is good for one browser, then a session of that browser.
//!
//! On a shared machine everybody reaches loopback, so an address alone lets nobody in. Links and sessions are random and never
//! logged. Only their hashes are kept; those of sessions also in a file of the user's, so that an open page goes on after a
//! restart.

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
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
    file: Option<Arc<Path>>,
}

#[derive(Debug, Default)]
struct Kept {
    links: VecDeque<[u8; 32]>,
    sessions: VecDeque<[u8; 32]>,
}

impl Keys {
    /// Keys whose sessions are kept in a file. One that cannot be read or written costs open pages a new link, and no more.
    #[must_use]
    pub(crate) fn kept_in(file: PathBuf) -> Self {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let hashes = text.lines().filter_map(|line| hex::decode(line).ok()?.try_into().ok());
        let kept = Kept { links: VecDeque::new(), sessions: hashes.take(SESSIONS).collect() };
        Self { kept: Arc::new(Mutex::new(kept)), file: Some(file.into()) }
    }

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
        if let Some(file) = &self.file
            && let Err(error) = save(file, &kept.sessions)
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "sessions are not kept over a restart");
        }
        Some(secret)
    }

    /// Whether a browser was let in.
    pub(crate) fn knows(&self, session: &str) -> bool {
        self.kept.lock().sessions.contains(&hash(session))
    }
}

/// Writes beside and renames, so that a stop in between loses nothing. Only the user may read it.
fn save(file: &Path, sessions: &VecDeque<[u8; 32]>) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let beside = file.with_extension("new");
    let mut text = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    for session in sessions {
        writeln!(text, "{}", hex::encode(session))?;
    }
    std::fs::rename(beside, file)
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
    fn a_session_outlives_a_restart_and_its_file_lets_nobody_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("state/sessions");
        let keys = Keys::kept_in(file.clone());
        let session = keys.exchange(&keys.issue()).expect("it is new");
        assert!(Keys::kept_in(file.clone()).knows(&session));
        let text = std::fs::read_to_string(&file).expect("it was written");
        assert!(!text.contains(&session) && !keys.knows(text.trim()), "only hashes are kept");
        std::fs::write(&file, "garbage\n\n00\n").expect("it is writable");
        assert!(!Keys::kept_in(file).knows(&session));
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
