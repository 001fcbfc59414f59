//! A number of bytes as Kubernetes writes quantities.

const SUFFIXES: [(&str, u128); 13] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
    ("", 1),
];

/// Whole bytes, rounded up as upstream rounds: `16Gi`, `1.5G`, `17706254336`, `2e9`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, scale) = SUFFIXES.iter().find_map(|(suffix, scale)| Some((text.strip_suffix(suffix)?, *scale)))?;
    let (number, exponent) = match number.split_once(['e', 'E']) {
        Some((number, exponent)) if scale == 1 => (number, exponent.parse::<u32>().ok().filter(|it| *it <= 18)?),
        Some(_) => return None,
        None => (number, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 18 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let value = digits.parse::<u128>().ok()?.checked_mul(scale)?.checked_mul(10_u128.pow(exponent))?;
    u64::try_from(value.div_ceil(divisor)).ok()
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn quantities_are_whole_bytes() {
        for (text, expected) in [
            ("17706254336", Some(17_706_254_336)),
            ("16Gi", Some(17_179_869_184)),
            ("1.5G", Some(1_500_000_000)),
            ("2e9", Some(2_000_000_000)),
            ("2E", Some(2_000_000_000_000_000_000)),
            ("0.1", Some(1)),
            ("0", Some(0)),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in
            ["", "Gi", "16 Gi", "-1", "sixteen", "1e99", "99999999999999999999", "16GiB", "1.2.3", "9e18Gi", "20Ei"]
        {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
