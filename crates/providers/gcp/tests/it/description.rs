//! Google's description of Compute Engine: which paths and parameters there are, and what a body may hold.

use regex::Regex;
use serde_json::{Map, Value};

pub(crate) struct Description(Value);

/// The package that brings the description, and Google's own client.
const PACKAGES: [&str; 1] = ["google-api-python-client==2.202.0"];
const FILE: &str = "googleapiclient/discovery_cache/documents/compute.v1.json";

impl Description {
    pub(crate) fn load() -> Self {
        let folder = testkit::cache::python_packages(&PACKAGES, FILE).unwrap();
        Self(serde_json::from_str(&std::fs::read_to_string(folder.join(FILE)).unwrap()).unwrap())
    }

    /// The id of the method that a request is for, or what is wrong with it.
    pub(crate) fn check(
        &self,
        verb: &str,
        path: &str,
        query: &[(String, String)],
        body: Option<&Value>,
    ) -> Result<String, String> {
        let methods = self.0["resources"].as_object().unwrap().values();
        let methods = methods.flat_map(|resource| resource["methods"].as_object().into_iter().flat_map(Map::values));
        let mut methods = methods.filter(|method| method["httpMethod"].as_str() == Some(verb));
        let found = methods.find_map(|method| Some((method, matched(method["path"].as_str()?, path)?)));
        let (method, parts) = found.ok_or_else(|| format!("no method {verb} {path}"))?;
        for (name, value) in &parts {
            self.pattern(&method["parameters"][name], name, value)?;
        }
        for (name, value) in query {
            let parameter = &method["parameters"][name];
            if parameter["location"].as_str() != Some("query") && self.0["parameters"][name].is_null() {
                return Err(format!("{verb} {path} has no parameter {name}={value}"));
            }
        }
        match (method["request"]["$ref"].as_str(), body) {
            (Some(schema), Some(body)) => self.value(&self.0["schemas"][schema], body, schema)?,
            (None, Some(_)) => return Err(format!("{verb} {path} takes no body")),
            (_, None) => {}
        }
        Ok(method["id"].as_str().unwrap().to_owned())
    }

    fn pattern(&self, parameter: &Value, name: &str, value: &str) -> Result<(), String> {
        match parameter["pattern"].as_str() {
            Some(pattern) if !Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(value) => {
                Err(format!("{name}: {value:?} is not {pattern}"))
            }
            _ => Ok(()),
        }
    }

    fn value(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.value(&self.0["schemas"][reference], value, path);
        }
        let wrong = |what: &str| Err(format!("{path}: {value} is no {what}"));
        match (schema["type"].as_str().unwrap_or("any"), value) {
            ("object", Value::Object(members)) => {
                for (key, member) in members {
                    let known = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
                    let known = known.ok_or_else(|| format!("{path}: there is no {key}"))?;
                    self.value(known, member, &format!("{path}.{key}"))?;
                }
                Ok(())
            }
            ("array", Value::Array(items)) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| self.value(&schema["items"], item, &format!("{path}[{index}]"))),
            ("string", Value::String(text)) => {
                let is_listed = schema["enum"].as_array().is_none_or(|words| words.iter().any(|word| word == text));
                let is_number =
                    !matches!(schema["format"].as_str(), Some("int64" | "uint64")) || text.parse::<i64>().is_ok();
                if is_listed && is_number { self.pattern(schema, path, text) } else { wrong("value that is listed") }
            }
            ("boolean", Value::Bool(_)) | ("integer" | "number", Value::Number(_)) | ("any", _) => Ok(()),
            (kind, _) => wrong(kind),
        }
    }
}

/// The values of a path's parameters, if it is of this form.
fn matched(form: &str, path: &str) -> Option<Vec<(String, String)>> {
    let (form, path): (Vec<&str>, Vec<&str>) = (form.split('/').collect(), path.split('/').collect());
    if form.len() != path.len() {
        return None;
    }
    let mut parts = Vec::new();
    for (part, value) in form.iter().zip(path) {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => parts.push((name.to_owned(), value.to_owned())),
            None if *part == value => {}
            None => return None,
        }
    }
    Some(parts)
}
