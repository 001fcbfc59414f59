//! Checks the layers: a crate uses only crates from folders below its own, never its neighbours.
//!
//! The embedded Kubernetes API in `kubernetes/` is separate. Its border is checked in both directions, for tests too:
//! it uses nothing from outside, and only `apiserver` is used from outside.

use std::path::Path;

use serde_json::Value;

/// Layers from the bottom up; a crate may use crates of earlier layers.
const LAYERS: &[&str] =
    &["vocabulary", "decisions", "views", "adapters", "providers", "services", "sandbox", "binaries"];

/// The number of layers, from the bottom, that contain only rules and do no I/O.
const PURE: usize = 3;

/// The crates of `kubernetes/` from the bottom up; each may use earlier ones.
const KUBERNETES: &[&str] = &["tables", "cel", "schema", "builtin", "apiserver", "referee"];

/// The number of these crates, from the bottom, that contain only rules and do no I/O.
const PURE_KUBERNETES: usize = 4;

/// The crate of `kubernetes/` that may be used from outside.
const FACE: &str = "apiserver";

/// Starts real and embedded control planes for tests; only `testkit` may use it from outside.
const REFEREE: &str = "referee";

/// Dependencies that crates with rules must not have, so that they can neither wait nor do I/O.
const IMPURE: &[&str] = &["tokio", "reqwest", "axum", "hyper", "rustix", "tempfile", "zbus", "redb"];

pub(super) fn problems(metadata: &Value) -> Vec<String> {
    let root = Path::new(metadata["workspace_root"].as_str().unwrap_or_default());
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages: Vec<Package> = packages.filter_map(|package| Package::read(package, root)).collect();
    let mut problems = Vec::new();
    for package in &packages {
        for dependency in &package.dependencies {
            if !dependency.for_tests && package.place.is_pure() && IMPURE.contains(&dependency.name.as_str()) {
                problems.push(format!(
                    "crate {} ({}) holds rules and does no I/O, but depends on {}",
                    package.name,
                    package.place.name(),
                    dependency.name
                ));
            }
            if let Some(used) = packages.iter().find(|other| other.name == dependency.name) {
                problems.extend(breach(package, used, dependency.for_tests));
            }
        }
    }
    problems
}

/// Returns what is wrong with one crate using another.
fn breach(user: &Package, used: &Package, for_tests: bool) -> Option<String> {
    use Place::{Beside, Kubernetes, Layer};
    let rule = match (user.place, used.place) {
        (Kubernetes(own), Kubernetes(other)) if other >= own && !for_tests => {
            "in kubernetes/ a crate uses only those below it"
        }
        (Kubernetes(_), Layer(_) | Beside) => "kubernetes/ uses nothing from outside it",
        (Layer(_) | Beside, Kubernetes(_)) if !is_face(user, used) => {
            "outside kubernetes/ only kubernetes/apiserver is used"
        }
        (Layer(own), Layer(other)) if other >= own && !for_tests => {
            "a crate uses only crates from folders below its own"
        }
        _ => return None,
    };
    let (from, to) = (user.place.name(), used.place.name());
    Some(format!("crate {} ({from}) uses {} ({to}): {rule}", user.name, used.name))
}

fn is_face(user: &Package, used: &Package) -> bool {
    used.name == FACE || (user.name == "testkit" && used.name == REFEREE)
}

/// The location of a crate in the repository.
#[derive(Clone, Copy)]
enum Place {
    /// A folder of `crates/`, by its position in [`LAYERS`].
    Layer(usize),
    /// `kubernetes/`, by its position in [`KUBERNETES`].
    Kubernetes(usize),
    /// Anywhere else: `testkit`, `simulation`, `xtask`, `e2e`.
    Beside,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Layer(layer) => LAYERS[layer],
            Place::Kubernetes(_) => "kubernetes",
            Place::Beside => "no layer",
        }
    }

    fn is_pure(self) -> bool {
        match self {
            Place::Layer(layer) => layer < PURE,
            Place::Kubernetes(position) => position < PURE_KUBERNETES,
            Place::Beside => false,
        }
    }
}

struct Package {
    name: String,
    place: Place,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// Whether only tests, benchmarks and examples use it.
    for_tests: bool,
}

impl Package {
    /// Reads a crate of this repository; other crates are skipped.
    fn read(package: &Value, root: &Path) -> Option<Package> {
        if !package["source"].is_null() {
            return None;
        }
        let name = package["name"].as_str()?.to_owned();
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?.strip_prefix(root).ok()?;
        let parts: Vec<&str> = folder.iter().filter_map(|part| part.to_str()).collect();
        let place = match parts[..] {
            // An unknown crate counts as the topmost: no other crate there may use it.
            ["kubernetes", own] => {
                Place::Kubernetes(KUBERNETES.iter().position(|name| *name == own).unwrap_or(KUBERNETES.len()))
            }
            ["crates", "machinist" | "machinistd"] => Place::Layer(LAYERS.len() - 1),
            ["crates", "sandbox"] => Place::Layer(LAYERS.len() - 2),
            ["crates", layer, _] => LAYERS.iter().position(|name| *name == layer).map_or(Place::Beside, Place::Layer),
            _ => Place::Beside,
        };
        let dependencies = package["dependencies"].as_array()?.iter();
        let dependencies = dependencies.filter_map(|dependency| {
            Some(Dependency { name: dependency["name"].as_str()?.to_owned(), for_tests: dependency["kind"] == "dev" })
        });
        Some(Package { name, place, dependencies: dependencies.collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(path: &str, dependencies: &[&str]) -> Value {
        of_kind(path, dependencies, None)
    }

    fn tests_of(path: &str, dependencies: &[&str]) -> Value {
        of_kind(path, dependencies, Some("dev"))
    }

    fn of_kind(path: &str, dependencies: &[&str], kind: Option<&str>) -> Value {
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        let dependencies: Vec<_> = dependencies.iter().map(|name| json!({"name": name, "kind": kind})).collect();
        json!({
            "name": name, "source": null,
            "manifest_path": format!("/kubernetes/{path}/Cargo.toml"), "dependencies": dependencies,
        })
    }

    /// The repository's root has the same name as the folder `kubernetes/`, which must not matter.
    #[track_caller]
    fn check(packages: &[Value], expected: &[&str]) {
        assert_eq!(problems(&json!({ "workspace_root": "/kubernetes", "packages": packages })), expected);
    }

    #[test]
    fn a_crate_may_use_what_lies_below_it() {
        check(&[package("crates/vocabulary/api", &["serde"]), package("crates/decisions/render", &["api"])], &[]);
    }

    #[test]
    fn a_neighbour_is_refused() {
        check(
            &[package("crates/decisions/change", &[]), package("crates/decisions/render", &["change"])],
            &["crate render (decisions) uses change (decisions): a crate uses only crates from folders below its own"],
        );
    }

    #[test]
    fn tests_may_use_a_neighbour() {
        check(&[package("crates/decisions/change", &[]), tests_of("crates/decisions/render", &["change"])], &[]);
    }

    #[test]
    fn a_provider_does_not_use_another() {
        check(
            &[package("crates/providers/aws", &[]), package("crates/providers/azure", &["aws"])],
            &["crate azure (providers) uses aws (providers): a crate uses only crates from folders below its own"],
        );
    }

    #[test]
    fn a_decision_crate_with_an_async_runtime_is_refused() {
        check(
            &[package("crates/decisions/render", &["tokio"])],
            &["crate render (decisions) holds rules and does no I/O, but depends on tokio"],
        );
    }

    #[test]
    fn only_apiserver_is_used_from_outside_kubernetes() {
        check(
            &[
                package("kubernetes/schema", &[]),
                package("kubernetes/apiserver", &["schema"]),
                package("crates/sandbox/up", &["apiserver"]),
                package("crates/services/operator", &["schema"]),
                tests_of("e2e", &["apiserver", "schema"]),
            ],
            &[
                "crate operator (services) uses schema (kubernetes): outside kubernetes/ only kubernetes/apiserver is used",
                "crate e2e (no layer) uses schema (kubernetes): outside kubernetes/ only kubernetes/apiserver is used",
            ],
        );
    }

    #[test]
    fn kubernetes_uses_nothing_from_outside_even_in_tests() {
        check(
            &[
                package("crates/vocabulary/api", &[]),
                package("crates/testkit", &[]),
                package("kubernetes/schema", &["api"]),
                tests_of("kubernetes/apiserver", &["testkit"]),
            ],
            &[
                "crate schema (kubernetes) uses api (vocabulary): kubernetes/ uses nothing from outside it",
                "crate apiserver (kubernetes) uses testkit (no layer): kubernetes/ uses nothing from outside it",
            ],
        );
    }

    #[test]
    fn only_testkit_builds_on_the_referee() {
        check(
            &[
                package("kubernetes/referee", &[]),
                package("crates/testkit", &["referee"]),
                tests_of("crates/adapters/host", &["referee"]),
            ],
            &["crate host (adapters) uses referee (kubernetes): outside kubernetes/ only kubernetes/apiserver is used"],
        );
    }

    #[test]
    fn the_crates_of_the_embedded_api_have_an_order() {
        check(
            &[
                package("kubernetes/schema", &["apiserver", "redb"]),
                package("kubernetes/apiserver", &["schema"]),
                tests_of("kubernetes/apiserver", &["referee"]),
                package("kubernetes/referee", &["apiserver"]),
            ],
            &[
                "crate schema (kubernetes) uses apiserver (kubernetes): in kubernetes/ a crate uses only those below it",
                "crate schema (kubernetes) holds rules and does no I/O, but depends on redb",
            ],
        );
    }
}
