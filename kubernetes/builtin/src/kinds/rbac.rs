//! Who may do what.

mod bindings;
mod clusterrolebindings;
mod clusterroles;
mod rolebindings;
mod roles;
mod rules;

use crate::Kind;

pub(super) static KINDS: &[&Kind] =
    &[&clusterrolebindings::KIND, &clusterroles::KIND, &rolebindings::KIND, &roles::KIND];
