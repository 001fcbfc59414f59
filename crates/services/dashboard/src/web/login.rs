//! The form that takes a token of the cluster, once, for a session.

use maud::{Markup, html};
use serde::Deserialize;

/// Why somebody is at the form, and where they want to go.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Visit {
    /// Set by a page whose session does not hold any more.
    #[serde(default)]
    ended: String,
    #[serde(default)]
    next: String,
}

impl Visit {
    /// Somebody who is on the way to a page.
    pub(super) fn to(next: &str) -> Self {
        Self { next: next.to_owned(), ..Self::default() }
    }

    /// The page to go on to. Only our own: an address of somebody else would make this form theirs.
    pub(super) fn next(&self) -> &str {
        let mut letters = self.next.chars();
        let is_ours = letters.next() == Some('/') && !matches!(letters.next(), Some('/' | '\\'));
        let is_page = !self.next.starts_with("/login") && !self.next.starts_with("/logout");
        if is_ours && is_page && !self.next.chars().any(char::is_control) { &self.next } else { "/" }
    }
}

pub(super) fn form(visit: &Visit, refused: Option<&str>) -> Markup {
    html! {
        @if let Some(why) = refused { p.note role="alert" { (why) } }
        @else if !visit.ended.is_empty() {
            p.note role="status" { "Your session has ended, because an hour is over or the dashboard was started again. Sign in again; the page that you were at follows." }
        }
        form.login method="post" action="/login" {
            input type="hidden" name="next" value=(visit.next());
            label { "Token of the cluster" br; input type="password" name="token" autocomplete="off" required; }
            " " button { "Sign in" }
        }
        p { "For example " code { "kubectl create token NAME --namespace NAMESPACE" } " prints one of a ServiceAccount. It is used once, to learn whose it is, and not kept." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_form_comes_only_a_page_of_ours() {
        assert_eq!(Visit::to("/node/a?x=1").next(), "/node/a?x=1");
        for odd in
            ["", "//evil.example", "/\\evil.example", "https://evil.example", "/\n/evil.example", "/login?next=/login"]
        {
            assert_eq!(Visit::to(odd).next(), "/", "{odd}");
        }
    }
}
