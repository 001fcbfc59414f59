//! ValidatingAdmissionPolicies.

use schema::policy;
use serde_json::json;

use crate::{Generation, Kind, Strategy, kind::Check};

use super::{POLICIES, policies};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, unconditional: false, status_only: true, ..Strategy::PLAIN },
    columns: "Name, #Validations, ParamKind, Age",
    cells: |row| policies::cells(row, "validations"),
    default: |value, _| policy::default(value),
    create: |value, _| value["status"] = json!({}),
    validate: Check::Write(|write, findings| {
        // Expressions are looked at when the spec is written, not when the status is.
        if write.subresource != "status" {
            findings.extend(policy::validate(write.value, write.old));
        }
    }),
    ..Kind::plain(POLICIES)
};
