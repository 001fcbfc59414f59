//! A small tree of XML: vCenter's answers are read into it, and requests are written from it.
//!
//! It knows elements, attributes and text. Prefixes of elements are dropped, because servers choose different ones.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::escape::escape;
use quick_xml::events::{BytesStart, Event};

/// Answers of vCenter are nested about twenty deep, and a tree of snapshots adds its own depth.
const DEEPEST: usize = 256;

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

/// An element with text.
pub(crate) fn leaf(name: &str, text: impl ToString) -> Element {
    Element { name: name.to_owned(), text: text.to_string(), ..Element::default() }
}

/// An element with children, in the order in which vCenter wants them.
pub(crate) fn node(name: &str, children: impl IntoIterator<Item = Element>) -> Element {
    Element { name: name.to_owned(), children: children.into_iter().collect(), ..Element::default() }
}

impl Element {
    #[must_use]
    pub(crate) fn with(mut self, attribute: &str, value: impl ToString) -> Self {
        self.attributes.push((attribute.to_owned(), value.to_string()));
        self
    }

    /// Says which of several types the element has.
    #[must_use]
    pub(crate) fn typed(self, kind: &str) -> Self {
        self.with("xsi:type", kind)
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The type that the element says it has, without a prefix.
    pub(crate) fn kind(&self) -> Option<&str> {
        let (_, value) = self.attributes.iter().find(|(name, _)| name.ends_with(":type"))?;
        Some(value.rsplit(':').next().unwrap_or(value))
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

    /// The text at the end of a path.
    pub(crate) fn text_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path).map(Element::text)
    }

    pub(crate) fn children(&self) -> &[Element] {
        &self.children
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
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
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(out, "<{}", self.name);
        for (name, value) in &self.attributes {
            let _ = write!(out, " {name}=\"{}\"", escape(value.as_str()));
        }
        let _ = write!(out, ">{}", escape(self.text.as_str()));
        self.children.iter().for_each(|child| child.write(out));
        let _ = write!(out, "</{}>", self.name);
    }
}

fn add_text(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn opened(start: &BytesStart) -> Result<Element, Malformed> {
    let name = start.name().into_inner();
    let mut element = node(name.rsplit(':').next().unwrap_or(name), []);
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
        let tree = node("a", [leaf("b", "x < y & 'z'"), node("c", []).with("k", "\"<&>").typed("T")]);
        assert_eq!(Element::parse(&tree.render()).unwrap(), tree);
    }

    #[test]
    fn a_type_is_told_from_an_attribute_of_that_name() {
        let text = r#"<s:val xmlns:x="i" type="Task" x:type="vim25:ManagedObjectReference">task-1</s:val>"#;
        let element = Element::parse(text).unwrap();
        assert_eq!((element.name.as_str(), element.attribute("type")), ("val", Some("Task")));
        assert_eq!((element.kind(), element.text()), (Some("ManagedObjectReference"), "task-1"));
    }

    #[test]
    fn what_is_no_xml_is_an_error() {
        for bad in ["", "error: no", "<a>", "<a><b></a>", "<a x=1/>", &"<a>".repeat(300)] {
            assert!(Element::parse(bad).is_err(), "{bad}");
        }
    }
}
