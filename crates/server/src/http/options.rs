//! Defines the options and limits of a server, its TLS certificate, and the handle that stops it.
//!
//! The defaults suit a server of pages and benchmark results. Other modules enforce the limits:
//! `server`, `connection`, `pipeline` and `body`.

use crate::http::events::{EventHub, HubState};
use crate::http::{AllowedHosts, Error, ListenAddress, RequestLog, TrustedProxy, lock};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Options of a server.
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// Addresses to listen on.
    pub listen: Vec<ListenAddress>,
    /// Limits of requests and connections.
    pub limits: ServerLimits,
    /// Names under which the server answers.
    pub hosts: AllowedHosts,
    /// TLS certificate with its key. Without it, and on Unix sockets, the server speaks plain HTTP.
    pub tls: Option<TlsIdentity>,
    /// Proxy in front of the server. The server trusts its forwarded header fields.
    pub proxy: Option<TrustedProxy>,
    /// Whether the application requires a token, and at least one token exists; see
    /// [`crate::http::listen::exposure_error`].
    pub has_token: bool,
    /// Destination of the request log.
    pub log: RequestLog,
    /// Stops the server. The stopper exists before the server, so that event streams can register
    /// with it.
    pub stopper: ServerStopper,
}

/// Limits per request, per connection and per address.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Timeout for a request head, for a TLS handshake, and for an idle connection.
    pub head_timeout: Duration,
    /// Maximum bytes of a request head, at least 8 KiB. A longer head is answered with 431.
    pub head_bytes: usize,
    /// Maximum bytes of a body before decompression. A longer body is answered with 413.
    pub body_bytes: u64,
    /// Waiting time for a body before the minimum rate is enforced.
    pub body_grace: Duration,
    /// Minimum average bytes per second of a body after the grace time. A slower body is answered
    /// with 408.
    pub body_bytes_per_s: u64,
    /// Maximum bytes of a decompressed body. A longer body is answered with 413.
    pub unpacked_bytes: u64,
    /// Maximum ratio of decompressed to compressed size. It applies once the decompressed size has
    /// reached [`ServerLimits::MIN_BYTES_FOR_RATIO`].
    pub unpacked_ratio: u64,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of open connections per address, not counting logged-in clients. An IPv6 /64
    /// network counts as one address. Trusted proxies and Unix sockets are not limited.
    pub connections_per_address: usize,
    /// Additional connections per address for logged-in clients, because a team may share an
    /// address.
    pub connections_logged_in: usize,
    /// A response is aborted if its client reads nothing for this long.
    pub stalled_answer: Duration,
    /// How long the server keeps reading from a connection while closing it. This way, a client
    /// that is still sending receives the response instead of a reset.
    pub linger: Duration,
    /// How long a stopping server waits for requests in flight.
    pub stop_timeout: Duration,
}

impl ServerLimits {
    /// Decompressed size at and above which the ratio is enforced. A smaller body may exceed the
    /// ratio, because a short run of zeros is not an attack.
    pub const MIN_BYTES_FOR_RATIO: u64 = 1 << 20;
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            head_timeout: Duration::from_secs(10),
            head_bytes: 64 << 10,
            body_bytes: 256 << 20,
            body_grace: Duration::from_secs(10),
            body_bytes_per_s: 1000,
            unpacked_bytes: 256 << 20,
            unpacked_ratio: 100,
            connections: 512,
            connections_per_address: 16,
            connections_logged_in: 128,
            stalled_answer: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            stop_timeout: Duration::from_secs(10),
        }
    }
}

/// Certificate chain and private key, for TLS 1.2 and 1.3.
#[derive(Clone)]
pub struct TlsIdentity {
    pub(crate) config: Arc<ServerConfig>,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

impl TlsIdentity {
    /// Reads the certificate and the key from files.
    ///
    /// # Errors
    /// Fails if a file cannot be read or holds no certificate or key, or if certificate and key do
    /// not match.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<TlsIdentity, Error> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| Error::File(path.to_path_buf(), error))
        };
        TlsIdentity::from_pem(&read(certificate)?, &read(key)?)
    }

    /// Parses the contents of the certificate file and the key file.
    ///
    /// # Errors
    /// Fails if a file holds no certificate or key, or if certificate and key do not match.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<TlsIdentity, Error> {
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(certificate)
                .collect::<Result<_, _>>()
                .map_err(|error| Error::Tls(format!("the certificate is not PEM: {error}")))?;
        if chain.is_empty() {
            return Err(Error::Tls("the certificate file contains no certificate".into()));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| Error::Tls(format!("cannot read a PEM private key: {error}")))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| Error::Tls(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsIdentity { config: Arc::new(config) })
    }
}

/// Stops a server from another thread. Clones stop the same server.
#[derive(Debug, Clone, Default)]
pub struct ServerStopper(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    stop_signal: watch::Sender<bool>,
    /// Event streams, which end when the server stops.
    hubs: Mutex<Vec<Weak<Mutex<HubState>>>>,
}

impl ServerStopper {
    /// Makes the server stop accepting connections. Requests in flight may take up to
    /// [`crate::http::ServerLimits::stop_timeout`] to complete.
    pub fn stop(&self) {
        self.0.stop_signal.send_replace(true);
        let hubs = std::mem::take(&mut *lock(&self.0.hubs));
        hubs.iter().filter_map(Weak::upgrade).for_each(|hub| lock(&hub).end_streams());
    }

    /// Whether [`ServerStopper::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.stop_signal.borrow()
    }

    /// Registers a hub whose event streams end when the server stops. If the server has stopped,
    /// ends them at once.
    pub fn add_hub(&self, hub: &EventHub) {
        let mut hubs = lock(&self.0.hubs);
        if self.is_stopped() {
            hub.end_streams();
        } else {
            hubs.retain(|hub| hub.strong_count() > 0);
            hubs.push(Arc::downgrade(&hub.state));
        }
    }

    /// Waits until the server stops.
    pub(crate) fn wait_until_stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop_signal = self.0.stop_signal.subscribe();
        // The sender outlives this future, because the waiting task also has a clone of the
        // stopper.
        async move { drop(stop_signal.wait_for(|is_stopped| *is_stopped).await) }
    }
}
