//! Numbers as texts, and texts as numbers.

/// Numbers from this power of ten on are written with an exponent, however many digits they have.
const LONG: i32 = 6;

/// The shortest text that means the number, with an exponent where it is short or long.
pub(crate) fn shortest(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..LONG).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{number}")
}

/// A text as a number with a fraction.
pub(super) fn double(text: &str) -> Option<f64> {
    let plain = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    if text.len() - plain.len() > 1 {
        return None;
    }
    match plain.as_str() {
        "inf" | "infinity" => return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        "nan" if plain.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    if !plain.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

pub(super) fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
