//! Checks that every dependency has a permissive licence, so that a platform team may distribute its builds.

use serde_json::Value;

const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(super) fn problems(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| !is_permissive(package["license"].as_str().unwrap_or_default()))
        .map(|package| format!("dependency {} has the licence {}", package["name"], package["license"]))
        .collect()
}

/// Parses an SPDX expression: one permissive side of an `OR` is enough, an `AND` needs both.
fn is_permissive(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    // Expressions in our dependency graph nest at most like `(A OR B) AND C`, for which splitting at `AND` first is
    // correct.
    expression.split(" AND ").all(|part| part.split(" OR ").any(|licence| PERMISSIVE.contains(&licence.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_permissive_side_of_a_choice_is_enough_and_a_conjunction_needs_both() {
        assert!(is_permissive("MIT OR LGPL-2.1-or-later"));
        assert!(is_permissive("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(is_permissive("MIT/Apache-2.0"));
        assert!(!is_permissive("MIT AND GPL-3.0-only"));
        assert!(!is_permissive("LGPL-2.1-or-later"));
        assert!(!is_permissive(""));
    }
}
