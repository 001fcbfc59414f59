//! Finds the type of every part of a rule, and says in the real server's words what does not fit.

use std::collections::{HashMap, HashSet};

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, StructExpr, operators},
};

use super::{
    convert,
    declared::Declared,
    library, literals,
    source::{Problem, Source},
    types::{Known, Type, most_general},
    value::JSON_PATCH,
};

/// A rule that fits its schema, with what the estimate of its cost needs to know.
pub(super) struct Checked {
    pub(super) result: Type,
    types: HashMap<u64, Type>,
    overloads: HashMap<u64, Vec<&'static str>>,
    pub(super) names: HashSet<String>,
    /// A type that stands as a value, and is none when the expression runs.
    pub(super) undefined: Option<String>,
}

impl Checked {
    pub(super) fn type_of(&self, id: u64) -> &Type {
        self.types.get(&id).unwrap_or(&Type::Dyn)
    }

    pub(super) fn overloads(&self, id: u64) -> &[&'static str] {
        self.overloads.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// The names that an expression finds around it.
#[derive(Default)]
pub(super) struct Surroundings<'d> {
    variables: Vec<(String, Type)>,
    objects: HashMap<&'d str, &'d Declared>,
    /// Whether objects and the operations of patches may be made.
    makes: bool,
}

impl<'d> Surroundings<'d> {
    /// What rules of a definition see; the old value may be optional.
    pub(super) fn of_rule(declared: &'d Declared, optional_old: bool) -> Surroundings<'d> {
        let mut around = Surroundings::default();
        around.declare("self", declared);
        let own = declared.cel_type();
        around.name("oldSelf", if optional_old { Type::optional(own) } else { own });
        around
    }

    /// Lets the expression make objects and the operations of patches.
    pub(super) fn make(&mut self) {
        self.makes = true;
    }

    pub(super) fn declare(&mut self, name: &str, declared: &'d Declared) {
        declared.objects(&mut self.objects);
        self.name(name, declared.cel_type());
    }

    pub(super) fn name(&mut self, name: &str, own: Type) {
        self.variables.push((name.to_owned(), own));
    }
}

/// Checks an expression.
pub(super) fn check(
    expression: &IdedExpr,
    around: Surroundings<'_>,
    source: &Source<'_>,
) -> Result<Checked, Vec<Problem>> {
    let mut checker = Checker {
        objects: around.objects,
        makes: around.makes,
        undefined: None,
        scopes: around.variables,
        known: Known::default(),
        fresh: 0,
        types: HashMap::new(),
        overloads: HashMap::new(),
        names: HashSet::new(),
        problems: Vec::new(),
        source,
    };
    checker.visit(expression);
    let Checker { known, types, overloads, names, undefined, problems, .. } = checker;
    if !problems.is_empty() {
        return Err(problems);
    }
    let types: HashMap<u64, Type> = types.iter().map(|(id, own)| (*id, known.resolve(own, true))).collect();
    // Literals are looked at only in what fits otherwise.
    let problems = literals::problems(expression, &types, source);
    if !problems.is_empty() {
        return Err(problems);
    }
    let result = types.get(&expression.id).cloned().unwrap_or(Type::Dyn);
    Ok(Checked { result, types, overloads, names, undefined })
}

struct Checker<'a> {
    objects: HashMap<&'a str, &'a Declared>,
    makes: bool,
    undefined: Option<String>,
    scopes: Vec<(String, Type)>,
    known: Known,
    fresh: usize,
    types: HashMap<u64, Type>,
    overloads: HashMap<u64, Vec<&'static str>>,
    names: HashSet<String>,
    problems: Vec<Problem>,
    source: &'a Source<'a>,
}

impl Checker<'_> {
    fn complain(&mut self, id: u64, text: String) -> Type {
        self.problems.push(self.source.problem(id, text));
        Type::Error
    }

    fn visit(&mut self, expression: &IdedExpr) -> Type {
        let id = expression.id;
        let found = match &expression.expr {
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => self.ident(id, name),
            Expr::Select(select) => {
                let known = qualified(expression).and_then(|name| self.variable(&name));
                match known {
                    Some(known) => known,
                    None => {
                        let field = self.select(id, &select.operand, &select.field, false);
                        if select.test { Type::Bool } else { self.known.resolve(&field, false) }
                    }
                }
            }
            Expr::Call(call) => self.call(id, call),
            Expr::List(list) => {
                let mut element = None;
                for (at, item) in list.elements.iter().enumerate() {
                    let mut own = self.visit(item);
                    if list.optional_indices.contains(&at) {
                        own = self.unwrap_entry(item.id, own);
                    }
                    element = Some(self.join(element, own));
                }
                let element = element.unwrap_or_else(|| self.unknown());
                Type::list(element)
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = self.visit(&entry.key);
                    keys = Some(self.join(keys, key));
                    let mut value = self.visit(&entry.value);
                    if entry.optional {
                        value = self.unwrap_entry(entry.value.id, value);
                    }
                    values = Some(self.join(values, value));
                }
                let keys = keys.unwrap_or_else(|| self.unknown());
                let values = values.unwrap_or_else(|| self.unknown());
                Type::Map(Box::new(keys), Box::new(values))
            }
            Expr::Comprehension(turns) => self.comprehension(turns),
            Expr::Struct(made) => self.made(id, made),
            Expr::Unspecified => Type::Error,
        };
        self.types.insert(id, found.clone());
        found
    }

    /// An object that is made, or the operation of a patch.
    fn made(&mut self, id: u64, made: &StructExpr) -> Type {
        let name = made.type_name.trim_start_matches('.');
        if !self.is_made(name) {
            return self.complain(id, format!("undeclared reference to '{}' (in container '')", made.type_name));
        }
        for entry in &made.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let mut given = self.visit(&field.value);
            if field.optional {
                given = self.unwrap_entry(field.value.id, given);
            }
            let wanted = field_of_made(name, &field.field);
            if !self.known.fit(&wanted, &given) {
                let given = self.known.resolve(&given, true);
                let name = &field.field;
                self.complain(
                    entry.id,
                    format!("expected type of field '{name}' is '{wanted}' but provided type is '{given}'"),
                );
            }
        }
        Type::Struct(name.to_owned())
    }

    /// Whether a name is that of a type whose objects may be made here.
    fn is_made(&self, name: &str) -> bool {
        self.makes && (name == JSON_PATCH || name == "Object" || name.starts_with("Object."))
    }

    /// The overloads of a function, if it may be called here.
    fn overloads_of(&self, function: &str) -> Option<&'static [library::Overload]> {
        library::overloads(function).filter(|_| self.makes || function != library::OF_PATCHES)
    }

    fn ident(&mut self, id: u64, name: &str) -> Type {
        self.names.insert(name.to_owned());
        match self.variable(name) {
            Some(known) => known,
            None if self.is_made(name) => {
                self.undefined = Some(name.to_owned());
                Type::Named(Box::new(Type::Struct(name.to_owned())))
            }
            None => self.complain(id, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    /// The type of a variable, also of one with dots in its name, or of the name of a type.
    fn variable(&self, name: &str) -> Option<Type> {
        let known = self.scopes.iter().rev().find(|(own, _)| own == name).map(|(_, known)| known.clone());
        known.or_else(|| library::constant(name))
    }

    fn select(&mut self, id: u64, operand: &IdedExpr, field: &str, optional: bool) -> Type {
        let of = self.visit(operand);
        let (of, was_optional) = self.known.resolve(&of, false).unwrapped();
        let found = match &of {
            Type::Map(_, value) => value.as_ref().clone(),
            Type::Struct(name) => match self.objects.get(name.as_str()).map(|object| field_of(object, field)) {
                Some(Some(declared)) => declared.cel_type(),
                Some(None) => self.complain(id, format!("undefined field '{field}'")),
                None if self.is_made(name) => field_of_made(name, field),
                None => self.complain(id, format!("unexpected failed resolution of '{name}'")),
            },
            Type::Param(_) => {
                self.known.fit(&Type::Dyn, &of);
                Type::Dyn
            }
            free if free.is_free() => Type::Dyn,
            other => {
                self.complain(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Type {
        if call.func_name == operators::OPT_SELECT
            && let [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }] = call.args.as_slice()
        {
            let field = self.select(id, operand, field.inner(), true);
            self.overloads.insert(id, vec!["select_optional_field"]);
            return self.known.resolve(&field, false);
        }
        let mut given: Vec<Type> = call.args.iter().map(|argument| self.visit(argument)).collect();
        let mut target = call.target.as_deref();
        let mut function = call.func_name.clone();
        if let Some(name) = target.and_then(qualified) {
            let name = format!("{name}.{function}");
            if self.overloads_of(&name).is_some() {
                (function, target) = (name, None);
            }
        }
        if let Some(target) = target {
            given.insert(0, self.visit(target));
        }
        let Some(overloads) = self.overloads_of(&function) else {
            return self.complain(id, format!("undeclared reference to '{function}' (in container '')"));
        };
        if matches!(function.as_str(), operators::LOGICAL_AND | operators::LOGICAL_OR) {
            return self.logic(id, call, &given, overloads);
        }
        let mut result: Option<Type> = None;
        let mut matched = Vec::new();
        for overload in overloads.iter().filter(|overload| overload.member == target.is_some()) {
            let (takes, gives) = self.instance(overload);
            if !self.known.fit_all(&given, &takes) {
                continue;
            }
            matched.push(overload.id.as_str());
            let gives = self.known.resolve(&gives, false);
            result = Some(match result {
                None => gives,
                Some(known) if known == Type::Dyn || known == gives => known,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(result) => {
                self.overloads.insert(id, matched);
                result
            }
            None => {
                let texts: Vec<String> = given.iter().map(|own| self.known.resolve(own, true).to_string()).collect();
                let signature = match target {
                    Some(_) => format!("{}.({})", texts[0], texts[1..].join(", ")),
                    None => format!("({})", texts.join(", ")),
                };
                self.complain(id, format!("found no matching overload for '{function}' applied to '{signature}'"))
            }
        }
    }

    fn logic(&mut self, id: u64, call: &CallExpr, given: &[Type], overloads: &'static [library::Overload]) -> Type {
        let mut fits = true;
        for (own, argument) in given.iter().zip(&call.args) {
            if !self.known.fit(own, &Type::Bool) {
                self.mismatch(argument.id, &Type::Bool, own);
                fits = false;
            }
        }
        if !fits {
            return Type::Error;
        }
        self.overloads.insert(id, overloads.iter().map(|overload| overload.id.as_str()).collect());
        Type::Bool
    }

    /// The overload with type parameters of its own.
    fn instance(&mut self, overload: &library::Overload) -> (Vec<Type>, Type) {
        let mut names: HashMap<&str, Type> = HashMap::new();
        for name in overload.takes.iter().chain([&overload.gives]).flat_map(parameters) {
            if !names.contains_key(name) {
                let fresh = self.unknown();
                names.insert(name, fresh);
            }
        }
        let put = |own: &Type| replace(own, &names);
        (overload.takes.iter().map(put).collect(), put(&overload.gives))
    }

    fn comprehension(&mut self, turns: &ComprehensionExpr) -> Type {
        let range = self.visit(&turns.iter_range);
        let accumulated = self.visit(&turns.accu_init);
        let range = self.known.resolve(&range, false);
        let (first, second) = match &range {
            Type::List(element) => (element.as_ref().clone(), None),
            Type::Map(key, value) => (key.as_ref().clone(), Some(value.as_ref().clone())),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.known.fit(&Type::Dyn, &range);
                (Type::Dyn, Some(Type::Dyn))
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.complain(turns.iter_range.id, text), Some(Type::Error))
            }
        };
        let outside = self.scopes.len();
        self.scopes.push((turns.accu_var.clone(), accumulated.clone()));
        let inside = self.scopes.len();
        match &turns.iter_var2 {
            None => self.scopes.push((turns.iter_var.clone(), first)),
            Some(name) => {
                // A list gives its positions first, a map its keys.
                let (key, value) = match second {
                    Some(value) => (first, value),
                    None => (Type::Int, first),
                };
                self.scopes.push((turns.iter_var.clone(), key));
                self.scopes.push((name.clone(), value));
            }
        }
        let condition = self.visit(&turns.loop_cond);
        self.assert(turns.loop_cond.id, &Type::Bool, &condition);
        let step = self.visit(&turns.loop_step);
        self.assert(turns.loop_step.id, &accumulated, &step);
        self.scopes.truncate(inside);
        let result = self.visit(&turns.result);
        self.scopes.truncate(outside);
        self.known.resolve(&result, false)
    }

    fn assert(&mut self, id: u64, wanted: &Type, found: &Type) {
        if !self.known.fit(wanted, found) {
            self.mismatch(id, wanted, found);
        }
    }

    fn mismatch(&mut self, id: u64, wanted: &Type, found: &Type) {
        self.complain(id, format!("expected type '{wanted}' but found '{found}'"));
    }

    /// The type of all elements so far and one more.
    fn join(&mut self, before: Option<Type>, own: Type) -> Type {
        let Some(before) = before else { return own };
        match self.known.fit(&before, &own) {
            true => most_general(before, own),
            false => Type::Dyn,
        }
    }

    fn unwrap_entry(&mut self, id: u64, own: Type) -> Type {
        let (own, was_optional) = own.unwrapped();
        if !was_optional && own != Type::Dyn {
            self.mismatch(id, &Type::optional(own.clone()), &own);
        }
        own
    }

    fn unknown(&mut self) -> Type {
        self.fresh += 1;
        Type::Param(format!("_var{}", self.fresh - 1))
    }
}

fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// The type of a field of what is made. Fields of objects may be anything until they are merged.
fn field_of_made(name: &str, field: &str) -> Type {
    match (name, field) {
        (JSON_PATCH, "op" | "path" | "from") => Type::Text,
        (JSON_PATCH, "value") => Type::Dyn,
        // The real server knows neither the field nor that it does not.
        (JSON_PATCH, _) => Type::Struct(String::new()),
        _ => Type::Dyn,
    }
}

fn field_of<'d>(object: &'d Declared, name: &str) -> Option<&'d Declared> {
    let escaped = || object.field(&convert::escape(name)).filter(|_| convert::is_reserved(name));
    object.field(name).or_else(escaped)
}

/// `a.b.c` as a name.
pub(super) fn qualified(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", qualified(&select.operand)?, select.field)),
        _ => None,
    }
}

fn parameters(of: &Type) -> Vec<&str> {
    match of {
        Type::Param(name) => vec![name],
        Type::List(one) | Type::Named(one) => parameters(one),
        Type::Map(key, value) => [parameters(key), parameters(value)].concat(),
        Type::Opaque(_, inner) => inner.iter().flat_map(parameters).collect(),
        _ => Vec::new(),
    }
}

fn replace(of: &Type, names: &HashMap<&str, Type>) -> Type {
    let inner = |one: &Type| Box::new(replace(one, names));
    match of {
        Type::Param(name) => names.get(name.as_str()).cloned().unwrap_or(Type::Dyn),
        Type::List(one) => Type::List(inner(one)),
        Type::Named(one) => Type::Named(inner(one)),
        Type::Map(key, value) => Type::Map(inner(key), inner(value)),
        Type::Opaque(name, list) => Type::Opaque(name.clone(), list.iter().map(|one| replace(one, names)).collect()),
        other => other.clone(),
    }
}
