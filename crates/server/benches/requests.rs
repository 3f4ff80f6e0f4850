//! Cost of a request, effect of a thousand slow clients on other clients, and cost of a
//! decompression bomb.
//!
//! `cargo bench -p speedwell-serve --bench requests [-- SECONDS]`. CPU time is the time of the
//! server's threads; clients are threads of the same process. On a busy machine, compare only times
//! of the same table.

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use flate2::Compression;
use flate2::write::GzEncoder;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use speedwell_server::http::{
    BoundAddress, HttpServer, ListenAddress, ServerLimits, ServerOptions, ServerStopper,
    TlsIdentity,
};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

type BenchResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// As large as the demo's session page.
const PAGE_BYTES: usize = 158_000;
const SLOW_CLIENTS: usize = 1000;

fn main() -> BenchResult<()> {
    let seconds = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(5);
    let seconds = Duration::from_secs(seconds);
    println!("requests                        per CPU second   CPU a request   p50        p99");
    let (roots, tls) = make_certificate()?;
    let running = RunningServer::start(None)?;
    measure_requests(&running, "short, one connection", "/short", "", None, seconds)?;
    measure_requests(&running, "page, as it is", "/page", "", None, seconds)?;
    measure_requests(
        &running,
        "page, packed",
        "/page",
        "Accept-Encoding: gzip\r\n",
        None,
        seconds,
    )?;
    let secured = RunningServer::start(Some(tls))?;
    measure_requests(&secured, "page, as it is, by TLS", "/page", "", Some(&roots), seconds)?;
    drop(secured);
    let over = Arc::new(AtomicBool::new(false));
    let slow = slow_clients(running.address, &over);
    measure_requests(&running, "page, beside slow clients", "/page", "", None, seconds)?;
    over.store(true, Ordering::Relaxed);
    let connected = slow.join().unwrap_or_default();
    println!("\nslow clients: {connected} at a time, a byte a second each");
    send_bomb(&running)
}

/// Server on a thread of this process.
struct RunningServer {
    address: SocketAddr,
    stopper: ServerStopper,
    thread: Option<JoinHandle<()>>,
}

impl RunningServer {
    fn start(tls: Option<TlsIdentity>) -> BenchResult<RunningServer> {
        let page: String = (0..)
            .map(|n: u64| format!("<td>{}</td>\n", n * n % 9973))
            .take(PAGE_BYTES / 10)
            .collect();
        let page = Bytes::from(page[..PAGE_BYTES].to_owned());
        let router = Router::new()
            .route("/short", get(|| async { "hello" }))
            .route("/page", get(move || async move { ([(CONTENT_TYPE, "text/html")], page) }))
            .route("/body", post(|body: Bytes| async move { body.len().to_string() }));
        let limits = ServerLimits {
            connections: 4 * SLOW_CLIENTS,
            connections_per_address: 4 * SLOW_CLIENTS,
            ..ServerLimits::default()
        };
        let listen = vec![ListenAddress::Loopback { first: 0, last: 0 }];
        let server = HttpServer::bind(
            ServerOptions { listen, limits, tls, ..ServerOptions::default() },
            router,
        )?;
        let BoundAddress::Tcp(address) = server.addresses()[0].clone() else {
            return Err("no address".into());
        };
        let stopper = server.stopper();
        let thread = std::thread::Builder::new().name("accept".into()).spawn(move || {
            if let Err(error) = server.run() {
                eprintln!("the server ended: {error}");
            }
        })?;
        Ok(RunningServer { address, stopper, thread: Some(thread) })
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stopper.stop();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Sends requests in sequence on one connection, for this time.
fn measure_requests(
    running: &RunningServer,
    name: &str,
    path: &str,
    fields: &str,
    roots: Option<&RootCertStore>,
    seconds: Duration,
) -> BenchResult<()> {
    let address = running.address;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n");
    let mut wire: Box<dyn BenchConnection> = match roots {
        None => Box::new(TcpStream::connect(address)?),
        Some(roots) => Box::new(connect_tls(address, roots)?),
    };
    let mut space = vec![0; 256 << 10];
    let (cpu, start) = (server_cpu()?, Instant::now());
    let mut times = Vec::new();
    while start.elapsed() < seconds {
        let sent = Instant::now();
        wire.write_all(request.as_bytes())?;
        wire.flush()?;
        read_answer(&mut *wire, &mut space)?;
        times.push(sent.elapsed());
    }
    let cpu = (server_cpu()? - cpu).as_secs_f64();
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    let count = times.len() as f64;
    let (rate, cost) = (count / cpu, cpu / count * 1e6);
    println!(
        "{name:<28}    {rate:>14.0} {cost:>12.1} µs   {:>5.2} ms   {:>5.2} ms",
        at(50),
        at(99)
    );
    Ok(())
}

trait BenchConnection: Read + Write {}
impl<T: Read + Write> BenchConnection for T {}

/// Reads a whole response, by its length or up to its last chunk.
fn read_answer(wire: &mut dyn BenchConnection, space: &mut [u8]) -> BenchResult<()> {
    let mut filled = 0;
    loop {
        let bytes = wire.read(&mut space[filled..])?;
        filled += bytes;
        let answer = &space[..filled];
        if bytes == 0 {
            return Err("the server closed the connection".into());
        }
        let Some(head) = answer.windows(4).position(|part| part == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&answer[..head]).to_lowercase();
        if !text.starts_with("http/1.1 200") {
            return Err(text.into());
        }
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let is_whole = match length {
            Some(length) => filled == head + 4 + length.parse::<usize>()?,
            None => answer.ends_with(b"\r\n0\r\n\r\n"),
        };
        if is_whole {
            return Ok(());
        }
    }
}

fn make_certificate() -> BenchResult<(RootCertStore, TlsIdentity)> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone())?;
    let tls = TlsIdentity::from_pem(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes())?;
    Ok((roots, tls))
}

fn connect_tls(
    address: SocketAddr,
    roots: &RootCertStore,
) -> BenchResult<StreamOwned<ClientConnection, TcpStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into()?)?;
    Ok(StreamOwned::new(client, TcpStream::connect(address)?))
}

/// Opens connections that each send a byte per second and reconnect when closed. Returns when all
/// are connected for the first time; the thread returns how many are connected at the end.
fn slow_clients(address: SocketAddr, over: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let connect = move || TcpStream::connect(address).ok();
    let mut clients: Vec<_> = (0..SLOW_CLIENTS).map(|_| connect()).collect();
    let over = Arc::clone(over);
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            for client in &mut clients {
                let is_sent = client.as_mut().is_some_and(|socket| socket.write_all(b"G").is_ok());
                if !is_sent {
                    *client = connect();
                }
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        clients.iter().flatten().count()
    })
}

/// Sends ten gigabytes of zeros in ten megabytes, cut to a length that is not rejected outright.
fn send_bomb(running: &RunningServer) -> BenchResult<()> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 10 << 20])?;
    let member = encoder.finish()?;
    let mut bomb = member.repeat((10 << 20) / member.len());
    bomb.truncate(8 << 20);
    resident_bytes()?;
    let (before, start) = (resident_bytes()?, Instant::now());
    let mut socket = TcpStream::connect(running.address)?;
    let (address, length) = (running.address, bomb.len());
    write!(
        socket,
        "POST /body HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nContent-Encoding: gzip\r\n\r\n"
    )?;
    socket.write_all(&bomb)?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (elapsed, after) = (start.elapsed().as_secs_f64() * 1e3, resident_bytes()?);
    let status = answer.lines().next().unwrap_or_default();
    let grown = after.saturating_sub(before) / 1024;
    println!("bomb of {length} bytes: {status} after {elapsed:.0} ms, {grown} kB more at most");
    Ok(())
}

/// Returns the peak memory of this process since the previous call.
fn resident_bytes() -> BenchResult<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let bytes = line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024;
    std::fs::write("/proc/self/clear_refs", "5")?;
    Ok(bytes)
}

/// Returns the CPU time of the server's threads so far.
fn server_cpu() -> BenchResult<Duration> {
    let mut total = Duration::ZERO;
    for task in std::fs::read_dir("/proc/self/task")? {
        let folder = task?.path();
        if std::fs::read_to_string(folder.join("comm"))?.trim() == "serve" {
            // The first field is the time on a processor, in nanoseconds.
            let times = std::fs::read_to_string(folder.join("schedstat"))?;
            let ns = times.split(' ').next().unwrap_or_default().parse()?;
            total += Duration::from_nanos(ns);
        }
    }
    Ok(total)
}
