//! IPAddresses.

use serde_json::{Value, json};

use crate::{Kind, kind::Check, table::NONE, text, validate::addresses};

pub(super) static KIND: Kind = Kind {
    columns: "Name, ParentRef",
    cells: |row| json!([row.name, parent(&row.spec["parentRef"]), row.age]),
    validate: Check::Change(addresses::address),
    judged: true,
    ..Kind::plain("networking.k8s.io/ipaddresses")
};

/// What an address belongs to.
fn parent(reference: &Value) -> String {
    if reference.is_null() {
        return NONE.to_string();
    }
    let part = |field: &str| text(&reference[field]);
    let resource = match part("group") {
        "" => part("resource").to_lowercase(),
        group => format!("{}.{group}", part("resource")).to_lowercase(),
    };
    let owner = [part("namespace"), part("name")].into_iter().filter(|part| !part.is_empty());
    owner.fold(resource, |all, part| format!("{all}/{part}"))
}
