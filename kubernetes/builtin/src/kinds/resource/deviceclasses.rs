//! DeviceClasses.

use crate::{Generation, Kind, Strategy, kind::Check, table, validate::devices};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, returns_deleted: true, ..Strategy::PLAIN },
    columns: "Name, Age",
    cells: table::aged,
    validate: Check::Object(devices::class),
    judged: true,
    ..Kind::plain("resource.k8s.io/deviceclasses")
};
