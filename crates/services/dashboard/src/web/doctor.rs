//! Every failure we know of, with the command that repairs it.

use explain::Severity;
use maud::{Markup, html};

use super::frame::{self, moves};
use crate::scene::Scene;

pub(super) fn page(scene: &Scene) -> Markup {
    let findings = explain::doctor(&scene.snapshot);
    let main = html! {
        h1 { "Doctor" }
        div #doctor data-live="" {
            @if findings.is_empty() {
                p.lead {
                    @if scene.snapshot.unread.is_empty() { "Nothing is wrong that we know of." }
                    @else { "Nothing is wrong in what may be looked at, which is not everything." }
                }
            }
            @for finding in &findings {
                section.finding aria-label=(finding.subject) {
                    h2 {
                        span class={ "state " (if finding.severity == Severity::Problem { "failed" } else { "paused" }) } {
                            (if finding.severity == Severity::Problem { "✕ Problem" } else { "! Warning" })
                        }
                        " " (finding.subject)
                    }
                    p { (finding.problem) }
                    p { (finding.effect) }
                    @if !finding.moves.is_empty() { (moves(&finding.moves)) }
                    @if let Some(fix) = &finding.fix { p { "To " (fix.what) ": " code { "machinist doctor --fix" } } }
                }
            }
        }
        p { "Certificates and requests for them, archives of rendered configs, ClusterOperators, pods of the daemon, mirrors and image policies are looked at by " code { "machinist doctor" } " only." }
    };
    frame::page(scene, "Doctor", "/doctor", &main)
}
