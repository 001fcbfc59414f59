//! The rules of Ignition specs 3.0 to 3.5 for a whole config.
//!
//! The messages are Ignition's own, because people search for them; path and allowed values are added. `version` is the
//! spec whose rules apply: fields that it does not have were dropped before.

mod disks;
mod nodes;
mod units;

use std::collections::HashSet;

use crate::path::Path;
use crate::report::{Error, Problem, Report};
use crate::url;
use crate::v3_5::{Config, Ignition, Passwd, Resource, Verification};
use crate::version::Version;

/// Validates a config by the rules of the newest spec.
pub fn validate(config: &Config) -> Result<(), Error> {
    let mut report = Report::default();
    check(config, Version::NEWEST, &mut report);
    report.into_result()
}

/// Validates a config that was merged from valid ones: checks only what merging can break.
pub fn validate_merged(config: &Config) -> Result<(), Error> {
    let mut report = Report { contents_are_known: true, ..Report::default() };
    check(config, Version::NEWEST, &mut report);
    report.into_result()
}

pub(crate) fn check(config: &Config, version: Version, report: &mut Report) {
    ignition(&config.ignition, version, report);
    if let Some(arguments) = &config.kernel_arguments {
        let at = Path::Root.key("kernelArguments");
        let mut seen = HashSet::new();
        duplicates(strings(&arguments.should_exist), &mut seen, at.key("shouldExist"), report);
        duplicates(strings(&arguments.should_not_exist), &mut seen, at.key("shouldNotExist"), report);
    }
    if let Some(section) = &config.passwd {
        passwd(section, report);
    }
    if let Some(storage) = &config.storage {
        nodes::check(storage, version, report);
        disks::check(storage, version, report);
    }
    if let Some(systemd) = &config.systemd {
        units::check(systemd, report);
    }
    units::conflicts(config, report);
}

fn ignition(section: &Ignition, version: Version, report: &mut Report) {
    let at = Path::Root.key("ignition");
    if let Some(references) = &section.config {
        let at = at.key("config");
        sources(&references.merge, at.key("merge"), version, report);
        if let Some(replace) = &references.replace {
            resource(replace, at.key("replace"), version, report);
        }
    }
    if let Some(tls) = section.security.as_ref().and_then(|security| security.tls.as_ref()) {
        let (security, tls_at) = (at.key("security"), "tls");
        let tls_at = security.key(tls_at);
        sources(&tls.certificate_authorities, tls_at.key("certificateAuthorities"), version, report);
    }
    if let Some(proxy) = &section.proxy {
        let at = at.key("proxy");
        let text = |field: &'static str, value: &Option<String>, report: &mut Report| {
            let Some(value) = value else { return };
            match url::scheme(value).as_deref() {
                Ok("http" | "https") => {}
                Ok(_) => report
                    .problem(Problem::new(at.key(field).to_string(), "proxies must be http(s)").allowed("http, https")),
                Err(message) => report.problem(Problem::new(at.key(field).to_string(), *message)),
            }
        };
        text("httpProxy", &proxy.http_proxy, report);
        text("httpsProxy", &proxy.https_proxy, report);
        duplicates(strings(&proxy.no_proxy), &mut HashSet::new(), at.key("noProxy"), report);
    }
}

/// References to other configs and certificate bundles: each needs a source, and sources must be unique.
fn sources(resources: &Option<Vec<Resource>>, at: Path<'_>, version: Version, report: &mut Report) {
    let mut seen = HashSet::new();
    for (index, each) in resources.iter().flatten().enumerate() {
        let at = at.index(index);
        let source = each.source.as_deref().unwrap_or_default();
        if source.is_empty() {
            report.problem(Problem::new(at.to_string(), "source is required"));
        }
        if !seen.insert(source) {
            report.problem(duplicate(&at, source));
        }
        resource(each, at, version, report);
    }
}

fn passwd(section: &Passwd, report: &mut Report) {
    let at = Path::Root.key("passwd");
    let (users_at, groups_at) = (at.key("users"), at.key("groups"));
    let users = || section.users.iter().flatten();
    duplicates(users().map(|user| user.name.as_str()), &mut HashSet::new(), users_at, report);
    for (index, user) in users().enumerate() {
        let at = users_at.index(index);
        duplicates(strings(&user.groups), &mut HashSet::new(), at.key("groups"), report);
        duplicates(strings(&user.ssh_authorized_keys), &mut HashSet::new(), at.key("sshAuthorizedKeys"), report);
    }
    let groups = section.groups.iter().flatten();
    duplicates(groups.map(|group| group.name.as_str()), &mut HashSet::new(), groups_at, report);
}

fn resource(resource: &Resource, at: Path<'_>, version: Version, report: &mut Report) {
    if report.contents_are_known {
        return;
    }
    let source = resource.source.as_deref();
    if !matches!(resource.compression.as_deref(), None | Some("" | "gzip")) {
        let message = format!("invalid compression method {:?}", resource.compression.as_deref().unwrap_or_default());
        report.problem(Problem::new(at.key("compression").to_string(), message).allowed("gzip"));
    }
    if let Some(text) = source.filter(|text| !text.is_empty())
        && let Err(message) = url::check(text, version)
    {
        let message = format!("{message}: {}", shorten(text));
        let problem = Problem::new(at.key("source").to_string(), message);
        report.problem(problem.allowed(url::allowed(version)));
    }
    if let Some(verification) = &resource.verification {
        hash(verification, source.is_some(), &at, version, report);
    }
    let headers = resource.http_headers.as_deref().unwrap_or_default();
    let headers_at = at.key("httpHeaders");
    duplicates(headers.iter().map(|header| header.name.as_str()), &mut HashSet::new(), headers_at, report);
    for (index, header) in headers.iter().enumerate() {
        let at = headers_at.index(index);
        if header.name.is_empty() {
            report.problem(Problem::new(at.key("name").to_string(), "HTTP header name can't be empty"));
        }
        if header.value.as_deref() == Some("") {
            report.problem(Problem::new(at.key("value").to_string(), "unable to parse HTTP header"));
        }
    }
    if !headers.is_empty() && !matches!(url::scheme(source.unwrap_or_default()).as_deref(), Ok("http" | "https")) {
        let message = "cannot use HTTP headers with this source scheme";
        report.problem(Problem::new(headers_at.to_string(), message).allowed("http, https"));
    }
}

fn hash(verification: &Verification, has_source: bool, at: &Path<'_>, version: Version, report: &mut Report) {
    let Some(hash) = verification.hash.as_deref() else {
        return;
    };
    let verification_at = at.key("verification");
    let mut problem = |message: &str, allowed: &str| {
        report.problem(Problem::new(verification_at.key("hash").to_string(), message).allowed(allowed));
    };
    if !has_source {
        problem("source must be specified if verification is specified", "a hash only beside a source");
    }
    let functions =
        if version >= Version::V3_1 { "sha512-<128 digits>, sha256-<64 digits>" } else { "sha512-<128 digits>" };
    let Some((function, sum)) = hash.split_once('-') else {
        return problem("malformed hash specifier", functions);
    };
    let digits = match function {
        "sha512" => 128,
        "sha256" if version >= Version::V3_1 => 64,
        _ => return problem("unrecognized hash function", functions),
    };
    if sum.len() != digits {
        problem("incorrect size for hash sum", functions);
    }
}

fn strings(list: &Option<Vec<String>>) -> impl Iterator<Item = &str> {
    list.iter().flatten().map(String::as_str)
}

fn duplicates<'a>(keys: impl Iterator<Item = &'a str>, seen: &mut HashSet<&'a str>, at: Path<'_>, report: &mut Report) {
    for (index, key) in keys.enumerate() {
        if !seen.insert(key) {
            report.problem(duplicate(&at.index(index), key));
        }
    }
}

fn duplicate(at: &Path<'_>, key: &str) -> Problem {
    Problem::new(at.to_string(), format!("duplicate entry defined: {}", shorten(key)))
}

/// Returns enough of a value to recognise it: a source may contain a whole file, and a key should not be printed in
/// full.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The rules that spec 2 and spec 3 have in common.
pub(crate) mod spec2_shared {
    pub(crate) use super::disks::{is_guid, label};
    pub(crate) use super::units::{contents, dropin_name, name as unit_name};
}
