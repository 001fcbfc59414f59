//! Expressions of admission policies and of match conditions: what they see, and what they must give.
//!
//! When a policy is written, objects and parameters may be anything. When its types are checked afterwards, they are what
//! the schemas of the kinds say that it is about.

use kube_cel::cel::IdedExpr;

use super::{
    check::{self, Checked, Surroundings},
    declared::Declared,
    fold,
    source::{self, Source},
    types::Type,
    value::{Fault, JSON_PATCH},
};

/// What an expression is for, and so what it must give.
#[derive(Clone, Copy, PartialEq)]
pub enum Gives {
    Truth,
    Text,
    TextOrNull,
    /// An object that is merged.
    Object,
    /// The operations of a patch.
    Operations,
}

impl Gives {
    fn types(self) -> Vec<Type> {
        match self {
            Gives::Truth => vec![Type::Bool],
            Gives::Text => vec![Type::Text],
            Gives::TextOrNull => vec![Type::Text, Type::Null],
            Gives::Object => vec![Type::Struct("Object".to_owned())],
            Gives::Operations => vec![Type::list(Type::Struct(JSON_PATCH.to_owned()))],
        }
    }

    /// Whether the expression makes objects.
    fn makes(self) -> bool {
        matches!(self, Gives::Object | Gives::Operations)
    }
}

/// What is wrong with an expression.
pub enum Wrong {
    /// It is no expression, or one that does not fit.
    Invalid(String),
    /// The real server takes what only shows at the end for a fault of its own.
    Internal(String),
    /// It costs more than it may.
    Forbidden(String),
}

impl Wrong {
    fn instance(fault: Fault) -> Wrong {
        Wrong::Internal(format!("program instantiation failed: {fault}"))
    }
}

/// What expressions of a policy see. Variables come to be known one after another.
pub struct Admission<'d> {
    request: Declared,
    namespace: Declared,
    object: Option<&'d Declared>,
    params: Option<Option<&'d Declared>>,
    /// The variables so far; none where there are no variables at all.
    variables: Option<Vec<(String, Type)>>,
}

impl<'d> Admission<'d> {
    /// What is seen by expressions about any object.
    pub fn untyped(has_params: bool, has_variables: bool) -> Admission<'d> {
        let params = has_params.then_some(None);
        Admission {
            request: request(),
            namespace: namespace(),
            object: None,
            params,
            variables: has_variables.then(Vec::new),
        }
    }

    /// What is seen by expressions about objects of one kind.
    pub fn typed(object: &'d Declared, params: Option<Option<&'d Declared>>) -> Admission<'d> {
        Admission {
            request: request(),
            namespace: namespace(),
            object: Some(object),
            params,
            variables: Some(Vec::new()),
        }
    }

    /// Adds a variable, whatever is wrong with it, and says what is.
    pub fn add(&mut self, name: &str, expression: &str) -> Option<Wrong> {
        let found = self.compile(expression, true, false);
        let own = found.as_ref().map_or(Type::Dyn, |(own, _)| known_as(own));
        if let Some(variables) = &mut self.variables {
            variables.retain(|(known, _)| known != name);
            variables.push((name.to_owned(), own));
        }
        match found {
            Ok((_, fault)) => fault.map(Wrong::instance),
            Err(problems) => Some(Wrong::Invalid(failed(&problems))),
        }
    }

    /// What the compiler has against an expression; whatever it gives is welcome.
    pub fn problems(&self, text: &str) -> Option<String> {
        self.compile(text, true, false).err()
    }

    /// What is wrong with an expression, if anything is.
    pub fn judge(&self, text: &str, gives: Gives, authorizer: bool) -> Option<Wrong> {
        let (found, fault) = match self.compile(text, authorizer, gives.makes()) {
            Ok(compiled) => compiled,
            Err(problems) => return Some(Wrong::Invalid(failed(&problems))),
        };
        let wanted = gives.types();
        if wanted.contains(&found) {
            return fault.map(Wrong::instance);
        }
        let found = found.declared_name();
        let names: Vec<String> = wanted.iter().map(Type::declared_name).collect();
        Some(Wrong::Invalid(match names.as_slice() {
            [one] => format!("must evaluate to {one} but got {found}"),
            _ => format!("must evaluate to one of [{}] but got {found}", names.join(" ")),
        }))
    }

    /// What an expression gives, and what fails in it however the objects look.
    fn compile(&self, text: &str, authorizer: bool, makes: bool) -> Result<(Type, Option<Fault>), String> {
        source::read(text, |expression, source| {
            let found = self.check(expression, source, authorizer, makes)?;
            let undefined = found.undefined.map(|name| Fault::Said(format!("reference to undefined type: {name}")));
            Ok((found.result, fold::constants(expression).err().or(undefined)))
        })?
    }

    fn check(
        &self,
        expression: &IdedExpr,
        source: &Source<'_>,
        authorizer: bool,
        makes: bool,
    ) -> Result<Checked, String> {
        let mut around = Surroundings::default();
        if makes {
            around.make();
        }
        for name in ["object", "oldObject"] {
            match self.object {
                Some(declared) => around.declare(name, declared),
                None => around.name(name, Type::Dyn),
            }
        }
        around.declare("namespaceObject", &self.namespace);
        around.declare("request", &self.request);
        match self.params {
            None => {}
            Some(None) => around.name("params", Type::Dyn),
            Some(Some(declared)) => around.declare("params", declared),
        }
        if authorizer {
            let of = |name: &str| Type::Struct(format!("kubernetes.authorization.{name}"));
            around.name("authorizer", of("Authorizer"));
            // The types are checked without this one.
            if self.object.is_none() {
                around.name("authorizer.requestResource", of("ResourceCheck"));
            }
        }
        let variables = self.variables.as_ref().map(|known| {
            let fields = known.iter().map(|(name, own)| (name.clone(), Declared::plain(own.clone())));
            Declared::record("kubernetes.variables", fields)
        });
        if let Some(variables) = &variables {
            around.declare("variables", variables);
        }
        check::check(expression, around, source).map_err(|problems| source.shown(problems))
    }
}

fn failed(problems: &str) -> String {
    format!("compilation failed: {problems}")
}

/// A variable keeps its type only if the type needs no schema.
fn known_as(own: &Type) -> Type {
    match own {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::Text
        | Type::Timestamp
        | Type::Uint => own.clone(),
        Type::List(element) => Type::list(known_as(element)),
        Type::Map(key, value) => Type::Map(Box::new(known_as(key)), Box::new(known_as(value))),
        _ => Type::Dyn,
    }
}

fn record<const N: usize>(name: &str, fields: [(&str, Declared); N]) -> Declared {
    Declared::record(name, fields.map(|(name, own)| (name.to_owned(), own)))
}

fn text() -> Declared {
    Declared::plain(Type::Text)
}

fn texts() -> Declared {
    Declared::list(text())
}

fn map(value: Type) -> Declared {
    Declared::plain(Type::Map(Box::new(Type::Text), Box::new(value)))
}

fn request() -> Declared {
    let kind = || {
        let fields = [("group", text()), ("version", text()), ("kind", text())];
        record("kubernetes.GroupVersionKind", fields)
    };
    let resource = || {
        let fields = [("group", text()), ("version", text()), ("resource", text())];
        record("kubernetes.GroupVersionResource", fields)
    };
    let user = record(
        "kubernetes.UserInfo",
        [("username", text()), ("uid", text()), ("groups", texts()), ("extra", map(Type::list(Type::Text)))],
    );
    record(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Declared::plain(Type::Bool)),
            ("options", Declared::plain(Type::Dyn)),
        ],
    )
}

fn namespace() -> Declared {
    let time = || Declared::plain(Type::Timestamp);
    let number = || Declared::plain(Type::Int);
    let condition = record(
        "kubernetes.NamespaceCondition",
        [("status", text()), ("type", text()), ("lastTransitionTime", time()), ("message", text()), ("reason", text())],
    );
    let metadata = record(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(Type::Text)),
            ("annotations", map(Type::Text)),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", number()),
            ("deletionTimestamp", time()),
            ("generation", number()),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    record(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            ("spec", record("kubernetes.NamespaceSpec", [("finalizers", texts())])),
            (
                "status",
                record("kubernetes.NamespaceStatus", [("conditions", Declared::list(condition)), ("phase", text())]),
            ),
        ],
    )
}
