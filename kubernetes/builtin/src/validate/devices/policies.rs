//! How much of a device a claim may ask for, where several claims share it.

use std::cmp::Ordering;

use schema::{FieldError, quantity::Quantity};
use serde_json::Value;

use super::super::place::{Find, Findings, Place};
use super::super::pods;

pub(super) fn check(capacity: &Value, policy: &Place<'_>, findings: &mut Findings) {
    let [default, values, range] = ["default", "validValues", "validRange"].map(|field| policy.field(field));
    if !values.is_empty() && range.is_set() {
        let detail =
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        return findings.forbidden(policy, detail);
    }
    for (way, said) in [(&values, !values.is_empty()), (&range, range.is_set())] {
        if said && !default.is_set() {
            let name = way.path.rsplit('.').next().unwrap_or_default();
            findings.required(&default, &format!("required when {name} is defined"));
            return;
        }
    }
    if !values.is_empty() {
        among(default.value, capacity, &values, findings);
    } else if range.is_set() {
        within(default.value, capacity, &range, findings);
    }
}

fn among(default: &Value, capacity: &Value, values: &Place<'_>, findings: &mut Findings) {
    const MOST: usize = 10;
    let all: Vec<Place<'_>> = values.items().collect();
    for pair in all.windows(2) {
        if pods::compare(pair[0].value, pair[1].value) == Ordering::Greater {
            findings.invalid_as(&pair[1], pods::shown(pair[1].value), "values must be sorted in ascending order");
        }
    }
    let mut found = false;
    if all.len() > MOST {
        findings.push(FieldError::too_many(&values.path, all.len(), MOST as u64));
    } else {
        let mut seen = Vec::new();
        for option in &all {
            if pods::compare(option.value, capacity) == Ordering::Greater {
                let detail = format!("option is larger than capacity value: {}", pods::shown(capacity));
                findings.invalid_as(option, pods::shown(option.value), detail);
            }
            found |= pods::compare(option.value, default) == Ordering::Equal;
            let whole = whole(option.value);
            if seen.contains(&whole) {
                findings.duplicate_as(option, whole.to_string());
            }
            seen.push(whole);
        }
    }
    if !found {
        let detail = "default value is not valid according to the requestPolicy";
        findings.invalid_as(values, pods::shown(default), detail);
    }
}

fn within(default: &Value, capacity: &Value, range: &Place<'_>, findings: &mut Findings) {
    let [least, most, step] = ["min", "max", "step"].map(|field| range.field(field));
    if !least.is_set() {
        return findings.required(&least, "required when validRange is defined");
    }
    let more = |one: &Value, other: &Value| pods::compare(one, other) == Ordering::Greater;
    let all = pods::shown(capacity);
    if more(least.value, capacity) {
        findings.invalid_as(&least, pods::shown(least.value), format!("min is larger than capacity value: {all}"));
    }
    if more(least.value, default) {
        let detail = format!("default is less than min: {}", pods::shown(least.value));
        findings.invalid_as(&least, pods::shown(default), detail);
    }
    if most.is_set() {
        let shown = pods::shown(most.value);
        if more(least.value, most.value) {
            findings.invalid_as(&most, pods::shown(least.value), format!("min is larger than max: {shown}"));
        }
        if more(most.value, capacity) {
            findings.invalid_as(&most, shown.as_str(), format!("max is larger than capacity value: {all}"));
        }
        if more(default, most.value) {
            findings.invalid_as(&most, pods::shown(default), format!("default is more than max: {shown}"));
        }
    }
    if step.is_set() {
        let added = sum(least.value, step.value);
        if more(&added, capacity) {
            let detail = format!("one step {} is larger than capacity value: {all}", pods::shown(&added));
            findings.invalid_as(&step, pods::shown(step.value), detail);
        }
        for value in [Some(default), most.is_set().then_some(most.value)].into_iter().flatten() {
            // A step of nothing ends the request on the real server; here it is none.
            let own = whole(value).saturating_sub(whole(least.value));
            if own.checked_rem(whole(step.value)).is_some_and(|rest| rest != 0) {
                let (step_, least) = (pods::shown(step.value), pods::shown(least.value));
                let detail = format!("value is not a multiple of a given step ({step_}) from ({least})");
                findings.invalid_as(&step, pods::shown(value), detail);
            }
        }
    }
}

/// A quantity as a whole number, rounded up.
fn whole(value: &Value) -> i128 {
    let (amount, scale) = pods::amount_of(value);
    match 10_i128.checked_pow(scale.unsigned_abs()) {
        None if scale > 0 => {
            if amount < 0 {
                i128::MIN
            } else {
                i128::MAX
            }
        }
        None => i128::from(amount > 0),
        Some(unit) if scale >= 0 => amount.saturating_mul(unit),
        Some(unit) => amount.div_euclid(unit) + i128::from(amount.rem_euclid(unit) != 0),
    }
}

/// Two quantities together, in the notation of the first.
fn sum(one: &Value, other: &Value) -> Value {
    let quantity = |value: &Value| Quantity::parse(&pods::shown(value)).unwrap_or_else(|_| Quantity::of(0));
    quantity(one).plus(&quantity(other)).to_string().into()
}
