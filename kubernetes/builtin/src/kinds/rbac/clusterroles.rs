//! ClusterRoles.

use crate::{Kind, Strategy, kind::Check, validate::access};

use super::rules;

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { create_on_update: true, ..Strategy::PLAIN },
    default: |value, _| rules::default(value),
    create: |value, _| rules::settle(value),
    update: |update| {
        if update.subresource.is_empty() {
            rules::settle(update.new);
        }
    },
    validate: Check::Object(|role, findings| access::role(role, false, findings)),
    judged: true,
    ..Kind::plain("rbac.authorization.k8s.io/clusterroles")
};
