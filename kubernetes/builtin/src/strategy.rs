//! How kinds differ in create, update and delete.

use serde_json::Value;

use crate::move_field;

/// What the server does differently for objects of a kind. Custom resources all behave alike.
#[derive(Debug, Clone, Copy)]
pub struct Strategy {
    /// Whether `metadata.generation` counts changes of what the user asked for.
    pub generation: Generation,
    /// A field of the metadata that counts as something the user asked for.
    pub counted_metadata: Option<&'static str>,
    /// A PUT without a version replaces whatever is there.
    pub unconditional: bool,
    /// A PUT of an absent object creates it.
    pub create_on_update: bool,
    /// A delete answers with the object instead of a Status.
    pub returns_deleted: bool,
    /// What a create says about status is kept.
    pub keeps_status: bool,
    /// A delete may leave the object for a while.
    pub graceful: bool,
    /// A write to `status` leaves the metadata alone.
    pub status_only: bool,
    /// A field of the metadata that a write to `status` leaves alone.
    pub kept_by_status: Option<&'static str>,
    /// Fields that nobody comes to own by a write to `status`.
    pub reset_by_status: &'static [&'static str],
    /// Fields that nobody comes to own by a write to the object itself, where it has a status.
    pub reset: &'static [&'static str],
    /// The finalizer that keeps an object of storage while somebody uses it.
    pub protection: Option<&'static str>,
    /// The finalizer that an object gets when it is deleted.
    pub deletion_finalizer: Option<&'static str>,
    /// A deletion counts as a new generation.
    pub deletion_counts: bool,
    /// An object that is being deleted has a period of grace, be it none.
    pub deletion_period: bool,
}

/// Whether `metadata.generation` counts changes of what the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    Never,
    /// From one on.
    Counted,
    /// Only what comes after the creation.
    FromFirstChange,
    /// It is one and stays so.
    Fixed,
}

impl Generation {
    /// Whether a new object has one.
    #[must_use]
    pub fn starts(self) -> bool {
        matches!(self, Generation::Counted | Generation::Fixed)
    }

    /// Whether a change counts.
    #[must_use]
    pub fn moves(self) -> bool {
        matches!(self, Generation::Counted | Generation::FromFirstChange)
    }
}

impl Strategy {
    /// What most built-in kinds do.
    pub(crate) const PLAIN: Strategy = Strategy {
        generation: Generation::Never,
        counted_metadata: None,
        unconditional: true,
        create_on_update: false,
        returns_deleted: false,
        keeps_status: false,
        graceful: false,
        status_only: false,
        kept_by_status: None,
        reset_by_status: &["spec"],
        reset: &["status"],
        protection: None,
        deletion_finalizer: None,
        deletion_counts: true,
        deletion_period: true,
    };

    /// What all custom resources do.
    pub(crate) const CUSTOM: Strategy = Strategy {
        generation: Generation::Counted,
        unconditional: false,
        status_only: true,
        reset_by_status: &["metadata", "spec"],
        ..Strategy::PLAIN
    };

    /// Whether anything but metadata and status differs.
    #[must_use]
    pub fn spec_changed(&self, has_status: bool, old: &Value, new: &Value) -> bool {
        if let Some(field) = self.counted_metadata
            && old["metadata"][field] != new["metadata"][field]
        {
            return true;
        }
        let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old != new };
        let counts = |key: &str| match key {
            "metadata" | "apiVersion" | "kind" => false,
            "status" => !has_status,
            _ => true,
        };
        old.keys().chain(new.keys()).any(|key| counts(key) && old.get(key) != new.get(key))
    }

    /// A write to `status` changes status; most built-ins also let it change metadata.
    pub fn keep_all_but_status(&self, old: &Value, new: &mut Value) {
        let status = new.get("status").cloned();
        let managed = new["metadata"].get("managedFields").cloned();
        let metadata = new["metadata"].clone();
        let mut kept = old.clone();
        if let Some(object) = kept.as_object_mut() {
            match status {
                Some(status) => object.insert("status".into(), status),
                None => object.remove("status"),
            };
        }
        if self.status_only {
            if let Some(target) = kept["metadata"].as_object_mut() {
                match managed {
                    Some(managed) => target.insert("managedFields".into(), managed),
                    None => target.remove("managedFields"),
                };
            }
        } else if metadata.is_object() {
            kept["metadata"] = metadata;
            if let Some(own) = self.kept_by_status {
                move_field(&old["metadata"], &mut kept["metadata"], own);
            }
        }
        *new = kept;
    }

    /// Takes back what a deletion adds to the metadata, where a kind is deleted in its own way.
    pub fn settle_deletion(&self, old: &Value, new: &mut Value) {
        if !self.deletion_counts {
            new["metadata"]["generation"] = old["metadata"]["generation"].clone();
        }
        if let Some(metadata) = new["metadata"].as_object_mut().filter(|_| !self.deletion_period) {
            metadata.remove("deletionGracePeriodSeconds");
        }
    }
}
