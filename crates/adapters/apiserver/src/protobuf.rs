//! The one protobuf body read so far: the options of a delete, which Go clients send in this form.
//!
//! Field numbers are those of the API's own definitions. A body that is not understood is refused, never guessed at.

use serde_json::{Value, json};

const MAGIC: &[u8] = b"k8s\0";

/// `DeleteOptions` from a body in the envelope of the API; `None` if it is none.
pub(crate) fn delete_options(body: &[u8]) -> Option<Value> {
    let mut raw = body;
    if let Some(envelope) = body.strip_prefix(MAGIC) {
        raw = &[];
        for field in fields(envelope)? {
            if let (2, Wire::Bytes(bytes)) = field {
                raw = bytes;
            }
        }
    }
    let mut options = json!({});
    let mut runs = Vec::new();
    for field in fields(raw)? {
        match field {
            (1, Wire::Number(seconds)) => options["gracePeriodSeconds"] = seconds.cast_signed().into(),
            (2, Wire::Bytes(bytes)) => {
                for field in fields(bytes)? {
                    match field {
                        (1, Wire::Bytes(uid)) => options["preconditions"]["uid"] = text(uid)?.into(),
                        (2, Wire::Bytes(version)) => {
                            options["preconditions"]["resourceVersion"] = text(version)?.into()
                        }
                        _ => {}
                    }
                }
            }
            (3, Wire::Number(flag)) => options["orphanDependents"] = (flag != 0).into(),
            (4, Wire::Bytes(policy)) => options["propagationPolicy"] = text(policy)?.into(),
            (5, Wire::Bytes(run)) => runs.push(text(run)?),
            _ => {}
        }
    }
    if !runs.is_empty() {
        options["dryRun"] = runs.into();
    }
    Some(options)
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(mut message: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut message)?),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                Wire::Bytes(bytes)
            }
            _ => return None,
        };
        fields.push((tag >> 3, value));
    }
    Some(fields)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_their_envelope() {
        let options = [&[8, 30][..], &[18, 3, 10, 1, b'u'], &[34, 10], b"Background", &[42, 3], b"All"].concat();
        let mut body = MAGIC.to_vec();
        body.extend([10, 0, 18, u8::try_from(options.len()).unwrap_or_default()]);
        body.extend(&options);
        let expected = json!({
            "gracePeriodSeconds": 30, "preconditions": {"uid": "u"}, "propagationPolicy": "Background", "dryRun": ["All"],
        });
        assert_eq!(delete_options(&body), Some(expected));
        assert_eq!(delete_options(b"k8s\0\x12\x09"), None);
    }
}
