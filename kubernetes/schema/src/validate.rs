//! Validates objects of custom kinds with the real server's words.
//!
//! The order is the server's: types and limits first, then list keys, then CEL rules. On update, what was invalid before and
//! did not change is tolerated (ratcheting).

mod formats;
mod lists;
mod numbers;
mod values;

pub(crate) use values::correlated;

use serde_json::Value;

use crate::{
    error::{ErrorKind, FieldError},
    node::{Id, Schema},
    path::Path,
};
use values::Checker;

impl Schema {
    /// Everything wrong with the object; `old` is the stored object on update. Empty means valid.
    ///
    /// Built-in kinds have hand-written rules on the real server; for them this only names required fields that are missing.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = self.check_values(self.root, "", object, old);
        self.check_rest(errors, object, old)
    }

    /// As [`Schema::validate`], for a write to the status subresource: values are checked in `status` only, and texts name
    /// fields relative to it, as the real server's do.
    #[must_use]
    pub fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = match (object.get("status"), self.field(self.node(self.root), "status")) {
            (Some(status), Some(id)) => self.check_values(id, "status", status, old.and_then(|o| o.get("status"))),
            _ => Vec::new(),
        };
        self.check_rest(errors, object, old)
    }

    /// The checks that do not depend on the kind an object says it is of.
    #[must_use]
    pub fn validate_lists_and_rules(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.check_rest(Vec::new(), object, old)
    }

    fn check_values(&self, id: Id, prefix: &str, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut checker = Checker::new(self, prefix);
        checker.check(id, value, None, &Path::ROOT);
        if checker.errors.is_empty() || old.is_none() {
            return checker.errors;
        }
        // Only an invalid update pays for comparing with what is stored.
        let mut checker = Checker::new(self, prefix);
        checker.check(id, value, old, &Path::ROOT);
        checker.errors
    }

    fn check_rest(&self, mut errors: Vec<FieldError>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let below = self.node(self.root).below;
        if !self.custom {
            return errors;
        }
        if below.keyed_lists {
            let of = |object: &Value| {
                let mut found = Vec::new();
                lists::check(self, self.root, object, &Path::ROOT, &mut found);
                found
            };
            let found = of(object);
            if !found.is_empty() && old.is_none_or(|old| of(old).is_empty()) {
                errors.extend(found);
            }
        }
        if below.rules {
            match errors.iter().any(is_blocking) {
                true => errors.push(FieldError::invalid("<nil>", Value::Null, UNCHECKED)),
                false => errors.extend(self.run_rules(self.root, object, old, &Path::ROOT)),
            }
        }
        errors
    }
}

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Rules may not run on values whose type, presence or size they rely on.
fn is_blocking(error: &FieldError) -> bool {
    matches!(
        error.kind,
        ErrorKind::NotSupported
            | ErrorKind::Required
            | ErrorKind::TooLong
            | ErrorKind::TooMany
            | ErrorKind::TypeInvalid
    )
}
