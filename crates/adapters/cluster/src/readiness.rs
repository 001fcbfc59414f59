//! Reports which kinds a process cannot watch, and how to fix it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;

use crate::events::Severity;
use crate::watch::Trouble;
use crate::{Events, Problem};

/// How often the watches are checked.
const LOOK: Duration = Duration::from_secs(1);

/// Reports the kinds that cannot be watched through the log, events on `namespace` and `missing`, for as long as it is
/// polled. `troubles` returns the kinds that are not listed yet, with the reason if it is known.
pub async fn follow(
    troubles: impl Fn() -> Vec<(&'static str, Option<Trouble>)>,
    missing: impl Fn(Vec<String>),
    events: Events,
    namespace: String,
) {
    let mut said = Vec::new();
    loop {
        let troubles = troubles();
        let told: Vec<String> =
            troubles.iter().filter_map(|(kind, trouble)| Some(advise(kind, trouble.as_ref()?))).collect();
        for trouble in told.iter().filter(|trouble| !said.contains(*trouble)) {
            tracing::warn!("{trouble}");
            events.publish::<Namespace>(&namespace, None, Severity::Warning, "CannotWatch", trouble);
        }
        said = told;
        let describe = |(kind, trouble): &(&str, Option<Trouble>)| match trouble {
            Some(trouble) => advise(kind, trouble),
            None => format!("{kind} are being listed"),
        };
        missing(troubles.iter().map(describe).collect());
        tokio::time::sleep(LOOK).await;
    }
}

fn advise(kind: &str, trouble: &Trouble) -> String {
    let fix = match trouble.problem {
        Problem::NotFound => "; install our kinds with `machinist crds | kubectl apply --server-side -f -`",
        Problem::Forbidden => "; let this process list and watch them with a ClusterRole",
        Problem::Conflict | Problem::TooManyRequests | Problem::Invalid | Problem::Unreachable => "",
    };
    format!("cannot watch {kind}: {}{fix}", trouble.text)
}
