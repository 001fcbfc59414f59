//! CSIStorageCapacities.

use crate::{Kind, Strategy, kind::Check, validate::csi};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { unconditional: false, ..Strategy::PLAIN },
    validate: Check::Change(csi::capacity),
    judged: true,
    ..Kind::plain("storage.k8s.io/csistoragecapacities")
};
