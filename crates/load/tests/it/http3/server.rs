//! An HTTP/3 server on real UDP sockets, controlled by the test.

use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use h3::server::{Connection, RequestStream};
use http::Response;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use speedwell_load::load::{HttpVersion, LoadConfig, TlsOptions, TrustSource};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::sleep;

type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// What a server does with a request.
#[derive(Clone)]
pub enum Then {
    /// Responds with a status and a body.
    Answer(u16, Bytes),
    /// Responds after this many milliseconds.
    Late(u64),
    /// Sends 103 first.
    Hints,
    /// Announces more than it sends.
    Short,
    /// Ends the stream without a response.
    Nothing,
    /// Resets the stream, before or after the response head.
    Reset(Code, bool),
    /// Closes the connection, before or after the response head.
    Close(u32, bool),
    /// Never responds.
    Hold,
    /// Responds, and accepts no further requests on the connection.
    Last,
}

/// A successful response.
pub fn good() -> Then {
    Then::Answer(200, Bytes::from_static(b"good"))
}

/// A request as received by the server.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Number among all requests, from 0.
    pub number: u64,
    pub head: http::Request<()>,
    pub body: Vec<u8>,
}

/// What the server has observed.
#[derive(Default)]
pub struct Seen {
    pub requests: AtomicU64,
    pub connections: AtomicU64,
    /// Maximum number of simultaneous requests on any connection.
    pub most_at_once: AtomicU32,
    /// Codes with which clients closed connections.
    pub closed_with: Mutex<Vec<u64>>,
    pub last: Mutex<Option<Asked>>,
}

pub struct Setup {
    pub name: &'static str,
    pub protocol: &'static [u8],
    /// Maximum number of simultaneous streams per client.
    pub streams: u32,
    /// Idle timeout in milliseconds.
    pub idle_ms: u32,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { name: "127.0.0.1", protocol: b"h3", streams: 100, idle_ms: 30_000 }
    }
}

pub struct Server {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    certificate: PathBuf,
    /// Stops the server when dropped with it.
    _stop: oneshot::Sender<()>,
}

type Handler = dyn Fn(&Asked) -> Then + Send + Sync;

impl Server {
    pub fn start(handler: impl Fn(&Asked) -> Then + Send + Sync + 'static) -> Server {
        Server::start_as(&Setup::default(), handler)
    }

    pub fn start_as(
        setup: &Setup,
        handler: impl Fn(&Asked) -> Then + Send + Sync + 'static,
    ) -> Server {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let issued = rcgen::generate_simple_self_signed(vec![setup.name.to_owned()]).unwrap();
        let file = format!("speedwell-http3-{}-{number}.pem", std::process::id());
        let certificate = std::env::temp_dir().join(file);
        std::fs::write(&certificate, issued.cert.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.into()], PrivateKeyDer::from(key))
            .unwrap();
        tls.alpn_protocols = vec![setup.protocol.to_vec()];
        let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
        let mut config = ServerConfig::with_crypto(crypto);
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(VarInt::from_u32(setup.streams));
        transport.max_idle_timeout(Some(VarInt::from_u32(setup.idle_ms).into()));
        config.transport_config(Arc::new(transport));

        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = {
            let _inside = runtime.enter();
            Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap()
        };
        let address = endpoint.local_addr().unwrap();
        let seen: Arc<Seen> = Arc::default();
        let (in_server, handler): (_, Arc<Handler>) = (seen.clone(), Arc::new(handler));
        let (stop, mut stopped) = oneshot::channel();
        std::thread::spawn(move || {
            runtime.block_on(async move {
                while let Some(Some(incoming)) = before(&mut stopped, endpoint.accept()).await {
                    tokio::spawn(serve(incoming, in_server.clone(), handler.clone()));
                }
            });
        });
        Server { address, seen, certificate, _stop: stop }
    }

    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst)
    }

    pub fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// A closed load over HTTP/3 that trusts this server.
    pub fn load(&self, concurrency: u32, capacity: u32, requests: u64) -> LoadConfig {
        let mut load = super::super::server::load_to(self.address, concurrency, requests);
        load.http = HttpVersion::Three;
        load.streams_per_connection = capacity;
        load.target.tls = Some(TlsOptions {
            trust: TrustSource::Authority(self.certificate.clone()),
            ..TlsOptions::default()
        });
        load
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.certificate);
    }
}

/// Runs `work` unless `signal` completes first.
async fn before<S, T>(signal: impl Future<Output = S>, work: impl Future<Output = T>) -> Option<T> {
    let (mut signal, mut work) = (pin!(signal), pin!(work));
    poll_fn(|context| match signal.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

async fn serve(incoming: Incoming, seen: Arc<Seen>, handler: Arc<Handler>) -> Option<()> {
    let quic = incoming.await.ok()?;
    seen.connections.fetch_add(1, Ordering::SeqCst);
    let at_once = Arc::new(AtomicU32::new(0));
    let (tell_last, mut last) = unbounded_channel();
    let transport = h3_quinn::Connection::new(quic.clone());
    let mut http: Connection<_, Bytes> = Connection::new(transport).await.ok()?;
    loop {
        let resolver = match before(last.recv(), http.accept()).await {
            Some(Ok(Some(resolver))) => resolver,
            None => {
                http.shutdown(0).await.ok()?;
                continue;
            }
            Some(_) => break,
        };
        let (quic, seen, handler) = (quic.clone(), seen.clone(), handler.clone());
        let (at_once, tell_last) = (at_once.clone(), tell_last.clone());
        tokio::spawn(async move {
            let (head, mut stream) = resolver.resolve_request().await.ok()?;
            let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
            seen.most_at_once.fetch_max(now, Ordering::SeqCst);
            let mut body = Vec::new();
            while let Ok(Some(mut data)) = stream.recv_data().await {
                body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            }
            let request =
                Asked { number: seen.requests.fetch_add(1, Ordering::SeqCst), head, body };
            let then = handler(&request);
            *seen.last.lock().unwrap() = Some(request);
            let done = carry_out(then, stream, &quic, &tell_last).await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            done.ok()
        });
    }
    if let quinn::ConnectionError::ApplicationClosed(close) = quic.closed().await {
        let code = close.error_code.into_inner();
        seen.closed_with.lock().unwrap().push(code);
    }
    Some(())
}

async fn carry_out(
    then: Then,
    mut stream: Stream,
    quic: &quinn::Connection,
    tell_last: &UnboundedSender<()>,
) -> Result<(), StreamError> {
    let head = |status: u16| Response::builder().status(status);
    let ok = || head(200).body(()).unwrap();
    match then {
        Then::Answer(status, body) => return answer(&mut stream, status, body).await,
        Then::Late(ms) => {
            sleep(Duration::from_millis(ms)).await;
            return answer(&mut stream, 200, Bytes::from_static(b"late")).await;
        }
        Then::Hints => {
            stream.send_response(head(103).body(()).unwrap()).await?;
            return answer(&mut stream, 200, Bytes::from_static(b"good")).await;
        }
        Then::Last => {
            // Either order is valid: the response is on its way when the client learns that it is
            // the last.
            let _ = tell_last.send(());
            return answer(&mut stream, 200, Bytes::from_static(b"good")).await;
        }
        Then::Short => {
            let announced = head(200).header("content-length", 100).body(()).unwrap();
            stream.send_response(announced).await?;
            stream.send_data(Bytes::from_static(&[b'x'; 50])).await?;
            return stream.finish().await;
        }
        Then::Nothing => return stream.finish().await,
        Then::Reset(code, is_in_body) => {
            if is_in_body {
                stream.send_response(ok()).await?;
                stream.send_data(Bytes::from_static(b"go")).await?;
                sleep(Duration::from_millis(20)).await;
            }
            stream.stop_stream(code);
        }
        Then::Close(code, is_in_body) => {
            if is_in_body {
                stream.send_response(ok()).await?;
                stream.send_data(Bytes::from_static(b"go")).await?;
                sleep(Duration::from_millis(20)).await;
            }
            quic.close(VarInt::from_u32(code), b"enough");
        }
        Then::Hold => {
            // Dropping the stream would end it.
            quic.closed().await;
        }
    }
    Ok(())
}

async fn answer(stream: &mut Stream, status: u16, body: Bytes) -> Result<(), StreamError> {
    let head = Response::builder()
        .status(status)
        .header("server", "of-the-test")
        .header("content-type", "text/plain")
        .header("content-length", body.len());
    stream.send_response(head.body(()).unwrap()).await?;
    stream.send_data(body).await?;
    stream.finish().await
}
