//! An answer on its way: handed out in pieces, so that one that is not read costs a piece and not a whole config.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::places::Places;

/// Two records of TLS.
const PIECE: usize = 32 * 1024;

pub(crate) struct Parcel {
    rest: Bytes,
    /// Given back with the last piece.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Parcel {
    /// Waits for the right to send an answer that is more than a piece.
    pub(crate) async fn pack(answer: Response<Full<Bytes>>, places: &Places) -> Response<Self> {
        let (head, body) = answer.into_parts();
        let rest = body.collect().await.map_or_else(|never| match never {}, http_body_util::Collected::to_bytes);
        let _permit = if rest.len() > PIECE { places.transfer().await } else { None };
        Response::from_parts(head, Self { rest, _permit })
    }
}

impl Body for Parcel {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let length = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(length);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
