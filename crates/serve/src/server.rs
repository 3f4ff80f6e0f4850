//! Listening, accepting within the limits, and stopping: what a server does besides answering.
//!
//! Start at [`Server::bind`]. What happens on one connection stands in `connection`, what happens to
//! one request in `gate`.

use crate::connection::{self, Shared};
use crate::gate::Gate;
use crate::hosts::{Arrival, Door, Hosts, Proxy};
use crate::limits::{Limits, counted_as};
use crate::listen::{self, Address, Listen, Listener, Protection, exposure};
use crate::log::Log;
use crate::refusal::Render;
use crate::tls::Tls;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// How long accepting pauses when the process has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// What a server is to be.
#[derive(Clone, Default)]
pub struct Options {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// What requests may take.
    pub limits: Limits,
    /// Under which names it answers.
    pub hosts: Hosts,
    /// Its certificate; without one it speaks plain HTTP. Unix sockets always do.
    pub tls: Option<Tls>,
    /// A proxy in front that is believed when it says who its clients are.
    pub proxy: Option<Proxy>,
    /// Whether there is a token that the application asks for; see [`exposure`].
    pub has_token: bool,
    /// Where one line for each request goes.
    pub log: Log,
    /// Ends the server; to be had before it, for event streams that end with it.
    pub stopper: Stopper,
    /// How a refusal is shown, if not as text or JSON.
    pub render: Option<Render>,
}

/// Why a server cannot be.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each says so in its message")]
pub enum Error {
    #[error("there is no place to listen at")]
    Nowhere,
    #[error("{0}")]
    Exposed(String),
    #[error("cannot listen at '{0}': {1}")]
    Address(SocketAddr, #[source] io::Error),
    #[error("cannot listen at '{path}': {error}", path = .0.display(), error = .1)]
    Path(PathBuf, #[source] io::Error),
    #[error("cannot listen on 127.0.0.1: each of the ports from {0} to {1} is in use")]
    PortsInUse(u16, u16),
    #[error("'{0}' is not the address of a site\nhint: such as https://perf.example")]
    PublicUrl(String),
    #[error("cannot read the file '{path}': {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] io::Error),
    #[error("the certificate cannot be used: {0}")]
    Tls(String),
    #[error("cannot open a socket: {0}")]
    Socket(#[source] io::Error),
    #[error("cannot start the threads of the server: {0}")]
    Threads(#[source] io::Error),
    #[error("'{0}' is not the name of a cookie")]
    CookieName(String),
    #[error("the system has no random bytes")]
    Random,
}

/// Ends a server from another thread. Clones end the same server.
#[derive(Clone)]
pub struct Stopper(Arc<Stopping>);

struct Stopping {
    is_over: watch::Sender<bool>,
    #[allow(clippy::type_complexity, reason = "a list of what to call")]
    and_then: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Stopper {
    /// A stopper for a server to come.
    pub fn new() -> Stopper {
        Stopper(Arc::new(Stopping {
            is_over: watch::Sender::new(false),
            and_then: Mutex::default(),
        }))
    }

    /// No new connections from now on; requests in flight have the time of [`Limits::stop`].
    pub fn stop(&self) {
        self.0.is_over.send_replace(true);
        let calls = std::mem::take(
            &mut *self
                .0
                .and_then
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        for call in calls {
            call();
        }
    }

    /// Whether [`Stopper::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.is_over.borrow()
    }

    /// Has this function called when the server stops, or now if it has.
    pub fn on_stop(&self, call: impl FnOnce() + Send + 'static) {
        let mut calls = self
            .0
            .and_then
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_stopped() {
            drop(calls);
            call();
        } else {
            calls.push(Box::new(call));
        }
    }

    /// Waits until the server stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_over = self.0.is_over.subscribe();
        // The sender cannot be gone: whoever waits has a stopper as well.
        async move { drop(is_over.wait_for(|over| *over).await) }
    }
}

impl Default for Stopper {
    fn default() -> Stopper {
        Stopper::new()
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stopper").field(&self.is_stopped()).finish()
    }
}

/// A server that listens already, and answers once it runs.
pub struct Server {
    listeners: Vec<Listener>,
    addresses: Vec<Address>,
    runtime: Runtime,
    shared: Arc<Shared>,
    tls: Option<Tls>,
    stopper: Stopper,
}

impl Server {
    /// Opens the sockets, so that what cannot be is known before anything is served.
    ///
    /// # Errors
    /// When an address is in use or not allowed, or others could reach it without protection.
    pub fn bind(options: Options, router: axum::Router) -> Result<Server, Error> {
        if options.listen.is_empty() {
            return Err(Error::Nowhere);
        }
        let protection = Protection {
            token: options.has_token,
            tls: options.tls.is_some() || options.proxy.is_some(),
        };
        if let Some(why) = options
            .listen
            .iter()
            .find_map(|place| exposure(place, protection))
        {
            return Err(Error::Exposed(why));
        }
        let mut listeners = Vec::new();
        for place in &options.listen {
            listeners.extend(listen::open(place)?);
        }
        let addresses = listeners
            .iter()
            .map(Listener::address)
            .collect::<Result<_, _>>()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("serve")
            .enable_io()
            .enable_time()
            .build()
            .map_err(Error::Threads)?;
        Ok(Server {
            listeners,
            addresses,
            runtime,
            tls: options.tls.clone(),
            stopper: options.stopper.clone(),
            shared: Arc::new(Shared {
                limits: options.limits.clone(),
                stopper: options.stopper.clone(),
                proxy: options.proxy,
                gate: Gate::new(options, router),
            }),
        })
    }

    /// Where it can be reached, in the order of [`Options::listen`].
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What ends this server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped, and then for as long as requests are in flight, up to
    /// [`Limits::stop`].
    ///
    /// # Errors
    /// When the sockets cannot be used.
    pub fn run(self) -> Result<(), Error> {
        let Server {
            listeners,
            runtime,
            shared,
            tls,
            stopper,
            ..
        } = self;
        let limits = shared.limits.clone();
        let room = Arc::new(Room::new(&limits));
        let tls = tls.map(|tls| TlsAcceptor::from(tls.config));
        let mut paths = Vec::new();
        let ended = runtime.block_on(async {
            for listener in listeners {
                if let Listener::Unix(_, path) = &listener {
                    paths.push(path.clone());
                }
                let (shared, room) = (Arc::clone(&shared), Arc::clone(&room));
                accept(listener, shared, room, tls.clone()).map_err(Error::Socket)?;
            }
            stopper.stopped().await;
            // Who is still there after this time is cut off.
            let _ = tokio::time::timeout(limits.stop, room.is_empty()).await;
            Ok(())
        });
        for path in paths {
            // It may be gone already; the next server removes it as well.
            let _ = std::fs::remove_file(path);
        }
        runtime.shutdown_background();
        ended
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// How many connections there are and may be.
struct Room {
    places: Arc<Semaphore>,
    connections: u32,
    per_address: usize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// What a connection takes up while it is open.
struct Place {
    room: Arc<Room>,
    address: Option<IpAddr>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Room {
    fn new(limits: &Limits) -> Room {
        let connections = limits.connections.clamp(1, Semaphore::MAX_PERMITS);
        Room {
            places: Arc::new(Semaphore::new(connections)),
            connections: u32::try_from(connections).unwrap_or(u32::MAX),
            per_address: limits.connections_per_address,
            by_address: Mutex::default(),
        }
    }

    /// A place, if there is one and this address has not got too many.
    fn place(self: &Arc<Room>, address: Option<IpAddr>) -> Option<Place> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let address = address.map(counted_as);
        if let Some(address) = address {
            let mut counts = self
                .by_address
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(address).or_default();
            if *count >= self.per_address {
                return None;
            }
            *count += 1;
        }
        Some(Place {
            room: Arc::clone(self),
            address,
            _permit: permit,
        })
    }

    /// Waits until all places are free.
    async fn is_empty(&self) {
        // The semaphore is never closed.
        drop(self.places.acquire_many(self.connections).await);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut counts = self
            .room
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}

/// Has a task accept what comes in by this listener until the server stops.
fn accept(
    listener: Listener,
    shared: Arc<Shared>,
    room: Arc<Room>,
    tls: Option<TlsAcceptor>,
) -> io::Result<()> {
    let stopped = shared.stopper.stopped();
    match listener {
        Listener::Tcp(listener) => {
            let listener = TcpListener::from_std(listener)?;
            let accepting = accept_tcp(listener, shared, room, tls);
            tokio::spawn(async move {
                tokio::select! { () = accepting => (), () = stopped => () }
            });
        }
        Listener::Unix(listener, _) => {
            let listener = UnixListener::from_std(listener)?;
            let accepting = accept_unix(listener, shared, room);
            tokio::spawn(async move {
                tokio::select! { () = accepting => (), () = stopped => () }
            });
        }
    }
    Ok(())
}

async fn accept_tcp(
    listener: TcpListener,
    shared: Arc<Shared>,
    room: Arc<Room>,
    tls: Option<TlsAcceptor>,
) {
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(local) = socket.local_addr() else {
            continue;
        };
        let arrival = Arrival {
            door: Door::Tcp(local),
            peer: Some(peer.ip()),
            tls: tls.is_some(),
        };
        // A believed proxy brings the connections of many, and limits them itself.
        let counted = (!arrival.is_from(shared.proxy)).then_some(peer.ip());
        let Some(place) = room.place(counted) else {
            if tls.is_none() {
                connection::turn_away(socket);
            }
            continue;
        };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        tokio::spawn(async move {
            connection::tcp(socket, tls, arrival, shared).await;
            drop(place);
        });
    }
}

async fn accept_unix(listener: UnixListener, shared: Arc<Shared>, room: Arc<Room>) {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(place) = room.place(None) else {
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let arrival = Arrival {
                door: Door::Unix,
                peer: None,
                tls: false,
            };
            connection::plain(socket, arrival, shared).await;
            drop(place);
        });
    }
}
