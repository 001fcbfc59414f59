//! Moments and durations: how they are read, written and counted with.

use std::cmp::Ordering;

use jiff::{Timestamp, tz::TimeZone};

use super::super::value::{Fault, Outcome, Value};

const SECOND: i128 = 1_000_000_000;
/// The first second of year 1, and the last of year 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

fn overflow() -> Fault {
    Fault::Said("timestamp overflow".to_owned())
}

/// A moment, written with the offset it was read with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    seconds: i64,
    nanos: u32,
    /// Seconds east of Greenwich.
    offset: i32,
}

impl Moment {
    pub(super) fn of_seconds(seconds: i64) -> Result<Moment, Fault> {
        match (FIRST..=LAST).contains(&seconds) {
            true => Ok(Moment { seconds, nanos: 0, offset: 0 }),
            false => Err(overflow()),
        }
    }

    /// Reads `2020-01-31T12:34:56.789+02:00`.
    pub(crate) fn parse(text: &str) -> Option<Moment> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let part = text.get(from..to)?;
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
        };
        let at = |place: usize, wanted: u8| (bytes.get(place) == Some(&wanted)).then_some(());
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        at(4, b'-')?;
        at(7, b'-')?;
        at(10, b'T')?;
        at(13, b':')?;
        at(16, b':')?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut rest = text.get(19..)?;
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let digits = fraction.len() - fraction.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if digits == 0 {
                return None;
            }
            let kept: String = fraction[..digits].chars().chain("000000000".chars()).take(9).collect();
            nanos = kept.parse().ok()?;
            rest = &fraction[digits..];
        }
        let offset = match rest {
            "Z" => 0,
            _ => {
                let sign = match rest.as_bytes().first()? {
                    b'+' => 1,
                    b'-' => -1,
                    _ => return None,
                };
                let (hours, minutes) = rest.get(1..)?.split_once(':')?;
                if hours.len() != 2 || minutes.len() != 2 {
                    return None;
                }
                let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
                if hours > 24 || minutes > 60 {
                    return None;
                }
                sign * (hours * 3600 + minutes * 60)
            }
        };
        let date =
            jiff::civil::Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?)
                .ok()?;
        let days = days_since_1970(date);
        let seconds = days * 86400 + hour * 3600 + minute * 60 + second - i64::from(offset);
        Some(Moment { seconds, nanos, offset })
    }

    /// Whether the moment is one that can be written.
    pub(super) fn checked(self) -> Result<Moment, Fault> {
        if (FIRST..=LAST).contains(&self.seconds) { Ok(self) } else { Err(overflow()) }
    }

    pub(super) fn nanoseconds(&self) -> i128 {
        i128::from(self.seconds) * SECOND + i128::from(self.nanos)
    }

    pub(super) fn seconds(&self) -> i64 {
        self.seconds
    }

    pub(super) fn later(&self, nanoseconds: i128) -> Result<Moment, Fault> {
        let all = self.nanoseconds() + nanoseconds;
        let seconds = i64::try_from(all.div_euclid(SECOND)).map_err(|_| overflow())?;
        let nanos = u32::try_from(all.rem_euclid(SECOND)).unwrap_or(0);
        Moment { seconds, nanos, offset: self.offset }.checked()
    }

    pub(crate) fn same(&self, other: &Moment) -> bool {
        self.order(other) == Ordering::Equal
    }

    pub(crate) fn order(&self, other: &Moment) -> Ordering {
        self.nanoseconds().cmp(&other.nanoseconds())
    }

    /// Whether it is the first moment of year 1.
    pub(crate) fn is_zero(&self) -> bool {
        self.seconds == FIRST && self.nanos == 0
    }

    pub(crate) fn text(&self) -> String {
        let (date, rest) = civil(self.seconds + i64::from(self.offset));
        let mut out = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            date.year(),
            date.month(),
            date.day(),
            rest / 3600,
            rest / 60 % 60,
            rest % 60
        );
        if self.nanos > 0 {
            let fraction = format!("{:09}", self.nanos);
            out.push('.');
            out.push_str(fraction.trim_end_matches('0'));
        }
        if self.offset == 0 {
            out.push('Z');
        } else {
            let sign = if self.offset < 0 { '-' } else { '+' };
            let minutes = self.offset.abs() / 60;
            out.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
        }
        out
    }

    /// The moment as Go prints it.
    pub(crate) fn printed(&self) -> String {
        let text = self.text().replacen('T', " ", 1);
        match text.strip_suffix('Z') {
            Some(rest) => format!("{rest} +0000 UTC"),
            None => {
                let (rest, offset) = text.split_at(text.len() - "+00:00".len());
                let offset = offset.replace(':', "");
                format!("{rest} {offset} {offset}")
            }
        }
    }

    /// The moment as Go writes it in a program.
    pub(crate) fn written(&self) -> String {
        const MONTHS: [&str; 12] = [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ];
        let (date, rest) = civil(self.seconds + i64::from(self.offset));
        let month = MONTHS[usize::try_from(date.month() - 1).unwrap_or(0) % 12];
        let zone = if self.offset == 0 { "time.UTC" } else { "time.Location(\"\")" };
        let (year, day, nanos) = (date.year(), date.day(), self.nanos);
        let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
        format!("time.Date({year}, time.{month}, {day}, {hours}, {minutes}, {seconds}, {nanos}, {zone})")
    }

    /// One part of the moment (`getHours`) in a time zone.
    pub(super) fn part(&self, part: &str, zone: Option<&str>) -> Outcome {
        let offset = match zone {
            None => 0,
            Some(zone) => self.offset_in(zone)?,
        };
        let (date, rest) = civil(self.seconds + offset);
        Ok(Value::Int(match part {
            "getFullYear" => i64::from(date.year()),
            "getMonth" => i64::from(date.month()) - 1,
            "getDayOfYear" => i64::from(date.day_of_year()) - 1,
            "getDayOfMonth" => i64::from(date.day()) - 1,
            "getDate" => i64::from(date.day()),
            "getDayOfWeek" => i64::from(date.weekday().to_sunday_zero_offset()),
            "getHours" => rest / 3600,
            "getMinutes" => rest / 60 % 60,
            "getSeconds" => rest % 60,
            _ => i64::from(self.nanos / 1_000_000),
        }))
    }

    fn offset_in(&self, zone: &str) -> Result<i64, Fault> {
        let Some((hours, minutes)) = zone.split_once(':') else {
            if zone.is_empty() || zone == "UTC" {
                return Ok(0);
            }
            let known = TimeZone::get(zone).ok().zip(Timestamp::from_second(self.seconds).ok());
            return match known {
                Some((zone, at)) => Ok(i64::from(zone.to_offset(at).seconds())),
                None => Fault::said(format!("unknown time zone {zone}")),
            };
        };
        let number = |text: &str| -> Result<i64, Fault> {
            text.parse().or_else(|_| Fault::said(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let minutes = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
        Ok(minutes * 60)
    }
}

fn days_since_1970(date: jiff::civil::Date) -> i64 {
    let epoch = jiff::civil::Date::constant(1970, 1, 1);
    i64::from(epoch.until(date).map_or(0, |span| span.get_days()))
}

/// The day of a second, and how many seconds of it have passed.
fn civil(seconds: i64) -> (jiff::civil::Date, i64) {
    let epoch = jiff::civil::Date::constant(1970, 1, 1);
    let days = seconds.div_euclid(86400);
    let span = jiff::Span::new().try_days(days).unwrap_or_default();
    (epoch.checked_add(span).unwrap_or(epoch), seconds.rem_euclid(86400))
}

/// Reads `1h30m`, in nanoseconds.
pub(crate) fn duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum: i128 = 0;
    while !rest.is_empty() {
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit: i128 = match &after[..unit_end] {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return None,
        };
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        sum = sum.checked_add(whole.checked_mul(unit)?)?;
        if !fraction.is_empty() {
            let kept = &fraction[..fraction.len().min(18)];
            let scale = 10_i128.pow(u32::try_from(kept.len()).ok()?);
            sum += kept.parse::<i128>().ok()? * unit / scale;
        }
        rest = &after[unit_end..];
    }
    i64::try_from(if negative { -sum } else { sum }).ok()
}

/// A duration in seconds, as a text.
pub(crate) fn duration_text(nanoseconds: i64) -> String {
    let seconds = (nanoseconds / 1_000_000_000) as f64 + (nanoseconds % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}

/// A duration as Go prints it: `1h30m0s`.
pub(crate) fn duration_printed(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let part = |unit: u64, name: &str| {
        let fraction = format!("{:0width$}", all % unit, width = unit.ilog10() as usize);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() || unit == 1 { String::new() } else { format!(".{fraction}") };
        format!("{}{point}{name}", all / unit % if unit == 1_000_000_000 { 60 } else { u64::MAX })
    };
    let rest = match all {
        0 => "0s".to_owned(),
        1..1_000 => part(1, "ns"),
        1_000..1_000_000 => part(1_000, "\u{b5}s"),
        1_000_000..1_000_000_000 => part(1_000_000, "ms"),
        _ => {
            let minutes = all / 60_000_000_000;
            let seconds = part(1_000_000_000, "s");
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{rest}")
}
