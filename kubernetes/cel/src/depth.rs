//! How deep an expression may be, and stack enough for it: the parser, the check and the evaluation call themselves for
//! each level, and a text of brackets must not end the server.

use kube_cel::cel::{
    IdedExpr,
    common::ast::{EntryExpr, Expr, operators as op},
};

/// Characters.
const SIZE: usize = 100_000;
/// Expressions inside each other, and operators of which one needs the other's value.
const LIMIT: usize = 250;
/// More operators in a row than any tree within the limit has; the rest is not even read.
const LONG: usize = 5000;
/// What is no deeper than this is read on the stack that is there.
const SHALLOW: Shape = Shape { nesting: 10, chain: 100 };
/// Enough to read what is within the limits, also in a build for debugging. Only what is used of it is taken.
const STACK: usize = 256 << 20;
/// When this is left while an expression is evaluated, there is more.
const LEFT: usize = 128 << 10;
const MORE: usize = 2 << 20;

/// How deep a text is at its deepest place.
#[derive(Debug, PartialEq)]
struct Shape {
    /// Expressions inside brackets, and after the colons of conditions.
    nesting: usize,
    /// Operators that may stand above each other in the tree.
    chain: usize,
}

/// Why a text is not given to the parser.
fn refusal(text: &str, shape: &Shape) -> Option<String> {
    let size = text.chars().count();
    let words = match shape {
        _ if size > SIZE => format!("expression code point size exceeds limit: size: {size}, limit {SIZE}"),
        Shape { nesting, .. } if *nesting > LIMIT => format!("expression recursion limit exceeded: {LIMIT}"),
        Shape { chain, .. } if *chain > LONG => "max recursion depth exceeded".to_owned(),
        _ => return None,
    };
    Some(format!("ERROR: <input>:-1:0: {words}"))
}

/// Reads a text and does what is to be done with its tree, with as much stack as that may take.
///
/// # Errors
/// The text is too deep, or `read` finds no expression in it.
pub(super) fn with_room<T>(
    text: &str,
    read: impl FnOnce() -> Result<IdedExpr, String>,
    work: impl FnOnce(IdedExpr) -> T,
) -> Result<T, String> {
    let shape = shape(text);
    if let Some(refusal) = refusal(text, &shape) {
        return Err(refusal);
    }
    let all = || {
        let expression = read()?;
        match depth(&expression) > LIMIT {
            true => Err("ERROR: <input>:-1:0: max recursion depth exceeded".to_owned()),
            false => Ok(work(expression)),
        }
    };
    if shape.nesting <= SHALLOW.nesting && shape.chain <= SHALLOW.chain {
        return all();
    }
    stacker::grow(STACK, all)
}

/// Evaluates one level of an expression.
pub(super) fn level<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEFT, MORE, work)
}

/// Operators above each other. Names, values and what is only put together of others count for nothing.
fn depth(expression: &IdedExpr) -> usize {
    let most = |all: &[IdedExpr]| all.iter().map(depth).max().unwrap_or(0);
    match &expression.expr {
        Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => 0,
        Expr::Select(select) => 1 + depth(&select.operand),
        Expr::Call(call) => {
            let is_joint = [op::LOGICAL_AND, op::LOGICAL_OR, op::CONDITIONAL].contains(&call.func_name.as_str());
            let is_plain = call.target.is_none() && call.func_name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let own = usize::from(!is_joint && !is_plain);
            own + call.target.as_deref().map_or(0, depth).max(most(&call.args))
        }
        Expr::List(list) => most(&list.elements),
        Expr::Map(map) => {
            let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some(depth(&entry.key).max(depth(&entry.value))),
                EntryExpr::StructField(_) => None,
            });
            entries.max().unwrap_or(0)
        }
        Expr::Comprehension(turns) => {
            let parts = [&turns.iter_range, &turns.loop_cond, &turns.loop_step, &turns.result];
            1 + parts.into_iter().map(depth).max().unwrap_or(0)
        }
        Expr::Struct(made) => {
            let fields = made.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::StructField(field) => Some(depth(&field.value)),
                EntryExpr::MapEntry(_) => None,
            });
            fields.max().unwrap_or(0)
        }
    }
}

/// What is open at a place of the text.
#[derive(Default)]
struct Level {
    /// One if there is an expression between these brackets.
    nests: usize,
    /// Conditions whose colon is still to come.
    asked: usize,
    /// Conditions in whose last part we are.
    elses: usize,
    chain: usize,
}

fn shape(text: &str) -> Shape {
    let bytes = text.as_bytes();
    let mut deepest = Shape { nesting: 1, chain: 0 };
    let (mut outer, mut level) = (Vec::new(), Level::default());
    let (mut nesting, mut chain) = (1, 0);
    let (mut at, mut before) = (0, b' ');
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied().unwrap_or(b' ');
        let mut width = 1;
        match byte {
            b'"' | b'\'' => width = quoted(&bytes[at..], matches!(before, b'r' | b'R')),
            b'/' if next == b'/' => width = bytes[at..].iter().take_while(|byte| **byte != b'\n').count(),
            b'(' | b'[' | b'{' => {
                level.chain += 1;
                chain += 1;
                let inner = bytes[at + 1..].iter().find(|byte| !byte.is_ascii_whitespace());
                let nests = usize::from(!matches!(inner, Some(b')' | b']' | b'}')));
                nesting += nests;
                outer.push(std::mem::replace(&mut level, Level { nests, ..Level::default() }));
            }
            b')' | b']' | b'}' => {
                if let Some(around) = outer.pop() {
                    nesting -= level.nests + level.elses;
                    chain -= level.chain;
                    level = around;
                }
            }
            b',' | b'&' | b'|' => {
                chain -= level.chain;
                level.chain = 0;
                if byte == b',' {
                    nesting -= level.elses;
                    (level.elses, level.asked) = (0, 0);
                }
            }
            // A question mark here is part of an optional field or element.
            b'?' if matches!(before, b'.' | b'[' | b'{' | b',') => {}
            b'?' => level.asked += 1,
            b':' => {
                chain -= level.chain;
                level.chain = 0;
                if level.asked > 0 {
                    level.asked -= 1;
                    level.elses += 1;
                    nesting += 1;
                }
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'.' | b'<' | b'>' | b'=' | b'!' => {
                level.chain += 1;
                chain += 1;
            }
            b'i' if next == b'n' && !is_name(before) && !is_name(bytes.get(at + 2).copied().unwrap_or(b' ')) => {
                level.chain += 1;
                chain += 1;
            }
            _ => {}
        }
        deepest.nesting = deepest.nesting.max(nesting);
        deepest.chain = deepest.chain.max(chain);
        if !byte.is_ascii_whitespace() || is_name(before) {
            before = byte;
        }
        at += width.max(1);
    }
    deepest
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// How long a text in quotes is, with its quotes; to the end if it is not closed.
pub(super) fn quoted(bytes: &[u8], is_raw: bool) -> usize {
    let quote = bytes[0];
    let width = if bytes.starts_with(&[quote; 3]) { 3 } else { 1 };
    let mut at = width;
    while at < bytes.len() {
        if bytes[at] == b'\\' && !is_raw {
            at += 2;
        } else if bytes[at..].starts_with(&bytes[..width]) {
            return at + width;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, nesting: usize, chain: usize) {
        assert_eq!(shape(text), Shape { nesting, chain }, "{text}");
    }

    #[test]
    fn the_deepest_place_counts() {
        check("a", 1, 0);
        check("f(a)", 2, 1);
        check("f() + [] + {}", 1, 5);
        check("((a))", 3, 2);
        check("[a, (b), {'k': (c)}]", 4, 3);
        check("a ? b : c ? d : e", 3, 0);
        check("{'k': a ? b : c, 'l': d}", 3, 1);
        check("[?a, b]", 2, 1);
        check("a.?b", 1, 1);
        check("a.b.c && d.e", 1, 2);
        check("a in b", 1, 1);
        check("inner", 1, 0);
    }

    #[test]
    fn what_stands_in_quotes_counts_for_nothing() {
        check(r#"'(((' + "[[" "#, 1, 1);
        check(r"'\'(((' + r'\'", 1, 1);
        check("'''('(''' + 'a'", 1, 1);
        check("a // ((((\n+ b", 1, 1);
        check("'((((", 1, 0);
    }
}
