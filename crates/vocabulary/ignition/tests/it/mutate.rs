//! Mutates valid inputs. The seeds are fixed, so every run uses the same inputs and a failure can be reproduced.

use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};

/// A small random number generator. Its quality does not matter, but it must be the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % limit.max(1)
    }
}

/// The number of mutated inputs; `FUZZ_ROUNDS` raises it beyond the few seconds of a normal test run.
pub(crate) fn rounds() -> u64 {
    std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4_000)
}

/// Returns the inputs in one file of the committed vectors.
pub(crate) fn inputs(file: &str) -> Vec<Value> {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("vectors"));
    let folder = above.find(|folder| folder.is_dir()).unwrap();
    let path = folder.join(format!("{file}.jsonl.gz"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["input"].take()).collect()
}

/// Changes a few places of a value.
pub(crate) fn mutate(value: &mut Value, random: &mut Random) {
    for _ in 0..=random.below(3) {
        mutate_once(value, random);
    }
}

fn mutate_once(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(members) if !members.is_empty() && random.below(8) > 0 => {
            let key = members.keys().nth(random.below(members.len())).cloned().unwrap_or_default();
            match random.below(12) {
                0 => drop(members.remove(&key)),
                1 => drop(members.insert(key.to_uppercase(), odd(random))),
                _ => mutate_once(members.get_mut(&key).unwrap(), random),
            }
        }
        Value::Array(items) if !items.is_empty() && random.below(8) > 0 => {
            let index = random.below(items.len());
            match random.below(8) {
                0 => items.push(items[index].clone()),
                1 => drop(items.remove(index)),
                _ => mutate_once(&mut items[index], random),
            }
        }
        Value::String(text) if random.below(3) > 0 => *text = scramble(text, random),
        other => *other = odd(random),
    }
}

/// Changes, drops or adds one byte of the text.
fn scramble(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let place = random.below(bytes.len() + 1);
    let bytes_of_note = b" /.%:;,=#[]{}\\\"\n\r\x00ABCxyz019-_+@";
    let byte = bytes_of_note[random.below(bytes_of_note.len())];
    match random.below(3) {
        0 => bytes.insert(place, byte),
        1 if place < bytes.len() => bytes[place] = byte,
        _ if place < bytes.len() => drop(bytes.remove(place)),
        _ => {}
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn odd(random: &mut Random) -> Value {
    match random.below(16) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(false),
        3 => json!(0),
        4 => json!(-1),
        5 => json!(i64::MAX),
        6 => json!(1.5),
        7 => json!(""),
        8 => json!([]),
        9 => json!({}),
        10 => json!([null]),
        11 => json!("/etc/../x"),
        12 => json!("data:;base64,AAAA"),
        13 => json!("x".repeat(5000)),
        14 => json!("3.4.0"),
        _ => json!({"source": "http://[::1", "compression": "gzip"}),
    }
}
