//! Runs connections and requests as tasks of a single-threaded runtime.
//!
//! Tasks run only while the event loop waits. New tasks are collected and spawned at the next wait,
//! so that no other thread has to be woken for them. Start at [`H3Engine::run_until_event`].

use crate::http3::event::{EventQueue, H3Event, socket_error_class};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, ClientConfig, IdleTimeout, TransportConfig, UdpPoller, VarInt};
use speedwell_model::load::outcomes::ErrorClass;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, IoSliceMut, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::yield_now;

/// Idle timeout of a connection. For QUIC, this timeout is the only sign of a dead peer. Many
/// servers also use 30 s. A TCP connection would stay open for minutes.
const IDLE_MS: u32 = 30_000;

/// Interval of keep-alive packets. Without them, a response that takes longer than the idle timeout
/// would be lost with its connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Number of scheduler turns that each connection gets at shutdown to send CONNECTION_CLOSE.
const CLOSE_TURNS: u32 = 4;

type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Drives the connections of one thread.
pub struct H3Engine {
    /// Tasks to spawn at the next wait.
    tasks: Vec<BoxedTask>,
    /// Ends a wait at a given time. The runtime's own timers have a resolution of one millisecond,
    /// too coarse for a load with a schedule.
    alarm: AsyncFd<File>,
    pub(crate) events: Arc<EventQueue>,
    pub(crate) traffic: Arc<TrafficCounters>,
    pub(crate) config: ClientConfig,
    pub(crate) name: String,
    /// This is the last field, so that the runtime is dropped after everything that needs it.
    runtime: Runtime,
}

impl H3Engine {
    /// Creates an engine for this thread. Its connections use `tls` and expect a certificate for
    /// `server_name`. [`H3Engine::run_until_event`] stops waiting when `alarm` becomes readable.
    /// The alarm can be a timerfd (timerfd_create(2)), which the caller arms through a duplicate of
    /// the descriptor.
    ///
    /// # Errors
    /// Fails if the operating system cannot create the runtime or watch the alarm, or if `tls` does
    /// not offer a cipher that QUIC requires.
    pub fn new(
        tls: Arc<rustls::ClientConfig>,
        server_name: String,
        alarm: OwnedFd,
    ) -> io::Result<H3Engine> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let alarm = {
            let _inside = runtime.enter();
            // SAFETY: a `File` keeps the same descriptor open until it is dropped.
            unsafe { AsyncFd::register(File::from(alarm))? }
        };
        let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
        let mut transport = TransportConfig::default();
        transport
            .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MS))))
            .keep_alive_interval(Some(KEEP_ALIVE_INTERVAL))
            // Servers do not open bidirectional streams (RFC 9114, section 6.1).
            .max_concurrent_bidi_streams(VarInt::from_u32(0));
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        Ok(H3Engine {
            tasks: Vec::new(),
            alarm,
            events: Arc::default(),
            traffic: Arc::default(),
            config,
            name: server_name,
            runtime,
        })
    }

    /// Queues a task for the next wait.
    pub(crate) fn queue_task(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(Box::pin(task));
    }

    /// Runs tasks and replaces the contents of `events_out` with their events. With `may_block`,
    /// runs until there is an event or the alarm becomes readable; otherwise, runs for one turn of
    /// the scheduler.
    pub fn run_until_event(&mut self, may_block: bool, events_out: &mut Vec<H3Event>) {
        let H3Engine { tasks, alarm, events, runtime, .. } = self;
        let blocks = may_block && events.is_empty();
        runtime.block_on(async {
            for task in tasks.drain(..) {
                drop(tokio::spawn(task));
            }
            if !blocks {
                return yield_now().await;
            }
            poll_fn(|context| match events.poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => poll_alarm(alarm, context),
            })
            .await;
        });
        events.drain_into(events_out);
    }

    /// Returns the socket traffic since the last call: UDP payload bytes received and sent, and
    /// system calls made.
    pub fn take_traffic(&self) -> [u64; 3] {
        let TrafficCounters { received, sent, calls } = &*self.traffic;
        [received, sent, calls].map(|counter| counter.swap(0, Ordering::Relaxed))
    }

    /// Sends the CONNECTION_CLOSE packets of dropped connections; `connections` is their number.
    /// Without these packets, the servers would keep the connections until the idle timeout.
    pub fn flush_closes(&mut self, connections: u32) {
        self.tasks.clear();
        self.runtime.block_on(async {
            for _ in 0..connections.saturating_add(1) * CLOSE_TURNS {
                yield_now().await;
            }
        });
    }
}

/// Becomes ready once the alarm has fired. An alarm that cannot be read is treated as fired. This is
/// harmless, because the event loop then checks its clock.
fn poll_alarm(alarm: &AsyncFd<File>, context: &mut Context) -> Poll<()> {
    loop {
        let mut guard = match alarm.poll_read_ready(context) {
            Poll::Ready(Ok(guard)) => guard,
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        };
        let mut count = [0; 8];
        if guard.try_io(|alarm| alarm.get_ref().read(&mut count)).is_ok() {
            return Poll::Ready(());
        }
    }
}

// The code below wraps the UDP socket of one connection, counts its traffic and detects unreachable
// servers.
//
// The socket is connected, so that the operating system reports ICMP errors for its packets
// (udp(7)). `quinn` would nevertheless keep waiting for packets. The task of the connection
// therefore also waits for [`QuicSocket::wait_for_failure`], and then ends the connection.

/// Counters shared by all sockets of an engine.
#[derive(Debug, Default)]
pub(crate) struct TrafficCounters {
    received: AtomicU64,
    sent: AtomicU64,
    calls: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct QuicSocket {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
    traffic: Arc<TrafficCounters>,
    /// The last fatal error (errno) from the operating system; 0 for none.
    error: AtomicI32,
    failed: Notify,
}

impl QuicSocket {
    /// Opens a socket and connects it to the server. Must be called within the runtime.
    pub fn open(
        to: SocketAddr,
        local: Option<IpAddr>,
        traffic: Arc<TrafficCounters>,
    ) -> io::Result<QuicSocket> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // The number of calls is approximate: socket, bind, connect, registration with the poller,
        // options, and the close at the end.
        traffic.calls.fetch_add(6, Ordering::Relaxed);
        let socket = UdpSocket::bind(SocketAddr::new(local.unwrap_or(any), 0))?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(QuicSocket {
            state: UdpSocketState::new((&socket).into())?,
            socket: tokio::net::UdpSocket::from_std(socket)?,
            traffic,
            error: AtomicI32::new(0),
            failed: Notify::new(),
        })
    }

    /// Waits until the operating system reports that packets cannot reach the server.
    pub async fn wait_for_failure(&self) -> io::Error {
        loop {
            let error = self.error.load(Ordering::Relaxed);
            if error != 0 {
                return io::Error::from_raw_os_error(error);
            }
            let failure = race_futures(self.failed.notified(), self.socket.ready(Interest::ERROR));
            if let RaceWinner::Second(_) = failure.await {
                self.take_error();
            }
        }
    }

    /// Asks the operating system for an error. An error that arrives without a packet does not wake
    /// the task that reads packets.
    fn take_error(&self) {
        self.traffic.calls.fetch_add(1, Ordering::Relaxed);
        if let Ok(Some(error)) = self.socket.take_error() {
            self.record_error(&error);
        }
        // Clears readiness until the operating system reports another error.
        let would_block: io::Result<()> = Err(io::ErrorKind::WouldBlock.into());
        let _ = self.socket.try_io(Interest::ERROR, || would_block);
    }

    fn record_error(&self, error: &io::Error) {
        // Only these errors mean that there is no server. Others are transient: for example, a
        // packet is too large or a queue is full.
        let is_final = socket_error_class(error) != ErrorClass::ConnectNoPort;
        if let (true, Some(code)) = (is_final, error.raw_os_error()) {
            self.error.store(code, Ordering::Relaxed);
            self.failed.notify_one();
        }
    }
}

impl AsyncUdpSocket for QuicSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(WritePoller(self))
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        self.traffic.calls.fetch_add(1, Ordering::Relaxed);
        let sent = self
            .socket
            .try_io(Interest::WRITABLE, || self.state.try_send((&self.socket).into(), transmit));
        match sent {
            Ok(()) => {
                let bytes = transmit.contents.len() as u64;
                self.traffic.sent.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Err(error) => {
                // QUIC treats an unsent packet as lost, and retransmits it.
                self.record_error(&error);
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
            self.traffic.calls.fetch_add(1, Ordering::Relaxed);
            let received = self.socket.try_io(Interest::READABLE, || {
                self.state.recv((&self.socket).into(), buffers, meta)
            });
            match received {
                Ok(count) => {
                    let bytes: usize = meta[..count].iter().map(|packet| packet.len).sum();
                    self.traffic.received.fetch_add(bytes as u64, Ordering::Relaxed);
                    return Poll::Ready(Ok(count));
                }
                // Receiving an error clears it in the operating system, so the loop terminates.
                Err(error) => self.record_error(&error),
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

/// Waits until the socket is writable. The socket wakes only the task that waited last. This is
/// enough, because the socket belongs to a single connection.
#[derive(Debug)]
struct WritePoller(Arc<QuicSocket>);

impl UdpPoller for WritePoller {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        self.0.socket.poll_send_ready(context)
    }
}

/// Which of two futures completed first.
pub(crate) enum RaceWinner<A, B> {
    First(A),
    Second(B),
}

/// Polls both futures, returns the result of the one that completes first and drops the other.
/// `first` wins a tie.
pub(crate) async fn race_futures<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> RaceWinner<A, B> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| {
        if let Poll::Ready(first) = first.as_mut().poll(context) {
            return Poll::Ready(RaceWinner::First(first));
        }
        second.as_mut().poll(context).map(RaceWinner::Second)
    })
    .await
}
