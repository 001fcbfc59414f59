//! Macros that the parser leaves alone, written out as the loops they stand for.
//!
//! They are written as the real server writes them.

use std::collections::HashMap;

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, operators},
};

use super::source::Source;

const SORT: &str = "@sortByAssociatedKeys";

/// Writes out what the parser takes for calls.
pub(super) struct Expander<'s> {
    /// The text of what is to be judged; none for what was judged before.
    source: Option<&'s Source<'s>>,
    next: u64,
    /// Whether a value can be given a name by `cel.bind`.
    binds: bool,
    /// Nodes made here stand where the macro stood.
    pub(super) made: HashMap<u64, u64>,
}

impl<'s> Expander<'s> {
    pub(super) fn new(source: &'s Source<'s>, binds: bool) -> Expander<'s> {
        Expander { source: Some(source), next: 1 << 32, binds, made: HashMap::new() }
    }

    pub(super) fn to_run() -> Expander<'static> {
        Expander { source: None, next: 1 << 32, binds: false, made: HashMap::new() }
    }

    fn make(&mut self, place: u64, expr: Expr) -> IdedExpr {
        self.next += 1;
        self.made.insert(self.next, place);
        IdedExpr { id: self.next, expr }
    }

    fn call(&mut self, place: u64, name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> IdedExpr {
        let call = CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args };
        self.make(place, Expr::Call(call))
    }

    pub(super) fn expand(&mut self, expression: IdedExpr) -> IdedExpr {
        let IdedExpr { id, expr } = expression;
        let expr = match expr {
            Expr::Call(call) => {
                let CallExpr { func_name, target, args } = call;
                let target = target.map(|target| self.expand(*target));
                let args: Vec<IdedExpr> = args.into_iter().map(|argument| self.expand(argument)).collect();
                match (func_name.as_str(), target, args.as_slice()) {
                    ("optMap" | "optFlatMap", Some(target), [IdedExpr { expr: Expr::Ident(name), .. }, inner]) => {
                        let flat = func_name == "optFlatMap";
                        return self.optional(id, target, name, inner.clone(), flat);
                    }
                    (
                        "all" | "exists" | "exists_one" | "existsOne",
                        Some(target),
                        [
                            IdedExpr { expr: Expr::Ident(first), .. },
                            IdedExpr { expr: Expr::Ident(second), .. },
                            condition,
                        ],
                    ) => return self.judge(id, &func_name, target, (first, second), condition.clone()),
                    (
                        "bind",
                        Some(IdedExpr { expr: Expr::Ident(space), .. }),
                        [IdedExpr { expr: Expr::Ident(name), .. }, value, result],
                    ) if self.binds && space == "cel" => {
                        return self.bind(id, name, value.clone(), result.clone());
                    }
                    ("sortBy", Some(target), [IdedExpr { expr: Expr::Ident(name), .. }, key]) => {
                        return self.sort_by(id, target, name, key.clone());
                    }
                    (
                        "transformList" | "transformMap" | "transformMapEntry",
                        Some(target),
                        [
                            IdedExpr { expr: Expr::Ident(first), .. },
                            IdedExpr { expr: Expr::Ident(second), .. },
                            rest @ ..,
                        ],
                    ) if matches!(rest.len(), 1 | 2) => {
                        return self.transform(id, &func_name, target, (first, second), rest.to_vec());
                    }
                    (_, target, _) => Expr::Call(CallExpr { func_name, target: target.map(Box::new), args }),
                }
            }
            Expr::Select(mut select) => {
                select.operand = Box::new(self.expand(*select.operand));
                Expr::Select(select)
            }
            Expr::List(mut list) => {
                list.elements = list.elements.into_iter().map(|element| self.expand(element)).collect();
                Expr::List(list)
            }
            Expr::Comprehension(turns) => return self.loops(id, *turns),
            Expr::Map(mut map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        entry.key = self.expand(std::mem::take(&mut entry.key));
                        entry.value = self.expand(std::mem::take(&mut entry.value));
                    }
                }
                Expr::Map(map)
            }
            Expr::Struct(mut made) => {
                for entry in &mut made.entries {
                    if let EntryExpr::StructField(field) = &mut entry.expr {
                        field.value = self.expand(std::mem::take(&mut field.value));
                    }
                }
                Expr::Struct(made)
            }
            other => other,
        };
        IdedExpr { id, expr }
    }

    /// `a.optMap(x, f)`: what `f` makes of the value of `a`, if it has one.
    fn optional(&mut self, place: u64, target: IdedExpr, name: &str, inner: IdedExpr, flat: bool) -> IdedExpr {
        let again = self.copy(&target);
        let has = self.call(place, "hasValue", Some(target), Vec::new());
        let value = self.call(place, "value", Some(again), Vec::new());
        let bound = self.bind(place, name, value, inner);
        let some = match flat {
            true => bound,
            false => self.optional_function(place, "of", vec![bound]),
        };
        let none = self.optional_function(place, "none", Vec::new());
        self.call(place, operators::CONDITIONAL, None, vec![has, some, none])
    }

    fn optional_function(&mut self, place: u64, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        let optional = self.make(place, Expr::Ident("optional".to_owned()));
        self.call(place, name, Some(optional), args)
    }

    /// The same expression again, with nodes of its own.
    fn copy(&mut self, expression: &IdedExpr) -> IdedExpr {
        let expr = match &expression.expr {
            Expr::Call(call) => Expr::Call(CallExpr {
                func_name: call.func_name.clone(),
                target: call.target.as_ref().map(|target| Box::new(self.copy(target))),
                args: call.args.iter().map(|argument| self.copy(argument)).collect(),
            }),
            Expr::Select(select) => {
                let mut select = select.clone();
                select.operand = Box::new(self.copy(&select.operand));
                Expr::Select(select)
            }
            other => other.clone(),
        };
        let place = self.made.get(&expression.id).copied().unwrap_or(expression.id);
        self.make(place, expr)
    }

    /// `all`, `exists` and `existsOne` over keys and values.
    fn judge(
        &mut self,
        place: u64,
        name: &str,
        range: IdedExpr,
        (first, second): (&str, &str),
        condition: IdedExpr,
    ) -> IdedExpr {
        let accumulator = || Expr::Ident("@result".to_owned());
        let truth = |flag: bool| Expr::Literal(LiteralValue::Boolean(flag.into()));
        let number = |value: i64| Expr::Literal(LiteralValue::Int(value.into()));
        let (accu_init, loop_cond, loop_step, result);
        match name {
            "all" | "exists" => {
                let all = name == "all";
                accu_init = self.make(place, truth(all));
                let mut so_far = self.make(place, accumulator());
                if !all {
                    so_far = self.call(place, operators::LOGICAL_NOT, None, vec![so_far]);
                }
                loop_cond = self.call(place, operators::NOT_STRICTLY_FALSE, None, vec![so_far]);
                let so_far = self.make(place, accumulator());
                let operator = if all { operators::LOGICAL_AND } else { operators::LOGICAL_OR };
                loop_step = self.call(place, operator, None, vec![so_far, condition]);
                result = self.make(place, accumulator());
            }
            _ => {
                accu_init = self.make(place, number(0));
                loop_cond = self.make(place, truth(true));
                let one_more = vec![self.make(place, accumulator()), self.make(place, number(1))];
                let one_more = self.call(place, operators::ADD, None, one_more);
                let same = self.make(place, accumulator());
                loop_step = self.call(place, operators::CONDITIONAL, None, vec![condition, one_more, same]);
                let once = vec![self.make(place, accumulator()), self.make(place, number(1))];
                result = self.call(place, operators::EQUALS, None, once);
            }
        }
        let turns = ComprehensionExpr {
            iter_range: range,
            iter_var: first.to_owned(),
            iter_var2: Some(second.to_owned()),
            accu_var: "@result".to_owned(),
            accu_init,
            loop_cond,
            loop_step,
            result,
        };
        self.make(place, Expr::Comprehension(Box::new(turns)))
    }

    /// A loop of the parser's. It knows one name too many: `existsOne` is a macro with two variables only.
    fn loops(&mut self, id: u64, mut turns: ComprehensionExpr) -> IdedExpr {
        if let Some(source) = self.source
            && let Some((before, offset)) = source.before(id)
            && before.ends_with("existsOne")
            && let Expr::Call(step) = &turns.loop_step.expr
            && let ([condition, ..], Some(first)) = (step.args.as_slice(), source.first_at(offset))
        {
            // The name of the variable was read right after the bracket.
            let name = IdedExpr { id: first + 1, expr: Expr::Ident(turns.iter_var) };
            let args = vec![name, self.expand(condition.clone())];
            let target = Some(Box::new(self.expand(turns.iter_range)));
            return IdedExpr { id, expr: Expr::Call(CallExpr { func_name: "existsOne".to_owned(), target, args }) };
        }
        turns.iter_range = self.expand(turns.iter_range);
        turns.loop_step = self.expand(turns.loop_step);
        IdedExpr { id, expr: Expr::Comprehension(Box::new(turns)) }
    }

    /// `transformList` and its like: what an expression makes of each key and value.
    fn transform(
        &mut self,
        place: u64,
        name: &str,
        range: IdedExpr,
        (first, second): (&str, &str),
        mut rest: Vec<IdedExpr>,
    ) -> IdedExpr {
        let accumulator = || Expr::Ident("@result".to_owned());
        let made = rest.pop().unwrap_or_default();
        let so_far = self.make(place, accumulator());
        let (accu_init, mut loop_step);
        match name {
            "transformList" => {
                accu_init = self.make(place, Expr::List(ListExpr::new(Vec::new())));
                let one = self.make(place, Expr::List(ListExpr::new(vec![made])));
                loop_step = self.call(place, operators::ADD, None, vec![so_far, one]);
            }
            _ => {
                accu_init = self.make(place, Expr::Map(MapExpr { entries: Vec::new() }));
                let mut args = vec![so_far];
                if name == "transformMap" {
                    args.push(self.make(place, Expr::Ident(first.to_owned())));
                }
                args.push(made);
                loop_step = self.call(place, "cel.@mapInsert", None, args);
            }
        }
        if let Some(filter) = rest.pop() {
            let same = self.make(place, accumulator());
            loop_step = self.call(place, operators::CONDITIONAL, None, vec![filter, loop_step, same]);
        }
        let turns = ComprehensionExpr {
            iter_range: range,
            iter_var: first.to_owned(),
            iter_var2: Some(second.to_owned()),
            accu_var: "@result".to_owned(),
            accu_init,
            loop_cond: self.make(place, Expr::Literal(LiteralValue::Boolean(true.into()))),
            loop_step,
            result: self.make(place, accumulator()),
        };
        self.make(place, Expr::Comprehension(Box::new(turns)))
    }

    /// `a.sortBy(x, key)`: `a` is named, its keys are made, and it is sorted by them.
    fn sort_by(&mut self, place: u64, target: IdedExpr, name: &str, key: IdedExpr) -> IdedExpr {
        const INPUT: &str = "@__sortBy_input__";
        let input = || Expr::Ident(INPUT.to_owned());
        let accumulator = || Expr::Ident("@result".to_owned());
        let one = self.make(place, Expr::List(ListExpr::new(vec![key])));
        let so_far = self.make(place, accumulator());
        let keys = ComprehensionExpr {
            iter_range: self.make(place, input()),
            iter_var: name.to_owned(),
            iter_var2: None,
            accu_var: "@result".to_owned(),
            accu_init: self.make(place, Expr::List(ListExpr::new(Vec::new()))),
            loop_cond: self.make(place, Expr::Literal(LiteralValue::Boolean(true.into()))),
            loop_step: self.call(place, operators::ADD, None, vec![so_far, one]),
            result: self.make(place, accumulator()),
        };
        let keys = self.make(place, Expr::Comprehension(Box::new(keys)));
        let sorted = self.make(place, input());
        let result = self.call(place, SORT, Some(sorted), vec![keys]);
        self.bind(place, INPUT, target, result)
    }

    /// What `result` is where `name` stands for `value`: a loop that never turns.
    fn bind(&mut self, place: u64, name: &str, value: IdedExpr, result: IdedExpr) -> IdedExpr {
        let bound = ComprehensionExpr {
            iter_range: self.make(place, Expr::List(ListExpr::new(Vec::new()))),
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: name.to_owned(),
            accu_init: value,
            loop_cond: self.make(place, Expr::Literal(LiteralValue::Boolean(false.into()))),
            loop_step: self.make(place, Expr::Ident(name.to_owned())),
            result,
        };
        self.make(place, Expr::Comprehension(Box::new(bound)))
    }
}
