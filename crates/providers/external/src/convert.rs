//! From the port's types to those on the wire, and back. What comes back is believed no further than it can be read.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeAddress;
use machine::provider as port;

use crate::wire;

/// The longest message that is shown; it ends up in conditions and events.
const LONGEST: usize = 1000;

/// A text that may stand in a condition: one line, and not endless.
pub(crate) fn plain(text: &str) -> String {
    let one_line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let short: String = one_line.chars().take(LONGEST).collect();
    if short.len() < one_line.len() { format!("{short}…") } else { short }
}

pub(crate) fn error(error: wire::Error) -> port::Error {
    let wire::Error { kind, message, retry_after_seconds, request_id } = error;
    let kind = match kind {
        wire::Kind::NotFound => port::ErrorKind::NotFound,
        wire::Kind::InvalidSpec => port::ErrorKind::InvalidSpec,
        wire::Kind::NoCapacity => port::ErrorKind::NoCapacity,
        wire::Kind::Quota => port::ErrorKind::Quota,
        wire::Kind::Throttled => port::ErrorKind::Throttled {
            retry_after: retry_after_seconds.map(|seconds| SignedDuration::from_secs(seconds.into())),
        },
        wire::Kind::Credentials => port::ErrorKind::Credentials,
        wire::Kind::Unreachable => port::ErrorKind::Unreachable,
        wire::Kind::Other => port::ErrorKind::Other,
    };
    // Not shortened yet: secrets are taken out first, and must be whole for that.
    let error = port::Error::new(kind, message);
    match request_id {
        Some(id) => error.with_request_id(plain(&id)),
        None => error,
    }
}

fn wire_error(error: &port::Error) -> wire::Error {
    let (kind, retry_after) = match error.kind {
        port::ErrorKind::NotFound => (wire::Kind::NotFound, None),
        port::ErrorKind::InvalidSpec => (wire::Kind::InvalidSpec, None),
        port::ErrorKind::NoCapacity => (wire::Kind::NoCapacity, None),
        port::ErrorKind::Quota => (wire::Kind::Quota, None),
        port::ErrorKind::Throttled { retry_after } => (wire::Kind::Throttled, retry_after),
        port::ErrorKind::Credentials => (wire::Kind::Credentials, None),
        port::ErrorKind::Unreachable => (wire::Kind::Unreachable, None),
        port::ErrorKind::Other => (wire::Kind::Other, None),
    };
    wire::Error {
        kind,
        message: error.message.clone(),
        retry_after_seconds: retry_after.and_then(|delay| u32::try_from(delay.as_secs()).ok()),
        request_id: error.request_id.clone(),
    }
}

fn encoded(data: &port::SecretData) -> BTreeMap<String, String> {
    data.0.iter().map(|(key, value)| (key.clone(), STANDARD.encode(value))).collect()
}

pub(crate) fn mark(mark: &port::Mark) -> wire::Mark {
    let port::Mark { cluster, namespace, machine, uid } = mark.clone();
    wire::Mark { cluster, namespace, machine, uid }
}

pub(crate) fn intent(intent: &port::Intent) -> wire::Intent {
    wire::Intent { token: intent.token.clone(), attempt: intent.attempt, recorded: intent.recorded.to_string() }
}

/// User data is left out: only a creation needs it.
pub(crate) fn request(request: &port::Request) -> wire::Request {
    wire::Request {
        mark: mark(&request.mark),
        labels: request.labels.clone(),
        control_plane: request.control_plane,
        spec: (*request.spec).clone(),
        provider_id: request.provider_id.clone(),
        provider_status: request.provider_status.clone(),
        intent: request.intent.as_ref().map(intent),
        credentials: request.secrets.credentials.as_ref().map(encoded),
    }
}

pub(crate) fn user_data(request: &port::Request) -> Option<BTreeMap<String, String>> {
    request.secrets.user_data.as_ref().map(encoded)
}

pub(crate) fn search(search: &port::Search) -> wire::Search {
    wire::Search {
        cluster: search.cluster.clone(),
        place: (*search.place).clone(),
        credentials: search.secrets.credentials.as_ref().map(encoded),
    }
}

/// An instance as it was answered; an error says what cannot be true.
pub(crate) fn instance(instance: wire::Instance) -> Result<port::Instance, String> {
    let wire::Instance { provider_id, state, error, state_word, power, addresses, .. } = &instance;
    if provider_id.as_deref().is_some_and(str::is_empty) {
        return Err("an instance has an empty providerId; leave it out while there is none".to_owned());
    }
    let (state, word) = match state {
        wire::State::Pending => (port::State::Pending, "pending"),
        wire::State::Running => (port::State::Running, "running"),
        wire::State::Stopped => (port::State::Stopped, "stopped"),
        wire::State::Deleting => (port::State::Deleting, "deleting"),
        wire::State::Failed => {
            let unsaid = || port::Error::new(port::ErrorKind::Other, "the provider does not say why it failed");
            (port::State::Failed(error.clone().map_or_else(unsaid, self::error)), "failed")
        }
    };
    Ok(port::Instance {
        provider_id: provider_id.clone(),
        state,
        state_word: state_word.clone().unwrap_or_else(|| word.to_owned()),
        power: match power {
            wire::Power::On => port::Power::On,
            wire::Power::Off => port::Power::Off,
            wire::Power::Unknown => port::Power::Unknown,
        },
        addresses: addresses
            .iter()
            .map(|address| NodeAddress { type_: address.type_.clone(), address: address.address.clone() })
            .collect(),
        created: time(instance.created.as_deref())?,
        region: instance.region,
        zone: instance.zone,
        instance_type: instance.instance_type,
        interruptible: instance.interruptible,
        labels: instance.labels,
        annotations: instance.annotations,
        provider_status: instance.provider_status,
    })
}

/// An instance as it is told again.
pub(crate) fn wire_instance(instance: &port::Instance) -> wire::Instance {
    let (state, error) = match &instance.state {
        port::State::Pending => (wire::State::Pending, None),
        port::State::Running => (wire::State::Running, None),
        port::State::Stopped => (wire::State::Stopped, None),
        port::State::Deleting => (wire::State::Deleting, None),
        port::State::Failed(error) => (wire::State::Failed, Some(wire_error(error))),
    };
    wire::Instance {
        provider_id: instance.provider_id.clone(),
        state,
        error,
        state_word: Some(instance.state_word.clone()),
        power: match instance.power {
            port::Power::On => wire::Power::On,
            port::Power::Off => wire::Power::Off,
            port::Power::Unknown => wire::Power::Unknown,
        },
        addresses: instance
            .addresses
            .iter()
            .map(|address| wire::Address { type_: address.type_.clone(), address: address.address.clone() })
            .collect(),
        region: instance.region.clone(),
        zone: instance.zone.clone(),
        instance_type: instance.instance_type.clone(),
        interruptible: instance.interruptible,
        labels: instance.labels.clone(),
        annotations: instance.annotations.clone(),
        provider_status: instance.provider_status.clone(),
        created: instance.created.map(|time| time.to_string()),
    }
}

pub(crate) fn deletion(removal: wire::Removal) -> port::Deletion {
    match removal.removal {
        wire::Deletion::Requested => port::Deletion::Requested,
        wire::Deletion::Gone => port::Deletion::Gone,
    }
}

pub(crate) fn wish(wish: port::PowerWish) -> wire::Wish {
    match wish {
        port::PowerWish::On => wire::Wish::On,
        port::PowerWish::Off => wire::Wish::Off,
        port::PowerWish::Cycle => wire::Wish::Cycle,
    }
}

pub(crate) fn marked(marked: wire::Marked) -> Result<port::Marked, String> {
    let wire::Marked { mark: wire::Mark { cluster, namespace, machine, uid }, kind, id, provider_id, created } = marked;
    let mark = port::Mark { cluster, namespace, machine, uid };
    Ok(port::Marked { mark, kind, id, provider_id, created: time(created.as_deref())? })
}

pub(crate) fn wire_marked(marked: &port::Marked) -> wire::Marked {
    let port::Marked { mark, kind, id, provider_id, created } = marked.clone();
    let created = created.map(|time| time.to_string());
    wire::Marked { mark: self::mark(&mark), kind, id, provider_id, created }
}

pub(crate) fn capacity(capacity: wire::Capacity) -> port::Capacity {
    let wire::Capacity { cpus, memory_mib, gpus, max_pods, labels } = capacity;
    port::Capacity { cpus, memory_mib, gpus, max_pods, labels, ..port::Capacity::default() }
}

fn time(text: Option<&str>) -> Result<Option<Timestamp>, String> {
    let parse = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a time such as 2026-01-31T12:00:00Z"));
    text.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_crosses_the_wire_and_comes_back() {
        let after = Some(SignedDuration::from_secs(7));
        for kind in [
            port::ErrorKind::NotFound,
            port::ErrorKind::InvalidSpec,
            port::ErrorKind::NoCapacity,
            port::ErrorKind::Quota,
            port::ErrorKind::Throttled { retry_after: after },
            port::ErrorKind::Throttled { retry_after: None },
            port::ErrorKind::Credentials,
            port::ErrorKind::Unreachable,
            port::ErrorKind::Other,
        ] {
            let before = port::Error::new(kind, "why").with_request_id("r-1");
            let text = serde_json::to_string(&wire_error(&before)).expect("it is JSON");
            assert_eq!(error(serde_json::from_str(&text).expect("it can be read")), before, "{text}");
        }
    }

    #[test]
    fn a_message_is_one_line_and_not_endless() {
        assert_eq!(plain("a\nb\u{1b}[31m"), "a b [31m");
        assert_eq!(plain(&"ä".repeat(5000)).chars().count(), LONGEST + 1);
    }
}
