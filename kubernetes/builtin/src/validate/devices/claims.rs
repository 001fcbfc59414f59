//! What a claim asks for.

use std::collections::BTreeMap;

use super::super::place::{Find, Findings, Place};
use super::super::rules;
use super::{MOST, parts};

/// The requests of a claim, each with those that it chooses from.
pub(super) struct Requests<'v>(BTreeMap<&'v str, Vec<&'v str>>);

impl<'v> Requests<'v> {
    pub(super) fn of(devices: &Place<'v>) -> Self {
        let requests = devices.field("requests");
        let named = requests.items().map(|request| {
            let choices = request.field("firstAvailable");
            (request.field("name").text(), choices.items().map(|choice| choice.field("name").text()).collect())
        });
        Requests(named.collect())
    }

    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            None => self.0.contains_key(name),
            Some((name, choice)) => self.0.get(name).is_some_and(|choices| choices.contains(&choice)),
        }
    }

    /// A name that stands for one of the requests.
    pub(super) fn check(&self, name: &Place<'_>, findings: &mut Findings) {
        const WRONG: &str =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let segments: Vec<&str> = name.text().split('/').collect();
        if segments.len() > 2 {
            return findings.invalid_as(name, name.text(), WRONG);
        }
        for segment in segments {
            for problem in schema::names::is_label(segment) {
                findings.invalid_as(name, segment, problem);
            }
        }
        if !self.has(name.text()) {
            findings.invalid_as(name, name.text(), WRONG);
        }
    }

    pub(super) fn check_all(&self, names: &Place<'_>, findings: &mut Findings) {
        parts::set(names, MOST, findings, |name, findings| self.check(name, findings), parts::text_of);
    }
}

pub(super) fn spec(devices: &Place<'_>, findings: &mut Findings) {
    let requests = Requests::of(devices);
    parts::set(&devices.field("requests"), MOST, findings, request, parts::name_of);
    parts::each(&devices.field("constraints"), MOST, findings, |own, findings| {
        requests.check_all(&own.field("requests"), findings);
        constraint(own, findings);
    });
    parts::each(&devices.field("config"), MOST, findings, |own, findings| {
        requests.check_all(&own.field("requests"), findings);
        parts::configuration(own, findings);
    });
}

fn constraint(own: &Place<'_>, findings: &mut Findings) {
    let (same, distinct) = (own.field("matchAttribute"), own.field("distinctAttribute"));
    if same.is_set() {
        parts::fully_qualified_name(&same, findings);
    } else if distinct.is_set() {
        parts::fully_qualified_name(&distinct, findings);
    } else {
        let detail =
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        findings.required(own, detail);
    }
}

fn request(request: &Place<'_>, findings: &mut Findings) {
    const CHOICES: usize = 8;
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    rules::label(&request.field("name"), findings);
    let (exactly, choices) = (request.field("exactly"), request.field("firstAvailable"));
    match (exactly.is_set(), !choices.is_empty()) {
        (false, false) => findings.required(request, ONE),
        (true, true) => {
            findings.invalid_as(request, serde_json::Value::Null, format!("{ONE}, but multiple fields are set"));
        }
        (true, false) => asked(&exactly, findings),
        (false, true) => parts::set(
            &choices,
            CHOICES,
            findings,
            |choice, findings| {
                rules::label(&choice.field("name"), findings);
                asked(choice, findings);
            },
            parts::name_of,
        ),
    }
}

/// Devices of one class.
fn asked(own: &Place<'_>, findings: &mut Findings) {
    let class = own.field("deviceClassName");
    match class.is_empty() {
        true => findings.required(&class, ""),
        false => rules::subdomain(&class, findings),
    }
    parts::selectors(&own.field("selectors"), findings);
    let (mode, count) = (own.field("allocationMode"), own.field("count"));
    match mode.text() {
        "All" if count.number() != 0 => {
            findings.invalid(&count, "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count.number() <= 0 => {
            findings.invalid_as(&count, count.number(), "must be greater than zero");
        }
        _ => findings.one_of(&mode, &["All", "ExactCount"]),
    }
    for own in own.field("tolerations").items() {
        parts::toleration(&own, findings);
    }
}
