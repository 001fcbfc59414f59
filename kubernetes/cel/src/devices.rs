//! Expressions that select devices: what they see of a device, what they must give, and what they may cost.

use super::{admission::Wrong, check, cost, declared::Declared, fold, source, types::Type};

/// The largest estimate that a selector may have.
const LIMIT: u64 = 1_000_000;
/// The most attributes and capacities of one device, and so the most domains of them.
const ENTRIES: u64 = 32;
const DRIVER: u64 = 63;
const DOMAIN: u64 = 63;
const IDENTIFIER: u64 = 32;
const VALUE: u64 = 64;

/// What is wrong with an expression that selects devices, if anything is.
#[must_use]
pub fn judge_selector(expression: &str) -> Option<Wrong> {
    let device = device();
    let failed = |problems: String| Wrong::Invalid(format!("compilation failed: {problems}"));
    let judged = source::read_with(expression, true, |parsed, source| {
        let mut around = check::Surroundings::default();
        around.declare("device", &device);
        let checked = check::check(parsed, around, source).map_err(|problems| failed(source.shown(problems)))?;
        if !matches!(checked.result, Type::Bool | Type::Dyn) {
            let found = checked.result.declared_name().replace("dyn", "google.protobuf.Any");
            return Err(Wrong::Invalid(format!("must evaluate to bool or the unknown type, not {found}")));
        }
        if let Err(fault) = fold::constants(parsed) {
            return Err(Wrong::Internal(format!("program instantiation failed: {fault}")));
        }
        match cost::estimate(parsed, &checked, &device) > LIMIT {
            true => Err(Wrong::Forbidden("too complex, exceeds cost limit".to_owned())),
            false => Ok(()),
        }
    });
    match judged {
        Ok(judged) => judged.err(),
        // Where there is no text, there is no first column.
        Err(problems) if expression.is_empty() => Some(failed(problems.replacen(":1:1:", ":1:0:", 1))),
        Err(problems) => Some(failed(problems)),
    }
}

fn device() -> Declared {
    let sized = |own: Type, most: u64| {
        let mut declared = Declared::plain(own);
        declared.most = most;
        declared
    };
    let by_domain = |value: Declared| Declared::map(Declared::map(value, ENTRIES, IDENTIFIER), ENTRIES, DOMAIN);
    let quantity = Type::Struct("kubernetes.Quantity".to_owned());
    let fields = [
        ("driver", sized(Type::Text, DRIVER)),
        ("allowMultipleAllocations", sized(Type::Bool, 1)),
        ("attributes", by_domain(sized(Type::Dyn, VALUE))),
        ("capacity", by_domain(sized(quantity, 0))),
    ];
    Declared::record("kubernetes.DRADevice", fields.map(|(name, own)| (name.to_owned(), own)))
}

#[cfg(test)]
mod tests {
    use super::{Wrong, judge_selector};

    #[track_caller]
    fn check(expression: &str, wanted: Option<&str>) {
        let found = judge_selector(expression).map(|wrong| match wrong {
            Wrong::Invalid(detail) | Wrong::Internal(detail) | Wrong::Forbidden(detail) => detail,
        });
        match (&found, wanted) {
            (None, None) => {}
            (Some(found), Some(wanted)) if found.contains(wanted) => {}
            _ => panic!("{expression}: {found:?}, not {wanted:?}"),
        }
    }

    #[test]
    fn selectors_see_a_device_and_give_truth() {
        check("device.driver == 'a' && device.attributes['a'].b", None);
        check("device.attributes['a'].b", None);
        check("device.capacity['a'].b.compareTo(quantity('1Gi')) >= 0", None);
        check("cel.bind(a, device.attributes['a'], a.b && a.c)", None);
        check("device.driver", Some("must evaluate to bool or the unknown type, not string"));
        check("device.nothing", Some("undefined field 'nothing'"));
        check("object.metadata", Some("undeclared reference to 'object'"));
        check("", Some("compilation failed"));
    }

    #[test]
    fn selectors_that_go_through_everything_four_times_are_too_dear() {
        let through = |inner: &str| format!("device.attributes.all(a, device.attributes[a].all(b, {inner}))");
        check(&through("device.attributes[b].all(c, b != c)"), None);
        let twice = "device.attributes[b].all(c, device.attributes[b].all(d, b != c || c != d))";
        check(&through(twice), Some("too complex"));
    }
}
