//! WebSocket (RFC 6455), the server's side of it: as much as `kubectl exec` needs.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{Body, respond};

/// What every handshake is salted with.
const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A client sends input in pieces far smaller than this; a larger one is a mistake or an attack.
const LARGEST: usize = 4 << 20;

/// What the client sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Data(Bytes),
    Ping(Bytes),
    Close,
}

/// The kinds of frames that the server sends.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Binary = 2,
    Close = 8,
    Pong = 10,
}

/// Whether these are the headers of a client that wants to speak WebSocket.
pub(crate) fn is_asked(headers: &HeaderMap) -> bool {
    let says = |name: header::HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
    };
    says(header::UPGRADE, "websocket")
        && says(header::CONNECTION, "upgrade")
        && headers.contains_key(header::SEC_WEBSOCKET_KEY)
}

/// The first protocol of `known` that the client offers.
pub(crate) fn protocol<'a>(headers: &HeaderMap, known: &[&'a str]) -> Option<&'a str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    known.iter().find(|known| offered.contains(known)).copied()
}

/// The answer that turns the connection over.
pub(crate) fn accept(headers: &HeaderMap, protocol: &'static str) -> Response<Body> {
    super::patience::at_leisure();
    let key = headers.get(header::SEC_WEBSOCKET_KEY).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = respond::text(101, "");
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.clear();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    if let Ok(proof) = HeaderValue::from_str(&proof(key)) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, proof);
    }
    response
}

/// Shows the client that its handshake was understood.
fn proof(key: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{SALT}").as_bytes());
    STANDARD.encode(digest.as_ref())
}

/// One frame as the server sends it: whole, and not masked.
pub(crate) fn frame(kind: Kind, parts: &[&[u8]]) -> Bytes {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = BytesMut::with_capacity(length + 10);
    frame.put_u8(0x80 | kind as u8);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => frame.put_u8(short),
        (_, Ok(medium)) => {
            frame.put_u8(126);
            frame.put_u16(medium);
        }
        _ => {
            frame.put_u8(127);
            frame.put_u64(length as u64);
        }
    }
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    frame.freeze()
}

/// Reads messages, whatever the pieces they come in.
pub(crate) struct Reader<R> {
    io: R,
    buffer: BytesMut,
    /// The beginning of a message that came in several frames.
    begun: BytesMut,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(io: R) -> Self {
        Self { io, buffer: BytesMut::new(), begun: BytesMut::new() }
    }

    /// The next message; `None` once the connection has ended or what comes is no WebSocket.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            while let Some((head, payload)) = self.parse()? {
                let is_last = head & 0x80 != 0;
                match head & 0x0f {
                    0..=2 => {
                        self.begun.extend_from_slice(&payload);
                        if self.begun.len() > LARGEST {
                            return None;
                        }
                        if is_last {
                            return Some(Message::Data(self.begun.split().freeze()));
                        }
                    }
                    8 => return Some(Message::Close),
                    9 => return Some(Message::Ping(payload)),
                    10 => {}
                    _ => return None,
                }
            }
            if self.io.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// The next whole frame: `Some(None)` if more has to be read first, `None` if it is none.
    #[allow(clippy::option_option)]
    fn parse(&mut self) -> Option<Option<(u8, Bytes)>> {
        let buffer = &self.buffer;
        let (Some(&head), Some(&second)) = (buffer.first(), buffer.get(1)) else { return Some(None) };
        // Bits without a meaning, or a client that does not mask.
        if head & 0x70 != 0 || second & 0x80 == 0 {
            return None;
        }
        let (length, at) = match second & 0x7f {
            126 => match buffer.get(2..4) {
                Some(mut bytes) => (usize::from(bytes.get_u16()), 4),
                None => return Some(None),
            },
            127 => match buffer.get(2..10) {
                Some(mut bytes) => (usize::try_from(bytes.get_u64()).ok()?, 10),
                None => return Some(None),
            },
            short => (usize::from(short), 2),
        };
        if length > LARGEST {
            return None;
        }
        if buffer.len() < at + 4 + length {
            return Some(None);
        }
        let mask = [buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]];
        self.buffer.advance(at + 4);
        let mut payload = self.buffer.split_to(length);
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        Some(Some((head, payload.freeze())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn masked(head: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut bytes = vec![head];
        match payload.len() {
            short @ 0..=125 => bytes.push(0x80 | short as u8),
            length => {
                bytes.push(0x80 | 126);
                bytes.extend((length as u16).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    #[test]
    fn the_proof_is_that_of_the_standard() {
        assert_eq!(proof("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn frames_say_how_long_they_are() {
        assert_eq!(&frame(Kind::Binary, &[b"a", b"bc"])[..], b"\x82\x03abc");
        assert_eq!(&frame(Kind::Pong, &[&[0; 200]])[..4], [0x8a, 126, 0, 200]);
        assert_eq!(&frame(Kind::Binary, &[&[0; 70_000]])[..10], [0x82, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
    }

    #[tokio::test]
    async fn messages_are_put_together() {
        let bytes = [
            masked(0x02, b"one "),
            masked(0x89, b"alive?"),
            masked(0x80, b"message"),
            masked(0x82, &[7; 300]),
            masked(0x88, b""),
        ]
        .concat();
        // Byte by byte, so that every frame is torn at every place.
        let torn = tokio_test_reader(bytes);
        let mut reader = Reader::new(torn);
        assert_eq!(reader.next().await.unwrap(), Message::Ping("alive?".into()));
        assert_eq!(reader.next().await.unwrap(), Message::Data("one message".into()));
        assert_eq!(reader.next().await.unwrap(), Message::Data(vec![7; 300].into()));
        assert_eq!(reader.next().await.unwrap(), Message::Close);
        assert_eq!(reader.next().await, None);
    }

    #[tokio::test]
    async fn what_is_no_websocket_ends_it() {
        for bytes in [b"\x82\x01abcdefgh".to_vec(), b"\xf2\x80\0\0\0\0".to_vec(), b"\x83\x80\0\0\0\0".to_vec(), {
            [vec![0x82, 0xff], vec![0xff; 8], vec![0; 4]].concat()
        }] {
            assert_eq!(Reader::new(bytes.as_slice()).next().await, None, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn whatever_comes_is_read_to_its_end() {
        for seed in 0..2_000_u32 {
            // The heads of frames are more often right than not, so that what follows is looked at.
            let mut number = seed;
            let bytes: Vec<u8> = (0..seed % 97)
                .map(|at| {
                    number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    match at % 7 {
                        0 => [0x82, 0x80, 0x89, 0x02][number as usize >> 30],
                        1 => 0x80 | (number >> 28) as u8,
                        _ => (number >> 24) as u8,
                    }
                })
                .collect();
            let mut reader = Reader::new(bytes.as_slice());
            let mut messages = 0;
            while reader.next().await.is_some() {
                messages += 1;
                assert!(messages <= bytes.len(), "seed {seed} never ends");
            }
        }
    }

    fn tokio_test_reader(bytes: Vec<u8>) -> impl AsyncRead + Unpin {
        let (mut write, read) = tokio::io::duplex(1);
        tokio::spawn(async move {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut write, &bytes).await;
        });
        read
    }
}
