//! Evaluates expressions, as the real server's interpreter does: what comes out, and what is said when nothing does.

mod format;
mod functions;
pub(super) mod net;
pub(super) mod number;
mod operators;
mod price;
pub(super) mod quantity;
pub(super) mod semver;
mod texts;
pub(super) mod time;

use std::{collections::BTreeMap, sync::Arc};

use kube_cel::cel::{
    IdedExpr,
    common::ast::{
        CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, StructExpr, operators as op,
    },
};

use super::{
    budget,
    check::qualified,
    depth, library, objects,
    value::{Access, Decision, Fault, JSON_PATCH, Key, Made, Outcome, Value},
};

/// What an expression finds around it.
pub trait Around {
    /// The value of a variable; none if there is none of that name.
    fn variable(&self, name: &str) -> Option<Outcome>;

    /// What `variables.name` is, for those who have variables.
    fn composed(&self, name: &str) -> Option<Outcome> {
        let _ = name;
        None
    }

    /// Answers a question about rights.
    fn decide(&self, access: &Access) -> Decision {
        let _ = access;
        Decision::default()
    }
}

/// Variables by name.
pub struct Named<'v>(pub &'v [(&'v str, Value)]);

impl Around for Named<'_> {
    fn variable(&self, name: &str) -> Option<Outcome> {
        self.0.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| Ok(value.clone()))
    }
}

/// The value of an expression.
pub(crate) fn run(expression: &IdedExpr, around: &dyn Around) -> Outcome {
    Run { around, locals: Vec::new() }.value(expression)
}

struct Run<'a, 'e> {
    around: &'a dyn Around,
    /// What loops name, innermost last. A loop may hold an error while it turns.
    locals: Vec<(&'e str, Outcome)>,
}

impl<'e> Run<'_, 'e> {
    fn value(&mut self, expression: &'e IdedExpr) -> Outcome {
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => self.ident(name),
            _ => depth::level(|| self.compound(expression)),
        }
    }

    fn compound(&mut self, expression: &'e IdedExpr) -> Outcome {
        match &expression.expr {
            Expr::Select(select) => {
                if !select.test
                    && let Some(found) = self.named(expression)
                {
                    return found;
                }
                if self.is_variables(&select.operand)
                    && let Some(found) = self.around.composed(&select.field)
                {
                    return if select.test { Ok(true.into()) } else { found };
                }
                let operand = self.value(&select.operand)?;
                if select.test {
                    return Ok(Value::Bool(operators::has(&operand, &select.field)));
                }
                operators::select(&operand, &select.field, false)
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(turns) => self.turns(turns),
            Expr::Struct(made) => self.made(made),
            Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => Fault::overload(),
        }
    }

    fn local(&self, name: &str) -> Option<usize> {
        self.locals.iter().rposition(|(own, _)| *own == name)
    }

    fn ident(&mut self, name: &str) -> Outcome {
        if let Some(at) = self.local(name) {
            return self.locals[at].1.clone();
        }
        if let Some(found) = self.around.variable(name) {
            return found;
        }
        match library::constant(name) {
            Some(_) => Ok(Value::Type(name.into())),
            None => Fault::said(format!("no such attribute(s): {name}")),
        }
    }

    /// A variable or a type with dots in its name.
    fn named(&self, expression: &IdedExpr) -> Option<Outcome> {
        let name = qualified(expression)?;
        let root = name.split('.').next()?;
        if self.local(root).is_some() {
            return None;
        }
        self.around.variable(&name).or_else(|| library::constant(&name).map(|_| Ok(Value::Type(name.as_str().into()))))
    }

    fn is_variables(&self, operand: &IdedExpr) -> bool {
        matches!(&operand.expr, Expr::Ident(name) if name == "variables" && self.local(name).is_none())
    }

    fn list(&mut self, list: &'e ListExpr) -> Outcome {
        let mut items = Vec::with_capacity(list.elements.len());
        for (at, element) in list.elements.iter().enumerate() {
            let value = self.value(element)?;
            if !list.optional_indices.contains(&at) {
                items.push(value);
                continue;
            }
            match value {
                Value::Optional(Some(inner)) => items.push(inner.as_ref().clone()),
                Value::Optional(None) => {}
                other => {
                    let text = format!("cannot initialize optional list element from non-optional value {other}");
                    return Fault::said(text);
                }
            }
        }
        Ok(items.into())
    }

    fn map(&mut self, map: &'e MapExpr) -> Outcome {
        let mut entries = BTreeMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let key = self.value(&entry.key)?;
            let value = self.value(&entry.value)?;
            let Some(value) = given(value, entry.optional, &key)? else { continue };
            let Some(own) = key.key() else {
                return Fault::said(format!("unsupported key type: {}", key.type_name()));
            };
            entries.insert(own, value);
        }
        Ok(Value::map(entries))
    }

    /// An object that is made, or the operation of a patch.
    fn made(&mut self, made: &'e StructExpr) -> Outcome {
        budget::pay(price::OBJECT)?;
        let name: Arc<str> = made.type_name.trim_start_matches('.').into();
        let mut fields = BTreeMap::new();
        for entry in &made.entries {
            let EntryExpr::StructField(entry) = &entry.expr else { continue };
            let field = entry.field.as_str();
            let value = self.value(&entry.value)?;
            let Some(value) = given(value, entry.optional, &field)? else { continue };
            if &*name == JSON_PATCH && matches!(field, "op" | "path" | "from") && !matches!(value, Value::Text(_)) {
                let found = objects::go_type(&value);
                return Fault::said(format!("unexpected type {found} for JSONPatchType '{field}' field"));
            }
            fields.insert(field.into(), value);
        }
        Ok(Value::Made(Arc::new(Made { name, fields })))
    }

    fn call(&mut self, call: &'e CallExpr) -> Outcome {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (op::LOGICAL_AND, args) => return self.logic(args, false),
            (op::LOGICAL_OR, args) => return self.logic(args, true),
            (op::CONDITIONAL, [condition, yes, no]) => {
                return match self.value(condition)? {
                    Value::Bool(true) => self.value(yes),
                    Value::Bool(false) => self.value(no),
                    _ => Fault::overload(),
                };
            }
            (op::NOT_STRICTLY_FALSE, [inner]) => {
                return match self.value(inner) {
                    Err(Fault::Spent) => Err(Fault::Spent),
                    found => Ok(Value::Bool(!matches!(found, Ok(Value::Bool(false))))),
                };
            }
            (op::OPT_SELECT, [operand, field]) => {
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else { return Fault::overload() };
                let operand = self.value(operand)?;
                return operators::select(&operand, field.inner(), true);
            }
            ("or" | "orValue", [other]) if call.target.is_some() => {
                if let Some(target) = &call.target {
                    let wraps = call.func_name == "or";
                    return match self.value(target)? {
                        Value::Optional(Some(inner)) if wraps => Ok(Value::Optional(Some(inner))),
                        Value::Optional(Some(inner)) => Ok(inner.as_ref().clone()),
                        Value::Optional(None) => self.value(other),
                        value => Ok(value),
                    };
                }
            }
            _ => {}
        }
        let mut function = call.func_name.clone();
        let mut target = call.target.as_deref();
        if let Some(name) = target.and_then(qualified) {
            let name = format!("{name}.{function}");
            if library::overloads(&name).is_some() {
                (function, target) = (name, None);
            }
        }
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for argument in target.into_iter().chain(&call.args) {
            args.push(self.value(argument)?);
        }
        if function == "check"
            && let [Value::Access(access), Value::Text(verb)] = args.as_slice()
        {
            let mut access = access.as_ref().clone();
            access.verb = verb.to_string();
            return Ok(Value::Decision(Arc::new(self.around.decide(&access))));
        }
        budget::pay(price::of(&function, &args))?;
        functions::call(&function, &args)
    }

    /// Both sides are looked at: what decides makes up for an error on the other side.
    fn logic(&mut self, args: &'e [IdedExpr], decides: bool) -> Outcome {
        let mut failed: Option<Fault> = None;
        for argument in args {
            match self.value(argument) {
                Ok(Value::Bool(flag)) if flag == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(Fault::Said("no such overload".to_owned()))),
                Err(Fault::Spent) => return Err(Fault::Spent),
                Err(fault) => failed = failed.or(Some(fault)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn turns(&mut self, turns: &'e ComprehensionExpr) -> Outcome {
        let range = self.value(&turns.iter_range)?;
        let start = self.value(&turns.accu_init);
        let outside = self.locals.len();
        self.locals.push((&turns.accu_var, start));
        let found = self.go_round(turns, &range, outside);
        let found = found.and_then(|()| self.value(&turns.result));
        self.locals.truncate(outside);
        found
    }

    fn go_round(&mut self, turns: &'e ComprehensionExpr, range: &Value, held: usize) -> Result<(), Fault> {
        match range {
            Value::List(list) => {
                for (at, item) in list.items.iter().enumerate() {
                    let position = || Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
                    if !self.turn(turns, held, position, item.clone())? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    let key = Value::from(key.clone());
                    let own = if turns.iter_var2.is_some() { value.clone() } else { key.clone() };
                    if !self.turn(turns, held, || key, own)? {
                        break;
                    }
                }
            }
            other => return Fault::said(format!("got '{}', expected iterable type", other.type_name())),
        }
        Ok(())
    }

    /// One turn; false if it is the last.
    fn turn(
        &mut self,
        turns: &'e ComprehensionExpr,
        held: usize,
        first: impl FnOnce() -> Value,
        item: Value,
    ) -> Result<bool, Fault> {
        budget::pay(budget::TURN)?;
        match &turns.iter_var2 {
            None => self.locals.push((&turns.iter_var, Ok(item))),
            Some(second) => {
                self.locals.push((&turns.iter_var, Ok(first())));
                self.locals.push((second, Ok(item)));
            }
        }
        let goes_on = !matches!(self.value(&turns.loop_cond), Ok(Value::Bool(false)));
        if goes_on {
            self.step(&turns.loop_step, held)?;
        }
        self.locals.truncate(held + 1);
        Ok(goes_on)
    }

    /// Carries out the step of a turn. What is only added to is not copied.
    fn step(&mut self, step: &'e IdedExpr, held: usize) -> Result<(), Fault> {
        let name = self.locals[held].0;
        let is_held = |expression: &IdedExpr| matches!(&expression.expr, Expr::Ident(own) if own == name);
        if let Expr::Call(CallExpr { func_name, target: None, args }) = &step.expr {
            match (func_name.as_str(), args.as_slice()) {
                (op::ADD, [so_far, IdedExpr { expr: Expr::List(more), .. }]) if is_held(so_far) => {
                    if matches!(&self.locals[held].1, Ok(Value::List(_))) {
                        let more = self.list(more);
                        match (&mut self.locals[held].1, more) {
                            (Ok(Value::List(list)), Ok(Value::List(more))) => {
                                Arc::make_mut(list).items.extend(more.items.iter().cloned());
                            }
                            (slot, Err(fault)) => *slot = Err(fault),
                            _ => {}
                        }
                        return self.spent(held);
                    }
                }
                ("cel.@mapInsert", [so_far, key, value]) if is_held(so_far) => {
                    let entry = self.value(key).and_then(|key| Ok((key, self.value(value)?)));
                    let slot = &mut self.locals[held].1;
                    match (entry, &mut *slot) {
                        (Ok((key, value)), Ok(Value::Map(map))) => {
                            if let Err(fault) = functions::insert(&mut *Arc::make_mut(map), &key, value) {
                                *slot = Err(fault);
                            }
                        }
                        (Err(fault), Ok(_)) => *slot = Err(fault),
                        _ => {}
                    }
                    return self.spent(held);
                }
                (op::CONDITIONAL, [condition, yes, no]) if is_held(no) => {
                    match self.value(condition) {
                        Ok(Value::Bool(true)) => return self.step(yes, held),
                        Ok(Value::Bool(false)) => {}
                        Ok(_) => self.locals[held].1 = Fault::overload(),
                        Err(fault) => self.locals[held].1 = Err(fault),
                    }
                    return self.spent(held);
                }
                _ => {}
            }
        }
        let next = self.value(step);
        self.locals[held].1 = next;
        self.spent(held)
    }

    fn spent(&self, held: usize) -> Result<(), Fault> {
        match &self.locals[held].1 {
            Err(Fault::Spent) => Err(Fault::Spent),
            _ => Ok(()),
        }
    }
}

pub(super) fn literal_value(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(flag) => Value::Bool(*flag.inner()),
        LiteralValue::Bytes(bytes) => Value::Bytes(bytes.inner().into()),
        LiteralValue::Double(number) => Value::Double(*number.inner()),
        LiteralValue::Int(number) => Value::Int(*number.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(text) => text.inner().into(),
        LiteralValue::UInt(number) => Value::Uint(*number.inner()),
    }
}

/// Calls a function with values.
pub(super) fn call(function: &str, args: &[Value]) -> Outcome {
    functions::call(function, args)
}

/// Reads a regular expression, to see whether it is one.
pub(super) fn pattern(text: &str) -> Result<(), Fault> {
    texts::pattern(text).map(drop)
}

/// The clause at the beginning of a text, and what follows it.
pub(super) fn clause(text: &str) -> Result<(char, &str), String> {
    format::clause(text).map(|(clause, _, rest)| (clause, rest))
}

/// What is said of a type that a clause is not for.
pub(super) fn unfit(clause: char, kind: &str) -> String {
    format::unfit(clause, kind)
}

/// A map by its texts.
fn map_of(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::map(entries.into_iter().map(|(key, value)| (Key::Text(key.into()), value)).collect())
}

/// What an entry is given; one that is optional may be given nothing.
fn given(value: Value, is_optional: bool, name: &dyn std::fmt::Display) -> Result<Option<Value>, Fault> {
    match value {
        value if !is_optional => Ok(Some(value)),
        Value::Optional(inner) => Ok(inner.map(|inner| inner.as_ref().clone())),
        other => Fault::said(format!("cannot initialize optional entry '{name}' from non-optional value {other}")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::{Expression, untyped};

    /// What an expression gives, as `%s` shows it, or why it gives nothing.
    #[track_caller]
    fn check(expression: &str, expected: Expect) {
        let object = json!({"i": 7, "text": "abc", "list": ["a", "b"], "map": {"k": "v"}, "spec": {"name": "x"}});
        let old = Value::optional(Some(untyped(&json!({"spec": {"name": "old"}}))));
        let named = [("self", untyped(&object)), ("oldSelf", old)];
        let parsed = Expression::parse(&format!("'%s'.format([{expression}])")).unwrap();
        let found = parsed.run(&Named(&named));
        expected.assert_eq(&found.map_or_else(|fault| fault.to_string(), |value| value.to_string()));
    }

    #[test]
    fn what_comes_out_is_what_the_real_server_makes_of_it() {
        check("[1, 2.5, 'a', null]", expect![[r#"[1, 2.500000, "a", null]"#]]);
        check("1e6 + 0.5", expect!["1.0000005e+06"]);
        check("timestamp('2020-02-29T12:34:56.700+02:00')", expect!["2020-02-29T12:34:56.7+02:00"]);
        check("timestamp('2020-07-01T12:00:00Z').getHours('+05:30')", expect!["17"]);
        check("string(duration('1h30m') + duration('500ms'))", expect!["5400.5s"]);
        check("'%.2f %x %b'.format([1234.567, 255, true])", expect!["1,234.57 ff 1"]);
        check("{'a': 1}.transformMap(k, v, v + 1)", expect![[r#"{"a":2}"#]]);
        check("quantity('1500m').isInteger() || quantity('1k').asInteger() == 1000", expect!["true"]);
        check("cidr('10.1.2.3/8').masked().containsIP('10.9.9.9')", expect!["true"]);
        check("semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))", expect!["true"]);
        check("format.named('dns1123Label').value().validate('ok').hasValue()", expect!["false"]);
        check("[optional.of(1), optional.none()].unwrapOpt()", expect!["[1]"]);
        check("url('https://a:8443/b%20c?x=1').getEscapedPath()", expect!["/b%20c"]);
    }

    #[test]
    fn what_fails_says_so_in_the_real_words() {
        check("self.i / 0", expect!["division by zero"]);
        check("self.none", expect!["no such key: none"]);
        check("self.list[5]", expect!["index out of bounds: 5"]);
        check("int(self.text)", expect!["type conversion error from 'string' to 'int'"]);
        check("self.text.substring(2, 1)", expect!["invalid substring range. start: 2, end: 1"]);
        check("self.i + self.text", expect!["no such overload"]);
        check(
            "'%d'.format(self.list)",
            expect!["error during formatting: decimal clause can only be used on integers, was given string"],
        );
        check("semver('1')", expect!["No Major.Minor.Patch elements found"]);
    }

    #[test]
    fn one_side_makes_up_for_the_error_of_the_other() {
        check("self.i / 0 == 1 || true", expect!["true"]);
        check("self.i / 0 == 1 && false", expect!["false"]);
        check("self.i / 0 == 1 || false", expect!["division by zero"]);
        check("[0, 1].exists(x, 1 / x > 0)", expect!["true"]);
        check("[1, 0].all(x, 1 / x > 0)", expect!["division by zero"]);
    }

    #[test]
    fn a_chain_is_there_if_every_link_is() {
        check("self.?spec.name.orValue('none')", expect!["x"]);
        check("self.?spec.absent.deep.orValue('none')", expect!["none"]);
        check("self.?absent.list.or(self.?list).hasValue()", expect!["true"]);
        check("oldSelf.spec.name.value()", expect!["old"]);
        check("oldSelf.?spec.absent.hasValue()", expect!["false"]);
    }

    #[test]
    fn what_a_loop_adds_to_is_not_copied_on_every_turn() {
        check("lists.range(20000).map(x, x).size()", expect!["20000"]);
        check("lists.range(20000).transformMap(i, x, x).size()", expect!["20000"]);
    }

    #[test]
    fn no_function_minds_odd_values() {
        let odd = [
            "0",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
            "18446744073709551615u",
            "-0.0",
            "1e308 * 10.0",
            "''",
            "'ä€𝄞'",
            "'%.99999f %s'",
            "'[a-'",
            "b'\\xff'",
            "[]",
            "['ä', 'b']",
            "[1, 'a', null]",
            "{}",
            "{1: 'a'}",
            "null",
            "optional.none()",
            "duration('2562047h47m16.854775807s')",
            "timestamp('9999-12-31T23:59:59Z')",
            "timestamp('0001-01-01T00:00:00Z')",
            "quantity('-1e1')",
            "ip('::1')",
            "cidr('0.0.0.0/0')",
            "url('http://a:1/')",
            "semver('1.2.3')",
            "type(1)",
        ];
        let odd: Vec<Value> =
            odd.iter().map(|text| Expression::parse(text).unwrap().run(&Named(&[])).unwrap()).collect();
        let try_all = |function: &str, args: &[Value]| {
            assert!(budget::begin_rule());
            let paid = budget::pay(price::of(function, args));
            let _ = paid.and_then(|()| functions::call(function, args)).map(|value| value.to_string());
        };
        let mut called = 0;
        for function in library::functions() {
            try_all(function, &[]);
            for one in &odd {
                try_all(function, std::slice::from_ref(one));
                for two in &odd {
                    try_all(function, &[one.clone(), two.clone()]);
                    for three in odd.iter().step_by(3) {
                        try_all(function, &[one.clone(), two.clone(), three.clone()]);
                        called += 1;
                    }
                }
            }
        }
        assert!(called > 100_000, "only {called} calls");
    }

    #[test]
    fn what_is_as_deep_as_it_may_be_is_evaluated_on_an_ordinary_stack() {
        let around = |open: &str, inner: &str, close: &str, times: usize| {
            format!("{}{inner}{}", open.repeat(times), close.repeat(times))
        };
        for (expression, value) in [
            (around("(", "true", ")", 249), "true"),
            (around("[1].all(x, ", "true", ")", 249), "true"),
            (around("[1].exists_one(x, ", "true", ")", 120), "true"),
            (around("size([1].map(x, ", "1", "))", 100), "1"),
            (around("true ? (", "true", ") : false", 120), "true"),
            (around("false ? false : ", "true", "", 249), "true"),
            (around("1 + ", "1", "", 249), "250"),
            (around("!(", "true", ")", 248), "true"),
            (around("size([", "1", "])", 120), "1"),
            (around("{'a': ", "1", "}", 249) + &".a".repeat(249), "1"),
            (around("true && ", "true", "", 2000), "true"),
        ] {
            assert!(budget::begin_rule());
            let parsed = Expression::parse(&expression).unwrap_or_else(|error| panic!("{error}: {expression}"));
            let found = parsed.run(&Named(&[]));
            assert_eq!(found.map(|value| value.to_string()).map_err(|fault| fault.to_string()), Ok(value.to_owned()));
        }
    }

    #[test]
    fn nothing_grows_beyond_what_may_be_spent() {
        // Each step is given what the step before made.
        let chain = |first: &str, next: &str, last: &str| {
            let steps = format!(".map(v, {})", next.replace('$', "v")).repeat(60);
            format!("[{first}]{steps}.map(v, {})", last.replace('$', "v"))
        };
        let spent = |expression: &str| {
            assert!(budget::begin_rule());
            check(expression, expect!["operation cancelled: actual cost limit exceeded"]);
        };
        spent(&chain("'abcdefgh'", "$ + $", "$.size()"));
        spent(&chain("b'abcdefgh'", "$ + $", "$.size()"));
        spent(&chain("[1, 2]", "$ + $", "$.size()"));
        spent(&chain("[1, 2]", "[$, $]", "$ == $"));
        spent(&chain("[1, 2]", "[$, $]", "'%s'.format([$])"));
        spent(&chain("[1, 2]", "{'a': $, 'b': $}", "$ in [$]"));
        spent(&chain("['ab', 'c']", "[$.join(), $.join()]", "$.size()"));
        spent(&chain("'aa'", "$.replace('a', $)", "$.size()"));
        spent(&chain("'aa'", "$.replace('', $)", "$.size()"));
        spent("lists.range(1000000000000).size()");
        spent("'%.1000000000000f'.format([1.0])");
        spent("lists.range(30000).distinct().size()");
        spent("sets.contains(lists.range(30000), lists.range(30000))");
        check("'%.70000f'.format([1.0]).size()", expect!["operation cancelled: actual cost limit exceeded"]);
        assert!(budget::begin_rule());
        check("'%.70000f'.format([1.0]).size()", expect!["70002"]);
    }
}
