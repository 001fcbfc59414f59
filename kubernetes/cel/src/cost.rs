//! What a rule may cost at most, judged before any object exists: every operation counts, by the sizes its schema allows.

use std::collections::HashMap;

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue},
};
use serde_json::Value;

use super::{
    check::{Checked, qualified},
    declared::Declared,
    library, sizes,
    types::Type,
};

/// The largest estimate a rule may have, and all rules of a definition together.
pub const RULE_LIMIT: u64 = 10_000_000;
pub const TOTAL_LIMIT: u64 = 100_000_000;

const LIST: u64 = 10;
const MAP: u64 = 30;
const MESSAGE: u64 = 40;

/// The complaint about an estimate over its limit.
pub fn complaint(what: &str, cost: u64, limit: u64) -> Option<String> {
    if cost <= limit {
        return None;
    }
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    Some(format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    ))
}

/// How many elements a list or map may hold, one for anything else; none if nothing bounds them.
pub fn elements(schema: &Value) -> Option<u64> {
    match schema["type"].as_str() {
        Some("array") => schema["maxItems"].as_u64(),
        Some("object") if !schema["additionalProperties"].is_null() => schema["maxProperties"].as_u64(),
        _ => Some(1),
    }
}

pub(super) fn estimate(expression: &IdedExpr, checked: &Checked, declared: &Declared) -> u64 {
    let mut estimate = Estimate {
        checked,
        declared,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimate.cost(expression)
}

/// How large a value is, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    pub(super) const UNKNOWN: Size = Size { min: 0, max: u64::MAX };

    pub(super) fn of(size: u64) -> Size {
        Size { min: size, max: size }
    }

    pub(super) fn plus(self, other: Size) -> Size {
        Size { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Size) -> Size {
        Size { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn union(self, other: Size) -> Size {
        Size { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The cost of going through all of it.
    pub(super) fn traversed(self, factor: f64) -> u64 {
        by_factor(self.max, factor)
    }
}

pub(super) fn by_factor(size: u64, factor: f64) -> u64 {
    // Casts of floats stop at the largest number, as they should here.
    (size as f64 * factor).ceil() as u64
}

/// The sizes of what a list or map holds.
#[derive(Clone, Copy)]
pub(super) struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn union(self, other: Entries) -> Entries {
        Entries { key: self.key.union(other.key), value: self.value.union(other.value), ..self }
    }
}

struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// A part of a call as cost functions see it.
pub(super) struct Part<'e> {
    pub(super) path: Vec<String>,
    pub(super) own: &'e Type,
    pub(super) size: Option<Size>,
    pub(super) expression: &'e IdedExpr,
    pub(super) cost: u64,
    entries: Option<Entries>,
}

impl Part<'_> {
    pub(super) fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

pub(super) struct Estimate<'e> {
    checked: &'e Checked,
    declared: &'e Declared,
    /// The way from a variable to the value of a node.
    paths: HashMap<u64, Vec<String>>,
    sizes: HashMap<u64, Size>,
    entries: HashMap<u64, Entries>,
    locals: Vec<Local>,
}

impl<'e> Estimate<'e> {
    fn cost(&mut self, expression: &'e IdedExpr) -> u64 {
        match &expression.expr {
            Expr::Literal(_) | Expr::Unspecified => 0,
            Expr::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expression.id, path);
                1
            }
            Expr::Select(_) if constant(expression).is_some() => {
                self.paths.insert(expression.id, constant(expression).into_iter().collect());
                1
            }
            Expr::Select(select) => {
                let mut sum = self.cost(&select.operand);
                if select.test {
                    return sum;
                }
                if matches!(self.checked.type_of(select.operand.id), Type::Map(..) | Type::Struct(_)) {
                    sum = sum.saturating_add(1);
                }
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(expression.id, path);
                sum
            }
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let mut sum = LIST;
                let mut item = Size { min: if list.elements.is_empty() { 0 } else { u64::MAX }, max: 0 };
                for element in &list.elements {
                    sum = sum.saturating_add(self.cost(element));
                    item = item.union(self.size_or_unknown(element));
                }
                let entries = Entries { is_list: true, key: Size::of(1), value: item };
                self.entries.insert(expression.id, entries);
                sum
            }
            Expr::Map(map) => {
                let mut sum = MAP;
                let nothing = Size { min: if map.entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
                let (mut key, mut value) = (nothing, nothing);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    sum = sum.saturating_add(self.cost(&entry.key)).saturating_add(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expression.id, Entries { is_list: false, key, value });
                sum
            }
            Expr::Struct(_) => MESSAGE,
            Expr::Comprehension(turns) if is_binding(turns) => self.binding(expression, turns),
            Expr::Comprehension(turns) => self.comprehension(expression, turns),
        }
    }

    fn call(&mut self, expression: &'e IdedExpr, call: &'e CallExpr) -> u64 {
        if let ("dyn", None, [argument]) = (call.func_name.as_str(), &call.target, call.args.as_slice()) {
            let cost = self.cost(argument).saturating_add(1);
            if let Some(size) = self.size(argument) {
                self.sizes.insert(expression.id, size);
            }
            if let Some(entries) = self.entries(argument) {
                self.entries.insert(expression.id, entries);
            }
            return cost;
        }
        let args: Vec<Part<'e>> = call.args.iter().map(|argument| self.part(argument)).collect();
        let checked = self.checked;
        let overloads = checked.overloads(expression.id);
        if overloads.is_empty() {
            return 0;
        }
        let namespaced = call.target.as_deref().filter(|_| !is_member(overloads)).is_some();
        let target = match namespaced {
            true => None,
            false => call.target.as_deref().map(|target| self.part(target)),
        };
        let function = match (&call.target, namespaced) {
            (Some(target), true) => format!("{}.{}", qualified(target).unwrap_or_default(), call.func_name),
            _ => call.func_name.clone(),
        };
        let mut dearest = 0;
        let mut result: Option<Size> = None;
        for overload in overloads {
            let (cost, size) = self.overload(expression, &function, overload, target.as_ref(), &args);
            dearest = dearest.max(cost);
            result = match (result, size) {
                (Some(one), Some(two)) => Some(one.union(two)),
                (one, two) => one.or(two),
            };
            let step = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(container)) = (step, call.args.first()) {
                result = self.entries(container).map(|entries| entries.value);
                let mut path = self.path(container);
                path.push(step.to_owned());
                self.paths.insert(expression.id, path);
            }
            if result.is_none() {
                result = self.size(expression);
            }
        }
        if let Some(result) = result {
            self.sizes.insert(expression.id, result);
        }
        target.map_or(0, |target| target.cost).saturating_add(dearest)
    }

    /// The cost of one overload with its arguments, and the size of what it gives.
    fn overload(
        &mut self,
        expression: &IdedExpr,
        function: &str,
        overload: &str,
        target: Option<&Part<'e>>,
        args: &[Part<'e>],
    ) -> (u64, Option<Size>) {
        let sum = args.iter().fold(0_u64, |sum, part| sum.saturating_add(part.cost));
        if let Some((cost, size)) = sizes::of_call(self, function, overload, target, args) {
            return (cost.saturating_add(sum), size);
        }
        match (overload, args) {
            ("logical_or" | "logical_and", _) => (sum, None),
            ("conditional", [condition, one, two]) => {
                if let (Some(one), Some(two)) = (one.entries, two.entries) {
                    self.entries.insert(expression.id, one.union(two));
                }
                (condition.cost.saturating_add(one.cost.max(two.cost)), Some(one.size().union(two.size())))
            }
            ("add_string" | "add_bytes" | "add_list", [one, two]) => {
                if let (Some(one), Some(two)) = (one.entries, two.entries) {
                    self.entries.insert(expression.id, one.union(two));
                }
                let size = one.size().plus(two.size());
                let cost = if overload == "add_list" { 1 } else { size.traversed(0.1) };
                (cost.saturating_add(sum), Some(size))
            }
            _ => (1_u64.saturating_add(sum), None),
        }
    }

    fn comprehension(&mut self, expression: &'e IdedExpr, turns: &'e ComprehensionExpr) -> u64 {
        let mut sum = self.cost(&turns.iter_range).saturating_add(self.cost(&turns.accu_init));
        let outside = self.locals.len();
        self.bind(&turns.accu_var, &turns.accu_init);
        let inside = self.locals.len();
        match &turns.iter_var2 {
            None => self.iterate(&turns.iter_var, &turns.iter_range, None),
            Some(second) => {
                self.iterate(&turns.iter_var, &turns.iter_range, Some(true));
                self.iterate(second, &turns.iter_range, Some(false));
                self.confuse_paths();
            }
        }
        let turn = self.cost(&turns.loop_cond).saturating_add(self.cost(&turns.loop_step));
        self.locals.truncate(inside);
        sum = sum.saturating_add(self.cost(&turns.result));
        self.locals.truncate(outside);
        let count = self.size_or_unknown(&turns.iter_range);
        sum = sum.saturating_add(count.max.saturating_mul(turn));
        match &turns.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&turns.accu_init) {
                    self.sizes.insert(expression.id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(expression.id, count);
                if let Some(entries) = self.entries(&turns.loop_step) {
                    self.entries.insert(expression.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    /// A comprehension without turns only names a value.
    fn binding(&mut self, expression: &'e IdedExpr, turns: &'e ComprehensionExpr) -> u64 {
        let sum = self.cost(&turns.iter_range).saturating_add(self.cost(&turns.accu_init));
        let outside = self.locals.len();
        self.bind(&turns.accu_var, &turns.accu_init);
        let sum = sum.saturating_add(self.cost(&turns.result));
        self.locals.truncate(outside);
        if let Some(size) = self.size(&turns.result) {
            self.sizes.insert(expression.id, size);
        }
        if let Some(entries) = self.entries(&turns.result) {
            self.entries.insert(expression.id, entries);
        }
        sum
    }

    fn bind(&mut self, name: &str, value: &'e IdedExpr) {
        let (path, size, entries) = (self.path(value), self.size(value), self.entries(value));
        self.locals.push(Local { name: name.to_owned(), path, size, entries });
    }

    /// Names the key (true), the value (false) or, of one variable, what loops usually mean by it.
    fn iterate(&mut self, name: &str, range: &'e IdedExpr, key: Option<bool>) {
        let entries = self.entries(range);
        let is_list =
            entries.map_or_else(|| matches!(self.checked.type_of(range.id), Type::List(_)), |entries| entries.is_list);
        let (step, size) = match (key.unwrap_or(!is_list), is_list) {
            (true, true) => ("@indices", entries.map(|entries| entries.key)),
            (true, false) => ("@keys", entries.map(|entries| entries.key)),
            (false, true) => ("@items", entries.map(|entries| entries.value)),
            (false, false) => ("@values", entries.map(|entries| entries.value)),
        };
        let mut path = self.path(range);
        path.push(step.to_owned());
        self.locals.push(Local { name: name.to_owned(), path, size, entries: None });
    }

    /// The real server keeps both paths in one piece of memory, so that the second is written over the first, unless the
    /// piece was full before. Its figures are those of that.
    fn confuse_paths(&mut self) {
        if let [.., first, second] = self.locals.as_mut_slice()
            && !(second.path.len() - 1).is_power_of_two()
        {
            first.path.clone_from(&second.path);
        }
    }

    fn part(&mut self, expression: &'e IdedExpr) -> Part<'e> {
        let cost = self.cost(expression);
        let size = self.size(expression);
        let mut path = self.path(expression);
        if path.first().is_some_and(|first| first == "@result") {
            path.clear();
        }
        let entries = self.entries(expression);
        Part { path, own: self.checked.type_of(expression.id), size, expression, cost, entries }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expression: &IdedExpr) -> Vec<String> {
        if let Expr::Ident(name) = &expression.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expression.id).cloned().unwrap_or_default()
    }

    fn entries(&self, expression: &IdedExpr) -> Option<Entries> {
        self.entries.get(&expression.id).copied().or_else(|| match &expression.expr {
            Expr::Ident(name) => self.local(name)?.entries,
            _ => None,
        })
    }

    fn size_or_unknown(&mut self, expression: &IdedExpr) -> Size {
        self.size(expression).unwrap_or(Size::UNKNOWN)
    }

    fn size(&mut self, expression: &IdedExpr) -> Option<Size> {
        if let Some(known) = self.sizes.get(&expression.id) {
            return Some(*known);
        }
        if let Some(own) = own_size(&expression.expr) {
            return Some(own);
        }
        if let Some(size) = self.size_at(&self.path(expression)) {
            self.sizes.insert(expression.id, size);
            return Some(size);
        }
        if self.checked.type_of(expression.id).is_scalar() {
            return Some(Size::of(1));
        }
        match &expression.expr {
            Expr::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    /// The size of what lies at the end of a path; the first step is a variable, whichever.
    pub(super) fn size_at(&self, path: &[String]) -> Option<Size> {
        let (_, steps) = path.split_first()?;
        let mut node = self.declared;
        for (at, step) in steps.iter().enumerate() {
            node = match step.as_str() {
                "@items" | "@values" => node.element()?,
                "@keys" => {
                    let keys = node.keys().filter(|_| at + 1 == steps.len())?;
                    return Some(Size { min: 0, max: keys });
                }
                name => node.field(name)?,
            };
        }
        Some(Size { min: 0, max: node.most })
    }
}

fn own_size(expression: &Expr) -> Option<Size> {
    Some(Size::of(match expression {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count() as u64,
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len() as u64,
        Expr::Literal(_) => 1,
        Expr::List(list) => list.elements.len() as u64,
        Expr::Map(map) => map.entries.len() as u64,
        _ => return None,
    }))
}

fn is_binding(turns: &ComprehensionExpr) -> bool {
    let empty = matches!(&turns.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let never = matches!(&turns.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(flag)) if !*flag.inner());
    empty && never && turns.accu_var != "@result"
}

/// Whether these overloads are called on a value.
fn is_member(overloads: &[&str]) -> bool {
    overloads.first().is_some_and(|id| library::is_member(id))
}

/// The name of a type that stands as a value.
fn constant(expression: &IdedExpr) -> Option<String> {
    qualified(expression).filter(|name| library::constant(name).is_some())
}
