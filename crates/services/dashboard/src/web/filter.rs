//! Which nodes a visitor wants to see. It lives in the address, so that a view can be sent to a colleague.

use explain::Explanation;
use serde::Deserialize;

use crate::scene::Scene;

/// Rows of one page of the table.
pub(super) const ROWS: usize = 100;

/// Empty fields filter nothing: that is what a form sends.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Filter {
    #[serde(default)]
    pub(super) pool: String,
    #[serde(default)]
    pub(super) state: String,
    #[serde(default)]
    pub(super) zone: String,
    /// A part of the name or of what is said about the node.
    #[serde(default)]
    pub(super) q: String,
    #[serde(default)]
    page: String,
}

impl Filter {
    pub(super) fn matches(&self, scene: &Scene, node: &Explanation) -> bool {
        let zone = || scene.snapshot.nodes.get(&node.name).and_then(|facts| facts.zone.as_deref()).unwrap_or_default();
        (self.pool.is_empty() || scene.pool_of(&node.name) == self.pool)
            && (self.state.is_empty() || node.state.to_string() == self.state)
            && (self.zone.is_empty() || zone() == self.zone)
            && (self.q.is_empty() || says(node, &self.q.to_lowercase()))
    }

    /// The page of the table, from 1 on; nonsense is the first.
    pub(super) fn page(&self) -> usize {
        self.page.parse().unwrap_or(1).clamp(1, 100_000)
    }

    /// The address of the same filter on another page.
    pub(super) fn at(&self, page: usize) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let fields = [("pool", &self.pool), ("state", &self.state), ("zone", &self.zone), ("q", &self.q)];
        for (key, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            query.append_pair(key, value);
        }
        if page > 1 {
            query.append_pair("page", &page.to_string());
        }
        let query = query.finish();
        if query.is_empty() { "/".to_owned() } else { format!("/?{query}") }
    }
}

fn says(node: &Explanation, needle: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(needle);
    has(&node.name) || has(&node.summary) || node.waiting_for.iter().any(|it| has(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_an_address_that_can_be_sent() {
        let filter = Filter { pool: "worker".to_owned(), q: "a&b c".to_owned(), ..Filter::default() };
        assert_eq!(filter.at(1), "/?pool=worker&q=a%26b+c");
        assert_eq!(filter.at(3), "/?pool=worker&q=a%26b+c&page=3");
        assert_eq!(Filter::default().at(1), "/");
    }

    #[test]
    fn a_page_that_is_no_number_is_the_first() {
        for page in ["", "x", "-1", "0", "999999999999999999999999"] {
            assert_eq!(Filter { page: page.to_owned(), ..Filter::default() }.page(), 1, "{page}");
        }
    }
}
