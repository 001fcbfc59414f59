//! A small tree of XML: what libvirt prints is read into it, and what libvirt reads is written from it.
//!
//! It knows elements, attributes and text. Comments, processing instructions and declarations are dropped; names keep their
//! prefix as it was written.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::escape::escape;
use quick_xml::events::{BytesStart, Event};

/// libvirt's own documents are nested about ten deep; what is deeper is not one of them.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the XML that was expected: {0}")]
pub(crate) struct Malformed(String);

impl Element {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    #[must_use]
    pub(crate) fn with(mut self, attribute: &str, value: impl ToString) -> Self {
        self.attributes.push((attribute.to_owned(), value.to_string()));
        self
    }

    #[must_use]
    pub(crate) fn holding(mut self, child: Element) -> Self {
        self.children.push(child);
        self
    }

    /// The same with all of the children, which may be none.
    #[must_use]
    pub(crate) fn holding_all(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        self.children.extend(children);
        self
    }

    #[must_use]
    pub(crate) fn saying(mut self, text: impl ToString) -> Self {
        self.text = text.to_string();
        self
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        self.text.trim()
    }

    /// The first element down a path of names.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Element> {
        match path {
            [] => Some(self),
            [name, rest @ ..] => {
                self.children.iter().filter(|child| child.name == *name).find_map(|child| child.at(rest))
            }
        }
    }

    pub(crate) fn all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The root of a document.
    pub(crate) fn parse(document: &str) -> Result<Self, Malformed> {
        let mut reader = Reader::from_str(document);
        let mut open: Vec<Element> = Vec::new();
        loop {
            let event = reader.read_event().map_err(|error| Malformed(error.to_string()))?;
            let closed = match event {
                Event::Start(start) if open.len() < DEEPEST => {
                    open.push(opened(&start)?);
                    continue;
                }
                Event::Start(_) => return Err(Malformed("it is nested too deep".to_owned())),
                Event::Empty(start) => opened(&start)?,
                Event::End(_) => open.pop().ok_or_else(|| Malformed("an end without a beginning".to_owned()))?,
                Event::Text(text) => {
                    add_text(&mut open, &text);
                    continue;
                }
                Event::CData(data) => {
                    add_text(&mut open, &data);
                    continue;
                }
                Event::GeneralRef(reference) => {
                    add_text(&mut open, &unescaped(&format!("&{};", &*reference))?);
                    continue;
                }
                Event::Eof => return Err(Malformed("it ends before its last element does".to_owned())),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
            };
            match open.last_mut() {
                Some(parent) => parent.children.push(closed),
                None => return Ok(closed),
            }
        }
    }

    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text
    }

    fn write(&self, out: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        // Writing to a String cannot fail.
        let _ = write!(out, "{indent}<{}", self.name);
        for (name, value) in &self.attributes {
            let _ = write!(out, " {name}=\"{}\"", escape(value.as_str()));
        }
        if self.children.is_empty() && self.text.is_empty() {
            out.push_str("/>\n");
            return;
        }
        let _ = write!(out, ">{}", escape(self.text.as_str()));
        if !self.children.is_empty() {
            out.push('\n');
            self.children.iter().for_each(|child| child.write(out, depth + 1));
            out.push_str(&indent);
        }
        let _ = writeln!(out, "</{}>", self.name);
    }
}

fn add_text(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn opened(start: &BytesStart) -> Result<Element, Malformed> {
    let mut element = Element::new(start.name().into_inner());
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| Malformed(error.to_string()))?;
        let value = unescaped(&attribute.value)?;
        element.attributes.push((attribute.key.into_inner().to_owned(), value));
    }
    Ok(element)
}

fn unescaped(text: &str) -> Result<String, Malformed> {
    let text = quick_xml::escape::unescape(text).map_err(|error| Malformed(error.to_string()))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_reads_the_same() {
        let host = Element::new("host").with("name", "a'b\"<&>").with("ip", "10.0.0.1");
        let tree = Element::new("network").holding(Element::new("name").saying("a & b")).holding(host);
        let text = tree.render();
        let read = Element::parse(&text).unwrap();
        assert_eq!(read.at(&["host"]).and_then(|host| host.attribute("name")), Some("a'b\"<&>"), "{text}");
        assert_eq!(read.at(&["name"]).map(Element::text), Some("a & b"));
    }

    #[test]
    fn a_path_is_followed_through_all_elements_of_a_name() {
        let tree = Element::parse("<a><b/><b><c x='1'/></b><!-- no --><b><c x='2'/></b></a>").unwrap();
        assert_eq!(tree.at(&["b", "c"]).and_then(|c| c.attribute("x")), Some("1"));
        assert_eq!(tree.all("b").count(), 3);
    }

    #[test]
    fn what_is_no_xml_is_an_error() {
        for bad in ["", "error: no", "<a>", "<a><b></a>", "<a x=1/>", &"<a>".repeat(100)] {
            assert!(Element::parse(bad).is_err(), "{bad}");
        }
    }
}
