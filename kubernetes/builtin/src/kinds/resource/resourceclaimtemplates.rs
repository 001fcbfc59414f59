//! ResourceClaimTemplates.

use crate::{Kind, Strategy, kind::Check, table, validate::devices};

use super::resourceclaims::claim;

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, ..Strategy::PLAIN },
    columns: "Name, Age",
    cells: table::aged,
    default: |value, _| claim(&mut value["spec"]["spec"]),
    validate: Check::Change(devices::template),
    judged: true,
    ..Kind::plain("resource.k8s.io/resourceclaimtemplates")
};
