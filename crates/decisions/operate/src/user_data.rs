//! What a new machine is given: the `<pool>-user-data-managed` secrets and the tokens inside them.
//!
//! A token opens its pool's config and nothing else. It lives for a month and is replaced after twenty days, so that a
//! machine made just before a change still comes up, and a secret that leaked is worth little.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::installation::Installation;
use crate::objects::{Desired, Keep, Step};

/// How long a token works.
pub const LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How much of that is left when its successor is made.
const RENEW: SignedDuration = SignedDuration::from_hours(10 * 24);

/// On a managed secret and on its token: the pool they are for.
pub const POOL_LABEL: &str = "machinist.dev/user-data-of";

pub fn secret_name(pool: &str) -> String {
    format!("{pool}-user-data-managed")
}

/// What there is of one pool's user data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// The secret's `userData`, as text.
    pub user_data: Option<String>,
    /// When its token stops working; `None` when the token object is gone or does not expire.
    pub token_expires: Option<Timestamp>,
    /// The token object that the secret was made with still exists.
    pub token_exists: bool,
    /// Its pool is served without a token.
    pub open: bool,
}

/// What to do about one pool's user data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It is right; look again when its token is due.
    Keep { next: Option<Timestamp> },
    /// Make a token and a secret anew.
    Renew(Why),
}

/// Why user data is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Missing,
    /// It points to another server, pool or CA than it should.
    Stale,
    TokenGone,
    TokenDue,
}

/// Decides about one pool. `source` and `ca` are what the pointer should have: its address and its authorities' data URL.
pub fn plan(present: &Present, source: &str, ca: &str, now: Timestamp) -> Plan {
    let Some(user_data) = &present.user_data else {
        return Plan::Renew(Why::Missing);
    };
    let read: Value = serde_json::from_str(user_data).unwrap_or_default();
    let merge = &read["ignition"]["config"]["merge"][0];
    let is_right = merge["source"] == source
        && read["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"] == ca
        && merge.get("httpHeaders").is_some() != present.open;
    if !is_right {
        return Plan::Renew(Why::Stale);
    }
    if present.open {
        return Plan::Keep { next: None };
    }
    match present.token_expires {
        _ if !present.token_exists => Plan::Renew(Why::TokenGone),
        None => Plan::Keep { next: None },
        Some(expires) if expires.duration_since(now) <= RENEW => Plan::Renew(Why::TokenDue),
        Some(expires) => Plan::Keep { next: Some(expires - RENEW) },
    }
}

/// The secret, in the form in which machine providers read it.
pub fn secret(installation: &Installation, pool: &str, pointer: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": secret_name(pool), "namespace": installation.machine_namespace,
            "labels": {POOL_LABEL: pool, api::labels::PART_OF: api::labels::PART_OF_MACHINIST},
        },
        "data": {"userData": STANDARD.encode(pointer.to_string()), "disableTemplating": STANDARD.encode("true")},
    })
}

/// The ConfigMap from which everything else learns the config server's authorities, and where it is.
pub(crate) fn bundle(installation: &Installation, facts: &Facts) -> Option<Desired> {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": crate::certificates::CA, "namespace": installation.namespace},
        "data": {"ca-bundle.crt": facts.server_ca.as_ref()?},
    });
    if let Some(server) = facts.server(installation.server.as_deref()) {
        object["data"]["server"] = json!(server);
    }
    Some(Desired::new(Step::MachineConfigServer, Keep::Whole, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "https://a:22623/config/worker";

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn present() -> Present {
        let pointer = json!({"ignition": {
            "config": {"merge": [{"source": SOURCE, "httpHeaders": [{"name": "Authorization", "value": "x"}]}]},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,CA"}]}},
        }});
        Present {
            user_data: Some(pointer.to_string()),
            token_exists: true,
            token_expires: Some(now() + LIFE),
            open: false,
        }
    }

    #[track_caller]
    fn check(present: &Present, expected: Plan) {
        assert_eq!(plan(present, SOURCE, "data:,CA", now()), expected);
    }

    #[test]
    fn right_user_data_stays_until_its_token_is_due() {
        check(&present(), Plan::Keep { next: Some(now() + LIFE - RENEW) });
        let due = Present { token_expires: Some(now() + RENEW), ..present() };
        check(&due, Plan::Renew(Why::TokenDue));
    }

    #[test]
    fn missing_edited_and_stale_user_data_is_made_anew() {
        check(&Present { user_data: None, ..present() }, Plan::Renew(Why::Missing));
        check(&Present { user_data: Some("garbage".into()), ..present() }, Plan::Renew(Why::Stale));
        assert_eq!(plan(&present(), "https://b:22623/config/worker", "data:,CA", now()), Plan::Renew(Why::Stale));
        assert_eq!(plan(&present(), SOURCE, "data:,NEW", now()), Plan::Renew(Why::Stale));
        check(&Present { token_exists: false, ..present() }, Plan::Renew(Why::TokenGone));
    }

    #[test]
    fn an_opened_pool_has_a_pointer_without_a_token() {
        check(&Present { open: true, ..present() }, Plan::Renew(Why::Stale));
    }
}
