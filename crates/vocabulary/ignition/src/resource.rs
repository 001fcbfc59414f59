//! The bytes of a resource that carries them itself: `data:` URL, then gzip, never more than a limit.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256, Sha512};

use crate::data_url;
use crate::v3_5::Resource;

/// Larger than any file that fits into an API object uncompressed by far, smaller than what hurts a small node.
pub const DECODED_LIMIT: usize = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("{0}")]
    DataUrl(#[from] data_url::Error),
    #[error("source {0:?} is not inline and was not fetched")]
    Remote(String),
    #[error("unsupported compression type {0:?} (allowed: gzip, or none)")]
    Compression(String),
    #[error("failed decompressing: {0}")]
    Gzip(String),
    #[error("decompressed contents exceed {0} bytes")]
    TooLarge(usize),
}

/// The decoded bytes; a missing or empty source means an empty file.
pub fn decode(resource: &Resource) -> Result<Vec<u8>, DecodeError> {
    decode_limited(resource, DECODED_LIMIT)
}

/// [`decode`], refusing contents above `limit` bytes before they take memory.
pub fn decode_limited(resource: &Resource, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let source = resource.source.as_deref().unwrap_or_default();
    if !is_inline(resource) {
        return Err(DecodeError::Remote(source.to_owned()));
    }
    let bytes = if source.is_empty() { Vec::new() } else { data_url::decode(source)? };
    match resource.compression.as_deref() {
        None | Some("") if bytes.len() > limit => Err(DecodeError::TooLarge(limit)),
        None | Some("") => Ok(bytes),
        Some("gzip") if source.is_empty() => Ok(bytes),
        Some("gzip") => gunzip(&bytes, limit),
        Some(other) => Err(DecodeError::Compression(other.to_owned())),
    }
}

/// Whether [`decode_limited`] would succeed, without keeping the bytes.
pub fn check_decodes(resource: &Resource, limit: usize) -> Result<(), DecodeError> {
    match resource.compression.as_deref() {
        Some("gzip") if is_inline(resource) => {
            let source = resource.source.as_deref().unwrap_or_default();
            let bytes = if source.is_empty() { return Ok(()) } else { data_url::decode(source)? };
            let room = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
            let mut plain = MultiGzDecoder::new(bytes.as_slice()).take(room);
            let size = std::io::copy(&mut plain, &mut std::io::sink());
            let size = size.map_err(|error| DecodeError::Gzip(error.to_string()))?;
            if size == room { Err(DecodeError::TooLarge(limit)) } else { Ok(()) }
        }
        None | Some("") if is_inline(resource) => {
            let source = resource.source.as_deref().unwrap_or_default();
            if source.is_empty() { Ok(()) } else { Ok(data_url::check(source)?) }
        }
        _ => decode_limited(resource, limit).map(|_| ()),
    }
}

/// Whether the resource carries its own bytes.
pub fn is_inline(resource: &Resource) -> bool {
    let source = resource.source.as_deref().unwrap_or_default();
    source.is_empty() || source.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// Whether `verification.hash` is the hash of these (decompressed) bytes; `None` when there is no usable hash.
pub fn hash_matches(resource: &Resource, bytes: &[u8]) -> Option<bool> {
    let hash = resource.verification.as_ref()?.hash.as_deref()?;
    let (function, expected) = hash.split_once('-')?;
    let actual = match function {
        "sha512" => hex(&Sha512::digest(bytes)),
        "sha256" => hex(&Sha256::digest(bytes)),
        _ => return None,
    };
    Some(actual.eq_ignore_ascii_case(expected))
}

fn gunzip(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut plain = Vec::new();
    let room = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(bytes)
        .take(room)
        .read_to_end(&mut plain)
        .map_err(|error| DecodeError::Gzip(error.to_string()))?;
    if plain.len() > limit { Err(DecodeError::TooLarge(limit)) } else { Ok(plain) }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzipped(bytes: &[u8]) -> Resource {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        Resource {
            source: Some(data_url::encode(&encoder.finish().unwrap())),
            compression: Some("gzip".to_owned()),
            ..Resource::default()
        }
    }

    #[test]
    fn gzip_is_expanded() {
        assert_eq!(decode(&gzipped(b"hello")).unwrap(), b"hello");
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = gzipped(&vec![0; 1 << 20]);
        assert!(matches!(decode_limited(&bomb, 1 << 16), Err(DecodeError::TooLarge(_))));
        assert_eq!(decode_limited(&bomb, 1 << 20).unwrap().len(), 1 << 20);
    }

    #[test]
    fn broken_gzip_and_remote_sources_are_errors() {
        let mut broken = gzipped(b"hello");
        broken.source = Some("data:,hello".to_owned());
        assert!(matches!(decode(&broken), Err(DecodeError::Gzip(_))));
        let remote = Resource { source: Some("https://example.com/x".to_owned()), ..Resource::default() };
        assert!(matches!(decode(&remote), Err(DecodeError::Remote(_))));
    }

    #[test]
    fn a_hash_is_compared_with_the_plain_bytes() {
        let sha256 = "sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let mut resource = gzipped(b"hello");
        resource.verification = Some(crate::v3_5::Verification { hash: Some(sha256.to_owned()) });
        assert_eq!(hash_matches(&resource, b"hello"), Some(true));
        assert_eq!(hash_matches(&resource, b"other"), Some(false));
        assert_eq!(hash_matches(&Resource::default(), b""), None);
    }
}
