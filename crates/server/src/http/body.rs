//! Enforces the size limit and the minimum rate of request bodies.
//!
//! When a body breaks a limit, its reader gets an error, and a [`BodyErrorSlot`] keeps the refusal.
//! The request pipeline sends the refusal as the response, whatever the handler returns. The rate
//! counts only the time spent waiting for the client.
//!
//! tower-http limits the size of a body and the time until its next part. A client that sends a
//! byte per second would pass both.

use crate::http::http_error::HttpError;
use crate::http::options::ServerLimits;
use axum::http::StatusCode;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Passes the refusal of a rejected body to the request pipeline.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyErrorSlot(Arc<OnceLock<HttpError>>);

impl BodyErrorSlot {
    /// Records the first refusal. Returns the error for the reader of the body.
    pub(crate) fn reject_body(&self, refusal: HttpError) -> RejectedBody {
        RejectedBody(self.0.get_or_init(|| refusal.close_connection()).message.clone())
    }

    pub(crate) fn refusal(&self) -> Option<&HttpError> {
        self.0.get()
    }
}

/// Error that a handler gets when it reads a rejected body.
#[derive(Debug)]
pub(crate) struct RejectedBody(String);

impl fmt::Display for RejectedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RejectedBody {}

pub(crate) fn body_too_large(limit: u64) -> HttpError {
    HttpError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the request body is larger than {limit} bytes"),
    )
}

/// Request body with a size limit and a minimum rate.
pub(crate) struct LimitedBody<B> {
    body: B,
    error_slot: BodyErrorSlot,
    received: u64,
    limit: u64,
    grace: Duration,
    bytes_per_s: u64,
    /// Time spent waiting for the client, excluding the current wait.
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> LimitedBody<B> {
    pub(crate) fn new(body: B, limits: &ServerLimits, error_slot: BodyErrorSlot) -> LimitedBody<B> {
        LimitedBody {
            body,
            error_slot,
            received: 0,
            limit: limits.body_bytes,
            grace: limits.body_grace,
            bytes_per_s: limits.body_bytes_per_s.max(1),
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    fn count_bytes(&mut self, bytes: &Bytes) -> Result<(), RejectedBody> {
        if let Some((started, _)) = self.waiting.take() {
            self.waited += started.elapsed();
        }
        self.received += bytes.len() as u64;
        if self.received > self.limit {
            return Err(self.error_slot.reject_body(body_too_large(self.limit)));
        }
        Ok(())
    }

    /// Becomes ready when the client has taken too long for the number of bytes sent.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<RejectedBody> {
        let allowed_by_rate = Duration::from_millis(self.received * 1000 / self.bytes_per_s);
        let remaining = (self.grace + allowed_by_rate).saturating_sub(self.waited);
        let (_, timer) = self.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + remaining)))
        });
        timer.as_mut().poll(cx).map(|()| {
            let message = format!(
                "the request body arrives at less than {} bytes per second",
                self.bytes_per_s
            );
            self.error_slot.reject_body(HttpError::new(StatusCode::REQUEST_TIMEOUT, message))
        })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for LimitedBody<B> {
    type Data = Bytes;
    type Error = RejectedBody;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RejectedBody>>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Yields these chunks, then stays pending forever.
    struct StallingBody(VecDeque<Bytes>);

    impl Body for StallingBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
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
}
