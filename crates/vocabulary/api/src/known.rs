//! The result of reading objects, which never confuses "could not be read" with "there are none".
//!
//! Everything that reads objects returns a [`Reading`]. Rules that delete, evict, renew certificates or count a quorum
//! take a [`Fresh`] value, which can only be made from a known and recent reading. Nothing here reads objects or a
//! clock.

use std::fmt;
use std::ops::Deref;

use jiff::{SignedDuration, Timestamp};

/// The maximum age of a reading that rules may rely on.
///
/// An API server sends something on every watch about once a minute: a bookmark, if nothing changes. A watch that is
/// silent for 90 seconds is reopened, which either succeeds or fails. So two minutes without a response mean that the
/// API is lost, not that nothing happened.
pub const FRESH_FOR: SignedDuration = SignedDuration::from_mins(2);

/// The state of the objects of one kind, or of one object, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// The API responded, and this was the newest state at this time.
    Known { value: T, as_of: Timestamp },
    /// The API does not have this kind, so there are no such objects.
    NotInstalled,
    /// The API could not be read, for this reason.
    Unknown(String),
}

/// A value that was read from the API recently. Only [`Reading::fresh`] and [`Reading::fresh_or_none`] create one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh<T>(T);

/// Objects could not be read, or not recently.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unread {
    /// The plural, as in `kubectl get`.
    pub what: String,
    pub why: String,
}

impl<T> Reading<T> {
    pub fn known(value: T, as_of: Timestamp) -> Self {
        Self::Known { value, as_of }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Known { value, as_of } => Reading::Known { value: change(value), as_of },
            Self::NotInstalled => Reading::NotInstalled,
            Self::Unknown(why) => Reading::Unknown(why),
        }
    }

    pub fn as_ref(&self) -> Reading<&T> {
        match self {
            Self::Known { value, as_of } => Reading::Known { value, as_of: *as_of },
            Self::NotInstalled => Reading::NotInstalled,
            Self::Unknown(why) => Reading::Unknown(why.clone()),
        }
    }

    /// Combines two readings: known only if both are, with the time of the older one.
    pub fn and<U>(self, other: Reading<U>) -> Reading<(T, U)> {
        match (self, other) {
            (Self::Known { value: a, as_of: first }, Reading::Known { value: b, as_of: second }) => {
                Reading::Known { value: (a, b), as_of: first.min(second) }
            }
            (Self::Unknown(why), _) | (_, Reading::Unknown(why)) => Reading::Unknown(why),
            (Self::NotInstalled, _) | (_, Reading::NotInstalled) => Reading::NotInstalled,
        }
    }

    /// Returns the value if it is known and recent. `what` is the plural of the kind, for the error text.
    ///
    /// # Errors
    /// If it is not known, if it is too old, or if the kind does not exist.
    pub fn fresh(&self, what: &str, now: Timestamp) -> Result<Fresh<&T>, Unread> {
        match self.fresh_or_none(what, now)? {
            Some(fresh) => Ok(fresh),
            None => Err(Unread::new(what, "the API has no such kind")),
        }
    }

    /// Like [`Self::fresh`], for kinds that a cluster may lack: returns `None` if the API does not have the kind.
    ///
    /// # Errors
    /// If it is not known or too old.
    pub fn fresh_or_none(&self, what: &str, now: Timestamp) -> Result<Option<Fresh<&T>>, Unread> {
        match self {
            Self::Known { value, as_of } => {
                if now.duration_since(*as_of) <= FRESH_FOR {
                    return Ok(Some(Fresh(value)));
                }
                Err(Unread::new(what, last_heard(*as_of)))
            }
            Self::NotInstalled => Ok(None),
            Self::Unknown(why) => Err(Unread::new(what, why.clone())),
        }
    }
}

/// Says when the API last responded. It is rounded to the minute, because a text that changes each time would be
/// published as a new event each time.
pub fn last_heard(at: Timestamp) -> String {
    format!("the API was last heard at {}", at.strftime("%Y-%m-%dT%H:%MZ"))
}

/// Nothing is known before the first read.
impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self::Unknown("nothing was read yet".to_owned())
    }
}

impl<T> Fresh<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Fresh<U> {
        Fresh(change(self.0))
    }

    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Fresh<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Unread {
    pub fn new(what: &str, why: impl Into<String>) -> Self {
        Self { what: what.to_owned(), why: why.into() }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", self.what, self.why)
    }
}

impl std::error::Error for Unread {}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn only_recent_readings_are_fresh() {
        let read = Reading::known(vec!["a"], at(0));
        assert_eq!(*read.fresh("nodes", at(120)).expect("two minutes are recent").into_inner(), ["a"]);
        let old = read.fresh("nodes", at(121)).expect_err("older than two minutes");
        assert_eq!(old.to_string(), "cannot read nodes: the API was last heard at 1970-01-01T00:00Z");
        assert!(Reading::<()>::default().fresh("nodes", at(0)).is_err());
    }

    #[test]
    fn a_missing_kind_counts_as_none_only_with_fresh_or_none() {
        let missing = Reading::<()>::NotInstalled;
        assert_eq!(missing.fresh_or_none("machines", at(0)), Ok(None));
        let error = missing.fresh("nodes", at(0)).expect_err("nodes exist everywhere");
        assert_eq!(error.to_string(), "cannot read nodes: the API has no such kind");
    }

    #[test]
    fn combined_readings_have_the_older_time_and_are_known_only_if_both_are() {
        let both = Reading::known(1, at(5)).and(Reading::known(2, at(3)));
        assert_eq!(both, Reading::known((1, 2), at(3)));
        let unknown = Reading::<()>::NotInstalled.and(Reading::<()>::Unknown("503".to_owned()));
        assert_eq!(unknown, Reading::Unknown("503".to_owned()));
    }
}
