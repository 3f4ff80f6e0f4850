//! The UDP socket of one connection: counts what passes, and finds that nobody listens.
//!
//! The socket is connected, so the operating system reports ICMP messages about its packets to it
//! (udp(7)). `quinn` would wait for answers that cannot come; here the connection ends.

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::sync::Notify;

/// What passed through the sockets of an engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    /// Bytes of UDP payload that were received.
    pub received: u64,
    /// Bytes of UDP payload that were sent.
    pub sent: u64,
    /// System calls that it took.
    pub calls: u64,
}

/// Counts what passes through the sockets.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    received: AtomicU64,
    sent: AtomicU64,
    calls: AtomicU64,
}

impl Passed {
    /// What passed since the last time.
    pub fn take(&self) -> Traffic {
        Traffic {
            received: self.received.swap(0, Ordering::Relaxed),
            sent: self.sent.swap(0, Ordering::Relaxed),
            calls: self.calls.swap(0, Ordering::Relaxed),
        }
    }
}

/// The socket of a connection.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
    passed: Arc<Passed>,
    /// The last error that the operating system reported; 0 is none.
    error: AtomicI32,
    failed: Notify,
}

impl Datagrams {
    /// A socket from a local address to a remote one. Must be called within the runtime.
    pub fn connect(
        to: SocketAddr,
        local: Option<IpAddr>,
        passed: Arc<Passed>,
    ) -> io::Result<Datagrams> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // socket, bind, connect, watching it, its options, and closing it in the end.
        passed.calls.fetch_add(6, Ordering::Relaxed);
        let socket = UdpSocket::bind(SocketAddr::new(local.unwrap_or(any), 0))?;
        socket.connect(to)?;
        Ok(Datagrams {
            state: UdpSocketState::new((&socket).into())?,
            socket: tokio::net::UdpSocket::from_std(nonblocking(socket)?)?,
            passed,
            error: AtomicI32::new(0),
            failed: Notify::new(),
        })
    }

    /// Waits until the operating system says that packets cannot reach the server.
    pub async fn failed(&self) -> io::Error {
        loop {
            let error = self.error.load(Ordering::Relaxed);
            if error != 0 {
                return io::Error::from_raw_os_error(error);
            }
            let noticed = race(self.failed.notified(), self.socket.ready(Interest::ERROR));
            if let First::That(_) = noticed.await {
                self.take_error();
            }
        }
    }

    /// An error without a packet wakes no reader, so it is asked for.
    fn take_error(&self) {
        self.passed.calls.fetch_add(1, Ordering::Relaxed);
        if let Ok(Some(error)) = self.socket.take_error() {
            self.note(&error);
        }
        // This error is dealt with, until the operating system reports another.
        let nothing: io::Result<()> = Err(io::ErrorKind::WouldBlock.into());
        let _ = self.socket.try_io(Interest::ERROR, || nothing);
    }

    fn note(&self, error: &io::Error) {
        // Only what says that there is no server: a packet too large, or a full queue, passes.
        let is_final = matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown
        );
        if let (true, Some(code)) = (is_final, error.raw_os_error()) {
            self.error.store(code, Ordering::Relaxed);
            self.failed.notify_one();
        }
    }
}

fn nonblocking(socket: UdpSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl AsyncUdpSocket for Datagrams {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable {
            datagrams: self,
            waiting: None,
        })
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        self.passed.calls.fetch_add(1, Ordering::Relaxed);
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.socket).into(), transmit)
        });
        match sent {
            Ok(()) => {
                let bytes = transmit.contents.len() as u64;
                self.passed.sent.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Err(error) => {
                // A packet that was not sent is a lost packet, which QUIC repeats.
                self.note(&error);
                Ok(())
            }
        }
    }

    fn poll_recv(
        &self,
        context: &mut Context,
        buffers: &mut [IoSliceMut],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_recv_ready(context))?;
            self.passed.calls.fetch_add(1, Ordering::Relaxed);
            let received = self.socket.try_io(Interest::READABLE, || {
                self.state.recv((&self.socket).into(), buffers, meta)
            });
            match received {
                Ok(count) => {
                    let bytes: usize = meta[..count].iter().map(|one| one.len).sum();
                    self.passed
                        .received
                        .fetch_add(bytes as u64, Ordering::Relaxed);
                    return Poll::Ready(Ok(count));
                }
                // Reading an error removes it, so this ends.
                Err(error) => self.note(&error),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }
}

type Waiting = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

/// Waits for room in the socket.
struct Writable {
    datagrams: Arc<Datagrams>,
    waiting: Option<Waiting>,
}

impl Writable {
    fn begin(&self) -> Waiting {
        let datagrams = self.datagrams.clone();
        Box::pin(async move { datagrams.socket.writable().await })
    }
}

impl fmt::Debug for Writable {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Writable").finish_non_exhaustive()
    }
}

impl UdpPoller for Writable {
    fn poll_writable(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        let waiting = self.waiting.take();
        let mut waiting = waiting.unwrap_or_else(|| self.begin());
        let polled = waiting.as_mut().poll(context);
        if polled.is_pending() {
            self.waiting = Some(waiting);
        }
        polled
    }
}

/// Which one came.
pub(crate) enum First<A, B> {
    This(A),
    That(B),
}

/// Waits for both, and gives up the one that is not first. When both are there, `this` counts.
pub(crate) async fn race<A, B>(
    this: impl Future<Output = A>,
    that: impl Future<Output = B>,
) -> First<A, B> {
    let (mut this, mut that) = (pin!(this), pin!(that));
    poll_fn(|context| {
        if let Poll::Ready(this) = this.as_mut().poll(context) {
            return Poll::Ready(First::This(this));
        }
        that.as_mut().poll(context).map(First::That)
    })
    .await
}
