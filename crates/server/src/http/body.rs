//! Enforces the size limit and the minimum rate of request bodies, and decompresses gzip while a
//! body is read.
//!
//! When a body breaks a limit, its reader gets an error, and a [`BodyErrorSlot`] keeps the refusal.
//! The request pipeline sends the refusal as the response, whatever the handler returns. Only the
//! time spent waiting for the client counts when the rate is computed.
//!
//! tower-http limits the size of a body and the time until its next part. A client that sends a
//! byte per second would pass both.
//!
//! A thousand compressed bytes may expand to a million, so the output is counted after each step of
//! [`STEP_BYTES`] of input. Memory never holds more output than one step produces. The
//! decompression layer of tower-http does not limit the ratio.

use crate::http::{FramePoll, HttpError, ServerLimits};
use axum::http::StatusCode;
use flate2::write::MultiGzDecoder;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Passes the refusal of a rejected body to the request pipeline.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyErrorSlot(Arc<OnceLock<HttpError>>);

impl BodyErrorSlot {
    /// Records the first refusal. Returns the error for the reader of the body.
    fn reject_body(&self, refusal: HttpError) -> RejectedBody {
        RejectedBody(self.0.get_or_init(|| refusal.close_connection()).message.clone())
    }

    pub(crate) fn refusal(&self) -> Option<&HttpError> {
        self.0.get()
    }
}

/// Error that a handler gets when it reads a rejected body.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RejectedBody(String);

pub(crate) fn body_too_large(limit: u64) -> HttpError {
    HttpError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the request body is larger than {limit} bytes"),
    )
}

/// Request body with a size limit and a minimum rate.
pub(crate) struct LimitedBody<B> {
    body: B,
    limits: ServerLimits,
    error_slot: BodyErrorSlot,
    received: u64,
    /// Time spent waiting for the client, excluding the current wait.
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> LimitedBody<B> {
    pub(crate) fn new(body: B, limits: &ServerLimits, error_slot: BodyErrorSlot) -> LimitedBody<B> {
        LimitedBody {
            body,
            limits: limits.clone(),
            error_slot,
            received: 0,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    fn count_bytes(&mut self, bytes: &Bytes) -> Result<(), RejectedBody> {
        if let Some((started, _)) = self.waiting.take() {
            self.waited += started.elapsed();
        }
        self.received += bytes.len() as u64;
        if self.received > self.limits.body_bytes {
            return Err(self.error_slot.reject_body(body_too_large(self.limits.body_bytes)));
        }
        Ok(())
    }

    /// Becomes ready when the client has taken too long for the number of bytes sent.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<RejectedBody> {
        let bytes_per_s = self.limits.body_bytes_per_s.max(1);
        let allowed_by_rate = Duration::from_millis(self.received * 1000 / bytes_per_s);
        let remaining = (self.limits.body_grace + allowed_by_rate).saturating_sub(self.waited);
        let (_, timer) = self.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + remaining)))
        });
        timer.as_mut().poll(cx).map(|()| {
            let message =
                format!("the request body arrives at less than {bytes_per_s} bytes per second");
            self.error_slot.reject_body(HttpError::new(StatusCode::REQUEST_TIMEOUT, message))
        })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for LimitedBody<B> {
    type Data = Bytes;
    type Error = RejectedBody;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> FramePoll<RejectedBody> {
        let body = &mut *self;
        match Pin::new(&mut body.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let counted = frame.data_ref().map_or(Ok(()), |bytes| body.count_bytes(bytes));
                Poll::Ready(Some(counted.map(|()| frame)))
            }
            Poll::Ready(Some(Err(_))) => {
                let message = "the request body ended early";
                let refusal = HttpError::new(StatusCode::BAD_REQUEST, message);
                Poll::Ready(Some(Err(body.error_slot.reject_body(refusal))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => body.poll_timeout(cx).map(|refused| Some(Err(refused))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Number of input bytes per step. Deflate expands one byte to at most 1,032 bytes, so a step
/// yields at most 0.5 MB.
const STEP_BYTES: usize = 512;

/// Request body that is decompressed from gzip while it is read.
pub(crate) struct GunzipBody<B> {
    body: B,
    limits: ServerLimits,
    decoder: MultiGzDecoder<Vec<u8>>,
    input: Bytes,
    input_bytes: u64,
    output_bytes: u64,
    error_slot: BodyErrorSlot,
    ended: bool,
}

impl<B> GunzipBody<B> {
    pub(crate) fn new(body: B, limits: &ServerLimits, error_slot: BodyErrorSlot) -> GunzipBody<B> {
        GunzipBody {
            body,
            limits: limits.clone(),
            decoder: MultiGzDecoder::new(Vec::new()),
            input: Bytes::new(),
            input_bytes: 0,
            output_bytes: 0,
            error_slot,
            ended: false,
        }
    }

    /// Decompresses at most [`STEP_BYTES`] of the input.
    fn decode_step(&mut self) -> Result<Bytes, RejectedBody> {
        let piece = &self.input[..self.input.len().min(STEP_BYTES)];
        let consumed = match self.decoder.write(piece) {
            Ok(consumed) if consumed > 0 => consumed,
            Ok(_) | Err(_) => return Err(self.damaged_error()),
        };
        drop(self.input.split_to(consumed));
        self.input_bytes += consumed as u64;
        self.take_output()
    }

    /// Takes the output of the decoder and checks it against the limits.
    fn take_output(&mut self) -> Result<Bytes, RejectedBody> {
        let output = Bytes::from(std::mem::take(self.decoder.get_mut()));
        self.output_bytes += output.len() as u64;
        let ServerLimits { unpacked_bytes, unpacked_ratio, .. } = self.limits;
        let max_for_ratio =
            (self.input_bytes * unpacked_ratio).max(ServerLimits::MIN_BYTES_FOR_RATIO);
        let message = if self.output_bytes > unpacked_bytes {
            format!("the body is larger than {unpacked_bytes} bytes when decompressed")
        } else if self.output_bytes > max_for_ratio {
            format!("the body grows more than {unpacked_ratio}-fold when decompressed")
        } else {
            return Ok(output);
        };
        Err(self.reject_body(StatusCode::PAYLOAD_TOO_LARGE, &message))
    }

    fn damaged_error(&self) -> RejectedBody {
        self.reject_body(StatusCode::BAD_REQUEST, "the body is not valid gzip")
    }

    fn reject_body(&self, status: StatusCode, message: &str) -> RejectedBody {
        self.error_slot.reject_body(HttpError::new(status, message))
    }

    /// Returns the remaining output after the end of the input. The gzip data must end there, too.
    fn finish(&mut self) -> Option<Result<Bytes, RejectedBody>> {
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        if self.decoder.try_finish().is_err() {
            return Some(Err(self.damaged_error()));
        }
        match self.take_output() {
            Ok(output) if output.is_empty() => None,
            output => Some(output),
        }
    }
}

impl<B: Body<Data = Bytes, Error = RejectedBody> + Unpin> Body for GunzipBody<B> {
    type Data = Bytes;
    type Error = RejectedBody;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> FramePoll<RejectedBody> {
        let body = &mut *self;
        loop {
            if !body.input.is_empty() {
                match body.decode_step() {
                    Ok(output) if output.is_empty() => continue,
                    output => return Poll::Ready(Some(output.map(Frame::data))),
                }
            }
            if body.ended {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut body.body).poll_frame(cx)) {
                Some(Ok(frame)) => body.input = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(body.finish().map(|output| output.map(Frame::data))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::collections::VecDeque;

    /// Yields these chunks, then stays pending forever.
    struct StallingBody(VecDeque<Bytes>);

    impl Body for StallingBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> FramePoll<Self::Error> {
            match self.0.pop_front() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
                None => Poll::Pending,
            }
        }
    }

    async fn next_chunk<B: Body + Unpin>(body: &mut B) -> Option<Result<B::Data, B::Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))
            .await
            .map(|frame| frame.map(|frame| frame.into_data().ok().unwrap()))
    }

    fn limited_body(pieces: &[usize], fault: &BodyErrorSlot) -> LimitedBody<StallingBody> {
        let limits = ServerLimits {
            body_bytes: 10_000,
            body_grace: Duration::from_secs(10),
            body_bytes_per_s: 1000,
            ..ServerLimits::default()
        };
        let pieces = pieces.iter().map(|size| vec![0; *size].into()).collect();
        LimitedBody::new(StallingBody(pieces), &limits, fault.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_be_as_large_as_the_limit_and_not_a_byte_larger() {
        let fault = BodyErrorSlot::default();
        let mut body = limited_body(&[10_000], &fault);
        assert_eq!(next_chunk(&mut body).await.unwrap().unwrap().len(), 10_000);
        assert_eq!(fault.refusal(), None);
        let mut body = limited_body(&[10_001], &fault);
        assert!(next_chunk(&mut body).await.unwrap().is_err());
        assert_eq!(fault.refusal().unwrap().status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    /// The timing is exact, because the paused clock advances only when all tasks are idle.
    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_ten_seconds_and_one_more_for_each_kilobyte() {
        let fault = BodyErrorSlot::default();
        let mut body = limited_body(&[3000], &fault);
        let start = Instant::now();
        next_chunk(&mut body).await.unwrap().unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(next_chunk(&mut body).await.unwrap().is_err());
        let waited = start.elapsed() - Duration::from_secs(60);
        assert!(waited >= Duration::from_secs(13), "{waited:?}");
        assert!(waited < Duration::from_millis(13_100), "{waited:?}");
        assert_eq!(fault.refusal().unwrap().status, StatusCode::REQUEST_TIMEOUT);
    }

    struct ChunkedBody(VecDeque<Bytes>);

    impl Body for ChunkedBody {
        type Data = Bytes;
        type Error = RejectedBody;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> FramePoll<RejectedBody> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    fn compress(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Returns all decompressed bytes, the size of the largest chunk, and the refusal if there is
    /// one.
    fn unpack(packed: &[u8], pieces_of: usize) -> (Vec<u8>, usize, Option<HttpError>) {
        let fault = BodyErrorSlot::default();
        let pieces = packed.chunks(pieces_of).map(Bytes::copy_from_slice).collect();
        let mut body =
            GunzipBody::new(ChunkedBody(pieces), &ServerLimits::default(), fault.clone());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let (mut all, mut largest) = (Vec::new(), 0);
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
            let piece = frame.into_data().ok().unwrap();
            largest = largest.max(piece.len());
            all.extend_from_slice(&piece);
        }
        (all, largest, fault.refusal().cloned())
    }

    #[test]
    fn decompressed_text_does_not_depend_on_the_chunk_size() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut twice = compress(&text);
        twice.extend(compress(b"and a second member"));
        for pieces_of in [1, 7, 511, 512, 513, 100_000] {
            let (unpacked, _, refusal) = unpack(&twice, pieces_of);
            assert_eq!(refusal, None);
            assert!(unpacked == [&text[..], b"and a second member"].concat());
        }
    }

    #[test]
    fn a_gzip_bomb_is_refused_after_about_a_megabyte() {
        // Compressing ten gigabytes would take too long. 64 MB of zeros are rejected just as early.
        let bomb = compress(&vec![0; 64 << 20]);
        let (unpacked, largest, refusal) = unpack(&bomb, bomb.len());
        assert_eq!(refusal.unwrap().status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(unpacked.len() < 2 << 20, "{}", unpacked.len());
        assert!(largest <= STEP_BYTES * 1032, "{largest}");
    }

    #[test]
    fn a_short_text_may_have_any_compression_ratio() {
        let zeros = vec![0; 1 << 20];
        let (unpacked, _, refusal) = unpack(&compress(&zeros), 4096);
        assert!(unpacked == zeros);
        assert_eq!(refusal, None);
    }

    #[test]
    fn truncated_or_damaged_gzip_is_refused() {
        let whole = compress(b"0123456789 0123456789 0123456789");
        for length in 0..whole.len() {
            let (_, _, refusal) = unpack(&whole[..length], 5);
            assert_eq!(refusal.unwrap().status, StatusCode::BAD_REQUEST, "{length}");
        }
        let mut damaged = whole.clone();
        let checksum = damaged.len() - 6;
        damaged[checksum] ^= 1;
        assert!(unpack(&damaged, 100).2.is_some());
        assert!(unpack(b"plain text", 100).2.is_some());
    }
}
