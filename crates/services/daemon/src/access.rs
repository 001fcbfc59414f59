//! How this daemon reaches the cluster, and whether the host still says the same.
//!
//! A config can break the kubeconfig, or send it elsewhere. A trial therefore looks at what is on the host now, not at the
//! client that was made before the change.

use std::path::PathBuf;

use change::host::Files;

use crate::credential::{self, Credential};

/// Where the credential comes from.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// The account of the pod, which is not on the host and follows its token by itself.
    #[default]
    Account,
    /// A kubeconfig at a path of this process.
    Kubeconfig(PathBuf),
    /// The kubelet's, below the host's root.
    Kubelet,
}

impl Source {
    /// What is there now; nothing for the pod's account.
    pub fn read(&self, files: &dyn Files) -> Result<Option<Credential>, credential::Error> {
        match self {
            Self::Account => Ok(None),
            Self::Kubeconfig(path) => credential::load(path).map(Some),
            Self::Kubelet => credential::find(files).map(Some),
        }
    }
}

/// What the loop's client was made from.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub source: Source,
    pub used: Option<Box<Credential>>,
    /// Why there is no client that could reach the cluster, if there is none.
    pub problem: Option<String>,
}

/// What is on the host, next to what is in use and to what was there before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Another credential than the one in use: connect anew.
    Other,
    /// Nothing that could be used.
    Broken(String),
    /// The one in use. `way` tells whether it leads where another one led.
    Same { way: Option<String> },
}

impl Access {
    pub fn look(&self, files: &dyn Files) -> Found {
        match (self.source.read(files), &self.used) {
            (Err(error), _) => Found::Broken(error.to_string()),
            (Ok(Some(now)), Some(used)) if !now.is_same(used) => Found::Other,
            (Ok(Some(_)), None) => Found::Other,
            (Ok(now), _) => match &self.problem {
                Some(problem) => Found::Broken(problem.clone()),
                None => Found::Same { way: now.map(|now| now.way) },
            },
        }
    }
}
