//! ServiceAccounts.

use crate::{Kind, Strategy, table};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { returns_deleted: true, ..Strategy::PLAIN },
    columns: "Name, Age",
    cells: table::aged,
    judged: true,
    ..Kind::plain("/serviceaccounts")
};
