//! Scopes: a registry, a namespace or a repository, or all registries below a domain (`*.example.com`).

use super::reference::{is_component, is_domain, parse_any};

/// Whether every image of `inner` is an image of `outer` too.
pub fn is_nested(inner: &str, outer: &str) -> bool {
    if inner == outer || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/')) {
        return true;
    }
    let Some(domain) = outer.strip_prefix('*').filter(|domain| domain.starts_with('.')) else { return false };
    // A port, a tag or a digest may follow the host; with a path before it, it is not the host's.
    match inner.split_once(':') {
        Some((host, _)) => host.ends_with(domain) && !host.contains('/'),
        None => inner.split('/').next().is_some_and(|host| host.ends_with(domain)),
    }
}

/// Whether a text can stand in a list of registries: a source, or one image with its tag or digest. What is written to a
/// node unchecked may make a whole file unreadable there, or name another path.
pub(super) fn is_scope(text: &str) -> bool {
    is_source(text) || text.contains('/') && parse_any(text).is_some()
}

/// Whether a mirror set may name this as a source.
pub(super) fn is_source(text: &str) -> bool {
    match text.strip_prefix("*.") {
        Some(domain) => is_domain(domain) && !domain.contains(':'),
        None => is_mirror(text),
    }
}

/// Whether a mirror set may name this as a mirror: a host, perhaps a port, perhaps a path.
pub(super) fn is_mirror(text: &str) -> bool {
    let mut parts = text.split('/');
    parts.next().is_some_and(is_domain) && parts.all(is_component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_holds_what_is_below_it() {
        for (inner, outer) in [
            ("a.com", "a.com"),
            ("a.com/ns/repo", "a.com/ns"),
            ("b.a.com/ns", "*.a.com"),
            ("b.a.com:5000", "*.a.com"),
            ("*.b.a.com", "*.a.com"),
        ] {
            assert!(is_nested(inner, outer), "{inner} in {outer}");
        }
        for (inner, outer) in
            [("a.com", "a.com/ns"), ("a.com/nsx", "a.com/ns"), ("a.com:5000", "a.com"), ("a.com", "*.a.com")]
        {
            assert!(!is_nested(inner, outer), "{inner} in {outer}");
        }
    }

    #[test]
    fn sources_and_mirrors_are_names_without_scheme_tag_or_upper_case_path() {
        let addresses = ["[fd00::1]", "[fd00::1]:5000", "[fd00::1]:5000/x", "10.0.0.1:5000"];
        let names = ["a", "a.com", "a.com:5000", "a.com/b_c/d--e", "A.com/b", "localhost:5000/x"];
        for name in names.into_iter().chain(addresses) {
            assert!(is_source(name) && is_mirror(name), "{name}");
        }
        for name in [
            "",
            "https://a.com",
            "a.com/UPPER",
            "a.com/b:tag",
            "a.com/",
            "a.com//b",
            "-a.com",
            "a.com/_b",
            "a..com",
            "a_b:1",
        ] {
            assert!(!is_source(name) && !is_mirror(name), "{name}");
        }
        assert!(is_source("*.a.com") && !is_mirror("*.a.com"));
        assert!(!is_source("*.a.com/ns") && !is_source("*.a.com:5000") && !is_source("*"));
    }
}
