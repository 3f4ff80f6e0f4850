//! A server on real sockets whose every response is decided by the test, and loads for it.

use rustix::net::sockopt::set_socket_linger;
use speedwell_load::generator;
use speedwell_load::load::{
    ConnectionRules, HttpVersion, LoadConfig, LoadShare, LoadTarget, RequestKind, RequestKinds,
    RequestTimeouts, ServerAddress, SuccessRule,
};
use speedwell_load::pace::{ClosedPace, PacingModel, StopCondition, ThinkTime};
use speedwell_model::clock::WaitClock;
use speedwell_model::load::measurement::LoadMeasurement;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the server does with the connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Waits for the next request.
    Keep,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
    /// Neither reads, writes nor closes until the server ends.
    Hold,
}

/// Input of a handler: the bytes of a request, its number, and the connection.
pub struct Asked<'a> {
    pub number: u64,
    pub head: &'a str,
    pub body: &'a [u8],
    pub stream: &'a mut TcpStream,
}

impl Asked<'_> {
    /// Sends bytes immediately.
    pub fn say(&mut self, bytes: &str) {
        // The client may be gone, as its counts will show.
        let _ = self.stream.write_all(bytes.as_bytes());
    }

    /// Sends a response with a length.
    pub fn answer(&mut self, status: &str, body: &str) -> Then {
        let length = body.len();
        self.say(&format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}"));
        Then::Keep
    }
}

/// A server on its own port; dropping it stops the server.
pub struct Server {
    pub address: SocketAddr,
    pub requests: Arc<AtomicU64>,
    pub connections: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    pub fn start(handler: impl Fn(Asked) -> Then + Send + Sync + 'static) -> Server {
        Server::on(TcpListener::bind("127.0.0.1:0").unwrap(), handler)
    }

    pub fn on(
        listener: TcpListener,
        handler: impl Fn(Asked) -> Then + Send + Sync + 'static,
    ) -> Server {
        let server = Server {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
            over: Arc::default(),
            held: Arc::default(),
        };
        let (requests, connections, over, held) = (
            server.requests.clone(),
            server.connections.clone(),
            server.over.clone(),
            server.held.clone(),
        );
        let handler = Arc::new(handler);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                connections.fetch_add(1, Ordering::SeqCst);
                let (requests, handler) = (requests.clone(), handler.clone());
                let held = held.clone();
                std::thread::spawn(move || {
                    if let Some(stream) = serve(stream, &requests, &*handler) {
                        held.lock().unwrap().push(stream);
                    }
                });
            }
        });
        server
    }

    /// A closed load of GET requests to this server.
    pub fn load(&self, concurrency: u32, requests: u64) -> LoadConfig {
        load_to(self.address, concurrency, requests)
    }

    pub fn seen(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wake up the listener, so that it notices the end.
        drop(TcpStream::connect(self.address));
        self.held.lock().unwrap().clear();
    }
}

/// Serves a connection to its end; returns one that is to be held.
fn serve(
    mut stream: TcpStream,
    requests: &AtomicU64,
    handler: &dyn Fn(Asked) -> Then,
) -> Option<TcpStream> {
    stream.set_nodelay(true).ok()?;
    let mut received = Vec::new();
    loop {
        let (head, body) = next_request(&mut stream, &mut received)?;
        let then = handler(Asked {
            number: requests.fetch_add(1, Ordering::SeqCst),
            head: &head,
            body: &body,
            stream: &mut stream,
        });
        match then {
            Then::Keep => {}
            Then::Close => return None,
            Then::Reset => {
                // Closing with a linger time of zero sends RST.
                set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                return None;
            }
            Then::Hold => return Some(stream),
        }
    }
}

/// Reads the head and the body of the next request; `None` at the end of the connection.
fn next_request(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end + 4]).into_owned();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .map_or(0, |length| length.parse().unwrap());
            if received.len() >= end + 4 + length {
                let body = received[end + 4..end + 4 + length].to_vec();
                received.drain(..end + 4 + length);
                return Some((head, body));
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(read) => received.extend_from_slice(&buffer[..read]),
        }
    }
}

/// A closed load of GET requests.
pub fn load_to(address: SocketAddr, concurrency: u32, requests: u64) -> LoadConfig {
    LoadConfig {
        target: LoadTarget {
            host: "127.0.0.1".to_owned(),
            port: address.port(),
            addresses: vec![ServerAddress::Internet(address)],
            local: None,
            tls: None,
        },
        kinds: RequestKinds::single(RequestKind::get("test", "/")).unwrap(),
        http: HttpVersion::One,
        pace: PacingModel::Closed(ClosedPace::new(concurrency, ThinkTime::None).unwrap()),
        connections: concurrency,
        max_connections: concurrency,
        streams_per_connection: 1,
        stop: StopCondition { after_requests: Some(requests), after_ns: None },
        warmup_ns: 0,
        drain_ns: 5_000_000_000,
        rules: ConnectionRules {
            timeouts: RequestTimeouts {
                total_ns: Some(5_000_000_000),
                ..RequestTimeouts::default()
            },
            max_delay_ns: None,
            ..ConnectionRules::default()
        },
        success: SuccessRule::default(),
        threads: 1,
        processors: Vec::new(),
        part: LoadShare::ONLY,
        keeps_rows: false,
        steady: None,
    }
}

/// A server that responds to everything with `good`.
pub fn good() -> Server {
    Server::start(|mut request| request.answer("200 OK", "good"))
}

/// Same as [`good`], but each response advances the clock by a millisecond; nothing else moves it.
pub fn good_by(clock: WaitClock) -> Server {
    Server::start(move |mut request| {
        clock.advance(Duration::from_millis(1));
        request.answer("200 OK", "good")
    })
}

/// The same load with a time limit.
pub fn for_ms(load: LoadConfig, ms: u64) -> LoadConfig {
    LoadConfig {
        stop: StopCondition { after_requests: None, after_ns: Some(ms * 1_000_000) },
        ..load
    }
}

/// Runs a load and checks that its counts balance.
#[track_caller]
pub fn carry_out(load: &LoadConfig) -> LoadMeasurement {
    carry_out_by(WaitClock::REAL, load)
}

/// Same as [`carry_out`], on a clock moved by the server or another thread of the test.
#[track_caller]
pub fn carry_out_by(clock: WaitClock, load: &LoadConfig) -> LoadMeasurement {
    let measured =
        generator::run_with_clock(clock, load, &AtomicBool::new(false), &mut |_| {}).unwrap();
    measured.totals.outcomes.check_balance().unwrap();
    measured
}

/// Same as [`carry_out`], while `beside` moves the clock; its argument tells whether the load has
/// ended.
#[track_caller]
pub fn carry_out_beside(
    clock: WaitClock,
    load: &LoadConfig,
    beside: impl FnOnce(&dyn Fn() -> bool),
) -> LoadMeasurement {
    /// Moves the clock to the end when dropped, so that a failing test does not wait forever.
    struct EndOfTime(WaitClock);
    impl Drop for EndOfTime {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.advance(Duration::from_secs(24 * 3600));
            }
        }
    }
    std::thread::scope(|scope| {
        let all = scope.spawn(|| carry_out_by(clock, load));
        let end = EndOfTime(clock);
        beside(&|| all.is_finished());
        drop(end);
        all.join().unwrap()
    })
}

/// The nonzero rows of the counts.
pub fn rows(measured: &LoadMeasurement) -> Vec<(&'static str, u64)> {
    let rows = measured.totals.outcomes.rows();
    rows.filter(|row| row.count > 0).map(|row| (row.name, row.count)).collect()
}
