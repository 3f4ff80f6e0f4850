//! The runtime of a thread, in which connections and requests are tasks.
//!
//! Tasks run while the loop waits, and at no other time: what the loop wants done is collected and
//! begun at the next wait, where no other thread needs to be woken for it. Start reading at
//! [`Engine::wait`].

use super::datagrams::Passed;
use super::events::{Event, Events};
use super::exchange::Exchange;
use super::line::Line;
use crate::generator::channel::{Tls, Traffic};
use crate::generator::clock::{Clock, NEVER, Timer};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, IdleTimeout, TransportConfig, VarInt};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// A connection on which nothing is heard for so long is lost. The operating system would keep TCP
/// for minutes, but nothing tells of a dead peer sooner here, and 30 s is what servers offer, too.
const IDLE_MS: u32 = 30_000;

/// A server that thinks for longer than that is asked whether it is alive, or its answer would be
/// lost with the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// At the end, tasks get so many turns for each connection to say goodbye.
const TURNS_OF_FAREWELL: u32 = 4;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runtime of a thread.
pub(in crate::generator) struct Engine {
    /// What the loop wants done.
    tasks: Vec<Task>,
    alarm: Alarm,
    /// When the alarm rings, or rang.
    rings_ns: u64,
    pub(super) events: Arc<Events>,
    passed: Arc<Passed>,
    config: ClientConfig,
    name: String,
    pub(super) clock: Clock,
    /// Behind all that needs it to be dropped.
    runtime: Runtime,
}

/// A connection as the loop holds it: it is given up when this is dropped.
pub(super) struct Hold {
    _given_up: oneshot::Sender<()>,
    pub presence: Arc<()>,
}

impl Engine {
    /// A runtime for this thread.
    ///
    /// # Errors
    /// The operating system refuses what it is made of, or TLS has no cipher that QUIC needs.
    pub fn new(tls: &Tls, clock: Clock) -> io::Result<Engine> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let alarm = {
            let _inside = runtime.enter();
            Alarm::new(clock)?
        };
        let crypto = QuicClientConfig::try_from(tls.config.clone()).map_err(io::Error::other)?;
        let mut transport = TransportConfig::default();
        transport
            .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MS))))
            .keep_alive_interval(Some(KEEP_ALIVE))
            // Servers open no streams for requests (RFC 9114, section 6.1).
            .max_concurrent_bidi_streams(VarInt::from_u32(0));
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        Ok(Engine {
            tasks: Vec::new(),
            alarm,
            rings_ns: NEVER,
            events: Arc::default(),
            passed: Arc::default(),
            config,
            name: tls.name.to_str().into_owned(),
            clock,
            runtime,
        })
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, to: SocketAddr, local: Option<IpAddr>, token: u64) -> Hold {
        let presence = Arc::new(());
        let line = Line {
            to,
            local,
            name: self.name.clone(),
            config: self.config.clone(),
            passed: self.passed.clone(),
            events: self.events.clone(),
            clock: self.clock,
            token,
            presence: presence.clone(),
        };
        let (give_up, given_up) = oneshot::channel();
        self.tasks.push(Box::pin(line.run(given_up)));
        Hold {
            _given_up: give_up,
            presence,
        }
    }

    /// Begins a request.
    pub(super) fn begin(&mut self, exchange: Exchange) {
        self.tasks.push(Box::pin(exchange.run()));
    }

    /// Lets tasks run until something happened, or until a time. Gives what happened.
    pub fn wait(&mut self, until_ns: u64, happened: &mut Vec<Event>) {
        let now_ns = self.clock.now_ns();
        if until_ns != NEVER && until_ns > now_ns && until_ns != self.rings_ns {
            // Without an alarm the loop would wait for an event: rather it looks again at once.
            self.rings_ns = match self.alarm.set(until_ns) {
                Ok(()) => until_ns,
                Err(_) => NEVER,
            };
        }
        let Engine {
            tasks,
            alarm,
            rings_ns,
            events,
            runtime,
            ..
        } = self;
        let is_alarmed = until_ns == NEVER || *rings_ns == until_ns;
        let waits = is_alarmed && until_ns > now_ns && events.is_empty();
        runtime.block_on(async {
            for task in tasks.drain(..) {
                drop(tokio::spawn(task));
            }
            if !waits {
                return yield_now().await;
            }
            poll_fn(|context| match events.poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => alarm.poll(context),
            })
            .await;
        });
        events.take_into(happened);
    }

    /// Moves what passed through the sockets since the last time.
    pub fn take_traffic(&self, traffic: &mut Traffic) {
        traffic.received += self.passed.received.swap(0, Ordering::Relaxed);
        traffic.sent += self.passed.sent.swap(0, Ordering::Relaxed);
        traffic.calls += self.passed.calls.swap(0, Ordering::Relaxed);
    }

    /// After connections were given up: tells the servers, who would otherwise keep them until
    /// they are idle.
    pub fn farewell(&mut self, connections: u32) {
        self.tasks.clear();
        self.runtime.block_on(async {
            for _ in 0..connections.saturating_add(1) * TURNS_OF_FAREWELL {
                yield_now().await;
            }
        });
    }
}

/// A timer in the runtime that is exact to the nanosecond. The runtime's own timers count milliseconds, which would be
/// late for most requests of a schedule.
struct Alarm {
    timer: AsyncFd<Timer>,
}

impl Alarm {
    /// Must be called within the runtime.
    fn new(clock: Clock) -> io::Result<Alarm> {
        let timer = Timer::new(clock)?;
        // SAFETY: a timer's descriptor is open until it is dropped, and always the same.
        let timer = unsafe { AsyncFd::register(timer)? };
        Ok(Alarm { timer })
    }

    /// Rings once, at this time of the load, and not when it was set to ring before.
    fn set(&self, at_ns: u64) -> io::Result<()> {
        self.timer.get_ref().set(at_ns)
    }

    /// Ready when it has rung. A timer that cannot be read has rung: the loop looks at its clock.
    fn poll(&self, context: &mut Context) -> Poll<()> {
        loop {
            let mut guard = match self.timer.poll_read_ready(context) {
                Poll::Ready(Ok(guard)) => guard,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            };
            let read = guard.try_io(|timer| {
                let mut count = [0; 8];
                rustix::io::read(timer, &mut count).map_err(io::Error::from)
            });
            if read.is_ok() {
                return Poll::Ready(());
            }
        }
    }
}
