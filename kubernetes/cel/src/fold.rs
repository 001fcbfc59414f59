//! Conversions of constants, which are carried out once when an expression is read: what fails there fails for ever.

use std::collections::BTreeMap;

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, EntryExpr, Expr},
};

use super::{
    run,
    value::{Fault, Value},
};

const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"];

/// Carries out every conversion of a constant.
///
/// # Errors
/// One of them cannot be carried out.
pub(super) fn constants(expression: &IdedExpr) -> Result<(), Fault> {
    constant(expression).map(drop)
}

/// The value of an expression that is the same for every object.
fn constant(expression: &IdedExpr) -> Result<Option<Value>, Fault> {
    match &expression.expr {
        Expr::Literal(literal) => Ok(Some(run::literal_value(literal))),
        Expr::Select(select) => constant(&select.operand).map(|_| None),
        Expr::Call(call) => call_constant(call),
        Expr::List(list) => {
            let items: Vec<Option<Value>> = list.elements.iter().map(constant).collect::<Result<_, _>>()?;
            let items: Option<Vec<Value>> = items.into_iter().collect();
            Ok(items.filter(|_| list.optional_indices.is_empty()).map(Value::from))
        }
        Expr::Map(map) => {
            let mut entries = Some(BTreeMap::new());
            for entry in &map.entries {
                let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                let (key, value) = (constant(&entry.key)?, constant(&entry.value)?);
                match (&mut entries, key.and_then(|key| key.key()), value) {
                    (Some(entries), Some(key), Some(value)) if !entry.optional => drop(entries.insert(key, value)),
                    _ => entries = None,
                }
            }
            Ok(entries.map(Value::map))
        }
        Expr::Comprehension(turns) => {
            for part in [&turns.iter_range, &turns.accu_init, &turns.loop_cond, &turns.loop_step, &turns.result] {
                constant(part)?;
            }
            Ok(None)
        }
        Expr::Struct(made) => {
            for entry in &made.entries {
                let EntryExpr::StructField(field) = &entry.expr else { continue };
                constant(&field.value)?;
            }
            Ok(None)
        }
        Expr::Ident(_) | Expr::Unspecified => Ok(None),
    }
}

fn call_constant(call: &CallExpr) -> Result<Option<Value>, Fault> {
    if let Some(target) = &call.target {
        constant(target)?;
    }
    let args: Vec<Option<Value>> = call.args.iter().map(constant).collect::<Result<_, _>>()?;
    match (call.func_name.as_str(), args.as_slice()) {
        (name, [Some(value)]) if call.target.is_none() && CONVERSIONS.contains(&name) => {
            run::call(name, std::slice::from_ref(value)).map(Some)
        }
        ("find" | "findAll" | "matches", [Some(Value::Text(pattern)), ..]) if call.target.is_some() => {
            run::pattern(pattern).map(|()| None)
        }
        _ => Ok(None),
    }
}
