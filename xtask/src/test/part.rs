//! The parts of the tests, so that one of them can be run alone. The folder of a package decides which part it is.

use std::path::Path;

use clap::ValueEnum;

/// A part of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    /// Rules, vocabulary, simulation and developer commands: nothing is started
    Quick,
    /// Adapters, providers, services and the binaries, mostly on the embedded API
    Product,
    /// Stories on real API servers, systemd nodes and kubelets
    Real,
    /// The embedded Kubernetes API, and the comparison with a real one
    Kubernetes,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Quick, Self::Product, Self::Real, Self::Kubernetes];

    /// The part of the package in this folder, relative to the root of the workspace.
    pub(super) fn of(folder: &Path) -> Self {
        let mut names = folder.iter().filter_map(|name| name.to_str());
        match (names.next(), names.next()) {
            (Some("kubernetes"), _) => Self::Kubernetes,
            (Some("e2e"), _) => Self::Real,
            (Some("xtask"), _) | (Some("crates"), Some("vocabulary" | "decisions" | "views" | "simulation")) => {
                Self::Quick
            }
            _ => Self::Product,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Product => "product",
            Self::Real => "real",
            Self::Kubernetes => "kubernetes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_part() {
        let check = |folder: &str, part: Part| assert_eq!(Part::of(Path::new(folder)), part, "{folder}");
        check("crates/decisions/rollout", Part::Quick);
        check("crates/simulation", Part::Quick);
        check("xtask", Part::Quick);
        check("crates/services/machines", Part::Product);
        check("crates/machinist", Part::Product);
        check("e2e", Part::Real);
        check("kubernetes/apiserver", Part::Kubernetes);
    }
}
