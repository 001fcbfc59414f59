//! The grammars of names, labels and qualified names, with the server's words for what breaks them.

/// The longest name of an object (a DNS subdomain).
const SUBDOMAIN_LENGTH: usize = 253;
/// The longest DNS label and label value.
const LABEL_LENGTH: usize = 63;

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a DNS subdomain (RFC 1123).
#[must_use]
pub fn is_subdomain(text: &str) -> Vec<String> {
    let mut errors = length(text, SUBDOMAIN_LENGTH, "characters");
    if !text.split('.').all(|part| bounded(part, is_lower, is_lower_or_dash)) {
        errors.push(SUBDOMAIN.to_string());
    }
    errors
}

/// What is wrong with a DNS label (RFC 1123).
#[must_use]
pub fn is_label(text: &str) -> Vec<String> {
    let mut errors = length(text, LABEL_LENGTH, "characters");
    if !bounded(text, is_lower, is_lower_or_dash) {
        let dots = text.split('.').all(|part| bounded(part, is_lower, is_lower_or_dash));
        errors.push(if dots { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    errors
}

/// What is wrong with a DNS label (RFC 1035: it starts with a letter).
#[must_use]
pub fn is_label_1035(text: &str) -> Vec<String> {
    let mut errors = length(text, LABEL_LENGTH, "characters");
    if !bounded(text, is_lower, is_lower_or_dash) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(LABEL_1035.to_string());
    }
    errors
}

/// What is wrong with a label value.
#[must_use]
pub fn is_label_value(text: &str) -> Vec<String> {
    let mut errors = length(text, LABEL_LENGTH, "bytes");
    if !text.is_empty() && !bounded(text, is_alphanumeric, is_name_byte) {
        errors.push(LABEL_VALUE.to_string());
    }
    errors
}

/// What is wrong with a qualified name (`prefix/name`), as keys of labels and annotations are.
#[must_use]
pub fn is_qualified_name(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('/').collect();
    let mut errors = Vec::new();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_string());
            } else {
                let problems = is_subdomain(prefix).into_iter().map(|problem| problem.replace(" characters", " bytes"));
                errors.extend(problems.map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        _ => {
            let rest = QUALIFIED.trim_start_matches("name part must");
            return vec![format!(
                "a valid label key must{rest} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_string());
    } else if name.len() > LABEL_LENGTH {
        errors.push(format!("name part must be no more than {LABEL_LENGTH} bytes"));
    }
    if !bounded(name, is_alphanumeric, is_name_byte) {
        errors.push(QUALIFIED.to_string());
    }
    errors
}

/// What is wrong with a path segment, the only rule for names of RBAC objects.
#[must_use]
pub fn is_path_segment(text: &str, prefix: bool) -> Vec<String> {
    let mut errors = Vec::new();
    if !prefix {
        for whole in [".", ".."] {
            if text == whole {
                errors.push(format!("may not be '{whole}'"));
                return errors;
            }
        }
    }
    for part in ["/", "%"] {
        if text.contains(part) {
            errors.push(format!("may not contain '{part}'"));
        }
    }
    errors
}

/// The older rules of the real server say characters, the newer ones bytes; both count bytes.
fn length(text: &str, limit: usize, unit: &str) -> Vec<String> {
    match text.len() > limit {
        true => vec![format!("must be no more than {limit} {unit}")],
        false => Vec::new(),
    }
}

fn bounded(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => edge(*first) && edge(*last) && bytes.iter().all(|b| inner(*b)),
        _ => false,
    }
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_lower_or_dash(byte: u8) -> bool {
    is_lower(byte) || byte == b'-'
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_have_no_errors() {
        for name in ["a", "a.b", "a-b.c1", "0"] {
            assert!(is_subdomain(name).is_empty(), "{name}");
        }
        for name in ["a", "A_b.c", "example.com/Name"] {
            assert!(is_qualified_name(name).is_empty(), "{name}");
        }
        assert!(is_label_value("").is_empty());
    }

    #[test]
    fn bad_names_say_what_is_wrong() {
        for name in ["", "A", "a..b", "-a", "a-", "a_b"] {
            assert_eq!(is_subdomain(name), [SUBDOMAIN], "{name}");
        }
        assert_eq!(is_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(is_label("a.b"), ["must not contain dots"]);
        assert_eq!(is_label("a..b"), [LABEL]);
        assert_eq!(is_label_value("a b"), [LABEL_VALUE]);
        assert_eq!(is_qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(is_qualified_name("a/"), ["name part must be non-empty", QUALIFIED]);
        assert_eq!(is_qualified_name("a/b/c").len(), 1);
        assert_eq!(is_path_segment("a/b%", false), ["may not contain '/'", "may not contain '%'"]);
    }
}
