//! Where the parts of an expression stand in its text, and complaints that show the place.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::{IdedExpr, common::ast::SourceInfo, parser::Parser};

use super::{
    depth,
    macros::Expander,
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
    places: Option<Arc<SourceInfo>>,
    /// Nodes made here stand where the macro stood.
    made: HashMap<u64, u64>,
}

/// Reads an expression and does something with it; macros that the parser leaves alone are expanded here.
///
/// # Errors
/// The text is no expression, or one that is too deep.
pub(super) fn read<T>(text: &str, work: impl FnOnce(&IdedExpr, &Source<'_>) -> T) -> Result<T, String> {
    let read = || {
        let parsed = parser().parse(text);
        parsed.map_err(|errors| {
            let problem = |(line, column): (isize, isize), text: String| Problem {
                line: usize::try_from(line).unwrap_or(1),
                column: usize::try_from(column).unwrap_or(1),
                text,
            };
            let problems = errors.errors.into_iter().map(|error| problem(error.pos, error.msg)).collect();
            shown(text, problems)
        })
    };
    depth::with_room(text, read, |expression| {
        let mut source = Source { text, places: places(text), made: HashMap::new() };
        let mut expander = Expander::new(&source);
        let expression = expander.expand(expression);
        source.made = expander.made;
        work(&expression, &source)
    })
}

/// The parser; how deep a text may be is looked at before.
fn parser() -> Parser {
    Parser::new().enable_optional_syntax(true).max_recursion_depth(u16::MAX)
}

/// An expression that can be evaluated.
pub(crate) struct Expression(IdedExpr);

impl Expression {
    /// Reads an expression that was judged before.
    ///
    /// # Errors
    /// The text is no expression.
    pub(crate) fn parse(text: &str) -> Result<Expression, String> {
        let read = || parser().parse(text).map_err(|errors| errors.to_string());
        depth::with_room(text, read, |parsed| Expression(Expander::to_run().expand(parsed)))
    }

    pub(crate) fn run(&self, around: &dyn Around) -> Outcome {
        run::run(&self.0, around)
    }

    pub(crate) fn uses(&self, variable: &str) -> bool {
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
        Some((self.text.get(..(offset as usize).checked_sub(1)?)?, offset))
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
        let before: Vec<char> = self.before(id).map_or("", |(text, _)| text).chars().collect();
        let line = before.iter().filter(|c| **c == '\n').count() + 1;
        let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
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
