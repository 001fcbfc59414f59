//! Parses expressions, takes optional fields (`self.?a.b`) out of them, and makes loops pay for their turns.
//!
//! The interpreter parses them but answers wrongly where a field is absent. `self.?a.b` asks whether `a` and below it `b`
//! are there, so each such chain becomes the questions that plain expressions can ask: `has(self.a) && has(self.a.b)`.
//! An `oldSelf` that may be absent is the beginning of such a chain as well.

use kube_cel::cel::{
    Context, IdedExpr, ParseErrors, ResolveResult, Value,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators},
    parser::Parser,
};

use super::macros::Expander;

/// An expression that can be evaluated.
pub(crate) struct Expression(IdedExpr);

impl Expression {
    pub(crate) fn parse(text: &str, optional_old_self: bool) -> Result<Self, ParseErrors> {
        let expression = Parser::new().enable_optional_syntax(true).parse(text)?;
        let expression = Expander::to_run().expand(expression);
        Ok(Self(Rewriter { optional_old_self }.rewrite(expression)))
    }

    pub(crate) fn execute(&self, context: &Context<'_>) -> ResolveResult {
        Value::resolve(&self.0, context)
    }

    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.0.references().has_variable(variable)
    }
}

/// `X.?a.b` as the questions whether it is there, and as the plain `X.a.b` that may be asked for if it is.
struct Chain {
    questions: Vec<IdedExpr>,
    plain: IdedExpr,
}

struct Rewriter {
    optional_old_self: bool,
}

impl Rewriter {
    fn rewrite(&self, expression: IdedExpr) -> IdedExpr {
        match self.chain(&expression) {
            Some(chain) => chain.into_optional(),
            None => IdedExpr { id: expression.id, expr: self.rewrite_inside(expression.expr) },
        }
    }

    fn rewrite_inside(&self, expression: Expr) -> Expr {
        match expression {
            Expr::Call(call) => self.rewrite_call(call),
            Expr::Select(mut select) => {
                select.operand = Box::new(self.rewrite(*select.operand));
                Expr::Select(select)
            }
            Expr::List(mut list) => {
                list.elements = list.elements.into_iter().map(|element| self.rewrite(element)).collect();
                Expr::List(list)
            }
            Expr::Map(mut map) => {
                for entry in &mut map.entries {
                    self.rewrite_entry(&mut entry.expr);
                }
                Expr::Map(map)
            }
            Expr::Struct(mut object) => {
                for entry in &mut object.entries {
                    self.rewrite_entry(&mut entry.expr);
                }
                Expr::Struct(object)
            }
            Expr::Comprehension(mut loop_) => {
                for part in [
                    &mut loop_.iter_range,
                    &mut loop_.accu_init,
                    &mut loop_.loop_cond,
                    &mut loop_.loop_step,
                    &mut loop_.result,
                ] {
                    *part = self.rewrite(std::mem::take(part));
                }
                // Each turn is paid for, so that no loop runs for ever.
                loop_.loop_cond = call(super::budget::PAY, vec![loop_.loop_cond]);
                Expr::Comprehension(loop_)
            }
            plain @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_)) => plain,
        }
    }

    fn rewrite_entry(&self, entry: &mut EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => field.value = self.rewrite(std::mem::take(&mut field.value)),
            EntryExpr::MapEntry(entry) => {
                entry.key = self.rewrite(std::mem::take(&mut entry.key));
                entry.value = self.rewrite(std::mem::take(&mut entry.value));
            }
        }
    }

    /// Calls that end a chain become the plain question or the plain value; all others get an optional.
    fn rewrite_call(&self, call: CallExpr) -> Expr {
        let CallExpr { func_name, target, args } = call;
        let mut args: Vec<IdedExpr> = args.into_iter().map(|argument| self.rewrite(argument)).collect();
        if let Some(chain) = target.as_deref().and_then(|target| self.chain(target)) {
            match (func_name.as_str(), args.as_mut_slice()) {
                ("hasValue", []) => return all(chain.questions).expr,
                ("value", []) => return chain.plain.expr,
                ("orValue", [other]) => return choice(all(chain.questions), chain.plain, std::mem::take(other)).expr,
                _ => {}
            }
        }
        let target = target.map(|target| Box::new(self.rewrite(*target)));
        Expr::Call(CallExpr { func_name, target, args })
    }

    fn chain(&self, expression: &IdedExpr) -> Option<Chain> {
        match &expression.expr {
            Expr::Call(CallExpr { func_name, target: None, args }) if func_name == operators::OPT_SELECT => {
                let [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }] = args.as_slice()
                else {
                    return None;
                };
                let chain = self.chain_or_begin(operand);
                Some(chain.below(field.inner()))
            }
            Expr::Select(SelectExpr { operand, field, test: false }) => {
                let chain = self.chain(operand).or_else(|| self.old_self(operand))?;
                Some(chain.below(field))
            }
            _ => None,
        }
    }

    fn chain_or_begin(&self, operand: &IdedExpr) -> Chain {
        self.chain(operand)
            .or_else(|| self.old_self(operand))
            .unwrap_or_else(|| Chain { questions: Vec::new(), plain: self.rewrite(operand.clone()) })
    }

    /// The old object, where it may be absent.
    fn old_self(&self, operand: &IdedExpr) -> Option<Chain> {
        let is_old_self = matches!(&operand.expr, Expr::Ident(name) if name == "oldSelf");
        (self.optional_old_self && is_old_self).then(|| Chain {
            questions: vec![method(operand.clone(), "hasValue", Vec::new())],
            plain: method(operand.clone(), "value", Vec::new()),
        })
    }
}

impl Chain {
    fn below(mut self, field: &str) -> Self {
        let select = |test: bool| {
            let operand = Box::new(self.plain.clone());
            of(Expr::Select(SelectExpr { operand, field: field.to_owned(), test }))
        };
        let (question, plain) = (select(true), select(false));
        self.questions.push(question);
        Self { questions: self.questions, plain }
    }

    fn into_optional(self) -> IdedExpr {
        let optional = || of(Expr::Ident("optional".to_owned()));
        let present = method(optional(), "of", vec![self.plain]);
        choice(all(self.questions), present, method(optional(), "none", Vec::new()))
    }
}

fn of(expr: Expr) -> IdedExpr {
    // Numbers only serve messages about the source, and nothing in the source stands for these.
    IdedExpr { id: 0, expr }
}

fn method(target: IdedExpr, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    of(Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args }))
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    of(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn choice(condition: IdedExpr, yes: IdedExpr, no: IdedExpr) -> IdedExpr {
    call(operators::CONDITIONAL, vec![condition, yes, no])
}

fn all(questions: Vec<IdedExpr>) -> IdedExpr {
    let both = |one, other| call(operators::LOGICAL_AND, vec![one, other]);
    questions.into_iter().reduce(both).unwrap_or_else(|| of(Expr::Literal(LiteralValue::Boolean(true.into()))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kube_cel::cel::{objects::OptionalValue, to_value};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let object = json!({ "spec": { "images": { "list": [1] } }, "status": { "skew": { "mode": "Automatic" } } });
        let mut context = crate::cel::functions();
        context.add_variable_from_value("self", to_value(&object).unwrap());
        let old = OptionalValue::of(to_value(json!({ "spec": { "name": "old" } })).unwrap());
        context.add_variable_from_value("oldSelf", Value::Opaque(std::sync::Arc::new(old)));
        let expression = Expression::parse(text, true).unwrap();
        assert_eq!(expression.execute(&context).unwrap(), Value::Bool(expected), "{text}");
    }

    #[test]
    fn a_chain_is_there_if_every_link_is() {
        check("self.?status.skew.mode.orValue('') == 'Automatic'", true);
        check("self.?status.absent.mode.orValue('') == ''", true);
        check("self.?absent.skew.mode.orValue('') == ''", true);
        check("self.?spec.images.list.hasValue()", true);
        check("self.?spec.?images.?absent.hasValue()", false);
        check("self.?spec.absent.list.hasValue()", false);
        check("self.?spec.images.list.value().size() == 1", true);
        check("!(self.?spec.absent.list.hasValue()) || size(self.spec.absent.list) > 0", true);
    }

    #[test]
    fn a_chain_inside_other_expressions_is_found() {
        check("[self.?spec.absent.hasValue(), self.?spec.images.hasValue()] == [false, true]", true);
        check("[1, 2].exists(x, x == 2 && self.?spec.images.hasValue())", true);
        check("self.?absent.list.or(self.?spec.images.list).hasValue()", true);
        check("(self.?spec.absent.hasValue() ? 1 : 2) == 2", true);
    }

    #[test]
    fn an_old_self_that_may_be_absent_is_followed_like_a_chain() {
        check("oldSelf.hasValue() && oldSelf.spec.name.value() == 'old'", true);
        check("oldSelf.?spec.absent.hasValue()", false);
        check("oldSelf.spec.absent.hasValue()", false);
        check("oldSelf.value().spec.name == 'old'", true);
    }

    #[test]
    fn a_plain_expression_stays_as_it_is() {
        let text = "self.spec.images.list.size() > 0 && has(self.spec.images)";
        let expression = Expression::parse(text, false).unwrap();
        assert_eq!(expression.0, Parser::new().parse(text).unwrap());
        assert!(expression.uses("self") && !expression.uses("oldSelf"));
    }
}
