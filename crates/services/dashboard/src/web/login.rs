//! The form that takes a token of the cluster, once, for a session.

use maud::{Markup, html};

pub(super) fn form(refused: Option<&str>) -> Markup {
    html! {
        @if let Some(why) = refused { p.note role="alert" { (why) } }
        form.login method="post" action="/login" {
            label { "Token of the cluster" br; input type="password" name="token" autocomplete="off" required; }
            " " button { "Sign in" }
        }
        p { "For example " code { "kubectl create token NAME --namespace NAMESPACE" } " prints one of a ServiceAccount. It is used once, to learn whose it is, and not kept." }
    }
}
