//! Letters that are written as escapes.

/// The letter that an escape stands for, by its number, which may be half of a pair, and what comes behind.
pub(super) fn letter(text: &str) -> Result<(u32, &str), String> {
    let mut letters = text.char_indices().skip(1);
    let Some((at, letter)) = letters.next() else {
        return Err("trailing backslash at end of expression: ``".to_owned());
    };
    let behind = at + letter.len_utf8();
    let rest = &text[behind..];
    let octal = |text: &str| text.bytes().next().is_some_and(|byte| matches!(byte, b'0'..=b'7'));
    let plain = match letter {
        '0' => return Ok(octal_number(&text[1..])),
        // One digit alone would refer back to a group, which Go does not do.
        '1'..='7' if octal(rest) => return Ok(octal_number(&text[1..])),
        'x' => return hexadecimal(text),
        'a' => 0x07,
        'f' => 0x0c,
        'n' => 0x0a,
        'r' => 0x0d,
        't' => 0x09,
        'v' => 0x0b,
        letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => u32::from(letter),
        _ => return Err(invalid(&text[..behind])),
    };
    Ok((plain, rest))
}

/// Up to three digits.
fn octal_number(text: &str) -> (u32, &str) {
    let digits = text.bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    let (digits, rest) = text.split_at(digits);
    (u32::from_str_radix(digits, 8).unwrap_or_default(), rest)
}

/// `\x` with two digits, or with any number of them in braces.
fn hexadecimal(text: &str) -> Result<(u32, &str), String> {
    let mut letters = text.char_indices().skip(2);
    let mut next = || letters.next().map(|(at, letter)| (at + letter.len_utf8(), letter));
    match next() {
        None => Err(invalid(text)),
        Some((_, '{')) => {
            let (mut number, mut digits) = (0, 0);
            loop {
                let Some((behind, letter)) = next() else { return Err(invalid(text)) };
                if letter == '}' && digits > 0 {
                    return Ok((number, &text[behind..]));
                }
                let Some(digit) = letter.to_digit(16) else { return Err(invalid(&text[..behind])) };
                number = number * 16 + digit;
                digits += 1;
                if number > u32::from(char::MAX) {
                    return Err(invalid(&text[..behind]));
                }
            }
        }
        Some((behind, first)) => {
            let Some((end, second)) = next() else { return Err(invalid(&text[..behind])) };
            match (first.to_digit(16), second.to_digit(16)) {
                (Some(first), Some(second)) => Ok((first * 16 + second, &text[end..])),
                _ => Err(invalid(&text[..end])),
            }
        }
    }
}

fn invalid(escape: &str) -> String {
    format!("invalid escape sequence: `{escape}`")
}
