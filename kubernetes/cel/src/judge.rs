//! Judges expressions of definitions before any object exists: types, what they give, and what they cost at most.

use super::{check, cost, declared::Declared, fold, source, types};

/// What an expression is for, and so what it must give.
#[derive(Clone, Copy, PartialEq)]
pub enum Purpose {
    Rule,
    Message,
}

/// An expression that may stand in a definition.
pub struct Judged {
    /// What it costs at most.
    pub cost: u64,
    /// Whether it compares with the old value.
    pub uses_old_self: bool,
}

/// Judges an expression of a definition before any object exists.
///
/// # Errors
/// The text is no expression, its parts do not fit each other or the schema, or it gives something else than it should.
pub fn judge(text: &str, declared: &Declared, optional_old_self: bool, purpose: Purpose) -> Result<Judged, String> {
    let (prefix, wanted, otherwise) = match purpose {
        Purpose::Rule => ("", types::Type::Bool, "cel expression must evaluate to a bool"),
        Purpose::Message => ("messageExpression ", types::Type::Text, "messageExpression must evaluate to a string"),
    };
    let failed = |text: String| format!("{prefix}compilation failed: {text}");
    let judged = source::read(text, |expression, source| {
        let around = check::Surroundings::of_rule(declared, optional_old_self);
        let checked = check::check(expression, around, source).map_err(|problems| failed(source.shown(problems)))?;
        if checked.result != wanted {
            return Err(otherwise.to_owned());
        }
        if let Err(fault) = fold::constants(expression) {
            let what = if purpose == Purpose::Rule { "program" } else { "messageExpression" };
            return Err(format!("{what} instantiation failed: {fault}"));
        }
        let cost = cost::estimate(expression, &checked, declared);
        Ok(Judged { cost, uses_old_self: checked.names.contains("oldSelf") })
    });
    judged.map_err(failed)?
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(rule: &str, expected: Expect) {
        let schema = json!({"type": "object", "properties": {
            "n": {"type": "integer"},
            "text": {"type": "string", "maxLength": 10},
            "list": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 64}},
            "open": {"type": "array", "items": {"type": "string"}},
        }});
        let declared = Declared::of(&schema, true).expect("visible");
        let judged = judge(rule, &declared, false, Purpose::Rule);
        expected.assert_eq(&judged.map_or_else(|error| error, |judged| format!("costs {}", judged.cost)));
    }

    #[test]
    fn rules_that_do_not_fit_are_refused_in_the_real_words() {
        check(
            "self.x == 1",
            expect![[r#"
            compilation failed: ERROR: <input>:1:5: undefined field 'x'
             | self.x == 1
             | ....^"#]],
        );
        check(
            "self.n == 'a' && self.text.foo()",
            expect![[r#"
            compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'
             | self.n == 'a' && self.text.foo()
             | .......^
            ERROR: <input>:1:31: undeclared reference to 'foo' (in container '')
             | self.n == 'a' && self.text.foo()
             | ..............................^"#]],
        );
        check("self.n", expect!["cel expression must evaluate to a bool"]);
        check(
            "self.list.all(x, x > 1)",
            expect![[r#"
            compilation failed: ERROR: <input>:1:20: found no matching overload for '_>_' applied to '(string, int)'
             | self.list.all(x, x > 1)
             | ...................^"#]],
        );
    }

    #[test]
    fn every_operation_counts_by_the_sizes_that_are_allowed() {
        check("self.text == 'abc'", expect!["costs 3"]);
        check("self.list.all(x, x != '')", expect!["costs 403"]);
        check("self.list.all(x, self.list.exists(y, x == y))", expect!["costs 320603"]);
        check("self.open.all(x, x.matches('^[a-z]+$'))", expect!["costs 659710961253"]);
    }
}
