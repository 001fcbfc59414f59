//! ClusterRoleBindings.

use crate::{Kind, Strategy, kind::Check, validate::access};

use super::bindings;

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { create_on_update: true, ..Strategy::PLAIN },
    columns: bindings::COLUMNS,
    cells: bindings::cells,
    default: |value, _| bindings::default(value),
    validate: Check::Change(|binding, old, findings| access::binding(binding, false, old, findings)),
    judged: true,
    ..Kind::plain("rbac.authorization.k8s.io/clusterrolebindings")
};
