//! Answers put together: JSON or YAML, whole or streamed.

use std::convert::Infallible;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use serde_json::Value;

use super::patience::Pieces;
use crate::status::Failure;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";

/// Answers from this size on are handed over bit by bit, so that one nobody reads can be ended.
const LARGE: usize = 64 * 1024;

pub(crate) fn bytes(code: u16, content_type: &'static str, content: impl Into<Bytes>) -> Response<Body> {
    let content = content.into();
    let body = match content.len() {
        ..LARGE => Full::new(content).boxed_unsync(),
        _ => Pieces::whole(content).boxed_unsync(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(crate) fn value(code: u16, content: &Value, yaml: bool, pretty: bool) -> Response<Body> {
    if yaml {
        let text = serde_saphyr::to_string(content).unwrap_or_default();
        return bytes(code, YAML, text);
    }
    let mut text =
        if pretty { serde_json::to_vec_pretty(content) } else { serde_json::to_vec(content) }.unwrap_or_default();
    text.push(b'\n');
    bytes(code, JSON, text)
}

/// JSON text that is ready, in the form the client asked for.
pub(crate) fn json(code: u16, content: Vec<u8>, yaml: bool, pretty: bool) -> Response<Body> {
    if yaml || pretty {
        return value(code, &serde_json::from_slice(&content).unwrap_or_default(), yaml, pretty);
    }
    bytes(code, JSON, content)
}

/// As `json`, for text in parts. A long one is put together while it is sent, so that it is in memory in small pieces only
/// and nobody else waits for the whole of it.
pub(crate) fn parts(code: u16, parts: Vec<Bytes>, yaml: bool, pretty: bool) -> Response<Body> {
    let size: usize = parts.iter().map(Bytes::len).sum();
    if size < LARGE || yaml || pretty {
        return json(code, parts.concat(), yaml, pretty);
    }
    let mut response = bytes(code, JSON, Bytes::new());
    *response.body_mut() = Pieces::sized(size as u64, futures::stream::iter(Joined(parts.into_iter()))).boxed_unsync();
    response
}

/// Joins small parts into chunks; large ones stay as they are.
struct Joined(std::vec::IntoIter<Bytes>);

impl Iterator for Joined {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        const SHARED: usize = 16 * 1024;
        let mut joined = BytesMut::new();
        while let Some(part) = self.0.as_slice().first() {
            match part.len() {
                SHARED.. if joined.is_empty() => return self.0.next(),
                small if small < SHARED && joined.len() + small <= LARGE => {
                    // Room for one chunk at once, not bit by bit.
                    joined.reserve(if joined.is_empty() { LARGE } else { 0 });
                    joined.extend_from_slice(part);
                    self.0.next();
                }
                _ => break,
            }
        }
        (!joined.is_empty()).then(|| joined.freeze())
    }
}

pub(crate) fn failure(failure: &Failure, yaml: bool, pretty: bool) -> Response<Body> {
    let mut response = value(failure.code, &failure.value(), yaml, pretty);
    if let Some(seconds) = failure.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// A path that is no part of the API.
pub(crate) fn nothing_here() -> Response<Body> {
    let mut response = bytes(404, "text/plain; charset=utf-8", "404 page not found\n");
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

pub(crate) fn text(code: u16, content: impl Into<Bytes>) -> Response<Body> {
    bytes(code, "text/plain; charset=utf-8", content)
}

/// A body that is written as it comes; the connection stays open until the stream ends.
pub(crate) fn stream(chunks: impl futures::Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    streamed(Pieces::of(Box::pin(chunks)))
}

/// As `stream`, for people, who may read it in a pager and take their time.
pub(crate) fn leisurely_stream(chunks: impl futures::Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    super::patience::at_leisure();
    streamed(Pieces::of(Box::pin(chunks)).leisurely())
}

/// As `text`, for people.
pub(crate) fn leisurely_text(content: impl Into<Bytes>) -> Response<Body> {
    super::patience::at_leisure();
    let mut response = text(200, Bytes::new());
    *response.body_mut() = Full::new(content.into()).boxed_unsync();
    response
}

fn streamed(body: impl hyper::body::Body<Data = Bytes, Error = Infallible> + Send + 'static) -> Response<Body> {
    let mut response = Response::new(body.boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(crate) fn warnings(response: &mut Response<Body>, warnings: &[String]) {
    for text in warnings {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let clean: String =
            quoted.chars().map(|c| if c.is_ascii_control() || !c.is_ascii() { ' ' } else { c }).collect();
        if let Ok(line) = HeaderValue::from_str(&format!("299 - \"{clean}\"")) {
            response.headers_mut().append(header::WARNING, line);
        }
    }
}

/// Every answer has an id of its own, which users quote and audit logs carry.
pub(crate) fn audited(response: &mut Response<Body>) {
    if let Ok(id) = HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()) {
        response.headers_mut().insert("audit-id", id);
    }
}

/// The answer to HEAD: what GET would say about the body, and no body.
pub(crate) fn headers_only(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(size) = hyper::body::Body::size_hint(&body).exact() {
        parts.headers.insert(header::CONTENT_LENGTH, size.into());
    }
    Response::from_parts(parts, Full::new(Bytes::new()).boxed_unsync())
}

/// Smaller answers are not worth the time; the real server draws the same line.
const COMPRESSED_FROM: u64 = 128 * 1024;

/// Compresses a large answer whose end is known; streams stay as they are.
pub(crate) async fn compressed(response: Response<Body>) -> Response<Body> {
    let size = hyper::body::Body::size_hint(response.body()).exact();
    if size.is_none_or(|size| size < COMPRESSED_FROM) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let content = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(never) => match never {},
    };
    // On a thread of its own: everyone else would wait for it.
    let plain = content.clone();
    let packing = tokio::task::spawn_blocking(move || {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &plain).and_then(|()| encoder.finish())
    });
    let content: Bytes = match packing.await {
        Ok(Ok(packed)) => {
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
            packed.into()
        }
        _ => content,
    };
    Response::from_parts(parts, Pieces::whole(content).boxed_unsync())
}
