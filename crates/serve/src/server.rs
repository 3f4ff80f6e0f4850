//! Listening, accepting within the limits, and stopping.
//!
//! Start at [`Server::bind`]. `connection` handles one connection, `gate` one request.

use crate::client::Arrival;
use crate::connection::{self, Shared};
use crate::error::Error;
use crate::gate::Gate;
use crate::hosts::Door;
use crate::listen::{self, Address, Listener, Protection, exposure};
use crate::options::Options;
use crate::room::Room;
use crate::stopper::Stopper;
use crate::tls::Tls;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

/// Pause of the accept loop when the process is out of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Server that is listening already, and answers once it runs.
pub struct Server {
    listeners: Vec<Listener>,
    addresses: Vec<Address>,
    runtime: Runtime,
    shared: Arc<Shared>,
    tls: Option<Tls>,
    stopper: Stopper,
}

impl Server {
    /// Opens the sockets, so that configuration errors surface before anything is served.
    ///
    /// # Errors
    /// If an address is in use or not allowed, or others could reach it without protection.
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

    /// Returns the bound addresses, in the order of [`Options::listen`].
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the handle that stops this server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until stopped, then waits for requests in flight, up to [`crate::Limits::stop`].
    ///
    /// # Errors
    /// If the sockets cannot be used.
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
            // Connections still open after this time are cut off.
            let _ = tokio::time::timeout(limits.stop, room.is_empty()).await;
            Ok(())
        });
        for path in paths {
            // It may be gone already; otherwise the next server removes it.
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

/// Spawns a task that accepts connections from this listener until the server stops.
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
        // A trusted proxy carries the connections of many clients and limits them itself.
        let counted = (!arrival.is_from(shared.proxy)).then_some(peer.ip());
        let Some(place) = room.place(counted) else {
            // A client that expects TLS could not read the response.
            if let (None, Ok(permit)) = (&tls, Arc::clone(&room.turned_away).try_acquire_owned()) {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    connection::turn_away(socket, &shared.limits).await;
                    drop(permit);
                });
            }
            continue;
        };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        tokio::spawn(async move {
            connection::tcp(socket, tls, arrival, shared, place).await;
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
            connection::plain(socket, arrival, shared, place).await;
        });
    }
}
