//! Arithmetic, order, fields and elements.

use std::{cmp::Ordering, sync::Arc};

use super::super::{
    convert,
    value::{Fault, Kind, List, Outcome, Value},
};

const OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";
const BY_ZERO: &str = "division by zero";
const MODULUS_BY_ZERO: &str = "modulus by zero";

fn or(found: Option<impl Into<Value>>, otherwise: &str) -> Outcome {
    found.map(Into::into).ok_or_else(|| Fault::Said(otherwise.to_owned()))
}

fn uint(found: Option<u64>) -> Outcome {
    found.map(Value::Uint).ok_or_else(|| Fault::Said(UINT_OVERFLOW.to_owned()))
}

/// The value of an operator, if this is one.
pub(super) fn call(operator: &str, args: &[Value]) -> Option<Outcome> {
    Some(match (operator, args) {
        ("_+_", [one, two]) => add(one, two),
        ("_-_", [one, two]) => subtract(one, two),
        ("_*_", [one, two]) => match (one, two) {
            (Value::Int(one), Value::Int(two)) => or(one.checked_mul(*two), OVERFLOW),
            (Value::Uint(one), Value::Uint(two)) => uint(one.checked_mul(*two)),
            (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one * two)),
            _ => unfit(operator, is_number(one)),
        },
        ("_/_", [one, two]) => match (one, two) {
            (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Fault::said(BY_ZERO),
            (Value::Int(one), Value::Int(two)) => or(one.checked_div(*two), OVERFLOW),
            (Value::Uint(one), Value::Uint(two)) => Ok(Value::Uint(one / two)),
            (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one / two)),
            _ => unfit(operator, is_number(one)),
        },
        ("_%_", [one, two]) => match (one, two) {
            (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Fault::said(MODULUS_BY_ZERO),
            (Value::Int(one), Value::Int(two)) => or(one.checked_rem(*two), OVERFLOW),
            (Value::Uint(one), Value::Uint(two)) => Ok(Value::Uint(one % two)),
            _ => unfit(operator, matches!(one, Value::Int(_) | Value::Uint(_))),
        },
        ("-_", [value]) => match value {
            Value::Int(number) => or(number.checked_neg(), OVERFLOW),
            Value::Double(number) => Ok(Value::Double(-number)),
            Value::Duration(length) => {
                length.checked_neg().map(Value::Duration).ok_or_else(|| Fault::Said(OVERFLOW.to_owned()))
            }
            _ => Fault::overload(),
        },
        ("!_", [Value::Bool(flag)]) => Ok(Value::Bool(!flag)),
        ("!_", [_]) => Fault::overload(),
        ("_==_", [one, two]) => one.equals(two).map(Value::Bool),
        ("_!=_", [one, two]) => one.equals(two).map(|same| Value::Bool(!same)),
        ("_<_", [one, two]) => order(operator, one, two, Ordering::is_lt),
        ("_<=_", [one, two]) => order(operator, one, two, Ordering::is_le),
        ("_>_", [one, two]) => order(operator, one, two, Ordering::is_gt),
        ("_>=_", [one, two]) => order(operator, one, two, Ordering::is_ge),
        ("_[_]", [value, at]) => index(value, at, false),
        ("_[?_]", [value, at]) => index(value, at, true),
        ("@in", [value, within]) => contains(value, within),
        _ => return None,
    })
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

/// What is said of an operator that does not know its operands, or knows only the first of them.
fn unfit(operator: &str, knows_first: bool) -> Outcome {
    match knows_first {
        true => Fault::overload(),
        false => Fault::said(format!("no such overload: {operator}")),
    }
}

fn order(operator: &str, one: &Value, two: &Value, is: fn(Ordering) -> bool) -> Outcome {
    let ordered = matches!(
        one,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Text(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Time(_)
    );
    if !ordered {
        return unfit(operator, false);
    }
    one.order(two).map(|found| Value::Bool(is(found)))
}

fn add(one: &Value, two: &Value) -> Outcome {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => or(one.checked_add(*two), OVERFLOW),
        (Value::Uint(one), Value::Uint(two)) => uint(one.checked_add(*two)),
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one + two)),
        (Value::Text(one), Value::Text(two)) => Ok(format!("{one}{two}").into()),
        (Value::Bytes(one), Value::Bytes(two)) => Ok(Value::Bytes([one.as_ref(), two.as_ref()].concat().into())),
        (Value::Duration(one), Value::Duration(two)) => {
            one.checked_add(*two).map(Value::Duration).ok_or_else(|| Fault::Said(OVERFLOW.to_owned()))
        }
        (Value::Duration(length), Value::Time(moment)) | (Value::Time(moment), Value::Duration(length)) => {
            moment.later(i128::from(*length)).map(Value::Time)
        }
        (Value::List(one), Value::List(two)) => Ok(Value::List(Arc::new(join(one, two)))),
        _ => unfit(
            "_+_",
            is_number(one)
                || matches!(
                    one,
                    Value::Text(_) | Value::Bytes(_) | Value::Duration(_) | Value::Time(_) | Value::List(_)
                ),
        ),
    }
}

/// A set takes no element twice, and a later one of the same key takes the place of an earlier one.
fn join(one: &List, two: &List) -> List {
    let mut joined = one.clone();
    joined.found = true;
    if matches!(one.kind, Kind::Ordered) {
        joined.items.extend(two.items.iter().cloned());
        return joined;
    }
    for item in &two.items {
        match joined.items.iter().position(|own| one.kind.same_place(own, item)) {
            Some(at) if matches!(one.kind, Kind::Keyed(_)) => joined.items[at] = item.clone(),
            Some(_) => {}
            None => joined.items.push(item.clone()),
        }
    }
    joined
}

fn subtract(one: &Value, two: &Value) -> Outcome {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => or(one.checked_sub(*two), OVERFLOW),
        (Value::Uint(one), Value::Uint(two)) => uint(one.checked_sub(*two)),
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one - two)),
        (Value::Duration(one), Value::Duration(two)) => {
            one.checked_sub(*two).map(Value::Duration).ok_or_else(|| Fault::Said(OVERFLOW.to_owned()))
        }
        (Value::Time(moment), Value::Duration(length)) => moment.later(-i128::from(*length)).map(Value::Time),
        (Value::Time(one), Value::Time(two)) => i64::try_from(one.nanoseconds() - two.nanoseconds())
            .map(Value::Duration)
            .map_err(|_| Fault::Said(OVERFLOW.to_owned())),
        _ => unfit("_-_", is_number(one) || matches!(one, Value::Duration(_) | Value::Time(_))),
    }
}

fn contains(value: &Value, within: &Value) -> Outcome {
    match within {
        Value::List(list) => Ok(Value::Bool(list.items.iter().any(|own| own.equals(value).unwrap_or(false)))),
        Value::Map(map) => Ok(Value::Bool(Value::entry(map, value).is_some())),
        _ => Fault::overload(),
    }
}

/// What a value has under a name or at a position, if it has anything there.
fn find(value: &Value, at: &Value) -> Result<Option<Value>, Fault> {
    match value {
        Value::Map(map) => Ok(Value::entry(map, at).cloned()),
        Value::List(list) => {
            let position = match at {
                Value::Int(number) => i128::from(*number),
                Value::Uint(number) => i128::from(*number),
                Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e18 => *number as i128,
                Value::Double(_) => return Fault::said(format!("unsupported index value {at} in list")),
                other => return Fault::said(format!("unsupported index type '{}' in list", other.type_name())),
            };
            Ok(usize::try_from(position).ok().and_then(|at| list.items.get(at).cloned()))
        }
        _ => Ok(None),
    }
}

fn index(value: &Value, at: &Value, optional: bool) -> Outcome {
    match value {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => find(inner, at).map(Value::optional),
        value if optional => find(value, at).map(Value::optional),
        value => match (find(value, at)?, value) {
            (Some(found), _) => Ok(found),
            (None, Value::List(_)) => Fault::said(format!("index out of bounds: {at}")),
            (None, _) => Fault::said(format!("no such key: {at}")),
        },
    }
}

/// The field of a value.
pub(super) fn select(value: &Value, field: &str, optional: bool) -> Outcome {
    if let Value::Made(made) = value {
        return match optional {
            false => Ok(made.field(field)),
            // The fields of objects are not found this way, those of operations are.
            true => Ok(Value::optional(Some(made.field(field)).filter(|_| made.is_operation() && made.has(field)))),
        };
    }
    index(value, &spelled(value, field), optional)
}

/// The key that a field has: words of the language are escaped, and may be written plainly.
fn spelled(value: &Value, field: &str) -> Value {
    let inner = match value {
        Value::Optional(Some(inner)) => inner.as_ref(),
        other => other,
    };
    match inner {
        Value::Map(map) if convert::is_reserved(field) && Value::entry(map, &field.into()).is_none() => {
            convert::escape(field).into()
        }
        _ => field.into(),
    }
}

/// Whether a value has a field.
pub(super) fn has(value: &Value, field: &str) -> bool {
    let value = match value {
        Value::Optional(Some(inner)) => inner.as_ref(),
        other => other,
    };
    if let Value::Made(made) = value {
        return made.has(field);
    }
    find(value, &spelled(value, field)).is_ok_and(|found| found.is_some())
}
