//! Whether text is an Azure resource id, as Azure's own libraries read it.

/// Provider ids begin with it, and resource ids may.
const SCHEME: &str = "azure://";

/// Why text is no resource id, if it is none.
pub(super) fn fault(id: &str) -> Option<&'static str> {
    let id = id.strip_prefix(SCHEME).unwrap_or(id);
    let shape = "must be a resource id: /subscriptions/<id>/resourceGroups/<name>/providers/<namespace>/<type>/<name>";
    if !id.starts_with('/') {
        return Some(shape);
    }
    let parts: Vec<&str> = id.split('/').filter(|part| !part.is_empty()).collect();
    let begins = parts.first().is_some_and(|first| is(first, "subscriptions") || is(first, "providers"));
    (!begins || parts.len() < 2 || !is_chain(&parts)).then_some(shape)
}

/// A chain of `type/name` pairs, in which `providers` is followed by a namespace and, perhaps, a type and a name.
fn is_chain(parts: &[&str]) -> bool {
    match parts {
        [] => true,
        [last] => !is(last, "subscriptions") && !is(last, "resourceGroups"),
        [first, _, rest @ ..] if is(first, "providers") => match rest {
            [] => true,
            [next, ..] if is(next, "providers") => is_chain(rest),
            [_] => false,
            [_, _, rest @ ..] => is_chain(rest),
        },
        [_, _, rest @ ..] => is_chain(rest),
    }
}

fn is(part: &str, word: &str) -> bool {
    part.eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_ids_are_chains_of_types_and_names() {
        let good = [
            "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups/g",
            "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups/g",
            "/SUBSCRIPTIONS/s",
            "/providers/Microsoft.Compute",
            "/subscriptions/s/locations",
            "/providers/a/providers/b/type/name",
            "/subscriptions//s/",
        ];
        for id in good {
            assert_eq!(fault(id), None, "{id}");
        }
        let bad = [
            "",
            "azure://",
            "subscriptions/s",
            "/subscriptions",
            "/nothing/s",
            "/subscriptions/s/resourceGroups",
            "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups",
        ];
        for id in bad {
            assert!(fault(id).is_some(), "{id}");
        }
    }
}
