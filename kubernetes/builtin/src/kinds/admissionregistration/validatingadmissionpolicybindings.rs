//! ValidatingAdmissionPolicyBindings.

use schema::policy;

use crate::{Generation, Kind, Strategy, kind::Check};

use super::{BINDINGS, policies};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, unconditional: false, ..Strategy::PLAIN },
    columns: "Name, PolicyName, ParamRef, Age",
    cells: policies::cells_of_binding,
    default: |value, _| policy::default_binding(value),
    validate: Check::Write(|write, findings| findings.extend(policy::validate_binding(write.value))),
    ..Kind::plain(BINDINGS)
};
