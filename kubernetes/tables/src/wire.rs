//! How the built-in kinds travel as protobuf, and which of their fields are left out when they are zero.

use std::{collections::HashMap, sync::LazyLock};

/// One Go struct of the API.
#[derive(Debug, Default)]
pub struct Message {
    pub fields: Vec<Field>,
    /// Messages whose fields stand in this one: number and definition.
    pub inlined: Vec<(u32, &'static str)>,
    /// The names of both, those of messages with a `>`, as they stand in the Go type.
    order: Vec<&'static str>,
}

#[derive(Debug)]
pub struct Field {
    pub number: u32,
    /// The name in JSON.
    pub name: &'static str,
    /// Not written when it is zero.
    pub omitted: bool,
    /// Not written when nobody set it.
    pub optional: bool,
}

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let lines = include_str!("wire.txt").lines();
    lines.filter_map(|line| line.split_once(' ')).map(|(name, fields)| (name, parse(fields))).collect()
});

/// The message of a definition.
#[must_use]
pub fn message(definition: &str) -> Option<&'static Message> {
    MESSAGES.get(definition)
}

impl Message {
    /// The field with this name, also if it stands in an inlined message.
    #[must_use]
    pub fn named(&'static self, name: &str) -> Option<&'static Field> {
        let own = self.fields.iter().find(|field| field.name == name);
        own.or_else(|| self.inlined.iter().find_map(|(_, definition)| message(definition)?.named(name)))
    }

    /// Where a field stands among its neighbours in the Go type, whose numbers tell only when it was added.
    #[must_use]
    pub fn order(&'static self, name: &str) -> (usize, usize) {
        const NOWHERE: (usize, usize) = (usize::MAX, 0);
        let places = self.order.iter().enumerate().map(|(place, own)| match own.strip_prefix('>') {
            None if *own == name => (place, 0),
            None => NOWHERE,
            Some(definition) => match message(definition).map(|message| message.order(name)) {
                None | Some(NOWHERE) => NOWHERE,
                Some((inner, _)) => (place, inner),
            },
        });
        places.min().unwrap_or(NOWHERE)
    }
}

fn parse(text: &'static str) -> Message {
    let mut message = Message::default();
    for part in text.split(' ') {
        let Some((name, number)) = part.rsplit_once(':') else { continue };
        let (omitted, optional) = (number.ends_with('?'), number.ends_with(['?', '~']));
        let Ok(number) = number.trim_end_matches(['?', '~']).parse() else { continue };
        message.order.push(name);
        match name.strip_prefix('>') {
            Some(definition) => message.inlined.push((number, definition)),
            None => message.fields.push(Field { number, name, omitted, optional }),
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_the_order_of_the_go_type() {
        let container = message("io.k8s.api.core.v1.Container").expect("in the tables");
        assert!(container.order("terminationMessagePolicy") < container.order("imagePullPolicy"));
        assert!(container.order("tty") < container.order("nothing"));
        let volume = message("io.k8s.api.core.v1.Volume").expect("in the tables");
        assert!(volume.order("name") < volume.order("secret") && volume.order("hostPath") < volume.order("secret"));
    }

    #[test]
    fn fields_are_found_by_name_also_where_they_are_inlined() {
        let volume = message("io.k8s.api.core.v1.Volume").expect("in the tables");
        assert_eq!(volume.named("name").map(|field| field.number), Some(1));
        assert_eq!(volume.named("secret").map(|field| field.number), Some(6));
        assert!(volume.named("nothing").is_none());
        let node = message("io.k8s.api.core.v1.NodeSpec").expect("in the tables");
        assert!(node.named("unschedulable").is_some_and(|field| field.omitted));
        let deployment = message("io.k8s.api.apps.v1.DeploymentSpec").expect("in the tables");
        assert!(deployment.named("replicas").is_some_and(|field| !field.omitted), "a pointer says whether it is set");
    }
}
