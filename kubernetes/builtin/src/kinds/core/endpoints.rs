//! Endpoints.

use serde_json::{Value, json};

use crate::{
    Kind, Strategy,
    defaults::{list_or_none, set},
    kind::Check,
    table::{NONE, first_three, number},
    text,
    validate::endpoints,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { create_on_update: true, ..Strategy::PLAIN },
    columns: "Name, Endpoints, Age",
    cells: |row| json!([row.name, shown(&row.object["subsets"]), row.age]),
    default: |value, _| default(value),
    validate: Check::Object(endpoints::check),
    judged: true,
    ..Kind::plain("/endpoints")
};

fn default(value: &mut Value) {
    for subset in list_or_none(value, "subsets") {
        for port in list_or_none(subset, "ports") {
            set(port, "protocol", "TCP");
        }
    }
}

fn shown(subsets: &Value) -> String {
    let subsets = subsets.as_array().map_or(&[][..], Vec::as_slice);
    if subsets.is_empty() {
        return NONE.to_string();
    }
    let mut list = Vec::new();
    for subset in subsets {
        let addresses = || subset["addresses"].as_array().into_iter().flatten().map(|a| text(&a["ip"]));
        match subset["ports"].as_array().filter(|p| !p.is_empty()) {
            None => list.extend(addresses().map(str::to_string)),
            Some(ports) => {
                for port in ports {
                    list.extend(addresses().map(|ip| match ip.contains(':') {
                        true => format!("[{ip}]:{}", number(&port["port"])),
                        false => format!("{ip}:{}", number(&port["port"])),
                    }));
                }
            }
        }
    }
    first_three(&list, "")
}
