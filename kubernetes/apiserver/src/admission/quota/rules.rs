//! Whether one write fits into the quotas of its namespace, and what they have left afterwards.
//!
//! `check` takes quotas and gives quotas; who calls it writes them. The words are the real server's.

use std::collections::{BTreeMap, BTreeSet};

use builtin::amounts::{self, Amounts};
use jiff::Timestamp;
use schema::quantity::Quantity;
use serde_json::Value;

use super::usage::{Kind, Measured, Scope};
use crate::object::text;

/// A quota as its status tells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quota {
    pub name: String,
    pub scopes: Vec<Scope>,
    pub hard: Amounts,
    pub used: Amounts,
}

impl Quota {
    pub(crate) fn read(quota: &Value) -> Quota {
        Quota {
            name: text(&quota["metadata"]["name"]).to_owned(),
            scopes: Scope::of_quota(&quota["spec"]),
            hard: amounts::read(&quota["status"]["hard"]),
            used: amounts::read(&quota["status"]["used"]),
        }
    }

    /// Whether the quota is about an object of a kind.
    fn is_about(&self, kind: &Kind, object: &Measured) -> bool {
        self.hard.keys().any(|name| kind.uses(name)) && self.scopes.iter().all(|scope| object.is_in(scope))
    }
}

/// A write that wants something.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub kind: Kind,
    /// Of an object that is there already: what it was.
    pub old: Option<Measured>,
    pub new: Measured,
    /// What the containers of a pod do not say; see `usage::unsaid`.
    pub unsaid: BTreeMap<String, BTreeSet<String>>,
    /// What a status tells has happened already, so that nobody refuses it.
    pub is_told: bool,
    pub now: Timestamp,
}

/// The quotas after the write, or why it must not be.
pub(crate) fn check(quotas: &[Quota], wish: &Wish) -> Result<Vec<Quota>, String> {
    let about: Vec<usize> = (0..quotas.len()).filter(|at| quotas[*at].is_about(&wish.kind, &wish.new)).collect();
    for quota in about.iter().map(|at| &quotas[*at]) {
        let counted: Vec<&str> = quota.hard.keys().map(String::as_str).filter(|name| wish.kind.uses(name)).collect();
        if let Some(unsaid) = unsaid(wish, &counted) {
            return Err(format!("failed quota: {}: must specify {unsaid}", quota.name));
        }
        if counted.iter().any(|name| !quota.used.contains_key(*name)) {
            return Err(format!("status unknown for quota: {}, resources: {}", quota.name, counted.join(",")));
        }
    }
    let mut after = quotas.to_vec();
    for at in about {
        let quota = &mut after[at];
        let wanted = wanted(quota, wish);
        let mut used = quota.used.clone();
        amounts::add(&mut used, &wanted);
        let over: Vec<&String> = wanted.keys().filter(|name| used.get(*name) > quota.hard.get(*name)).collect();
        if !over.is_empty() && !wish.is_told {
            let shown = |amounts: &Amounts| {
                let parts = over.iter().filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)));
                parts.collect::<Vec<_>>().join(",")
            };
            let (wanted, used, hard) = (shown(&wanted), shown(&quota.used), shown(&quota.hard));
            return Err(format!("exceeded quota: {}, requested: {wanted}, used: {used}, limited: {hard}", quota.name));
        }
        quota.used = used;
    }
    Ok(after)
}

fn unsaid(wish: &Wish, counted: &[&str]) -> Option<String> {
    let unsaid = wish.unsaid.iter().filter(|(name, _)| counted.contains(&name.as_str()));
    let parts: Vec<String> = unsaid
        .map(|(name, containers)| {
            let containers: Vec<&str> = containers.iter().map(String::as_str).collect();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What the write takes from a quota: all that the object costs, or as much as it costs more than before.
fn wanted(quota: &Quota, wish: &Wish) -> Amounts {
    let mut wanted = wish.new.usage(wish.now).clone();
    if let Some(old) = wish.old.as_ref().filter(|old| quota.is_about(&wish.kind, old)) {
        let before = old.usage(wish.now);
        for (name, amount) in &mut wanted {
            *amount = amount.less(before.get(name).unwrap_or(&Quantity::of(0)));
        }
    }
    wanted.retain(|name, amount| quota.hard.contains_key(name) && !amount.is_zero());
    wanted
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::admission::quota::usage;

    fn quota(name: &str, hard: Value, used: Value) -> Quota {
        Quota::read(&json!({"metadata": {"name": name}, "spec": {}, "status": {"hard": hard, "used": used}}))
    }

    fn pod(cpu: &str) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}, "status": {}})
    }

    fn wish(kind: Kind, old: Option<&Value>, new: &Value) -> Wish {
        Wish {
            old: old.map(|old| kind.measure(old)),
            new: kind.measure(new),
            unsaid: if kind == Kind::Pods { usage::unsaid(new) } else { BTreeMap::new() },
            kind,
            is_told: false,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[track_caller]
    fn expect(quotas: &[Quota], wish: &Wish, expected: &Expect) {
        let said = match check(quotas, wish) {
            Ok(after) => after.iter().map(|quota| amounts::write(&quota.used).to_string()).collect(),
            Err(why) => vec![why],
        };
        expected.assert_eq(&said.join("\n"));
    }

    #[test]
    fn every_quota_that_is_about_an_object_is_charged() {
        let quotas = [
            quota("a", json!({"pods": "2", "cpu": "2"}), json!({"pods": "1", "cpu": "500m"})),
            quota("b", json!({"secrets": "1"}), json!({"secrets": "1"})),
            quota("c", json!({"count/pods": "9"}), json!({"count/pods": "1"})),
        ];
        expect(
            &quotas,
            &wish(Kind::Pods, None, &pod("1500m")),
            &expect![[r#"
            {"cpu":"2","pods":"2"}
            {"secrets":"1"}
            {"count/pods":"2"}"#]],
        );
    }

    #[test]
    fn what_does_not_fit_is_named_with_all_its_amounts() {
        let quotas = [quota(
            "q",
            json!({"pods": "1", "cpu": "2", "memory": "1"}),
            json!({"pods": "1", "cpu": "1", "memory": "0"}),
        )];
        let mut full = pod("1500m");
        full["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1".into();
        expect(
            &quotas,
            &wish(Kind::Pods, None, &full),
            &expect!["exceeded quota: q, requested: cpu=1500m,pods=1, used: cpu=1,pods=1, limited: cpu=2,pods=1"],
        );
        let told = Wish { is_told: true, ..wish(Kind::Pods, None, &full) };
        expect(&quotas, &told, &expect![[r#"{"cpu":"2500m","memory":"1","pods":"2"}"#]]);
    }

    #[test]
    fn containers_must_speak_where_compute_is_counted() {
        let quotas = [quota("q", json!({"limits.cpu": "1", "memory": "1"}), json!({}))];
        let mut two = pod("1");
        two["spec"]["initContainers"] = json!([{"name": "b", "resources": {"limits": {"cpu": "1"}}}]);
        expect(
            &quotas,
            &wish(Kind::Pods, None, &two),
            &expect!["failed quota: q: must specify limits.cpu for: c; memory for: b,c"],
        );
        two["spec"]["resources"] = json!({"requests": {"cpu": "2"}});
        expect(
            &quotas,
            &wish(Kind::Pods, None, &two),
            &expect!["status unknown for quota: q, resources: limits.cpu,memory"],
        );
    }

    #[test]
    fn a_change_is_charged_for_what_it_adds() {
        let service =
            |kind: &str, ports: usize| json!({"spec": {"type": kind, "ports": vec![json!({"port": 1}); ports]}});
        let quotas = [quota(
            "q",
            json!({"services": "1", "services.nodeports": "2"}),
            json!({"services": "1", "services.nodeports": "1"}),
        )];
        let change = |from: Value, to: Value| wish(Kind::Services, Some(&from), &to);
        expect(
            &quotas,
            &change(service("NodePort", 1), service("NodePort", 2)),
            &expect![[r#"{"services":"1","services.nodeports":"2"}"#]],
        );
        expect(
            &quotas,
            &change(service("NodePort", 2), service("ClusterIP", 2)),
            &expect![[r#"{"services":"1","services.nodeports":"1"}"#]],
        );
        expect(
            &quotas,
            &change(service("ClusterIP", 2), service("NodePort", 2)),
            &expect![
                "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2"
            ],
        );
    }

    #[test]
    fn who_comes_into_a_scope_is_charged_for_everything() {
        let mut scoped = quota("q", json!({"pods": "1"}), json!({"pods": "0"}));
        scoped.scopes = Scope::of_quota(&json!({"scopes": ["Terminating"]}));
        let mut ending = pod("1");
        ending["spec"]["activeDeadlineSeconds"] = 5.into();
        let quotas = [scoped];
        expect(&quotas, &wish(Kind::Pods, Some(&pod("1")), &ending), &expect![[r#"{"pods":"1"}"#]]);
        expect(&quotas, &wish(Kind::Pods, Some(&ending), &ending), &expect![[r#"{"pods":"0"}"#]]);
        expect(&quotas, &wish(Kind::Pods, None, &pod("1")), &expect![[r#"{"pods":"0"}"#]]);
    }
}
