//! The bytes of a resource that carries them itself: `data:` URL, then gzip, never more than a limit.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;
use flate2::{Crc, Decompress, FlushDecompress, Status};
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

/// [`decode`], piece by piece: compressed contents are unpacked while they are read and never held whole. An error while
/// reading means broken gzip; no limit is kept, see [`GzipChecker`] for that.
pub fn open(resource: &Resource) -> Result<Box<dyn Read + Send>, DecodeError> {
    let source = resource.source.as_deref().unwrap_or_default();
    if !is_inline(resource) {
        return Err(DecodeError::Remote(source.to_owned()));
    }
    let bytes = Cursor::new(if source.is_empty() { Vec::new() } else { data_url::decode(source)? });
    match resource.compression.as_deref() {
        Some("gzip") if !source.is_empty() => Ok(Box::new(MultiGzDecoder::new(bytes))),
        None | Some("" | "gzip") => Ok(Box::new(bytes)),
        Some(other) => Err(DecodeError::Compression(other.to_owned())),
    }
}

/// How many bytes [`decode`] would give, where that can be told without decoding: contents that are inline and not
/// compressed. It tells in a fraction of the time that two files differ.
#[must_use]
pub fn plain_len(resource: &Resource) -> Option<usize> {
    let plain = matches!(resource.compression.as_deref(), None | Some(""));
    let source = resource.source.as_deref().unwrap_or_default();
    match plain && is_inline(resource) {
        true if source.is_empty() => Some(0),
        true => data_url::decoded_len(source).ok(),
        false => None,
    }
}

/// Checks compressed resources one after the other, with one set of tables for all.
#[derive(Debug)]
pub struct GzipChecker {
    inflate: Decompress,
    window: Box<[u8]>,
}

impl Default for GzipChecker {
    fn default() -> Self {
        Self { inflate: Decompress::new(false), window: vec![0; 16 << 10].into_boxed_slice() }
    }
}

impl GzipChecker {
    /// Whether [`decode_limited`] would succeed for a compressed inline resource, and how many bytes it would give. Others
    /// are not checked; those that are neither compressed nor remote are only measured.
    pub fn check(&mut self, resource: &Resource, limit: usize) -> Result<usize, DecodeError> {
        let source = resource.source.as_deref().unwrap_or_default();
        if resource.compression.as_deref() != Some("gzip") || source.is_empty() || !is_inline(resource) {
            return Ok(plain_len(resource).unwrap_or_default());
        }
        let bytes = data_url::decode(source)?;
        let (mut rest, mut size) = (bytes.as_slice(), 0usize);
        while !rest.is_empty() {
            rest = self.member(rest, &mut size, limit)?;
        }
        if bytes.is_empty() { Err(broken("it is empty")) } else { Ok(size) }
    }

    /// One gzip member (RFC 1952); answers what follows it.
    fn member<'a>(&mut self, bytes: &'a [u8], size: &mut usize, limit: usize) -> Result<&'a [u8], DecodeError> {
        let mut rest = header(bytes).ok_or_else(|| broken("the header is no gzip header"))?;
        self.inflate.reset(false);
        let before = *size;
        let mut sum = Crc::new();
        loop {
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(rest, &mut self.window, FlushDecompress::None);
            let status = status.map_err(|error| broken(&error.to_string()))?;
            let [read, written] = [self.inflate.total_in() - read, self.inflate.total_out() - written]
                .map(|count| usize::try_from(count).unwrap_or_default());
            rest = &rest[read..];
            sum.update(&self.window[..written]);
            *size += written;
            match status {
                _ if *size > limit => return Err(DecodeError::TooLarge(limit)),
                Status::StreamEnd => break,
                _ if read == 0 && written == 0 => return Err(broken("it ends too early")),
                _ => {}
            }
        }
        let trailer = rest.first_chunk::<8>().ok_or_else(|| broken("it ends too early"))?;
        let [a, b, c, d, length @ ..] = *trailer;
        if u32::from_le_bytes([a, b, c, d]) != sum.sum() {
            return Err(broken("the checksum does not match"));
        }
        if u32::from_le_bytes(length) as usize != *size - before {
            return Err(broken("the length does not match"));
        }
        Ok(&rest[8..])
    }
}

fn broken(why: &str) -> DecodeError {
    DecodeError::Gzip(why.to_owned())
}

/// Skips the header of a gzip member.
fn header(bytes: &[u8]) -> Option<&[u8]> {
    const HEADER_CRC: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let [0x1F, 0x8B, 8, flags, _, _, _, _, _, _, rest @ ..] = bytes else { return None };
    let mut rest = rest;
    if flags & EXTRA != 0 {
        let length = rest.first_chunk::<2>()?;
        rest = rest.get(2 + usize::from(u16::from_le_bytes(*length))..)?;
    }
    for _ in 0..(flags & NAME).count_ones() + (flags & COMMENT).count_ones() {
        let end = rest.iter().position(|byte| *byte == 0)?;
        rest = &rest[end + 1..];
    }
    if flags & HEADER_CRC != 0 { rest.get(2..) } else { Some(rest) }
}

/// Whether the resource carries its own bytes.
pub fn is_inline(resource: &Resource) -> bool {
    let source = resource.source.as_deref().unwrap_or_default();
    source.is_empty() || source.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// Whether `verification.hash` is the hash of these (decompressed) bytes; `None` when there is no usable hash. Bytes that
/// cannot be read to their end match no hash.
pub fn hash_matches(resource: &Resource, bytes: impl Read) -> Option<bool> {
    let hash = resource.verification.as_ref()?.hash.as_deref()?;
    let (function, expected) = hash.split_once('-')?;
    let actual = match function {
        "sha512" => digest::<Sha512>(bytes),
        "sha256" => digest::<Sha256>(bytes),
        _ => return None,
    };
    Some(actual.is_ok_and(|actual| actual.eq_ignore_ascii_case(expected)))
}

/// The SHA-256 of bytes as `verification.hash` has it.
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256-{}", hex(&Sha256::digest(bytes)))
}

fn digest<D: Digest>(mut bytes: impl Read) -> std::io::Result<String> {
    let (mut digest, mut window) = (D::new(), vec![0; 16 << 10]);
    loop {
        match bytes.read(&mut window) {
            Ok(0) => return Ok(hex(&digest.finalize())),
            Ok(count) => digest.update(&window[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
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
        assert!(matches!(GzipChecker::default().check(&bomb, 1 << 16), Err(DecodeError::TooLarge(_))));
        assert_eq!(decode_limited(&bomb, 1 << 20).unwrap().len(), 1 << 20);
    }

    #[test]
    fn the_checker_agrees_with_decoding() {
        let mut checker = GzipChecker::default();
        let whole = data_url::decode(gzipped(b"hello hello hello").source.as_deref().unwrap()).unwrap();
        let twice = [whole.clone(), whole.clone()].concat();
        let named = [&whole[..3], &[8], &whole[4..10], b"name\0", &whole[10..]].concat();
        let mut candidates = vec![whole.clone(), twice, named, Vec::new()];
        candidates.extend((0..whole.len()).map(|end| whole[..end].to_vec()));
        candidates.extend((0..whole.len()).map(|index| {
            let mut bytes = whole.clone();
            bytes[index] ^= 1;
            bytes
        }));
        for bytes in candidates {
            let mut resource = gzipped(b"");
            resource.source = Some(data_url::encode(&bytes));
            let (decoded, checked) = (decode(&resource), checker.check(&resource, DECODED_LIMIT));
            assert_eq!(decoded.as_ref().ok().map(Vec::len), checked.as_ref().ok().copied(), "{bytes:?}: {decoded:?}");
            let mut read = Vec::new();
            let whole = open(&resource).is_ok_and(|mut opened| opened.read_to_end(&mut read).is_ok());
            assert_eq!(decoded.ok(), whole.then_some(read), "{bytes:?}");
        }
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
        assert_eq!(hash_matches(&resource, &b"hello"[..]), Some(true));
        assert_eq!(hash_matches(&resource, &b"other"[..]), Some(false));
        assert_eq!(hash_matches(&Resource::default(), &b""[..]), None);
    }
}
