//! MutatingAdmissionPolicies.

use schema::policy;

use crate::{Generation, Kind, Strategy, kind::Check};

use super::{MUTATING_POLICIES, policies};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, unconditional: false, ..Strategy::PLAIN },
    columns: "Name, #Mutations, ParamKind, Age",
    cells: |row| policies::cells(row, "mutations"),
    default: |value, _| policy::default(value),
    validate: Check::Write(|write, findings| findings.extend(policy::validate_mutating(write.value, write.old))),
    ..Kind::plain(MUTATING_POLICIES)
};
