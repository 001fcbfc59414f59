//! Jobs and cron jobs.

use schema::{FieldError, go_quote, names};
use serde_json::{Value, json};

use super::place::{Find, Findings, Place};
use super::{cron, pods, rules};

const MOST_PARALLEL: i64 = 100_000;
const MOST_FAILED: i64 = 100_000;
/// Above this many completions, other numbers must be smaller.
const MANY: i64 = 100_000;
const WITH_MANY: i64 = 10_000;
const MOST_RULES: usize = 20;

pub(crate) fn job(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    generated_selector(object, findings);
    job_spec(&spec, findings);
    selector(&spec, findings);
    let completions = spec.field("completions").number();
    if spec.field("completionMode").text() == "Indexed" && completions > 0 {
        let name = object.field("metadata").field("name");
        let host = format!("{}-{}", name.text(), completions - 1);
        if !names::is_label(&host).is_empty() {
            findings.invalid(&name, format!("will not able to create pod with invalid DNS label: {host}"));
        }
    }
    // The real server looks at a changed job twice, and tells twice what it finds.
    if let Some(old) = old {
        job_spec(&spec, findings);
        selector(&spec, findings);
        changes(&spec, &old["spec"], findings);
    }
}

fn generated_selector(object: &Place<'_>, findings: &mut Findings) {
    let spec = object.field("spec");
    let selector = spec.field("selector");
    if spec.field("manualSelector").is_true() || !selector.is_set() {
        return;
    }
    let metadata = object.field("metadata");
    let (uid, name) = (metadata.field("uid").text(), metadata.field("name").text());
    let place = spec.field("template").field("metadata");
    for (key, expected) in [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ] {
        let labels = place.field("labels");
        match labels.value[key].as_str() {
            None => {
                findings.push(FieldError::required(format!("{}[{key}]", labels.path), format!("must be '{expected}'")))
            }
            Some(actual) if actual != expected => {
                let labels = labels.known_as(format!("{}[{key}]", labels.path));
                findings.invalid_as(&labels, place.value["labels"].clone(), format!("must be '{expected}'"));
            }
            Some(_) => {}
        }
    }
    let expected = json!({"controller-uid": uid, "job-name": name, "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name});
    if schema::selector::from_object(selector.value).is_ok_and(|parsed| !parsed.matches(expected.as_object())) {
        findings.invalid(&selector, "`selector` not auto-generated");
    }
}

fn selector(spec: &Place<'_>, findings: &mut Findings) {
    let selector = spec.field("selector");
    match selector.is_set() {
        true => rules::label_selector(&selector, findings),
        false => findings.required(&selector, ""),
    }
    let labels = spec.field("template").field("metadata").field("labels");
    if schema::selector::from_object(selector.value).is_ok_and(|parsed| !parsed.matches(labels.value.as_object())) {
        findings.invalid(&labels, "`selector` does not match template `labels`");
    }
}

fn job_spec(spec: &Place<'_>, findings: &mut Findings) {
    let field = |name: &str| spec.field(name);
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ] {
        findings.non_negative(&field(name));
    }
    if field("maxFailedIndexes").is_set() {
        findings.non_negative(&field("maxFailedIndexes"));
        if !field("backoffLimitPerIndex").is_set() {
            findings.required(&field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
        }
    }
    managed_by(&field("managedBy"), findings);
    let mode = field("completionMode");
    if mode.is_set() {
        findings.one_of(&mode, &["NonIndexed", "Indexed"]);
    }
    if mode.text() == "Indexed" {
        indexed(spec, findings);
    }
    if !mode.is_set() || mode.text() == "NonIndexed" {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if field(name).is_set() {
                findings.invalid(&field(name), "requires indexed completion mode");
            }
        }
    }
    if field("podFailurePolicy").is_set() {
        failure_policy(spec, findings);
    }
    let success = field("successPolicy");
    if success.is_set() {
        match mode.text() {
            "Indexed" => success_policy(spec, findings),
            _ => findings.invalid_as(&success, internal_success(&success), "requires indexed completion mode"),
        }
    }
    let replacement = field("podReplacementPolicy");
    if replacement.is_set() {
        let failures = field("podFailurePolicy").is_set();
        findings.one_of(&replacement, if failures { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] });
    }
    let template = field("template");
    pods::template(&template, findings);
    let restart = template.field("spec").field("restartPolicy");
    match restart.text() {
        "Always" | "" => findings.required(&restart, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if field("podFailurePolicy").is_set() => {
            findings.invalid(&restart, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => findings.unsupported(&restart, &["OnFailure", "Never"]),
    }
}

fn managed_by(place: &Place<'_>, findings: &mut Findings) {
    if !place.is_set() {
        return;
    }
    domain_prefixed_path(place, findings);
    if place.text().len() > 63 {
        findings.too_long(place, 63);
    }
}

/// `example.com/path`.
pub(crate) fn domain_prefixed_path(place: &Place<'_>, findings: &mut Findings) {
    const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    if place.is_empty() {
        return findings.required(place, "");
    }
    let Some((host, path)) = place.text().split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return findings.invalid(place, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    for problem in names::is_subdomain(host) {
        findings.invalid_as(place, host, problem);
    }
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        findings.invalid_as(place, path, PATH);
    }
}

fn indexed(spec: &Place<'_>, findings: &mut Findings) {
    let (completions, parallel) = (spec.field("completions"), spec.field("parallelism"));
    let failed = spec.field("maxFailedIndexes");
    if !completions.is_set() {
        findings.required(&completions, "when completion mode is Indexed");
    }
    if parallel.number() > MOST_PARALLEL {
        let detail = format!("must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed");
        findings.invalid(&parallel, detail);
    }
    if completions.is_set() && failed.is_set() && failed.number() > completions.number() {
        findings.invalid(&failed, "must be less than or equal to completions");
    }
    if failed.number() > MOST_FAILED {
        findings.invalid(&failed, format!("must be less than or equal to {MOST_FAILED}"));
    }
    if completions.number() > MANY && spec.field("backoffLimitPerIndex").is_set() {
        let detail = format!(
            "must be less than or equal to {WITH_MANY} when completions are above {MANY} and used with backoff limit per index"
        );
        if !failed.is_set() {
            findings.required(&failed, &format!("must be specified when completions is above {MANY}"));
        }
        for place in [&parallel, &failed] {
            if place.number() > WITH_MANY {
                findings.invalid(place, detail.as_str());
            }
        }
    }
}

/// A list as Go's `%q` prints it.
fn listed(texts: &[&str]) -> String {
    format!("[{}]", texts.iter().map(|text| go_quote(text)).collect::<Vec<_>>().join(" "))
}

fn required_one_of(place: &Place<'_>, known: &[&str], findings: &mut Findings) {
    match place.is_empty() {
        true => findings.required(place, &format!("valid values: {}", listed(known))),
        false => findings.one_of(place, known),
    }
}

fn omitted(place: &Place<'_>, detail: &str, findings: &mut Findings) {
    findings.push(FieldError::new(schema::ErrorKind::Invalid, &place.path, None, detail));
}

fn failure_policy(spec: &Place<'_>, findings: &mut Findings) {
    let rules = spec.field("podFailurePolicy").field("rules");
    if rules.count() > MOST_RULES {
        findings.push(FieldError::too_many(&rules.path, rules.count(), MOST_RULES as u64));
    }
    let pod = spec.field("template").field("spec");
    let mut containers: Vec<&str> = Vec::new();
    for list in ["containers", "initContainers"] {
        containers.extend(pod.field(list).items().map(|container| container.field("name").text()));
    }
    for rule in rules.items() {
        let action = rule.field("action");
        match action.text() {
            "FailIndex" if !spec.field("backoffLimitPerIndex").is_set() => {
                findings.invalid(&action, "requires the backoffLimitPerIndex to be set");
            }
            "FailIndex" => {}
            _ => required_one_of(&action, &["Count", "FailIndex", "FailJob", "Ignore"], findings),
        }
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        if codes.is_set() {
            exit_codes(&codes, &containers, findings);
        }
        if conditions.count() > MOST_RULES {
            findings.push(FieldError::too_many(&conditions.path, conditions.count(), MOST_RULES as u64));
        }
        for pattern in conditions.items() {
            rules::qualified_name(&pattern.field("type"), findings);
            required_one_of(&pattern.field("status"), &["False", "True", "Unknown"], findings);
        }
        match (codes.is_set(), !conditions.is_empty()) {
            (true, true) => {
                omitted(&rule, "specifying both OnExitCodes and OnPodConditions is not supported", findings)
            }
            (false, false) => omitted(&rule, "specifying one of OnExitCodes and OnPodConditions is required", findings),
            _ => {}
        }
    }
}

fn exit_codes(codes: &Place<'_>, containers: &[&str], findings: &mut Findings) {
    const MOST: usize = 255;
    let operator = codes.field("operator");
    required_one_of(&operator, &["In", "NotIn"], findings);
    let name = codes.field("containerName");
    if name.is_set() && !containers.contains(&name.text()) {
        findings.invalid(&name, "must be one of the container or initContainer names in the pod template");
    }
    let values = codes.field("values");
    if values.is_empty() {
        findings.invalid(&values, "at least one value is required");
    } else if values.count() > MOST {
        findings.push(FieldError::too_many(&values.path, values.count(), MOST as u64));
    }
    let mut seen: Vec<i64> = Vec::new();
    let mut ordered = true;
    for value in values.items() {
        let number = value.number();
        if operator.text() == "In" && number == 0 {
            findings.invalid(&value, "must not be 0 for the In operator");
        }
        if seen.contains(&number) {
            findings.duplicate(&value);
        }
        ordered &= seen.last().is_none_or(|last| *last <= number);
        seen.push(number);
    }
    if !ordered {
        findings.invalid(&values, "must be ordered");
    }
}

fn internal_success(success: &Place<'_>) -> Value {
    let rules: Vec<Value> = success
        .field("rules")
        .items()
        .map(|rule| json!({"SucceededIndexes": rule.value["succeededIndexes"], "SucceededCount": rule.value["succeededCount"]}))
        .collect();
    json!({"Rules": rules})
}

fn success_policy(spec: &Place<'_>, findings: &mut Findings) {
    let rules = spec.field("successPolicy").field("rules");
    let completions = spec.field("completions").number();
    if rules.is_empty() {
        findings.required(&rules, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.count() > MOST_RULES {
        findings.push(FieldError::too_many(&rules.path, rules.count(), MOST_RULES as u64));
    }
    for rule in rules.items() {
        let (indexes, count) = (rule.field("succeededIndexes"), rule.field("succeededCount"));
        if !indexes.is_set() && !count.is_set() {
            findings.required(&rule, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if indexes.is_set() {
            if indexes.text().len() > 64 * 1024 {
                findings.too_long(&indexes, 64 * 1024);
            }
            match total_of(indexes.text(), completions) {
                Ok(found) => total = found,
                Err(error) => findings.invalid(&indexes, format!("error parsing succeededIndexes: {error}")),
            }
        }
        if count.is_set() {
            findings.non_negative(&count);
            if count.number() > completions {
                let detail =
                    format!("must be less than or equal to {completions} (the number of specified completions)");
                findings.invalid(&count, detail);
            }
            if indexes.is_set() && count.number() > total {
                let detail = format!(
                    "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
                );
                findings.invalid(&count, detail);
            }
        }
    }
}

/// How many indexes a text like `0,2-4` names.
fn total_of(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last): (i64, Option<i64>) = (0, None);
    for interval in text.split(',') {
        let (first, end) = interval_of(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn interval_of(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str| {
        let quoted = go_quote(part);
        let number: i64 = part.parse().map_err(|_| format!("cannot convert string to integer for index: {quoted}"))?;
        if number >= completions { Err(format!("too large index: {quoted}")) } else { Ok(number) }
    };
    match parts.as_slice() {
        [one] => number(one).map(|one| (one, one)),
        [first, end] => {
            let (first, end) = (number(first)?, number(end)?);
            match first >= end {
                true => Err(format!("non-increasing order, previous: {first}, current: {end}")),
                false => Ok((first, end)),
            }
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go_quote(text)
        )),
    }
}

fn changes(spec: &Place<'_>, old: &Value, findings: &mut Findings) {
    let completions = spec.field("completions");
    if spec.field("completionMode").text() != "Indexed" {
        rules::immutable(&completions, &old["completions"], findings);
    } else if completions.is_set()
        && *completions.value != old["completions"]
        && completions.number() != spec.field("parallelism").number()
    {
        findings.invalid(&completions, "can only be modified in tandem with spec.parallelism");
    }
    rules::immutable(&spec.field("selector"), &old["selector"], findings);
    template_changes(spec, old, findings);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        rules::immutable(&spec.field(field), &old[field], findings);
    }
}

/// A job that has not begun may still be told where its pods run and what they ask for.
fn template_changes(spec: &Place<'_>, old: &Value, findings: &mut Findings) {
    let template = spec.field("template");
    let mut before = old["template"].clone();
    if old["suspend"] == true {
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            before["spec"][field] = template.value["spec"][field].clone();
        }
        let affinity = &template.value["spec"]["affinity"]["nodeAffinity"];
        if !affinity.is_null() || !before["spec"]["affinity"]["nodeAffinity"].is_null() {
            before["spec"]["affinity"]["nodeAffinity"] = affinity.clone();
        }
        for field in ["labels", "annotations"] {
            before["metadata"][field] = template.value["metadata"][field].clone();
        }
        for list in ["containers", "initContainers"] {
            let news = template.field("spec").field(list);
            let olds = before["spec"].get_mut(list).and_then(Value::as_array_mut);
            for (old, new) in olds.into_iter().flatten().zip(news.items()) {
                if old["name"] == new.value["name"] {
                    old["resources"] = new.value["resources"].clone();
                }
            }
        }
        let pod = template.field("spec");
        if !rules::same(pod.value, &before["spec"]) {
            findings.invalid(&pod, rules::IMMUTABLE);
        }
        return;
    }
    rules::immutable(&template, &before, findings);
}

pub(crate) fn cron_job(object: &Place<'_>, old: Option<&Value>, findings: &mut Findings) {
    let spec = object.field("spec");
    let (schedule, zone) = (spec.field("schedule"), spec.field("timeZone"));
    if schedule.is_empty() {
        findings.required(&schedule, "");
    } else {
        let text = schedule.text();
        if let Err(problem) = cron::parse(text) {
            findings.invalid(&schedule, problem);
        }
        let was_allowed = old.is_some_and(|old| old["spec"]["schedule"].as_str().is_some_and(|old| old.contains("TZ")));
        if text.contains("TZ") && !was_allowed {
            findings.invalid(&schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        } else if text.contains("TZ") && zone.is_set() {
            findings.invalid(&schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
    }
    findings.non_negative(&spec.field("startingDeadlineSeconds"));
    if old.is_none_or(|old| old["spec"]["timeZone"] != *zone.value) && zone.is_set() {
        time_zone(&zone, findings);
    }
    findings.required_one_of(&spec.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let job = spec.field("jobTemplate").field("spec");
    job_spec(&job, findings);
    if job.field("selector").is_set() {
        findings.invalid(&job.field("selector"), "`selector` will be auto-generated");
    }
    let manual = job.field("manualSelector");
    if manual.is_true() {
        let supported = ["nil", "false"].map(str::to_owned);
        findings.push(FieldError::not_supported(manual.path, true, &supported));
    }
    findings.non_negative(&spec.field("successfulJobsHistoryLimit"));
    findings.non_negative(&spec.field("failedJobsHistoryLimit"));
    let name = object.field("metadata").field("name");
    if old.is_none() && name.text().len() > 52 {
        findings.invalid(&name, "must be no more than 52 characters");
    }
}

fn time_zone(zone: &Place<'_>, findings: &mut Findings) {
    let text = zone.text();
    if text.is_empty() {
        return findings.invalid(zone, "timeZone must be nil or non-empty string");
    }
    for part in text.split('/') {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        let odd = matches!(part, "." | "..") || part.starts_with('-') || part.is_empty() || part.len() > 14;
        if odd || !part.bytes().all(known) {
            return findings.invalid(zone, format!("unknown time zone {text}"));
        }
    }
    if text.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        findings.invalid(zone, detail);
    }
    if jiff::tz::TimeZone::get(text).is_err() && text != "Local" {
        findings.invalid(zone, format!("unknown time zone {text}"));
    }
}
