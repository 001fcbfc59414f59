//! LimitRanges.

use serde_json::{Map, Value};

use crate::{
    Kind, Strategy, amounts,
    defaults::{empty_is_null, list_or_none, set},
    kind::Check,
    validate::config,
};

pub(super) static KIND: Kind = Kind {
    strategy: Strategy { create_on_update: true, ..Strategy::PLAIN },
    default: |value, _| {
        if value["spec"].is_null() {
            value["spec"] = Map::new().into();
        }
        list_or_none(&mut value["spec"], "limits").iter_mut().for_each(range);
        empty_is_null(&mut value["spec"], "limits");
    },
    validate: Check::Object(config::limit_range),
    judged: true,
    ..Kind::plain("/limitranges")
};

/// A container that says nothing gets the most it may have, and asks for as much, or else for the least.
fn range(item: &mut Value) {
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if let Some(own) = item.get_mut(field) {
            amounts::round(own);
        }
    }
    if item["type"] != "Container" {
        if let Some(item) = item.as_object_mut() {
            item.retain(|_, field| !field.is_null());
        }
        return;
    }
    for (target, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(amounts) = item.get(source).and_then(Value::as_object).cloned() else { continue };
        for (resource, amount) in amounts {
            set(&mut item[target], &resource, amount);
        }
    }
}
