//! CEL rules (`x-kubernetes-validations`): compiled with the schema, run on objects that are otherwise valid.
//!
//! Which rules run, against which old value, and what a failure reads like is decided here; the language is `cel`'s.

mod convert;

use cel::{
    Around, Expression, Named, budget,
    value::{Fault, Value as Cel},
};
use serde_json::Value;

use crate::{
    error::{ErrorKind, FieldError},
    node::{Additional, Id, Node, Schema, Types},
    path::Path,
    validate::correlated,
};

/// One rule, ready to run.
pub(crate) struct Rule {
    text: String,
    message: Option<String>,
    message_expression: Option<Expression>,
    reason: Option<String>,
    /// The rule's `fieldPath`, without the leading dot.
    field_path: Option<String>,
    optional_old_self: bool,
    transition: bool,
    /// Rules that do not parse are refused with their definition; one that gets this far fails every object.
    program: Result<Expression, String>,
}

impl Rule {
    pub(crate) fn compile_all(rules: &Value) -> Vec<Rule> {
        rules.as_array().into_iter().flatten().map(Rule::compile).collect()
    }

    fn compile(rule: &Value) -> Rule {
        let text = |key: &str| rule[key].as_str().filter(|t| !t.is_empty()).map(str::to_string);
        let expression = text("rule").unwrap_or_default();
        let optional_old_self = rule["optionalOldSelf"] == true;
        let program = Expression::parse(&expression);
        Rule {
            transition: program.as_ref().is_ok_and(|p| p.uses("oldSelf")),
            message: text("message").map(|m| m.trim().to_string()),
            message_expression: text("messageExpression").and_then(|m| Expression::parse(&m).ok()),
            reason: text("reason"),
            field_path: text("fieldPath").map(|p| p.trim_start_matches('.').to_string()),
            optional_old_self,
            program,
            text: expression.trim().to_string(),
        }
    }

    fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.text)
    }

    /// What the server answers when the rule is false.
    fn failure(&self, around: &dyn Around) -> String {
        let spoken = self.message_expression.as_ref().and_then(|program| match program.run(around) {
            Ok(Cel::Text(text)) => Some(text.trim().to_string()),
            _ => None,
        });
        spoken
            .filter(|text| !text.is_empty() && !text.contains('\n'))
            .or_else(|| self.message.clone())
            .unwrap_or_else(|| format!("failed rule: {}", self.text))
    }
}

impl Schema {
    /// Runs every rule at and below a node.
    pub(crate) fn run_rules(&self, id: Id, value: &Value, old: Option<&Value>, path: &Path<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        budget::begin_object();
        let mut run = Run { schema: self, errors: &mut errors };
        run.visit(id, value, old, old, path);
        errors
    }
}

struct Run<'a> {
    schema: &'a Schema,
    errors: &'a mut Vec<FieldError>,
}

impl Run<'_> {
    /// `old` is what `oldSelf` sees; `before` is what ratcheting compares with.
    fn visit(&mut self, id: Id, value: &Value, old: Option<&Value>, before: Option<&Value>, path: &Path<'_>) {
        let node = self.schema.node(id);
        if !node.below.rules || value.is_null() {
            return;
        }
        if !node.rules.is_empty() {
            self.run(id, node, value, old, before, path);
        }
        if let Some(limits) = &node.limits {
            for branch in &limits.all_of {
                self.visit(*branch, value, old, before, path);
            }
        }
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    let of = |object: Option<&Value>| -> Option<Value> { object?.get(key).cloned() };
                    let (id, path) = match (node.property(key), node.additional) {
                        (Some(_), _) if id == self.schema.root && key == "metadata" => continue,
                        (Some(id), _) => (id, path.field(key)),
                        (None, Additional::Schema(id)) => (id, path.key(key)),
                        (None, Additional::None | Additional::Any) => continue,
                    };
                    if !self.schema.node(id).below.rules {
                        continue;
                    }
                    let (old, before) = (of(old.filter(|_| !node.atomic_map)), of(before.filter(|_| !node.atomic_map)));
                    self.visit(id, child, old.as_ref(), before.as_ref(), &path);
                }
            }
            Value::Array(list) => {
                let Some(items) = node.items.filter(|items| self.schema.node(*items).below.rules) else {
                    return;
                };
                for (at, child) in list.iter().enumerate() {
                    let of = |list: Option<&Value>| correlated(node, list?.as_array()?, child).cloned();
                    let (old, before) = (of(old), of(before));
                    self.visit(items, child, old.as_ref(), before.as_ref(), &path.index(at));
                }
            }
            _ => {}
        }
    }

    fn run(
        &mut self,
        id: Id,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        before: Option<&Value>,
        path: &Path<'_>,
    ) {
        let own = convert::value(self.schema, id, value);
        let old_self = old.filter(|o| !o.is_null()).map(|old| convert::value(self.schema, id, old));
        for rule in node.rules.iter() {
            let mut named = vec![("self", own.clone())];
            match &old_self {
                _ if rule.optional_old_self => named.push(("oldSelf", Cel::optional(old_self.clone()))),
                Some(old_self) => named.push(("oldSelf", old_self.clone())),
                None if rule.transition => continue,
                None => {}
            }
            if !budget::begin_rule() {
                return;
            }
            let judged = self.judge(node, rule, &Named(&named), value, path);
            budget::end_rule();
            let Some(error) = judged else { continue };
            // What was wrong before and did not change is tolerated, unless the rule is about the change itself.
            let tolerated = !rule.transition && before == Some(value);
            if !tolerated {
                self.errors.push(error);
            }
        }
    }

    fn judge(
        &self,
        node: &Node,
        rule: &Rule,
        around: &dyn Around,
        value: &Value,
        path: &Path<'_>,
    ) -> Option<FieldError> {
        let place = |path: &Path<'_>| match path.text() {
            text if text.is_empty() => "<nil>".to_string(),
            text => text,
        };
        let kind = node.types.name();
        let program = match &rule.program {
            Ok(program) => program,
            Err(error) => {
                return Some(FieldError::invalid(place(path), kind, format!("rule compile error: {error}")));
            }
        };
        match program.run(around) {
            Ok(Cel::Bool(true)) => None,
            Ok(_) => {
                let mut field = path.text();
                if let Some(below) = &rule.field_path {
                    if !field.is_empty() && !below.starts_with('[') {
                        field.push('.');
                    }
                    field.push_str(below);
                }
                if field.is_empty() {
                    field.push_str("<nil>");
                }
                let composite = node.types == Types::OBJECT || node.types == Types::ARRAY;
                let shown = (!composite).then(|| value.clone());
                let detail = rule.failure(around);
                Some(match rule.reason.as_deref() {
                    Some("FieldValueForbidden") => FieldError::forbidden(field, detail),
                    Some("FieldValueRequired") => FieldError::required(field, detail),
                    Some("FieldValueDuplicate") => FieldError::new(ErrorKind::Duplicate, field, shown, ""),
                    _ => FieldError::new(ErrorKind::Invalid, field, shown, detail),
                })
            }
            Err(error) => {
                let detail = match error {
                    Fault::Spent => format!(
                        "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        rule.name()
                    ),
                    Fault::Said(text) if text.starts_with("no such overload") => format!(
                        "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                        rule.name()
                    ),
                    Fault::Said(text) => format!("{text} evaluating rule: {}", rule.name()),
                };
                Some(FieldError::invalid(place(path), kind, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn macros_that_the_parser_does_not_know_are_run() {
        let properties = json!({
            "name": {"type": "string"},
            "names": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        });
        let object = json!({"spec": {"name": "b", "names": ["b", "a"], "labels": {"a": "b"}}});
        for rule in [
            "self.labels.all(k, v, k != v)",
            "self.names.exists(i, v, i == 1 && v == 'a')",
            "self.names.existsOne(i, v, v == 'a')",
            "!self.names.all(i, v, v == 'a')",
            "self.labels.all(k, v, self.names.exists(i, n, n == k && i == 1))",
            "self.?name.optMap(n, n + 'x').orValue('') == 'bx'",
            "!self.?none.optMap(n, n + 'x').hasValue()",
            "self.?name.optFlatMap(n, optional.of(n)).hasValue()",
            "self.names.sortBy(x, x) == ['a', 'b']",
            "self.names.sortBy(x, -size(x + x)) == ['b', 'a']",
            "self.names.transformList(i, v, v + 'x') == ['bx', 'ax']",
            "self.names.transformList(i, v, i > 0, v) == ['a']",
            "self.labels.transformMap(k, v, v + k) == {'a': 'ba'}",
            "self.labels.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        ] {
            let spec =
                json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]});
            let schema = Schema::custom(Some(&json!({"type": "object", "properties": {"spec": spec}})), false);
            let errors: Vec<String> = schema.validate(&object, None).iter().map(FieldError::body).collect();
            assert_eq!(errors, Vec::<String>::new(), "{rule}");
        }
    }

    fn complaints(length: u32) -> Vec<String> {
        let list = json!({"type": "array", "items": {"type": "integer"}});
        let rule = json!({"rule": "self.list.all(x, self.list.all(y, x + y >= 0))"});
        let spec = json!({"type": "object", "properties": {"list": list}, "x-kubernetes-validations": [rule]});
        let schema = Schema::custom(Some(&json!({"type": "object", "properties": {"spec": spec}})), false);
        let object = json!({"spec": {"list": (0..length).collect::<Vec<_>>()}});
        schema.validate(&object, None).iter().map(FieldError::body).collect()
    }

    const COSTLY: &str = "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.list.all(x, self.list.all(y, x + y >= 0))";

    #[test]
    fn a_rule_that_turns_too_often_ends_with_an_error() {
        assert_eq!(complaints(100), Vec::<String>::new());
        assert_eq!(complaints(1000), [COSTLY]);
        assert_eq!(complaints(100), Vec::<String>::new(), "the next object has its own budget");
    }

    #[test]
    fn a_caller_without_patience_ends_rules_early() {
        assert_eq!(budget::with_patience(|| false, || complaints(100)), [COSTLY]);
        assert_eq!(complaints(100), Vec::<String>::new());
    }
}
