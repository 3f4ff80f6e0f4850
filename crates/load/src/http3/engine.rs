//! Runs connections and requests as tasks of a single-threaded runtime.
//!
//! Tasks run only while the event loop waits. New tasks are collected and spawned at the next wait,
//! so that no other thread has to be woken for them. Start at [`H3Engine::run_until_event`].

use crate::http3::datagrams::{SocketTraffic, TrafficCounters};
use crate::http3::event::{EventQueue, H3Event};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, IdleTimeout, TransportConfig, VarInt};
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
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
    alarm: WakeAlarm,
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
            WakeAlarm::new(alarm)?
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
                Poll::Pending => alarm.poll(context),
            })
            .await;
        });
        events.drain_into(events_out);
    }

    /// Returns the socket traffic since the last call.
    pub fn take_traffic(&self) -> SocketTraffic {
        self.traffic.take()
    }

    /// Tells the servers that this many connections were dropped. Otherwise, the servers would keep
    /// the connections until the idle timeout.
    pub fn flush_closes(&mut self, connections: u32) {
        self.tasks.clear();
        self.runtime.block_on(async {
            for _ in 0..connections.saturating_add(1) * CLOSE_TURNS {
                yield_now().await;
            }
        });
    }
}

/// Ends a wait at a given time. The runtime's own timers have a resolution of one millisecond, too
/// coarse for a load with a schedule.
struct WakeAlarm {
    descriptor: AsyncFd<File>,
}

impl WakeAlarm {
    /// Must be called within the runtime.
    fn new(descriptor: OwnedFd) -> io::Result<WakeAlarm> {
        // SAFETY: a `File` keeps the same descriptor open until it is dropped.
        let descriptor = unsafe { AsyncFd::register(File::from(descriptor))? };
        Ok(WakeAlarm { descriptor })
    }

    /// Becomes ready once the alarm has fired. An alarm that cannot be read also counts as fired,
    /// because the event loop checks its clock anyway.
    fn poll(&self, context: &mut Context) -> Poll<()> {
        loop {
            let mut guard = match self.descriptor.poll_read_ready(context) {
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
}
