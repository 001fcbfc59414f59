//! Looks at the literals of an expression whose types fit: at texts that functions read, at what stands in one list
//! together, and at what is filled into a text.

use std::collections::HashMap;

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue},
};

use super::{
    run,
    source::{Problem, Source},
    types::Type,
    value::Value,
};

/// What the literals of an expression have wrong.
pub(super) fn problems(expression: &IdedExpr, types: &HashMap<u64, Type>, source: &Source<'_>) -> Vec<Problem> {
    let mut look = Look { types, source, problems: Vec::new() };
    look.visit(expression, false);
    look.problems
}

struct Look<'a> {
    types: &'a HashMap<u64, Type>,
    source: &'a Source<'a>,
    problems: Vec<Problem>,
}

impl Look<'_> {
    fn complain(&mut self, id: u64, text: String) {
        self.problems.push(self.source.problem(id, text));
    }

    fn type_of(&self, id: u64) -> Type {
        self.types.get(&id).cloned().unwrap_or(Type::Dyn)
    }

    /// `mixed` is set where elements of different types may stand together.
    fn visit(&mut self, expression: &IdedExpr, mixed: bool) {
        match &expression.expr {
            Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => {}
            Expr::Struct(made) => {
                for entry in &made.entries {
                    let EntryExpr::StructField(field) = &entry.expr else { continue };
                    self.visit(&field.value, mixed);
                }
            }
            Expr::Select(select) => self.visit(&select.operand, mixed),
            Expr::Call(call) => {
                self.call(expression.id, call);
                let mixed = mixed || call.func_name == "format";
                call.target.as_deref().into_iter().chain(&call.args).for_each(|inner| self.visit(inner, mixed));
            }
            Expr::List(list) => {
                let optional = |at: usize| list.optional_indices.contains(&at);
                let elements = list.elements.iter().enumerate().map(|(at, element)| (element.id, optional(at)));
                self.alike(elements.collect(), mixed);
                list.elements.iter().for_each(|element| self.visit(element, mixed));
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    keys.push((entry.key.id, false));
                    values.push((entry.value.id, entry.optional));
                    self.visit(&entry.key, mixed);
                    self.visit(&entry.value, mixed);
                }
                self.alike(keys, mixed);
                self.alike(values, mixed);
            }
            Expr::Comprehension(turns) => {
                for part in [&turns.iter_range, &turns.accu_init, &turns.loop_cond, &turns.loop_step, &turns.result] {
                    self.visit(part, mixed);
                }
            }
        }
    }

    /// What stands together is of one type.
    fn alike(&mut self, elements: Vec<(u64, bool)>, mixed: bool) {
        if mixed {
            return;
        }
        let mut first: Option<Type> = None;
        for (id, optional) in elements {
            let own = self.type_of(id);
            let own = if optional { own.unwrapped().0 } else { own };
            match &first {
                None => first = Some(own),
                Some(first) if *first == own => {}
                Some(first) => {
                    let text = format!("expected type '{first}' but found '{own}'");
                    return self.complain(id, text);
                }
            }
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) {
        let literal = call.args.first().and_then(|argument| match &argument.expr {
            Expr::Literal(literal) => Some((argument.id, literal)),
            _ => None,
        });
        match (call.func_name.as_str(), literal) {
            (name @ ("duration" | "timestamp"), Some((place, literal)))
                if run::call(name, &[run::literal_value(literal)]).is_err() =>
            {
                self.complain(place, format!("invalid {name} argument"));
            }
            ("matches", Some((place, literal))) => {
                if let Value::Text(text) = run::literal_value(literal)
                    && run::pattern(&text).is_err()
                {
                    self.complain(place, "invalid matches argument".to_owned());
                }
            }
            ("format", None) => self.format(id, call),
            _ => {}
        }
    }

    /// Checks what is filled into a text that is known.
    fn format(&mut self, id: u64, call: &CallExpr) {
        let Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }) = call.target.as_deref() else {
            return;
        };
        let [IdedExpr { expr: Expr::List(list), .. }] = call.args.as_slice() else { return };
        let mut rest = text.inner();
        let mut used = 0;
        while let Some((_, after)) = rest.split_once('%') {
            if let Some(after) = after.strip_prefix('%') {
                rest = after;
                continue;
            }
            if after.is_empty() {
                return self.complain(id, "unexpected end of string".to_owned());
            }
            let Some(argument) = list.elements.get(used) else {
                return self.complain(id, format!("index {used} out of range"));
            };
            used += 1;
            let clause = match run::clause(after) {
                Ok((clause, after)) => {
                    rest = after;
                    clause
                }
                Err(why) => return self.complain(id, format!("could not parse formatting clause: {why}")),
            };
            if let Some(unfit) = self.unfit(clause, argument) {
                let own = self.type_of(unfit).runtime_name();
                let why = run::unfit(clause, &own);
                return self.complain(unfit, format!("error during formatting: {why}"));
            }
        }
        let given = list.elements.len();
        if given > used {
            let text = format!("too many arguments supplied to string.format (expected {used}, got {given})");
            self.complain(id, text);
        }
    }

    /// The part of an argument that a clause is not for.
    fn unfit(&self, clause: char, argument: &IdedExpr) -> Option<u64> {
        let own = self.type_of(argument.id);
        let fits = match (clause, &own) {
            (_, Type::Dyn)
            | ('d' | 'o', Type::Int | Type::Uint)
            | ('f' | 'e', Type::Double | Type::Text)
            | ('b', Type::Int | Type::Uint | Type::Bool)
            | ('x' | 'X', Type::Int | Type::Uint | Type::Text | Type::Bytes) => true,
            ('s', own) => !matches!(own, Type::Struct(_) | Type::Opaque(..)),
            _ => false,
        };
        if !fits {
            return Some(argument.id);
        }
        match (clause, &argument.expr) {
            ('s', Expr::List(list)) => list.elements.iter().find_map(|element| self.unfit('s', element)),
            ('s', Expr::Map(map)) => map.entries.iter().find_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => self.unfit('s', &entry.key).or_else(|| self.unfit('s', &entry.value)),
                EntryExpr::StructField(_) => None,
            }),
            _ => None,
        }
    }
}
