//! A rendered config is named by what it says.
//!
//! The name is made of SHA-256 over a canonical form: a line with the form's version, then the spec as JSON without white
//! space, members in the order of their names, nothing that says nothing. Changing the form would give every config a new
//! name and so touch every node: a test holds it fixed, and a new form would need a new version and both names accepted.

use std::io::{self, Write};

use api::machineconfiguration::{MachineConfig, MachineConfigSpec};
use api::names;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Rendered;

const FORM: &[u8] = b"machinist.dev/rendered-config/v1\n";

/// 128 bits, as long as upstream's names: scripts match on the length, and the whole must fit into a label.
const DIGITS: usize = 32;

/// How a release writes a pool's merged spec down, where there are several ways to say the same, and what it names it.
/// Answers the name, and how many bytes the spec takes as JSON: both fall out of writing it once.
pub type Form = fn(pool: &str, spec: &mut MachineConfigSpec) -> (String, usize);

/// The name of a pool's rendered config with this content.
pub fn name(pool: &str, spec: &MachineConfigSpec) -> String {
    digest(pool, spec).0
}

/// The form of this release, which leaves the spec as it was merged.
pub(crate) fn v1(pool: &str, spec: &mut MachineConfigSpec) -> (String, usize) {
    digest(pool, spec)
}

fn digest(pool: &str, spec: &MachineConfigSpec) -> (String, usize) {
    let mut sink = Sink { hash: Sha256::new_with_prefix(FORM), size: 0 };
    write(spec, &mut sink);
    let digest = hex::encode(sink.hash.finalize());
    (format!("{}{pool}-{}", names::RENDERED_PREFIX, &digest[..DIGITS]), sink.size)
}

pub(crate) fn serialized_size(value: &impl Serialize) -> usize {
    let mut sink = Sink { hash: Sha256::new(), size: 0 };
    write(value, &mut sink);
    sink.size
}

/// Keeps the name of the pool's present rendered config if it says the same, whoever rendered it; so that taking over a
/// cluster, or a new way to name things, moves no node. Answers whether it did.
pub fn keep_name(rendered: &mut Rendered, present: &MachineConfig) -> bool {
    let same = is_same_content(&rendered.machine_config.spec, &present.spec);
    if same {
        rendered.machine_config.metadata.name = present.metadata.name.clone();
    }
    same
}

/// Whether two rendered specs ask the same of a node, however they are written.
pub fn is_same_content(a: &MachineConfigSpec, b: &MachineConfigSpec) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let kernel = |spec: &MachineConfigSpec| match text(&spec.kernel_type).as_str() {
        "" => "default".to_owned(),
        other => other.to_owned(),
    };
    a.kernel_arguments == b.kernel_arguments
        && a.extensions == b.extensions
        && a.fips.unwrap_or_default() == b.fips.unwrap_or_default()
        && kernel(a) == kernel(b)
        && text(&a.os_image_url) == text(&b.os_image_url)
        && text(&a.base_os_extensions_container_image) == text(&b.base_os_extensions_container_image)
        && same_ignition(a.config.as_ref(), b.config.as_ref())
}

fn same_ignition(a: Option<&Value>, b: Option<&Value>) -> bool {
    if a == b {
        return true;
    }
    let normal = |raw: Option<&Value>| {
        let mut value = match raw {
            None | Some(Value::Null) => ignition::to_value(ignition::empty()),
            Some(raw) => ignition::to_value(ignition::parse(raw).ok()?),
        };
        settle(&mut value);
        Some(value)
    };
    normal(a).is_some_and(|a| normal(b) == Some(a))
}

/// Brings what can be written in several ways into one: bytes in a URL, the order of things that have a name, and a `compression`
/// that is empty, which upstream's controllers write and merging leaves out.
fn settle(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                settle(member);
                match member {
                    Value::String(source) if name == "source" => {
                        if let Ok(bytes) = ignition::data_url::decode(source) {
                            *source = ignition::data_url::encode(&bytes);
                        }
                    }
                    Value::Array(items) if NAMED.contains(&name.as_str()) => items.sort_by_cached_key(subject),
                    _ => {}
                }
            }
            members.retain(|name, member| name != "compression" || member.as_str() != Some(""));
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        _ => {}
    }
}

/// Lists whose order says nothing: no two of one list have the same path or name.
const NAMED: [&str; 7] = ["files", "directories", "links", "units", "dropins", "users", "groups"];

fn subject(item: &Value) -> String {
    let text = item.get("path").or_else(|| item.get("name")).unwrap_or(item);
    text.as_str().unwrap_or_default().to_owned()
}

struct Sink {
    hash: Sha256,
    size: usize,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.size += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON of our own types into memory does not fail: no maps with keys that are not text, no writer that runs full.
fn write(value: &impl Serialize, sink: &mut Sink) {
    let mut buffered = io::BufWriter::with_capacity(8 << 10, sink);
    serde_json::to_writer(&mut buffered, value).expect("our own types are always JSON");
    buffered.flush().expect("the sink takes everything");
}
