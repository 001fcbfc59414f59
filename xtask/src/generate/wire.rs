//! Extracts the protobuf encoding of built-in kinds, and which zero-valued fields Go omits.
//!
//! Both are in the struct tags of the API's Go types. For each definition of the tables we keep the number and the name
//! of each field, and nothing of the modules themselves.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Prefixes of definitions, with the module and the folder that they come from.
const MODULES: &[(&str, &str)] = &[
    ("io.k8s.api.", "k8s.io/api@v0.36.3"),
    ("io.k8s.apimachinery.", "k8s.io/apimachinery@v0.36.3"),
    ("io.k8s.apiextensions-apiserver.", "k8s.io/apiextensions-apiserver@v0.36.3"),
    ("io.k8s.kube-aggregator.", "k8s.io/kube-aggregator@v0.36.3"),
];

/// Returns the text of the generated file for these definitions, one per line: `definition field:number …`.
///
/// `?` after a number marks a field that is omitted if it is zero, `~` a pointer that is omitted if it is nil; `>`
/// before a name marks a message whose fields are inlined in its parent.
pub(super) fn lines(definitions: &[String]) -> Result<String> {
    let mut packages: BTreeMap<String, BTreeMap<String, Vec<Field>>> = BTreeMap::new();
    let mut waiting: Vec<String> = definitions.to_vec();
    let mut lines = BTreeMap::new();
    while let Some(name) = waiting.pop() {
        let (package, kind) = name.rsplit_once('.').context("a definition has a package")?;
        if lines.contains_key(&name) {
            continue;
        }
        if !packages.contains_key(package) {
            packages.insert(package.to_owned(), structs(package)?);
        }
        let Some(fields) = packages.get(package).and_then(|known| known.get(kind)) else { continue };
        let mut line = name.clone();
        for field in fields {
            if field.inlined {
                let target = format!("{package}.{}", field.name);
                line.push_str(&format!(" >{target}:{}", field.number));
                waiting.push(target);
            } else {
                let mark = match (field.omitted, field.pointer) {
                    (true, false) => "?",
                    (true, true) => "~",
                    (false, _) => "",
                };
                line.push_str(&format!(" {}:{}{mark}", field.name, field.number));
            }
        }
        lines.insert(name, line);
    }
    Ok(lines.into_values().fold(String::new(), |all, line| all + &line + "\n"))
}

#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    number: u32,
    omitted: bool,
    pointer: bool,
    inlined: bool,
}

fn structs(package: &str) -> Result<BTreeMap<String, Vec<Field>>> {
    let Some((prefix, module)) = MODULES.iter().find(|(prefix, _)| package.starts_with(prefix)) else {
        return Ok(BTreeMap::new());
    };
    let folder = super::kubernetes::download(module)?.join(package[prefix.len()..].replace('.', "/"));
    let mut known = BTreeMap::new();
    for path in sources(&folder)? {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        known.extend(parse(&text));
    }
    Ok(known)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("types") && name.ends_with(".go") && !name.contains("swagger") && !name.contains("_test")
    });
    paths.sort();
    Ok(paths)
}

/// Returns the structs of a Go file with their numbered fields.
fn parse(text: &str) -> BTreeMap<String, Vec<Field>> {
    let mut known = BTreeMap::new();
    let mut open: Option<(String, Vec<Field>)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
            open = Some((name.to_owned(), Vec::new()));
        } else if line == "}" {
            known.extend(open.take());
        } else if let Some((_, fields)) = &mut open {
            fields.extend(field(line));
        }
    }
    known
}

fn field(line: &str) -> Option<Field> {
    // Removed fields remain as comments, so that their numbers are not reused.
    if line.trim_start().starts_with("//") {
        return None;
    }
    let (declared, tags) = line.trim().split_once('`')?;
    let tag = |key: &str| tags.split_once(&format!("{key}:\""))?.1.split_once('"').map(|(value, _)| value.to_owned());
    let (json, wire) = (tag("json")?, tag("protobuf")?);
    let number = wire.split(',').nth(1)?.parse().ok()?;
    let kind = declared.split_whitespace().last()?;
    let (name, options) = json.split_once(',').unwrap_or((&json, ""));
    let has = |option: &str| options.split(',').any(|own| own == option);
    if has("inline") {
        return Some(Field {
            name: kind.rsplit('.').next()?.to_owned(),
            number,
            omitted: false,
            pointer: false,
            inlined: true,
        });
    }
    let omitted = has("omitempty") || has("omitzero");
    Some(Field { name: name.to_owned(), number, omitted, pointer: kind.starts_with('*'), inlined: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_from_their_tags() {
        let text = "type A struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\t// words\n\tB *int32 `json:\"b,omitempty\" protobuf:\"varint,3,opt,name=b\"`\n\tC []string `json:\"c,omitempty\" patchStrategy:\"merge\" protobuf:\"bytes,4,rep,name=c\"`\n\tD string `json:\"d\" protobuf:\"bytes,1,opt,name=d\"`\n\t// E *int64 `json:\"e\" protobuf:\"varint,6,opt,name=e\"`\n\tSource `json:\",inline\" protobuf:\"bytes,2,opt,name=source\"`\n}\n";
        let shown: Vec<String> = parse(text)["A"].iter().map(|field| format!("{field:?}")).collect();
        assert_eq!(
            shown,
            [
                "Field { name: \"b\", number: 3, omitted: true, pointer: true, inlined: false }",
                "Field { name: \"c\", number: 4, omitted: true, pointer: false, inlined: false }",
                "Field { name: \"d\", number: 1, omitted: false, pointer: false, inlined: false }",
                "Field { name: \"Source\", number: 2, omitted: false, pointer: false, inlined: true }",
            ]
        );
    }
}
