//! The part of JSONPath that printer columns use.

use serde_json::Value;

/// A path ready to follow; a path that cannot be read finds nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `[?(@.path == "value")]`, also with `!=`.
    Filter {
        path: JsonPath,
        equal: bool,
        value: Value,
    },
    Nothing,
}

impl JsonPath {
    #[must_use]
    pub fn parse(text: &str) -> JsonPath {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            rest = match quoted(rest) {
                Some((name, after)) => {
                    steps.extend(JsonPath::parse(name).0);
                    after
                }
                None => {
                    let (step, after) = if rest.starts_with('[') { bracket(rest) } else { dotted(rest) };
                    steps.extend(step);
                    after
                }
            };
        }
        JsonPath(steps)
    }

    /// The first value the path finds.
    #[must_use]
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        follow(&self.0, value)
    }
}

/// `['name']`, and what follows it. Kubernetes reads the name as if it stood after a dot, so its own dots need backslashes.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix("['")?.split_once('\'')?;
    Some((name, after.strip_prefix(']')?))
}

/// `.name`, where a backslash protects a dot.
fn dotted(text: &str) -> (Option<Step>, &str) {
    let text = text.strip_prefix('.').unwrap_or(text);
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, c)| c)),
            '.' | '[' => return (field(name), &text[at..]),
            c => name.push(c),
        }
    }
    (field(name), "")
}

fn field(name: String) -> Option<Step> {
    match name.as_str() {
        "" => None,
        "*" => Some(Step::All),
        _ => Some(Step::Field(name)),
    }
}

fn bracket(text: &str) -> (Option<Step>, &str) {
    let Some(end) = closing(text) else { return (Some(Step::Nothing), "") };
    let (inside, after) = (text[1..end].trim(), &text[end + 1..]);
    let quoted = |text: &str| text.strip_prefix('"')?.strip_suffix('"').map(str::to_string);
    let step = if inside == "*" {
        Step::All
    } else if let Ok(index) = inside.parse::<i64>() {
        Step::Index(index)
    } else if let Some(name) = quoted(inside) {
        Step::Field(name)
    } else if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        parse_filter(filter)
    } else {
        Step::Nothing
    };
    (Some(step), after)
}

/// The bracket that closes the first one, outside of quotes.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
    }
    None
}

fn parse_filter(text: &str) -> Step {
    let (left, equal, right) = match (text.split_once("=="), text.split_once("!=")) {
        (Some((left, right)), _) => (left, true, right),
        (None, Some((left, right))) => (left, false, right),
        (None, None) => return Step::Nothing,
    };
    let right = right.trim();
    let single = right.strip_prefix('\'').and_then(|r| r.strip_suffix('\''));
    let value = match single {
        Some(text) => Some(Value::from(text)),
        None => serde_json::from_str(right).ok(),
    };
    match (left.trim().strip_prefix('@'), value) {
        (Some(path), Some(value)) => Step::Filter { path: JsonPath::parse(path), equal, value },
        _ => Step::Nothing,
    }
}

fn follow<'v>(steps: &[Step], value: &'v Value) -> Option<&'v Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => follow(rest, value.get(name)?),
        Step::Index(index) => {
            let list = value.as_array()?;
            let at = if *index < 0 { list.len() as i64 + index } else { *index };
            follow(rest, list.get(usize::try_from(at).ok()?)?)
        }
        Step::All => match value {
            Value::Array(list) => list.iter().find_map(|item| follow(rest, item)),
            Value::Object(map) => map.values().find_map(|item| follow(rest, item)),
            _ => None,
        },
        Step::Filter { path, equal, value: wanted } => {
            let matches = |item: &&Value| path.first(item).is_some_and(|found| (found == wanted) == *equal);
            value.as_array()?.iter().filter(matches).find_map(|item| follow(rest, item))
        }
        Step::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_their_first_value() {
        let value = json!({"a": {"b.c": 1, "d": [10, 20]}, "l": [{"t": "x", "v": 1}, {"t": "y", "v": 2}]});
        let find = |path: &str| JsonPath::parse(path).first(&value).cloned();
        assert_eq!(find(".a['b\\.c']"), Some(json!(1)));
        assert_eq!(find("['a'].d[0]"), Some(json!(10)));
        assert_eq!(find(".a.b\\.c"), Some(json!(1)));
        assert_eq!(find(".a.d[1]"), Some(json!(20)));
        assert_eq!(find(".a.d[-1]"), Some(json!(20)));
        assert_eq!(find(".a.d[*]"), Some(json!(10)));
        assert_eq!(find(".l[?(@.t==\"y\")].v"), Some(json!(2)));
        assert_eq!(find(".l[?(@.t=='y')].v"), Some(json!(2)));
        assert_eq!(find(".l[?(@.t!='x')].v"), Some(json!(2)));
        for nothing in [".z", ".a['b.c']", ".a.d[9]", ".l[?(@.t==\"z\")].v", ".a[", ".a[?(x)]"] {
            assert_eq!(find(nothing), None, "{nothing}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_panics(path in r#"[a-b.\[\]?@()='"*\\0-9-]{0,20}"#) {
            let _ = JsonPath::parse(&path).first(&json!({"a": [{"b": 1}]}));
        }
    }
}
