//! Where the parts of an expression stand in its text, and complaints that show the place.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::{IdedExpr, common::ast::SourceInfo, parser::Parser};

use super::{
    depth,
    macros::Expander,
    respell::{Respelled, respell},
    run::{self, Around},
    value::Outcome,
};

/// A complaint about one place of an expression.
pub(super) struct Problem {
    line: usize,
    /// From one, in characters.
    column: usize,
    text: String,
}

/// An expression's text, and which part of it each node came from.
pub(super) struct Source<'t> {
    text: &'t str,
    respelled: &'t Respelled<'t>,
    places: Option<Arc<SourceInfo>>,
    /// Nodes made here stand where the macro stood.
    made: HashMap<u64, u64>,
}

/// Reads an expression and does something with it; macros that the parser leaves alone are expanded here.
///
/// # Errors
/// The text is no expression, or one that is too deep.
pub(super) fn read<T>(text: &str, work: impl FnOnce(&IdedExpr, &Source<'_>) -> T) -> Result<T, String> {
    read_with(text, false, work)
}

/// As [`read`]; where `binds` is set, values can be given names.
pub(super) fn read_with<T>(
    text: &str,
    binds: bool,
    work: impl FnOnce(&IdedExpr, &Source<'_>) -> T,
) -> Result<T, String> {
    let respelled = respell(text);
    let read = || {
        let parsed = parser().parse(&respelled.text);
        parsed.map_err(|errors| {
            let problem = |(line, column): (isize, isize), complaint: String| {
                let line = usize::try_from(line).unwrap_or(1).max(1);
                let column = usize::try_from(column).unwrap_or(1).max(1);
                let before = origin(text, &respelled, line, column);
                let before = if complaint == "invalid int literal" { without_sign(before) } else { before };
                let (line, column) = position(before);
                Problem { line, column, text: complaint }
            };
            let problems = errors.errors.into_iter().map(|error| problem(error.pos, error.msg)).collect();
            shown(text, problems)
        })
    };
    depth::with_room(text, read, |expression| {
        let places = places(&respelled.text);
        let mut source = Source { text, respelled: &respelled, places, made: HashMap::new() };
        let mut expander = Expander::new(&source, binds);
        let expression = expander.expand(expression);
        source.made = expander.made;
        work(&expression, &source)
    })
}

/// What stood before a line and column of the respelled text.
fn origin<'t>(text: &'t str, respelled: &Respelled<'_>, line: usize, column: usize) -> &'t str {
    let lines = respelled.text.split_inclusive('\n');
    let start: usize = lines.clone().take(line - 1).map(str::len).sum();
    let within = lines.clone().nth(line - 1).unwrap_or_default();
    let inside: usize = within.chars().take(column - 1).map(char::len_utf8).sum();
    text.get(..respelled.origin(start + inside)).unwrap_or(text)
}

/// What stands before the sign of a number, if it has one.
fn without_sign(before: &str) -> &str {
    let Some(rest) = before.trim_end().strip_suffix('-') else { return before };
    let ends_operand = |c: char| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '}' | '"' | '\'');
    if rest.trim_end().ends_with(ends_operand) { before } else { rest }
}

/// The line and the column of what comes after a text, both from one.
fn position(before: &str) -> (usize, usize) {
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

/// The parser; how deep a text may be is looked at before.
fn parser() -> Parser {
    Parser::new().enable_optional_syntax(true).max_recursion_depth(u16::MAX)
}

/// An expression that can be evaluated.
pub struct Expression(IdedExpr);

impl Expression {
    /// Reads an expression that was judged before.
    ///
    /// # Errors
    /// The text is no expression.
    pub fn parse(text: &str) -> Result<Expression, String> {
        let respelled = respell(text);
        let read = || parser().parse(&respelled.text).map_err(|errors| errors.to_string());
        depth::with_room(text, read, |parsed| Expression(Expander::to_run().expand(parsed)))
    }

    pub fn run(&self, around: &dyn Around) -> Outcome {
        run::run(&self.0, around)
    }

    pub fn uses(&self, variable: &str) -> bool {
        self.0.references().has_variable(variable)
    }
}

/// The parser tells places only with its errors: the same text is given to it once more, in an expression that has one.
fn places(text: &str) -> Option<Arc<SourceInfo>> {
    let faulty = format!("({text}\n) + has(1)");
    let errors = parser().parse(&faulty).err()?;
    errors.errors.into_iter().find_map(|error| error.source_info)
}

impl<'t> Source<'t> {
    /// The text before a node that the parser made, and where it ends; none for other nodes.
    pub(super) fn before(&self, id: u64) -> Option<(&'t str, u32)> {
        let (offset, _) = self.places.as_ref()?.offset_for(id)?;
        // One for the bracket in front of the text; places are counted in bytes.
        let place = self.respelled.origin((offset as usize).checked_sub(1)?);
        Some((self.text.get(..place)?, offset))
    }

    /// The first node that the parser made at a place.
    pub(super) fn first_at(&self, offset: u32) -> Option<u64> {
        let places = self.places.as_ref()?;
        (1..)
            .map_while(|id| places.offset_for(id).map(|(start, _)| (id, start)))
            .find(|(_, start)| *start == offset)
            .map(|(id, _)| id)
    }

    pub(super) fn problem(&self, id: u64, text: String) -> Problem {
        let id = self.made.get(&id).copied().unwrap_or(id);
        let (line, column) = position(self.before(id).map_or("", |(text, _)| text));
        Problem { line, column, text }
    }

    pub(super) fn shown(&self, problems: Vec<Problem>) -> String {
        shown(self.text, problems)
    }
}

/// Complaints in the order of their places, each with its line and a mark below it.
fn shown(text: &str, mut problems: Vec<Problem>) -> String {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    let one = |problem: &Problem| {
        let Problem { line, column, text: complaint } = problem;
        let mut out = format!("ERROR: <input>:{line}:{column}: {complaint}");
        if let Some(source) = text.split('\n').nth(line.saturating_sub(1)) {
            let source = source.replace('\t', " ");
            let wide = |c: char| c.len_utf8() > 1;
            let dots: String = source.chars().take(column - 1).map(|c| if wide(c) { '．' } else { '.' }).collect();
            let mark = if source.chars().nth(column - 1).is_some_and(wide) { '＾' } else { '^' };
            out.push_str(&format!("\n | {source}\n | {dots}{mark}"));
        }
        out
    };
    problems.iter().map(one).collect::<Vec<_>>().join("\n")
}
