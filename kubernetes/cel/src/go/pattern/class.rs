//! Classes of letters: in brackets, by name, and by what Unicode says of letters.

use std::fmt::Write as _;

use super::escape;

/// Classes in brackets and colons, each with its members as Rust writes them.
const POSIX: [(&str, &str); 14] = [
    ("alnum", "0-9A-Za-z"),
    ("alpha", "A-Za-z"),
    ("ascii", r"\x00-\x7F"),
    ("blank", r"\t\x20"),
    ("cntrl", r"\x00-\x1F\x7F"),
    ("digit", "0-9"),
    ("graph", r"\x21-\x7E"),
    ("lower", "a-z"),
    ("print", r"\x20-\x7E"),
    ("punct", r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E"),
    ("space", r"\t\n\x0B\x0C\r\x20"),
    ("upper", "A-Z"),
    ("word", "0-9A-Za-z_"),
    ("xdigit", "0-9A-Fa-f"),
];

/// What Go knows of Unicode: categories by their short and long names, and scripts of one word. What is written in several
/// words, it does not find.
const CATEGORIES: &str = "any assigned ascii c cc cf cn co cs l lc ll lm lo lt lu m mc me mn n nd nl no p pc pd pe pf pi po \
    ps s sc sk sm so z zl zp zs casedletter closepunctuation combiningmark connectorpunctuation control currencysymbol \
    dashpunctuation decimalnumber enclosingmark finalpunctuation format initialpunctuation letter letternumber lineseparator \
    lowercaseletter mark mathsymbol modifierletter modifiersymbol nonspacingmark number openpunctuation other otherletter \
    othernumber otherpunctuation othersymbol paragraphseparator privateuse punctuation separator spaceseparator spacingmark \
    surrogate symbol titlecaseletter unassigned uppercaseletter cntrl digit punct";
const SCRIPTS: &str = "adlam ahom arabic armenian avestan balinese bamum batak bengali bhaiksuki bopomofo brahmi braille \
    buginese buhid carian chakma cham cherokee chorasmian common coptic cuneiform cypriot cyrillic deseret devanagari dogra \
    duployan elbasan elymaic ethiopic georgian glagolitic gothic grantha greek gujarati gurmukhi han hangul hanunoo hatran \
    hebrew hiragana inherited javanese kaithi kannada katakana kawi kharoshthi khmer khojki khudawadi lao latin lepcha limbu \
    lisu lycian lydian mahajani makasar malayalam mandaic manichaean marchen medefaidrin miao modi mongolian mro multani \
    myanmar nabataean nandinagari newa nko nushu ogham oriya osage osmanya palmyrene phoenician rejang runic samaritan \
    saurashtra sharada shavian siddham sinhala sogdian soyombo sundanese syriac tagalog tagbanwa takri tamil tangsa tangut \
    telugu thaana thai tibetan tifinagh tirhuta toto ugaritic vai vithkuqi wancho yezidi yi";

/// Halves of pairs, which no text has.
const SURROGATES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;

/// A class of nothing.
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// Reads a class in brackets, and returns it in Rust's notation with what comes behind.
pub(super) fn bracketed(whole: &str) -> Result<(String, &str), String> {
    let mut text = &whole[1..];
    let mut class = String::from("[");
    if let Some(rest) = text.strip_prefix('^') {
        class.push('^');
        text = rest;
    }
    let begin = class.len();
    let mut is_first = true;
    loop {
        match text.strip_prefix(']') {
            Some(rest) if !is_first => {
                text = rest;
                break;
            }
            _ => is_first = false,
        }
        let found = match posix(text)? {
            None => escaped(text)?,
            found => found,
        };
        if let Some((members, rest)) = found {
            class.push_str(&members);
            text = rest;
            continue;
        }
        let ((lowest, highest), rest) = range(text, whole)?;
        class.push_str(&members(lowest, highest));
        text = rest;
    }
    // Rust knows no empty brackets.
    if class.len() == begin {
        class.push_str(NOTHING);
    }
    class.push(']');
    Ok((class, text))
}

/// Reads a letter of a class, or two with a dash between them.
fn range<'t>(text: &'t str, whole: &str) -> Result<((u32, u32), &'t str), String> {
    let (lowest, rest) = member(text, whole)?;
    // A dash at the end stands for itself.
    let Some(end) = rest.strip_prefix('-').filter(|end| !end.is_empty() && !end.starts_with(']')) else {
        return Ok(((lowest, lowest), rest));
    };
    let (highest, rest) = member(end, whole)?;
    match lowest <= highest {
        true => Ok(((lowest, highest), rest)),
        false => Err(invalid(&text[..text.len() - rest.len()])),
    }
}

fn member<'t>(text: &'t str, whole: &str) -> Result<(u32, &'t str), String> {
    match text.chars().next() {
        None => Err(format!("missing closing ]: `{whole}`")),
        Some('\\') => escape::letter(text),
        Some(letter) => Ok((u32::from(letter), &text[letter.len_utf8()..])),
    }
}

/// Letters from one to another as members of a class; halves of pairs are left out.
fn members(lowest: u32, highest: u32) -> String {
    let lowest = if SURROGATES.contains(&lowest) { SURROGATES.end() + 1 } else { lowest };
    let highest = if SURROGATES.contains(&highest) { SURROGATES.start() - 1 } else { highest };
    let mut text = String::new();
    if lowest <= highest {
        let _ = write!(text, "\\x{{{lowest:X}}}");
    }
    if lowest < highest {
        let _ = write!(text, "-\\x{{{highest:X}}}");
    }
    text
}

/// One letter by its number, as an expression of its own.
pub(super) fn one(letter: u32) -> String {
    match char::from_u32(letter) {
        Some(letter) => super::letter_text(letter),
        None => NOTHING.to_owned(),
    }
}

/// `[:name:]` and `[:^name:]`; none if there is no such thing.
fn posix(text: &str) -> Result<Option<(String, &str)>, String> {
    let Some((name, rest)) = text.strip_prefix("[:").and_then(|text| text.split_once(":]")) else { return Ok(None) };
    let (negated, bare) = name.strip_prefix('^').map_or((false, name), |bare| (true, bare));
    match POSIX.iter().find(|(known, _)| *known == bare) {
        Some((_, members)) => Ok(Some((named(members, negated), rest))),
        None => Err(invalid(&text[..text.len() - rest.len()])),
    }
}

fn named(members: &str, negated: bool) -> String {
    if negated { format!("[^{members}]") } else { members.to_owned() }
}

/// A class that is written as an escape (`\d`, `\pL`), as members of a class; none if it is another escape.
pub(super) fn escaped(text: &str) -> Result<Option<(String, &str)>, String> {
    let Some(letter) = text.strip_prefix('\\').and_then(|rest| rest.chars().next()) else { return Ok(None) };
    let members = match letter.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\x0C\r\x20",
        'w' => "0-9A-Za-z_",
        'p' => return unicode(text).map(Some),
        _ => return Ok(None),
    };
    Ok(Some((named(members, letter.is_ascii_uppercase()), &text[2..])))
}

/// `\pL`, `\PL`, `\p{Letter}` and `\p{^Letter}`.
fn unicode(text: &str) -> Result<(String, &str), String> {
    let (sequence, name) = match text[2..].chars().next() {
        Some('{') => match text.find('}') {
            Some(end) => (&text[..=end], &text[3..end]),
            None => return Err(invalid(text)),
        },
        Some(letter) => (&text[..2 + letter.len_utf8()], &text[2..2 + letter.len_utf8()]),
        None => return Err(invalid(text)),
    };
    let (negated, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
    let negated = negated != text.starts_with(r"\P");
    let bare: String = name.chars().filter(|letter| !matches!(letter, '_' | '-' | ' ')).collect();
    let bare = bare.to_ascii_lowercase();
    let known = |names: &str| names.split_ascii_whitespace().any(|own| own == bare);
    let sign = if negated { 'P' } else { 'p' };
    let class = match bare.as_str() {
        "cs" | "surrogate" if negated => r"\x{0}-\x{10FFFF}".to_owned(),
        "cs" | "surrogate" => NOTHING.to_owned(),
        "any" | "assigned" | "ascii" => format!(r"\{sign}{{{bare}}}"),
        _ if known(CATEGORIES) => format!(r"\{sign}{{gc={bare}}}"),
        _ if known(SCRIPTS) => format!(r"\{sign}{{sc={bare}}}"),
        _ => return Err(invalid(sequence)),
    };
    Ok((class, &text[sequence.len()..]))
}

fn invalid(range: &str) -> String {
    format!("invalid character class range: `{range}`")
}
