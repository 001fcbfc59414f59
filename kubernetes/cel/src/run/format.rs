//! `'%s'.format([…])`: values as texts.

use super::{
    super::{
        budget,
        value::{Fault, Key, Value},
    },
    number, time,
};
use crate::go::quote as go_quote;

const PRECISION: usize = 6;
const DIGITS: usize = 1100;

type Text = Result<String, Fault>;

/// Fills the values of a list into a text.
pub(super) fn format(text: &str, args: &[Value]) -> Text {
    let mut out = String::new();
    let mut next = 0;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let Some(value) = args.get(next) else { return Fault::said(format!("index {next} out of range")) };
        next += 1;
        if after.is_empty() {
            return Fault::said("unexpected end of string");
        }
        let (clause, precision, after) =
            clause(after).map_err(|why| Fault::Said(format!("could not parse formatting clause: {why}")))?;
        let written = written(clause, precision, value).map_err(|why| match why {
            Fault::Said(why) => Fault::Said(format!("error during formatting: {why}")),
            Fault::Spent => Fault::Spent,
        })?;
        out.push_str(&written);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// A clause, its precision, and what follows it.
pub(super) fn clause(text: &str) -> Result<(char, Option<usize>, &str), String> {
    let mut rest = text;
    let mut precision = None;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == after.len() {
            return Err("error while parsing precision: could not find end of precision specifier".to_owned());
        }
        let number = &after[..digits];
        precision = Some(number.parse().map_err(|_| {
            format!("error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {number:?}: invalid syntax")
        })?);
        rest = &after[digits..];
    }
    let letter = rest.chars().next().unwrap_or(' ');
    match letter {
        's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o' => Ok((letter, precision, &rest[1..])),
        // The real server looks at bytes here.
        _ => Err(format!("unrecognized formatting clause \"{}\"", char::from(rest.as_bytes()[0]))),
    }
}

/// What is said of a value that a clause is not for.
pub(super) fn unfit(clause: char, kind: &str) -> String {
    let says = match clause {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
    };
    format!("{says}, was given {kind}")
}

fn written(clause: char, precision: Option<usize>, value: &Value) -> Text {
    let signed = |number: i64, digits: String| if number < 0 { format!("-{digits}") } else { digits };
    match (clause, value) {
        ('s', value) => text(value),
        ('d', Value::Int(number)) => Ok(number.to_string()),
        ('d', Value::Uint(number)) => Ok(number.to_string()),
        ('f' | 'e', Value::Double(_) | Value::Text(_)) => {
            let double = match value {
                Value::Double(double) => *double,
                Value::Text(text) => match &**text {
                    "NaN" => f64::NAN,
                    "Infinity" => f64::INFINITY,
                    "-Infinity" => f64::NEG_INFINITY,
                    _ => return Fault::said(unfit(clause, "string")),
                },
                _ => 0.0,
            };
            budget::pay(precision.unwrap_or(PRECISION) as u64 / 10)?;
            Ok(if clause == 'f' { fixed(double, precision) } else { scientific(double, precision) })
        }
        ('b', Value::Int(number)) => Ok(signed(*number, format!("{:b}", number.unsigned_abs()))),
        ('b', Value::Uint(number)) => Ok(format!("{number:b}")),
        ('b', Value::Bool(flag)) => Ok(if *flag { "1" } else { "0" }.to_owned()),
        ('o', Value::Int(number)) => Ok(signed(*number, format!("{:o}", number.unsigned_abs()))),
        ('o', Value::Uint(number)) => Ok(format!("{number:o}")),
        ('x' | 'X', value) => {
            let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let digits = match value {
                Value::Int(number) => signed(*number, format!("{:x}", number.unsigned_abs())),
                Value::Uint(number) => format!("{number:x}"),
                Value::Text(text) => bytes(text.as_bytes()),
                Value::Bytes(own) => bytes(own),
                other => return Fault::said(unfit(clause, &other.type_name())),
            };
            Ok(if clause == 'X' { digits.to_uppercase() } else { digits })
        }
        (_, other) => Fault::said(unfit(clause, &other.type_name())),
    }
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

fn special(double: f64) -> Option<String> {
    if double.is_nan() {
        return Some("NaN".to_owned());
    }
    double.is_infinite().then(|| if double > 0.0 { "\u{221e}" } else { "-\u{221e}" }.to_owned())
}

fn fixed(double: f64, precision: Option<usize>) -> String {
    special(double).unwrap_or_else(|| {
        let precision = precision.unwrap_or(PRECISION);
        // A double has no more digits than this; what is asked for beyond them are zeros.
        let digits = precision.min(DIGITS);
        grouped(&format!("{double:.digits$}")) + &"0".repeat(precision - digits)
    })
}

/// As the real server writes it for people: `1.052033×10⁰³`. What was asked for as precision it takes for a width.
fn scientific(double: f64, _width: Option<usize>) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    special(double).unwrap_or_else(|| {
        let text = format!("{double:.PRECISION$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
        let raised: String =
            format!("{exponent:0>2}").bytes().map(|digit| RAISED[usize::from(digit - b'0') % 10]).collect();
        format!("{digits}\u{d7}10{sign}{raised}")
    })
}

/// A value as `%s` shows it.
fn text(value: &Value) -> Text {
    Ok(match value {
        Value::List(_) | Value::Map(_) => return literal(value),
        Value::Null => "null".to_owned(),
        Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Text(_) | Value::Type(_) => value.to_string(),
        Value::Double(double) => number::shortest(*double),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Fault::said(
                    "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string",
                );
            }
        },
        Value::Duration(length) => time::duration_text(*length),
        Value::Time(moment) => moment.text(),
        other => return Fault::said(unfit('s', &other.type_name())),
    })
}

/// A value as it stands inside another.
fn literal(value: &Value) -> Text {
    Ok(match value {
        Value::Text(text) => go_quote(text),
        Value::Bytes(_) => format!("b{}", go_quote(&text(value)?)),
        Value::Double(double) if double.is_finite() => format!("{double:.PRECISION$}"),
        Value::Double(double) if double.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(double) => if *double > 0.0 { "\"+Inf\"" } else { "\"-Inf\"" }.to_owned(),
        Value::Time(moment) => format!("timestamp({})", go_quote(&moment.text())),
        Value::Duration(length) => format!("duration({})", go_quote(&time::duration_text(*length))),
        Value::List(list) => {
            let items: Vec<String> = list.items.iter().map(literal).collect::<Result<_, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map.iter() {
                let key = match key {
                    Key::Text(text) => go_quote(text),
                    other => Value::from(other.clone()).to_string(),
                };
                entries.push((key, literal(value)?));
            }
            entries.sort_by(|one, two| one.0.cmp(&two.0));
            let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Type(_) => return text(value),
        other => return Fault::said(format!("no formatting function for {}", other.type_name())),
    })
}
