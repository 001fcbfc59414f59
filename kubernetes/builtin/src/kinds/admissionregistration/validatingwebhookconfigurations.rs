//! ValidatingWebhookConfigurations.

use crate::{Generation, Kind, Strategy, kind::Check};

use super::webhooks;

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { generation: Generation::Counted, unconditional: false, ..Strategy::PLAIN },
    columns: "Name, #Webhooks, Age",
    cells: webhooks::cells,
    default: |value, _| webhooks::default(value, false),
    validate: Check::Write(|write, findings| findings.extend(schema::webhook::validate(write.value, write.old))),
    ..Kind::plain("admissionregistration.k8s.io/validatingwebhookconfigurations")
};
