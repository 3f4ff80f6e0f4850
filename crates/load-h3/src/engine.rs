//! The runtime of a thread, in which connections and requests are tasks.
//!
//! Tasks run while the loop waits, and at no other time: what the loop wants done is collected and
//! begun at the next wait, where no other thread needs to be woken for it. Start reading at
//! [`Engine::wait`].

use crate::datagrams::{Passed, Traffic};
use crate::event::{Event, Events};
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

/// A connection on which nothing is heard for so long is lost. The operating system would keep TCP
/// for minutes, but nothing reveals a dead peer sooner here, and 30 s is what servers offer, too.
const IDLE_MS: u32 = 30_000;

/// A server that thinks for longer than that is asked whether it is alive, or its answer would be
/// lost with the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// At the end, tasks get so many turns for each connection to say goodbye.
const TURNS_OF_GOODBYE: u32 = 4;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Drives the connections of one thread.
pub struct Engine {
    /// What the loop wants done.
    tasks: Vec<Task>,
    alarm: Alarm,
    pub(crate) events: Arc<Events>,
    pub(crate) passed: Arc<Passed>,
    pub(crate) config: ClientConfig,
    pub(crate) name: String,
    /// Behind all that needs it to be dropped.
    runtime: Runtime,
}

impl Engine {
    /// An engine for this thread, whose connections use `tls` and expect a certificate for
    /// `server_name`. It stops waiting whenever `alarm` can be read, such as a timer of
    /// timerfd_create(2) whose other descriptor the caller sets.
    ///
    /// # Errors
    /// The operating system refuses what it is made of, or TLS has no cipher that QUIC needs.
    pub fn new(
        tls: Arc<rustls::ClientConfig>,
        server_name: String,
        alarm: OwnedFd,
    ) -> io::Result<Engine> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let alarm = {
            let _inside = runtime.enter();
            Alarm::new(alarm)?
        };
        let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
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
            events: Arc::default(),
            passed: Arc::default(),
            config,
            name: server_name,
            runtime,
        })
    }

    /// Begins a task at the next wait.
    pub(crate) fn begin(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(Box::pin(task));
    }

    /// Lets tasks run: if `may_block`, until something happened or the alarm can be read; else for one
    /// turn. Gives what happened.
    pub fn wait(&mut self, may_block: bool, happened: &mut Vec<Event>) {
        let Engine {
            tasks,
            alarm,
            events,
            runtime,
            ..
        } = self;
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
        events.take_into(happened);
    }

    /// What passed through the sockets since the last time.
    pub fn take_traffic(&self) -> Traffic {
        self.passed.take()
    }

    /// After so many connections were given up: lets the servers know, which would otherwise keep them until
    /// they are idle.
    pub fn say_goodbye(&mut self, connections: u32) {
        self.tasks.clear();
        self.runtime.block_on(async {
            for _ in 0..connections.saturating_add(1) * TURNS_OF_GOODBYE {
                yield_now().await;
            }
        });
    }
}

/// What ends a wait at a time. The runtime's own timers count milliseconds, which is too late for a
/// caller that has a schedule.
struct Alarm {
    descriptor: AsyncFd<File>,
}

impl Alarm {
    /// Must be called within the runtime.
    fn new(descriptor: OwnedFd) -> io::Result<Alarm> {
        // SAFETY: a file's descriptor is open until it is dropped, and always the same.
        let descriptor = unsafe { AsyncFd::register(File::from(descriptor))? };
        Ok(Alarm { descriptor })
    }

    /// Ready when it has rung. An alarm that cannot be read has rung: the loop looks at its clock.
    fn poll(&self, context: &mut Context) -> Poll<()> {
        loop {
            let mut guard = match self.descriptor.poll_read_ready(context) {
                Poll::Ready(Ok(guard)) => guard,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            };
            let mut count = [0; 8];
            if guard
                .try_io(|alarm| alarm.get_ref().read(&mut count))
                .is_ok()
            {
                return Poll::Ready(());
            }
        }
    }
}
