//! A behaviour: a name that is a sentence, and a run that shows it or says what it saw instead.

use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;

use super::wire::{Scope, Server};

#[derive(Clone, Copy)]
pub(super) struct Behaviour {
    pub(super) name: &'static str,
    pub(super) run: fn(Scope) -> BoxFuture<'static, Result<()>>,
}

impl Behaviour {
    /// Runs in a namespace of its own, so that all behaviours can share a server.
    pub(super) async fn run_on(self, server: Arc<Server>, number: usize) -> Result<()> {
        let scope = Scope::create(server, format!("b{number:03}")).await?;
        (self.run)(scope).await
    }
}

/// Declares the behaviours of a module: `name(scope) { … }`, each block ending when the behaviour was shown.
macro_rules! behaviours {
    ($($name:ident($scope:ident) $body:block)*) => {
        pub(super) fn all() -> Vec<$crate::behaviours::behaviour::Behaviour> {
            vec![$($crate::behaviours::behaviour::Behaviour {
                name: stringify!($name),
                run: |$scope| Box::pin(async move { $body; Ok(()) }),
            }),*]
        }
    };
}

/// Fails the behaviour unless two values are equal.
macro_rules! same {
    ($left:expr, $right:expr) => {{
        let (left, right) = (&$left, &$right);
        if left != right {
            anyhow::bail!("{}: {left:?} is not {right:?}", stringify!($left));
        }
    }};
}

/// Fails the behaviour unless the condition holds; the rest says what was seen.
macro_rules! holds {
    ($condition:expr, $($seen:tt)*) => {
        if !$condition {
            anyhow::bail!("not {}: {}", stringify!($condition), format!($($seen)*));
        }
    };
}
