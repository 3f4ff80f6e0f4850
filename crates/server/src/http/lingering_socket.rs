//! Wraps a socket to add what hyper does not provide: a timeout for clients that stop reading, and
//! a lingering close.
//!
//! Closing a socket with unread input resets the connection, and the reset may overtake the
//! response (RFC 9112, 9.6). A lingering close therefore ends the writing side first, and keeps
//! reading for a while.

use crate::http::options::ServerLimits;
use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Maximum number of reads of a closing connection before other connections get their turn.
const MAX_READS_PER_POLL: usize = 16;

/// Socket with a timeout for clients that do not read, and a lingering close.
pub(crate) struct LingeringSocket<S> {
    socket: S,
    stalled_answer: Duration,
    linger: Duration,
    /// Runs while a write is blocked. If it expires, the write fails.
    stall_timer: Option<Pin<Box<Sleep>>>,
    /// Runs once the writing side is closed. If it expires, the connection is closed.
    linger_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> LingeringSocket<S> {
    pub(crate) fn new(socket: S, limits: &ServerLimits) -> LingeringSocket<S> {
        LingeringSocket {
            socket,
            stalled_answer: limits.stalled_answer,
            linger: limits.linger,
            stall_timer: None,
            linger_timer: None,
        }
    }

    /// Returns the result of a write, or an error if writes have been blocked for too long.
    fn check_stalled<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        if written.is_ready() {
            self.stall_timer = None;
            return written;
        }
        let limit = self.stalled_answer;
        let timer = self.stall_timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.check_stalled(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, pieces);
        self.check_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.check_stalled(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if this.linger_timer.is_none() {
            ready!(Pin::new(&mut this.socket).poll_shutdown(cx))?;
        }
        let limit = this.linger;
        let timer = this.linger_timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut space = [0; 8 << 10];
        for _ in 0..MAX_READS_PER_POLL {
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut this.socket).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => (),
                // The client has closed its side or is gone.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
