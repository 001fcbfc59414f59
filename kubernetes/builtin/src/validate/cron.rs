//! Schedules of cron jobs, with the words the real server has for those that are none.

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

struct Bounds {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, names: &[] },
    Bounds { least: 0, most: 23, names: &[] },
    Bounds { least: 1, most: 31, names: &[] },
    Bounds { least: 1, most: 12, names: &MONTHS },
    Bounds { least: 0, most: 6, names: &DAYS },
];

/// What is wrong with a schedule, if anything is.
pub(crate) fn parse(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let zone = schedule.split_once('=').unwrap_or_default().1;
        let Some((zone, fields)) = zone.split_once(' ') else {
            return Err("runtime error: slice bounds out of range".to_owned());
        };
        if !zone.is_empty() && jiff::tz::TimeZone::get(zone).is_err() {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = fields.trim();
    }
    if rest.starts_with('@') {
        return described(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        field.split(',').filter(|part| !part.is_empty()).try_for_each(|part| range(part, bounds))?;
    }
    Ok(())
}

fn described(text: &str) -> Result<(), String> {
    if matches!(text, "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly") {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => Ok(()),
        Some(duration) => {
            let quoted = schema::go_quote(duration);
            Err(format!("failed to parse duration {text}: time: invalid duration {quoted}"))
        }
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// `1h30m`, as Go writes it.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (digits, after) = rest.split_at(number);
        if digits.trim_matches('.').is_empty() || digits.matches('.').count() > 1 {
            return false;
        }
        let unit = after.len() - after.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').len();
        let (unit, after) = after.split_at(unit);
        if !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = after;
    }
    true
}

fn range(expression: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = expression.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (bounds.least, bounds.most)
    } else {
        let start = named(ends[0], bounds)?;
        match ends.as_slice() {
            [_] => (start, start),
            [_, end] => (start, named(end, bounds)?),
            _ => return Err(format!("too many hyphens: {expression}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = bounds.most;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    let Bounds { least, most, .. } = bounds;
    if start < *least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {expression}"));
    }
    if end > *most {
        return Err(format!("end of range ({end}) above maximum ({most}): {expression}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {expression}"));
    }
    match step {
        0 => Err(format!("step of range should be a positive number: {expression}")),
        _ => Ok(()),
    }
}

fn named(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(at) => Ok(at as u64 + bounds.least),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let quoted = schema::go_quote(text);
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number.unsigned_abs()),
        Err(error) => {
            let large =
                matches!(error.kind(), std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow);
            let why = if large { "value out of range" } else { "invalid syntax" };
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {why}"))
        }
    }
}
