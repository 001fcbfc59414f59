//! A field's path while a schema is walked: a list on the stack, made into text only when something is wrong.

use std::fmt::Write as _;

#[derive(Clone, Copy)]
pub(crate) enum Segment<'a> {
    Root,
    /// A declared field: `.name`.
    Field(&'a str),
    /// A map key: `[name]` in field paths, `.name` in the schema validator's paths.
    Key(&'a str),
    Index(usize),
}

#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

impl<'a> Path<'a> {
    pub(crate) const ROOT: Path<'static> = Path { parent: None, segment: Segment::Root };

    pub(crate) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Field(name) }
    }

    pub(crate) fn key(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Key(name) }
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Index(index) }
    }

    /// `spec.labels[a/b]`; empty at the root.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, true);
        text
    }

    /// As [`Path::text`], but map keys read like fields, as the schema validator prints them.
    pub(crate) fn dotted(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false);
        text
    }

    fn write(&self, text: &mut String, brackets: bool) {
        if let Some(parent) = self.parent {
            parent.write(text, brackets);
        }
        match self.segment {
            Segment::Root => {}
            Segment::Key(name) if brackets => {
                let _ = write!(text, "[{name}]");
            }
            Segment::Field(name) | Segment::Key(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Segment::Index(index) => {
                let _ = write!(text, "[{index}]");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_in_both_styles() {
        let spec = Path::ROOT.field("spec");
        let labels = spec.field("labels");
        let key = labels.key("a/b");
        let item = key.index(2);
        assert_eq!(item.text(), "spec.labels[a/b][2]");
        assert_eq!(item.dotted(), "spec.labels.a/b[2]");
        assert_eq!(Path::ROOT.text(), "");
    }
}
