//! When two fragments fight: both are people's, both are for the same role, and they give one part different contents.
//!
//! A later name overriding an earlier one is how fragments are meant to work when one of them is generated or is the base that
//! a custom pool builds upon; between two equals it is usually an accident, and the name order decides in silence. It
//! still decides, but no longer in silence.

use api::machineconfiguration::MachineConfig;
use ignition::Resource;

use crate::{is_generated, role};

/// What a fragment says about a part, as far as two words can contradict each other.
pub(crate) enum Word<'a> {
    Nothing,
    /// A directory or a link.
    Node,
    Contents(&'a Resource),
    Text(&'a str),
}

/// What the two disagree about, if they are equals and do.
pub(crate) fn between(before: &MachineConfig, now: &MachineConfig, was: &Word<'_>, is: &Word<'_>) -> Option<String> {
    if is_generated(before) || is_generated(now) || role(before) != role(now) {
        return None;
    }
    let disagree = match (was, is) {
        (Word::Nothing, _) | (_, Word::Nothing) | (Word::Node, Word::Node) => false,
        (Word::Text(was), Word::Text(is)) => was != is,
        (Word::Contents(was), Word::Contents(is)) => !same_bytes(was, is),
        (Word::Node | Word::Contents(_) | Word::Text(_), _) => true,
    };
    disagree.then(|| "two fragments give it different contents; the last name wins".to_owned())
}

fn same_bytes(a: &Resource, b: &Resource) -> bool {
    if a.source == b.source && a.compression == b.compression {
        return true;
    }
    match (ignition::decode(a), ignition::decode(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
