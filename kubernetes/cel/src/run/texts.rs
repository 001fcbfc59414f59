//! Functions of texts.

use std::{cell::RefCell, collections::HashMap};

use super::super::value::{Fault, Outcome, Value};
use crate::go::pattern::compile;

/// How many regular expressions are kept for the next time; building one takes longer than most rules run.
const KEPT: usize = 256;

thread_local! {
    static PATTERNS: RefCell<HashMap<String, regex::Regex>> = RefCell::default();
}

fn out_of_range<T>(index: i64) -> Result<T, Fault> {
    Fault::said(format!("index out of range: {index}"))
}

fn place(index: i64, length: usize) -> Result<usize, Fault> {
    match usize::try_from(index) {
        Ok(at) if at <= length => Ok(at),
        _ => out_of_range(index),
    }
}

fn number(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

pub(super) fn char_at(text: &str, index: i64) -> Outcome {
    let at = place(index, text.chars().count())?;
    Ok(text.chars().nth(at).map(String::from).unwrap_or_default().into())
}

pub(super) fn substring(text: &str, start: i64, end: Option<i64>) -> Outcome {
    let letters: Vec<char> = text.chars().collect();
    if let Some(end) = end
        && start > end
    {
        return Fault::said(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let start = place(start, letters.len())?;
    let end = end.map_or(Ok(letters.len()), |end| place(end, letters.len()))?;
    Ok(letters[start..end].iter().collect::<String>().into())
}

pub(super) fn index_of(text: &str, part: &str, offset: i64) -> Outcome {
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let Ok(offset) = usize::try_from(offset) else { return out_of_range(offset) };
    let (letters, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let found = letters.windows(part.len()).enumerate().skip(offset).find(|(_, window)| *window == part);
    Ok(found.map_or(Value::Int(-1), |(at, _)| number(at)))
}

pub(super) fn last_index_of(text: &str, part: &str, offset: Option<i64>) -> Outcome {
    let (letters, wanted): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    if part.is_empty() {
        return Ok(offset.map_or_else(|| number(letters.len()), Value::Int));
    }
    let offset = match offset {
        None if text.len() < part.len() => return Ok(Value::Int(-1)),
        None => letters.len() - 1,
        Some(offset) => match usize::try_from(offset) {
            Ok(offset) => offset,
            Err(_) => return out_of_range(offset),
        },
    };
    if offset >= letters.len() {
        return Ok(Value::Int(-1));
    }
    let all = letters.windows(wanted.len()).enumerate();
    let found = all.rev().find(|(at, window)| *at <= offset && *window == wanted);
    Ok(found.map_or(Value::Int(-1), |(at, _)| number(at)))
}

/// Replaces a part, at most so many times; a negative count means always.
pub(super) fn replace(text: &str, from: &str, to: &str, count: i64) -> String {
    match usize::try_from(count) {
        Ok(count) => text.replacen(from, to, count),
        Err(_) => text.replace(from, to),
    }
}

/// Splits, into at most so many pieces; a negative count means all.
pub(super) fn split(text: &str, separator: &str, count: i64) -> Vec<Value> {
    let count = match usize::try_from(count) {
        Ok(0) => return Vec::new(),
        Ok(count) => count,
        Err(_) => usize::MAX,
    };
    if !separator.is_empty() {
        return text.splitn(count, separator).map(Value::from).collect();
    }
    let mut pieces: Vec<Value> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if pieces.len() + 1 == count {
            pieces.push(rest.into());
            return pieces;
        }
        let (piece, after) = rest.split_at(first.len_utf8());
        pieces.push(piece.into());
        rest = after;
    }
    pieces
}

pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

pub(super) fn join(items: &[Value], separator: &str) -> Outcome {
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        let Value::Text(text) = item else { return Fault::said(format!("join: invalid input: {item}")) };
        if at > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(out.into())
}

/// A regular expression of Go's notation; what is wrong with one is told in Go's words.
pub(super) fn pattern(text: &str) -> Result<regex::Regex, Fault> {
    if let Some(known) = PATTERNS.with(|known| known.borrow().get(text).cloned()) {
        return Ok(known);
    }
    let built = compile(text).map_err(Fault::Said)?;
    PATTERNS.with(|known| {
        let mut known = known.borrow_mut();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(text.to_owned(), built.clone());
    });
    Ok(built)
}

pub(super) fn find_all(text: &str, wanted: &regex::Regex, count: i64) -> Vec<Value> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    wanted.find_iter(text).take(count).map(|found| found.as_str().into()).collect()
}
