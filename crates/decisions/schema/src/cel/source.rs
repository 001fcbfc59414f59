//! Where the parts of an expression stand in its text, and complaints that show the place.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, SourceInfo, operators},
    parser::Parser,
};

/// A complaint about one place of an expression.
pub(super) struct Problem {
    line: usize,
    /// From one, in characters.
    column: usize,
    text: String,
}

/// An expression's text, and which part of it each node came from.
pub(super) struct Source<'t> {
    text: &'t str,
    places: Option<Arc<SourceInfo>>,
    /// Nodes made here stand where the macro stood.
    made: HashMap<u64, u64>,
}

/// Reads an expression; macros that the parser leaves alone are expanded here.
pub(super) fn parse(text: &str) -> Result<(IdedExpr, Source<'_>), String> {
    let parsed = Parser::new().enable_optional_syntax(true).parse(text);
    let expression = parsed.map_err(|errors| {
        let problem = |(line, column): (isize, isize), text: String| Problem {
            line: usize::try_from(line).unwrap_or(1),
            column: usize::try_from(column).unwrap_or(1),
            text,
        };
        let problems = errors.errors.into_iter().map(|error| problem(error.pos, error.msg)).collect();
        shown(text, problems)
    })?;
    let mut expander = Expander { next: 1 << 32, made: HashMap::new() };
    let expression = expander.expand(expression);
    Ok((expression, Source { text, places: places(text), made: expander.made }))
}

/// The parser tells places only with its errors: the same text is given to it once more, in an expression that has one.
fn places(text: &str) -> Option<Arc<SourceInfo>> {
    let faulty = format!("({text}\n) + has(1)");
    let errors = Parser::new().enable_optional_syntax(true).parse(&faulty).err()?;
    errors.errors.into_iter().find_map(|error| error.source_info)
}

impl Source<'_> {
    pub(super) fn problem(&self, id: u64, text: String) -> Problem {
        let id = self.made.get(&id).copied().unwrap_or(id);
        let offset = self.places.as_ref().and_then(|places| places.offset_for(id)).map_or(0, |(start, _)| start);
        // One for the bracket in front of the text; places are counted in bytes.
        let before = self.text.as_bytes().get(..(offset as usize).saturating_sub(1)).unwrap_or_default();
        let before: Vec<char> = String::from_utf8_lossy(before).chars().collect();
        let line = before.iter().filter(|c| **c == '\n').count() + 1;
        let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
        Problem { line, column, text }
    }

    pub(super) fn shown(&self, problems: Vec<Problem>) -> String {
        shown(self.text, problems)
    }
}

/// Complaints in the order of their places, each with its line and a mark below it.
fn shown(text: &str, mut problems: Vec<Problem>) -> String {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    let one = |problem: &Problem| {
        let Problem { line, column, text: complaint } = problem;
        let mut out = format!("ERROR: <input>:{line}:{column}: {complaint}");
        if let Some(source) = text.split('\n').nth(line.saturating_sub(1)) {
            let source = source.replace('\t', " ");
            let wide = |c: char| c.len_utf8() > 1;
            let dots: String = source.chars().take(column - 1).map(|c| if wide(c) { '．' } else { '.' }).collect();
            let mark = if source.chars().nth(column - 1).is_some_and(wide) { '＾' } else { '^' };
            out.push_str(&format!("\n | {source}\n | {dots}{mark}"));
        }
        out
    };
    problems.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Macros whose types nobody works out here; what uses them is neither refused nor estimated.
const UNJUDGED: [&str; 4] = ["sortBy", "transformList", "transformMap", "transformMapEntry"];

pub(super) fn is_unjudged(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Call(call) => {
            let own = call.target.is_some() && UNJUDGED.contains(&call.func_name.as_str());
            own || call.target.as_deref().into_iter().chain(&call.args).any(is_unjudged)
        }
        Expr::Select(select) => is_unjudged(&select.operand),
        Expr::List(list) => list.elements.iter().any(is_unjudged),
        Expr::Comprehension(turns) => {
            [&turns.iter_range, &turns.accu_init, &turns.loop_step, &turns.result].into_iter().any(is_unjudged)
        }
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => is_unjudged(&entry.key) || is_unjudged(&entry.value),
            EntryExpr::StructField(field) => is_unjudged(&field.value),
        }),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => false,
    }
}

/// Writes out the macros of optional values and those with two variables.
struct Expander {
    next: u64,
    made: HashMap<u64, u64>,
}

impl Expander {
    fn make(&mut self, place: u64, expr: Expr) -> IdedExpr {
        self.next += 1;
        self.made.insert(self.next, place);
        IdedExpr { id: self.next, expr }
    }

    fn call(&mut self, place: u64, name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> IdedExpr {
        let call = CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args };
        self.make(place, Expr::Call(call))
    }

    fn expand(&mut self, expression: IdedExpr) -> IdedExpr {
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
            Expr::Comprehension(mut turns) => {
                turns.iter_range = self.expand(turns.iter_range);
                turns.loop_step = self.expand(turns.loop_step);
                Expr::Comprehension(turns)
            }
            other => other,
        };
        IdedExpr { id, expr }
    }

    /// `a.optMap(x, f)`: what `f` makes of the value of `a`, if it has one.
    fn optional(&mut self, place: u64, target: IdedExpr, name: &str, inner: IdedExpr, flat: bool) -> IdedExpr {
        let again = self.copy(place, &target);
        let has = self.call(place, "hasValue", Some(target), Vec::new());
        let value = self.call(place, "value", Some(again), Vec::new());
        let turns = ComprehensionExpr {
            iter_range: self.make(place, Expr::List(ListExpr::new(Vec::new()))),
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: name.to_owned(),
            accu_init: value,
            loop_cond: self.make(place, Expr::Literal(LiteralValue::Boolean(false.into()))),
            loop_step: self.make(place, Expr::Ident(name.to_owned())),
            result: inner,
        };
        let bound = self.make(place, Expr::Comprehension(Box::new(turns)));
        let some = match flat {
            true => bound,
            false => self.call(place, "optional.of", None, vec![bound]),
        };
        let none = self.call(place, "optional.none", None, Vec::new());
        self.call(place, operators::CONDITIONAL, None, vec![has, some, none])
    }

    /// The same expression again, with nodes of its own.
    fn copy(&mut self, place: u64, expression: &IdedExpr) -> IdedExpr {
        let expr = match &expression.expr {
            Expr::Call(call) => Expr::Call(CallExpr {
                func_name: call.func_name.clone(),
                target: call.target.as_ref().map(|target| Box::new(self.copy(place, target))),
                args: call.args.iter().map(|argument| self.copy(place, argument)).collect(),
            }),
            Expr::Select(select) => {
                let mut select = select.clone();
                select.operand = Box::new(self.copy(place, &select.operand));
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
}
