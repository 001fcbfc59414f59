//! Ignition configs: parses every spec that clusters use (2.0–2.2, 3.0–3.5), validates, converts, merges and decodes.
//!
//! Machinist works with the newest spec internally ([`Config`] is 3.5). [`parse`] lifts an older config to it,
//! [`down::lower`] serves an older client, [`merge::Merger`] merges configs by the parent and child rules of spec 3,
//! and [`decode`] returns the bytes of an inline resource. Nothing here fetches, writes files or knows about clusters.

pub mod data_url;
pub mod down;
mod features;
pub mod merge;
mod node;
mod parse;
mod path;
mod report;
mod resource;
mod spec2;
mod tables;
mod unit_file;
mod url;
mod validate;
mod version;

pub use ignition_config::v3_5;
pub use ignition_config::v3_5::{Config, File, Resource, Unit, User, Verification};
pub use parse::{Parsed, empty, parse, read, to_value};
pub use report::{Error, Problem};
pub use resource::{
    DECODED_LIMIT, DecodeError, GzipChecker, decode, decode_limited, hash_matches, is_inline, open, plain_len, sha256,
};
pub use validate::{validate, validate_merged};
pub use version::Version;
