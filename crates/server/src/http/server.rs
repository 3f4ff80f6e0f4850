//! Runs a server: opens its sockets, accepts connections within the limits, and stops.
//!
//! Start at [`HttpServer::bind`]. The module `connection` handles one connection, and `pipeline`
//! handles one request.

use crate::http::client::ConnectionInfo;
use crate::http::connection::{self, ConnectionLimiter};
use crate::http::listen::{self, ListenSocket, ServerProtection, exposure_error};
use crate::http::pipeline::RequestPipeline;
use crate::http::{BoundAddress, Error, ServerOptions, ServerStopper};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

/// Pause of the accept loop after an error, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Server with open sockets. It answers requests while [`HttpServer::run`] runs.
pub struct HttpServer {
    listeners: Vec<ListenSocket>,
    addresses: Vec<BoundAddress>,
    runtime: Runtime,
    shared: Arc<RequestPipeline>,
}

impl HttpServer {
    /// Opens the sockets, so that configuration errors surface before anything is served.
    ///
    /// # Errors
    /// Fails if no address is given, if an address is in use or not allowed, or if other machines
    /// could reach it without protection.
    pub fn bind(options: ServerOptions, router: axum::Router) -> Result<HttpServer, Error> {
        if options.listen.is_empty() {
            return Err(Error::Nowhere);
        }
        let protection = ServerProtection {
            token: options.has_token,
            tls: options.tls.is_some() || options.proxy.is_some(),
        };
        if let Some(message) =
            options.listen.iter().find_map(|address| exposure_error(address, protection))
        {
            return Err(Error::Exposed(message));
        }
        let mut listeners = Vec::new();
        for address in &options.listen {
            listeners.extend(listen::open_sockets(address)?);
        }
        let addresses = listeners.iter().map(ListenSocket::address).collect::<Result<_, _>>()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("serve")
            .enable_io()
            .enable_time()
            .build()
            .map_err(Error::Threads)?;
        Ok(HttpServer {
            listeners,
            addresses,
            runtime,
            shared: Arc::new(RequestPipeline::new(options, router)),
        })
    }

    /// Returns the bound addresses, in the order of [`ServerOptions::listen`].
    pub fn addresses(&self) -> &[BoundAddress] {
        &self.addresses
    }

    /// Returns the handle that stops this server.
    pub fn stopper(&self) -> ServerStopper {
        self.shared.options.stopper.clone()
    }

    /// Serves until stopped, then waits for requests in flight, up to
    /// [`crate::http::ServerLimits::stop_timeout`].
    ///
    /// # Errors
    /// Fails if the sockets cannot be used.
    pub fn run(self) -> Result<(), Error> {
        let HttpServer { listeners, addresses, runtime, shared } = self;
        let limits = &shared.options.limits;
        let limiter = Arc::new(ConnectionLimiter::new(limits));
        let identity = shared.options.tls.as_ref();
        let acceptor = identity.map(|identity| TlsAcceptor::from(identity.config.clone()));
        let result = runtime.block_on(async {
            for listener in listeners {
                let (shared, limiter) = (Arc::clone(&shared), Arc::clone(&limiter));
                spawn_accept_loop(listener, shared, limiter, acceptor.clone())
                    .map_err(Error::Socket)?;
            }
            shared.options.stopper.wait_until_stopped().await;
            // Connections that are still open after this timeout are cut off.
            let _ = tokio::time::timeout(limits.stop_timeout, limiter.wait_until_empty()).await;
            Ok(())
        });
        for address in addresses {
            if let BoundAddress::Unix(path) = address {
                // Ignore errors: the file may be gone, and the next server removes a remaining file.
                let _ = std::fs::remove_file(path);
            }
        }
        runtime.shutdown_background();
        result
    }
}

/// Spawns a task that accepts connections from this listener until the server stops.
fn spawn_accept_loop(
    listener: ListenSocket,
    shared: Arc<RequestPipeline>,
    limiter: Arc<ConnectionLimiter>,
    tls: Option<TlsAcceptor>,
) -> io::Result<()> {
    let stopped = shared.options.stopper.wait_until_stopped();
    let accepting: Pin<Box<dyn Future<Output = ()> + Send>> = match listener {
        ListenSocket::Tcp(listener) => {
            Box::pin(accept_tcp(TcpListener::from_std(listener)?, shared, limiter, tls))
        }
        ListenSocket::Unix(listener, _) => {
            Box::pin(accept_unix(UnixListener::from_std(listener)?, shared, limiter))
        }
    };
    tokio::spawn(async move {
        tokio::select! { () = accepting => (), () = stopped => () }
    });
    Ok(())
}

async fn accept_tcp(
    listener: TcpListener,
    shared: Arc<RequestPipeline>,
    limiter: Arc<ConnectionLimiter>,
    tls: Option<TlsAcceptor>,
) {
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(local) = socket.local_addr() else {
            continue;
        };
        let info = ConnectionInfo { local: Some(local), peer: Some(peer.ip()), tls: tls.is_some() };
        // A trusted proxy carries the connections of many clients and limits them itself.
        let counted_address = (!info.is_from_proxy(shared.options.proxy)).then_some(peer.ip());
        let Some(permit) = limiter.acquire_slot(counted_address) else {
            // Send a plain HTTP response. A TLS client could not read it, so its connection is only
            // closed.
            if let (None, Ok(rejection_permit)) =
                (&tls, Arc::clone(&limiter.rejections).try_acquire_owned())
            {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    connection::reject_connection(socket, &shared.options.limits).await;
                    drop(rejection_permit);
                });
            }
            continue;
        };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        tokio::spawn(async move {
            connection::serve_tcp(socket, tls, info, shared, permit).await;
        });
    }
}

async fn accept_unix(
    listener: UnixListener,
    shared: Arc<RequestPipeline>,
    limiter: Arc<ConnectionLimiter>,
) {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(permit) = limiter.acquire_slot(None) else {
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let info = ConnectionInfo { local: None, peer: None, tls: false };
            connection::serve_plain(socket, info, shared, permit).await;
        });
    }
}
