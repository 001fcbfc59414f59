//! The Secrets that a providerSpec names: user data and credentials.

use serde::{Deserialize, Serialize};

use crate::provider::{SecretNeed, SecretPurpose, Surroundings, Verdict};

use super::field::Path;

/// The Secret with user data of new workers, which the operator keeps.
pub const WORKER_USER_DATA: &str = "worker-user-data";

/// A Secret in the Machine's namespace, or in another one where the platform's type has a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// A Secret in the Machine's namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalReference {
    pub name: String,
}

/// Something that names a Secret.
pub trait Named: Default {
    fn name(&self) -> &str;
    fn set_name(&mut self, name: &str);

    /// `None` is the Machine's own namespace.
    fn namespace(&self) -> Option<&str> {
        None
    }
}

impl Named for LocalReference {
    fn name(&self) -> &str {
        &self.name
    }

    fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }
}

impl Named for SecretReference {
    fn name(&self) -> &str {
        &self.name
    }

    fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    fn namespace(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }
}

/// Names a Secret where the user named none; an empty name is none.
pub fn default_secret<R: Named>(reference: &mut Option<R>, name: &str) {
    let reference = reference.get_or_insert_default();
    if reference.name().is_empty() {
        reference.set_name(name);
    }
}

/// User data has to be named: without it a machine boots and never joins.
pub fn check_user_data<R: Named>(reference: Option<&R>, verdict: &mut Verdict) {
    let path = Path::spec().child("userDataSecret");
    match reference {
        None => verdict.required(&path, format!("name the Secret with user data, such as {WORKER_USER_DATA}")),
        Some(reference) if reference.name().is_empty() => {
            verdict
                .required(&path.child("name"), format!("name the Secret with user data, such as {WORKER_USER_DATA}"));
        }
        Some(_) => {}
    }
}

/// Warns of a credentials Secret that does not exist; nothing is said when that is not known.
pub fn check_presence<R: Named>(reference: &R, surroundings: &Surroundings, verdict: &mut Verdict) {
    let elsewhere = reference.namespace().is_some_and(|namespace| namespace != surroundings.namespace);
    let Some(secrets) = surroundings.secrets.as_ref().filter(|_| !elsewhere) else { return };
    if !secrets.contains(reference.name()) {
        let path = Path::spec().child("credentialsSecret");
        verdict.warn(&path, format!("Secret {:?} is not found; machines cannot be made without it", reference.name()));
    }
}

/// The Secrets that have to be read before the cloud is called.
#[must_use]
pub fn needs<R: Named>(credentials: Option<&R>, user_data: Option<&R>) -> Vec<SecretNeed> {
    let fields = [
        (SecretPurpose::Credentials, credentials, "credentialsSecret"),
        (SecretPurpose::UserData, user_data, "userDataSecret"),
    ];
    let named = fields.into_iter().filter_map(|(purpose, reference, field)| {
        let reference = reference.filter(|reference| !reference.name().is_empty())?;
        Some(SecretNeed {
            purpose,
            namespace: reference.namespace().map(str::to_owned),
            name: reference.name().to_owned(),
            field: Path::spec().child(field).child("name").to_string(),
        })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(name: &str) -> LocalReference {
        LocalReference { name: name.to_owned() }
    }

    #[test]
    fn an_empty_name_is_defaulted_like_a_missing_one() {
        for given in [None, Some(local(""))] {
            let mut reference = given;
            default_secret(&mut reference, "a");
            assert_eq!(reference, Some(local("a")));
        }
        let mut reference = Some(local("b"));
        default_secret(&mut reference, "a");
        assert_eq!(reference, Some(local("b")));
    }

    #[test]
    fn user_data_has_to_be_named() {
        let mut verdict = Verdict::default();
        check_user_data(Some(&local("a")), &mut verdict);
        assert!(verdict.problems.is_empty());
        check_user_data::<LocalReference>(None, &mut verdict);
        check_user_data(Some(&local("")), &mut verdict);
        let paths: Vec<_> = verdict.problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["providerSpec.userDataSecret", "providerSpec.userDataSecret.name"]);
    }

    #[test]
    fn a_secret_is_missed_only_where_we_can_look() {
        let warnings = |reference: &SecretReference, secrets: Option<&[&str]>| {
            let secrets = secrets.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            let surroundings = Surroundings { namespace: "here".to_owned(), secrets, ..Surroundings::default() };
            let mut verdict = Verdict::default();
            check_presence(reference, &surroundings, &mut verdict);
            verdict.warnings.len()
        };
        let at = |namespace: &str| SecretReference { name: "a".to_owned(), namespace: namespace.to_owned() };
        assert_eq!(warnings(&at(""), Some(&["a"])), 0);
        assert_eq!(warnings(&at(""), Some(&["b"])), 1);
        assert_eq!(warnings(&at("here"), Some(&[])), 1);
        assert_eq!(warnings(&at("there"), Some(&[])), 0);
        assert_eq!(warnings(&at(""), None), 0);
    }

    #[test]
    fn needs_carry_the_field_that_names_them() {
        let needs = needs(Some(&local("keys")), Some(&local("")));
        assert_eq!(needs.len(), 1);
        assert_eq!((needs[0].name.as_str(), needs[0].field.as_str()), ("keys", "providerSpec.credentialsSecret.name"));
    }
}
