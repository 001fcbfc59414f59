//! Properties of many objects with few calls, page by page.

use std::collections::HashMap;

use super::{Client, Fault, Reference};
use crate::xml::{Element, leaf, node};

/// Objects on a page.
const PAGE: usize = 500;

/// An object with the properties that it has of those asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) reference: Reference,
    properties: HashMap<String, Element>,
}

impl Object {
    fn read(element: &Element) -> Option<Self> {
        let reference = element.at(&["obj"]).and_then(Reference::of)?;
        let properties = element.all("propSet").filter_map(|property| {
            let value = property.at(&["val"])?.clone();
            Some((property.text_at(&["name"])?.to_owned(), value))
        });
        Some(Self { reference, properties: properties.collect() })
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Element> {
        self.properties.get(path)
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.get(path).map(Element::text)
    }

    pub(crate) fn reference(&self, path: &str) -> Option<Reference> {
        self.get(path).and_then(Reference::of)
    }

    /// The objects of a list.
    pub(crate) fn references(&self, path: &str) -> Vec<Reference> {
        let list = self.get(path).map(Element::children).unwrap_or_default();
        list.iter().filter_map(Reference::of).collect()
    }
}

impl Client {
    /// Properties of everything of some kinds below a folder or datacenter.
    pub(crate) async fn below(&self, root: &Reference, wanted: &[(&str, &[&str])]) -> Result<Vec<Object>, Fault> {
        let mut arguments = vec![root.element("container")];
        arguments.extend(wanted.iter().map(|(kind, _)| leaf("type", kind)));
        arguments.push(leaf("recursive", true));
        let answer = self.call_own("viewManager", "CreateContainerView", arguments).await?;
        let view = answer.at(&["returnval"]).and_then(Reference::of);
        let view = view.ok_or_else(|| Fault::Unreadable("a view without a name".to_owned()))?;
        let through = node(
            "selectSet",
            [leaf("name", "view"), leaf("type", "ContainerView"), leaf("path", "view"), leaf("skip", false)],
        );
        let objects = node("objectSet", [view.element("obj"), leaf("skip", true), through.typed("TraversalSpec")]);
        let found = self.retrieve(wanted, vec![objects]).await;
        // It would go with the session; one that lives for weeks would collect them.
        let ended = self.call(&view, "DestroyView", Vec::new()).await;
        if let Err(fault) = ended {
            tracing::debug!(error = &fault as &dyn std::error::Error, "a view is left behind");
        }
        found
    }

    /// Properties of these objects. One that is gone fails the call.
    pub(crate) async fn properties(&self, objects: &[Reference], paths: &[&str]) -> Result<Vec<Object>, Fault> {
        let Some(first) = objects.first() else { return Ok(Vec::new()) };
        let set = objects.iter().map(|object| node("objectSet", [object.element("obj"), leaf("skip", false)]));
        self.retrieve(&[(first.kind.as_str(), paths)], set.collect()).await
    }

    /// Properties of an object that may be gone.
    pub(crate) async fn of(&self, object: &Reference, paths: &[&str]) -> Result<Option<Object>, Fault> {
        match self.properties(std::slice::from_ref(object), paths).await {
            Err(fault) if fault.is_gone() => Ok(None),
            found => found.map(|found| found.into_iter().next()),
        }
    }

    async fn retrieve(&self, wanted: &[(&str, &[&str])], objects: Vec<Element>) -> Result<Vec<Object>, Fault> {
        let sets = wanted.iter().map(|(kind, paths)| {
            let paths = paths.iter().map(|path| leaf("pathSet", path));
            node("propSet", [leaf("type", kind), leaf("all", false)].into_iter().chain(paths))
        });
        let filter = node("specSet", sets.chain(objects));
        let options = node("options", [leaf("maxObjects", PAGE)]);
        let mut answer = self.call_own("propertyCollector", "RetrievePropertiesEx", vec![filter, options]).await?;
        let mut found = Vec::new();
        loop {
            let Some(page) = answer.at(&["returnval"]) else { return Ok(found) };
            found.extend(page.all("objects").filter_map(Object::read));
            let Some(token) = page.text_at(&["token"]).filter(|token| !token.is_empty()) else { return Ok(found) };
            let next = vec![leaf("token", token)];
            answer = self.call_own("propertyCollector", "ContinueRetrievePropertiesEx", next).await?;
        }
    }
}
