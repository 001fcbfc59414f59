//! Requests for certificates: what they ask for, and how they are answered.

use base64::{Engine, engine::general_purpose::STANDARD};
use schema::names;
use serde_json::Value;
use x509_parser::{
    certification_request::X509CertificationRequest,
    error::X509Error,
    pem::Pem,
    prelude::{FromDer, X509Certificate},
    public_key::PublicKey,
};

use super::place::{Find, Findings, Place};

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const LEGACY: &str = "kubernetes.io/legacy-unknown";
/// Conditions that are there or not, and so true.
const TRUE_ONLY: [&str; 3] = ["Approved", "Denied", "Failed"];

/// Looks at a request; what is wrong with a stored one already is let pass. `subresource` is what an update is sent to.
pub(crate) fn request(object: &Place<'_>, old: Option<&Value>, subresource: &str, findings: &mut Findings) {
    let (spec, status) = (object.field("spec"), object.field("status"));
    let nothing = Value::Null;
    let before = old.map(Place::root);
    let was = before.as_ref().unwrap_or(&Place::root(&nothing)).clone();
    if let Some(problem) = problem_of_request(spec.field("request").text()) {
        findings.invalid(&spec.field("request"), problem);
    }
    usages(&spec.field("usages"), &was.field("spec").field("usages"), findings);
    let signer = spec.field("signerName");
    if signer.text() == LEGACY && was.field("spec").field("signerName").text() != LEGACY {
        findings.invalid(&signer, "the legacy signerName is not allowed via this API version");
    } else {
        signer_name(&signer, findings);
    }
    let seconds = spec.field("expirationSeconds");
    if seconds.is_set() && seconds.number() < 600 {
        findings.invalid(&seconds, "may not specify a duration less than 600 seconds (10 minutes)");
    }
    let conditions_of = |object: &Place<'_>| object.field("status").field("conditions").value.clone();
    let then = conditions_of(&was);
    conditions(&status.field("conditions"), &Place::root(&then), findings);
    let (certificate, given) = (status.field("certificate"), was.field("status").field("certificate"));
    let same = old.is_some() && certificate.text() == given.text();
    if !same
        && (old.is_none() || problem_of_certificate(given.text()).is_none())
        && let Some(problem) = problem_of_certificate(certificate.text())
    {
        findings.invalid_as(&certificate, "<certificate data>", problem);
    }
    if old.is_some() {
        changes(&status, &was.field("status"), subresource, findings);
    }
}

fn usages(usages: &Place<'_>, before: &Place<'_>, findings: &mut Findings) {
    if usages.is_empty() {
        findings.required(usages, "");
    }
    let is_unknown = |usage: &str| !USAGES.contains(&usage);
    let had_unknown = before.texts().any(is_unknown);
    let had_twins = has_twins(&before.texts().collect::<Vec<_>>());
    let mut seen = Vec::new();
    for usage in usages.items() {
        if !had_unknown && is_unknown(usage.text()) {
            findings.unsupported(&usage, &USAGES);
        }
        if !had_twins && seen.contains(&usage.text()) {
            findings.duplicate(&usage);
        }
        seen.push(usage.text());
    }
}

fn has_twins(texts: &[&str]) -> bool {
    texts.iter().enumerate().any(|(at, text)| texts[..at].contains(text))
}

/// A domain and a path of the one who signs.
fn signer_name(signer: &Place<'_>, findings: &mut Findings) {
    const DOMAIN: usize = 253;
    const WHOLE: usize = DOMAIN + 1 + DOMAIN + 1 + 63;
    let text = signer.text();
    if text.is_empty() {
        return findings.required(signer, "");
    }
    let Some((domain, path)) = text.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return findings.invalid(signer, detail);
    };
    if domain.len() > DOMAIN {
        findings.too_long(signer, DOMAIN as u64);
    }
    for (part, check) in [(domain, names::is_label as fn(&str) -> Vec<String>), (path, names::is_subdomain)] {
        let wrong = part.split('.').map(|label| (label, check(label))).find(|(_, problems)| !problems.is_empty());
        for problem in wrong.iter().flat_map(|(_, problems)| problems) {
            let label = wrong.as_ref().map(|(label, _)| *label).unwrap_or_default();
            let label = schema::go_quote(label);
            findings.invalid_as(signer, part, format!("validating label {label}: {problem}"));
        }
        if part == domain && !domain.contains('.') {
            findings.invalid_as(signer, domain, "should be a domain with at least two segments separated by dots");
        }
    }
    if text.len() > WHOLE {
        findings.too_long(signer, WHOLE as u64);
    }
}

fn conditions(list: &Place<'_>, before: &Place<'_>, findings: &mut Findings) {
    let then: Vec<&str> = before.items().map(|condition| condition.field("type").text()).collect();
    let had_both = then.contains(&"Approved") && then.contains(&"Denied");
    let mut seen: Vec<&str> = Vec::new();
    for condition in list.items() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if kind.is_empty() && !then.contains(&"") {
            findings.required(&kind, "");
        }
        match TRUE_ONLY.contains(&kind.text()) {
            true => findings.required_one_of(&status, &["True"]),
            false => findings.required_one_of(&status, &["False", "True", "Unknown"]),
        }
        let opposite = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "no condition",
        };
        if !had_both && seen.contains(&opposite) {
            findings.invalid_as(list, kind.text(), "Approved and Denied conditions are mutually exclusive");
        }
        if !has_twins(&then) && seen.contains(&kind.text()) {
            findings.duplicate_as(&kind, kind.text());
        }
        seen.push(kind.text());
    }
}

/// Whoever approves sets conditions about that, whoever signs sets the certificate, and nothing is taken back.
fn changes(status: &Place<'_>, before: &Place<'_>, subresource: &str, findings: &mut Findings) {
    let list = status.field("conditions");
    let of = |status: &Place<'_>, kind: &str| -> Vec<Value> {
        let list = status.field("conditions");
        let own = list.items().filter(|condition| condition.field("type").text() == kind);
        own.map(|condition| condition.value.clone()).collect()
    };
    for kind in TRUE_ONLY {
        let (now, then) = (of(status, kind), of(before, kind));
        if now.len() < then.len() {
            findings.forbidden(&list, format!("updates may not remove a condition of type \"{kind}\""));
        } else if subresource == "approval" || kind == "Failed" {
        } else if now.len() > then.len() {
            findings.forbidden(&list, format!("updates may not add a condition of type \"{kind}\""));
        } else if now != then {
            findings.forbidden(&list, format!("updates may not modify a condition of type \"{kind}\""));
        }
    }
    let (certificate, given) = (status.field("certificate"), before.field("certificate"));
    if certificate.text() != given.text() {
        if subresource != "status" {
            findings.forbidden(&certificate, "updates may not set certificate content");
        } else if !given.is_empty() {
            findings.forbidden(&certificate, "updates may not modify existing certificate content");
        }
    }
}

/// What is wrong with the request itself, in base64.
fn problem_of_request(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let Some(block) = blocks(&bytes).into_iter().next().filter(|block| block.label == "CERTIFICATE REQUEST") else {
        return Some("PEM block type must be CERTIFICATE REQUEST".to_owned());
    };
    match X509CertificationRequest::from_der(&block.contents) {
        Ok((rest, _)) if !rest.is_empty() => Some("asn1: syntax error: trailing data".to_owned()),
        Ok((_, parsed)) => problem_of_signature(&parsed).map(str::to_owned),
        Err(_) => Some(problem_of_encoding(&block.contents).to_owned()),
    }
}

/// A signature that does not fit its key. What this server cannot check it takes.
fn problem_of_signature(request: &X509CertificationRequest<'_>) -> Option<&'static str> {
    const SHORTEST: usize = 2048;
    let key = request.certification_request_info.subject_pki.parsed();
    let words = match &key {
        Ok(PublicKey::RSA(key)) if key.key_size() < SHORTEST => return None,
        Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error",
        Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure",
        _ => "x509: Ed25519 verification failure",
    };
    matches!(request.verify_signature(), Err(X509Error::SignatureVerificationError)).then_some(words)
}

/// What the real server has against bytes that are no request.
fn problem_of_encoding(bytes: &[u8]) -> &'static str {
    const SEQUENCE: u8 = 0x30;
    match bytes {
        [] => "asn1: syntax error: sequence truncated",
        [SEQUENCE, ..] => "asn1: syntax error: data truncated",
        _ => "asn1: structure error: tags don't match",
    }
}

/// What is wrong with the answer to a request, in base64.
fn problem_of_certificate(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let blocks = blocks(&STANDARD.decode(text).unwrap_or_default());
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.into_iter().find_map(|block| {
        if block.label != "CERTIFICATE" {
            let label = schema::go_quote(&block.label);
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        X509Certificate::from_der(&block.contents).err().map(|_| "x509: malformed certificate".to_owned())
    })
}

fn blocks(bytes: &[u8]) -> Vec<Pem> {
    Pem::iter_from_buffer(bytes).map_while(Result::ok).collect()
}
