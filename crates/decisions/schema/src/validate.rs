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
    error::FieldError,
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
        self.validate_at(self.root, &Path::ROOT, "", object, old)
    }

    /// As [`Schema::validate`], for a write to the status subresource: only `status` is looked at, and texts name fields
    /// relative to it, as the real server's do.
    #[must_use]
    pub fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(status) = object.get("status") else {
            return Vec::new();
        };
        let Some(id) = self.field(self.node(self.root), "status") else {
            return Vec::new();
        };
        let path = Path::ROOT.field("status");
        self.validate_at(
            id,
            &path,
            "status",
            status,
            old.and_then(|o| o.get("status")),
        )
    }

    fn validate_at(
        &self,
        id: Id,
        path: &Path<'_>,
        prefix: &str,
        value: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let mut checker = Checker::new(self, prefix);
        checker.check(id, value, None, &Path::ROOT);
        let mut errors = checker.errors;
        if !errors.is_empty() && old.is_some() {
            // Only an invalid update pays for comparing with what is stored.
            let mut checker = Checker::new(self, prefix);
            checker.check(id, value, old, &Path::ROOT);
            errors = checker.errors;
        }
        if !self.custom {
            return errors;
        }
        if self.node(id).below.keyed_lists {
            let mut found = Vec::new();
            lists::check(self, id, value, path, &mut found);
            if !found.is_empty() && old.is_some() {
                let mut before = Vec::new();
                lists::check(self, id, old.unwrap_or(&Value::Null), path, &mut before);
                found.retain(|error| !before.contains(error));
            }
            errors.extend(found);
        }
        if self.node(id).below.rules {
            if errors.is_empty() {
                errors = self.run_rules(id, value, old, path);
            } else {
                errors.push(FieldError::invalid(
                    "<nil>",
                    Value::Null,
                    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
                ));
            }
        }
        errors
    }
}
