//! The types of expressions, and when one may stand where another is wanted.

use std::{collections::HashMap, fmt};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    /// Of an expression that is wrong already; complaints about it are made elsewhere.
    Error,
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    /// An object by the name of its type.
    Struct(String),
    Opaque(String, Vec<Type>),
    /// A type that stands as a value.
    Named(Box<Type>),
    /// A type that is not known yet.
    Param(String),
}

pub(super) const OPTIONAL: &str = "optional_type";

impl Type {
    pub(super) fn list(element: Type) -> Type {
        Type::List(Box::new(element))
    }

    pub(super) fn optional(inner: Type) -> Type {
        Type::Opaque(OPTIONAL.to_owned(), vec![inner])
    }

    pub(super) fn is_free(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// What an optional holds, and whether it is one.
    pub(super) fn unwrapped(self) -> (Type, bool) {
        match self {
            Type::Opaque(name, mut inner) if name == OPTIONAL && !inner.is_empty() => (inner.swap_remove(0), true),
            other => (other, false),
        }
    }

    /// Whether every value has the same size.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
            Type::Opaque(name, inner) if name == OPTIONAL => inner.first().is_some_and(Type::is_scalar),
            _ => false,
        }
    }

    /// The name that a value of the type gives for its type.
    pub(super) fn runtime_name(&self) -> String {
        match self {
            Type::Null => "null_type".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::List(_) => "list".to_owned(),
            Type::Map(..) => "map".to_owned(),
            Type::Named(_) => "type".to_owned(),
            Type::Opaque(name, _) => name.clone(),
            other => other.to_string(),
        }
    }

    /// The type by the name that it has as a value, with its parameters.
    pub(super) fn declared_name(&self) -> String {
        let own = self.runtime_name();
        let parameters: Vec<String> = self.parameters().into_iter().map(Type::declared_name).collect();
        if parameters.is_empty() { own } else { format!("{own}({})", parameters.join(", ")) }
    }

    fn takes_null(&self) -> bool {
        matches!(self, Type::Null | Type::Opaque(..) | Type::Struct(_) | Type::Duration | Type::Timestamp)
    }

    fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::List(one) | Type::Named(one) => vec![one],
            Type::Map(key, value) => vec![key, value],
            Type::Opaque(_, inner) => inner.iter().collect(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Error => "!error!",
            Type::Dyn => "dyn",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::Text => "string",
            Type::Bytes => "bytes",
            Type::Duration => "duration",
            Type::Timestamp => "timestamp",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Named(_) => "type",
            Type::Struct(name) | Type::Opaque(name, _) | Type::Param(name) => name,
        };
        f.write_str(name)?;
        let parameters = self.parameters();
        if parameters.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = parameters.iter().map(ToString::to_string).collect();
        write!(f, "({})", texts.join(", "))
    }
}

/// What is known about types that were not known.
#[derive(Clone, Default)]
pub(super) struct Known(HashMap<String, Type>);

impl Known {
    /// Whether all of these fit those; what that says about unknown types is kept only then.
    pub(super) fn fit_all(&mut self, given: &[Type], wanted: &[Type]) -> bool {
        if given.len() != wanted.len() {
            return false;
        }
        let mut trial = self.clone();
        let fits = given.iter().zip(wanted).all(|(given, wanted)| trial.unify(given, wanted));
        if fits {
            *self = trial;
        }
        fits
    }

    pub(super) fn fit(&mut self, given: &Type, wanted: &Type) -> bool {
        self.fit_all(std::slice::from_ref(given), std::slice::from_ref(wanted))
    }

    fn unify(&mut self, one: &Type, two: &Type) -> bool {
        if let Type::Param(name) = two {
            match self.stands_for(name, one) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(name) = one {
            return self.stands_for(name, two).0;
        }
        match (one, two) {
            _ if one.is_free() || two.is_free() => true,
            (Type::Null, other) | (other, Type::Null) => other.takes_null(),
            (Type::Named(_), other) => matches!(other, Type::Named(_)),
            (Type::List(one), Type::List(two)) => self.unify(one, two),
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.unify(key, other_key) && self.unify(value, other_value)
            }
            (Type::Opaque(name, inner), Type::Opaque(other, others)) => {
                name == other
                    && inner.len() == others.len()
                    && inner.iter().zip(others).all(|(one, two)| self.unify(one, two))
            }
            _ => one == two,
        }
    }

    /// Whether the parameter may stand for the type, and whether it stood for one already.
    fn stands_for(&mut self, name: &str, one: &Type) -> (bool, bool) {
        if matches!(one, Type::Param(own) if own == name) {
            return (true, true);
        }
        if let Some(known) = self.0.get(name).cloned() {
            if known == *one {
                return (true, true);
            }
            if self.unify(one, &known) {
                let general = most_general(one.clone(), known);
                if !self.mentions(&general, name) {
                    self.0.insert(name.to_owned(), general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.mentions(one, name) {
            return (false, false);
        }
        self.0.insert(name.to_owned(), one.clone());
        (true, false)
    }

    fn mentions(&self, within: &Type, name: &str) -> bool {
        match within {
            Type::Param(own) if own == name => true,
            Type::Param(own) => self.0.get(own).is_some_and(|known| self.mentions(known, name)),
            other => other.parameters().into_iter().any(|inner| self.mentions(inner, name)),
        }
    }

    /// The type with everything put in that is known; what is still unknown becomes dynamic if `settle` is set.
    pub(super) fn resolve(&self, of: &Type, settle: bool) -> Type {
        let inner = |one: &Type| Box::new(self.resolve(one, settle));
        match of {
            Type::Param(name) => match self.0.get(name) {
                Some(known) => self.resolve(known, settle),
                None if settle => Type::Dyn,
                None => of.clone(),
            },
            Type::List(one) => Type::List(inner(one)),
            Type::Map(key, value) => Type::Map(inner(key), inner(value)),
            Type::Named(one) => Type::Named(inner(one)),
            Type::Opaque(name, list) => {
                Type::Opaque(name.clone(), list.iter().map(|one| self.resolve(one, settle)).collect())
            }
            other => other.clone(),
        }
    }
}

/// The less specific of two types that are known to fit.
pub(super) fn most_general(one: Type, two: Type) -> Type {
    if is_at_most_as_specific(&one, &two) { one } else { two }
}

fn is_at_most_as_specific(one: &Type, two: &Type) -> bool {
    match (one, two) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Named(_), Type::Named(_)) => true,
        (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) => {
            one.parameters().into_iter().zip(two.parameters()).all(|(one, two)| is_at_most_as_specific(one, two))
        }
        (Type::Opaque(name, inner), Type::Opaque(other, others)) => {
            name == other
                && inner.len() == others.len()
                && inner.iter().zip(others).all(|(one, two)| is_at_most_as_specific(one, two))
        }
        _ => one == two,
    }
}
