//! HTTP/3: maps the connections and streams of [`speedwell_load_h3`] to requests of a load.
//!
//! Determines the outcome of each stream's request from the class of its failure. Knows neither
//! sockets nor when the next request is due; pacing, counts and event loop are shared with the
//! other protocols. Start at [`Streams::on_event`].

use super::channel::{Tls, Traffic};
use super::clock::{Clock, NEVER, Timer};
use super::recorder::{Answer, Recorder, has_good_body};
use super::sent::{Lost, Sent};
use crate::http1::{MethodKind, Phase, RequestError, RequestParts, Summary, Watch, check};
use crate::http2::is_left_out;
use crate::load::{BodyRule, Timeouts};
use crate::outcomes::ErrorClass;
use speedwell_load_h3::{
    ConnectError, Connection, Ended, Event, Failure, Head, InFlight, Kept, Response, StreamEvent,
    StreamKey,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// Drives the connections of a thread until a load time.
pub(super) struct Engine {
    inner: speedwell_load_h3::Engine,
    timer: Timer,
    /// When the timer fires or fired.
    rings_ns: u64,
    clock: Clock,
}

impl Engine {
    /// Creates an engine.
    ///
    /// # Errors
    /// Fails if the operating system cannot create the runtime or the timer, or if TLS lacks a
    /// cipher that QUIC requires.
    pub fn new(tls: &Tls, clock: Clock) -> io::Result<Engine> {
        let timer = Timer::new(clock)?;
        let alarm = timer.as_fd().try_clone_to_owned()?;
        let name = tls.name.to_str().into_owned();
        Ok(Engine {
            inner: speedwell_load_h3::Engine::new(tls.config.clone(), name, alarm)?,
            timer,
            rings_ns: NEVER,
            clock,
        })
    }

    /// Waits for events until a deadline; returns them in `happened`.
    pub fn wait(&mut self, until_ns: u64, happened: &mut Vec<Event>) {
        let now_ns = self.clock.now_ns();
        if until_ns != NEVER && until_ns > now_ns && until_ns != self.rings_ns {
            // If the timer cannot be set, poll instead of waiting without a deadline.
            self.rings_ns = match self.timer.set(until_ns) {
                Ok(()) => until_ns,
                Err(_) => NEVER,
            };
        }
        let is_alarmed = until_ns == NEVER || self.rings_ns == until_ns;
        self.inner.wait(is_alarmed && until_ns > now_ns, happened);
    }

    /// Adds the socket traffic since the last call.
    pub fn take_traffic(&self, traffic: &mut Traffic) {
        let passed = self.inner.take_traffic();
        traffic.received += passed.received;
        traffic.sent += passed.sent;
        traffic.calls += passed.calls;
    }

    /// Notifies the servers after connections were closed.
    pub fn say_goodbye(&mut self, connections: u32) {
        self.inner.say_goodbye(connections);
    }
}

pub(super) struct Request {
    inner: speedwell_load_h3::Request,
    method: MethodKind,
}

impl Request {
    /// Prepares a request. As with HTTP/2, Host becomes `:authority` and connection-specific fields
    /// of HTTP/1 are omitted (RFC 9114, section 4.2).
    ///
    /// # Errors
    /// Fails if a part is malformed or the request is for a proxy.
    pub fn new(parts: &RequestParts) -> Result<Request, RequestError> {
        check(parts)?;
        let target = || RequestError::Target(parts.target.to_owned());
        if parts.method == "CONNECT" || !(parts.target == "*" || parts.target.starts_with('/')) {
            return Err(target());
        }
        let method = MethodKind::for_method(parts.method);
        let head = Head {
            method: parts.method,
            authority: parts.values("host").next().unwrap_or(parts.host.as_bytes()),
            target: parts.target,
            content_length: parts.length(),
            expects_body: method == MethodKind::Body,
        };
        let fields = parts.headers.iter().copied();
        let fields = fields.filter(|(name, value)| !is_left_out(name, value));
        let body = parts.body.unwrap_or_default();
        let inner =
            speedwell_load_h3::Request::new(&head, fields, body).map_err(|why| match why {
                speedwell_load_h3::RequestError::Method => {
                    RequestError::Method(parts.method.to_owned())
                }
                speedwell_load_h3::RequestError::Target => target(),
                speedwell_load_h3::RequestError::Name(name) => RequestError::Name(name),
                speedwell_load_h3::RequestError::Value(name) => RequestError::Value(name),
            })?;
        Ok(Request { inner, method })
    }
}

/// Error class of a failed connection attempt.
pub(super) fn class_of_connecting(error: ConnectError) -> ErrorClass {
    match error {
        ConnectError::Refused => ErrorClass::ConnectRefused,
        ConnectError::Unreachable => ErrorClass::ConnectUnreachable,
        ConnectError::NoPort => ErrorClass::ConnectNoPort,
        ConnectError::TimedOut => ErrorClass::ConnectTimeout,
        ConnectError::Alpn => ErrorClass::TlsAlpn,
        ConnectError::Certificate => ErrorClass::TlsVerify,
        ConnectError::Handshake => ErrorClass::TlsHandshake,
        ConnectError::Protocol => ErrorClass::H3Protocol,
    }
}

/// Converts the end of a connection to its meaning for requests.
pub(super) fn lost_by(ended: Ended) -> Lost {
    match ended {
        Ended::Closed => Lost::End,
        Ended::Reset => Lost::Reset,
        Ended::Idle => Lost::Failed(ErrorClass::H3Idle),
        Ended::Protocol => Lost::Failed(ErrorClass::H3Protocol),
    }
}

/// The requests of a connection, one per slot.
pub(super) struct Streams {
    places: Vec<Option<UnderWay>>,
    free: Vec<u32>,
    connection: Option<Connection>,
    /// Serial number of the last request, to recognize late events of earlier ones.
    serial: u64,
    /// Requests whose stream the server does not permit yet.
    waiting: u32,
    has_answered: bool,
    /// Whether the server accepts no further requests.
    is_last: bool,
    /// Recorder for response contents, if they are inspected.
    watch: Option<Box<Watch>>,
    /// Contents of the last response.
    last: Option<Watch>,
}

/// A request in flight. Dropping it cancels the request.
struct UnderWay {
    sent: Sent,
    serial: u64,
    waits: bool,
    _in_flight: InFlight,
}

impl Streams {
    pub fn new(capacity: u32, watch: Option<Box<Watch>>) -> Streams {
        Streams {
            places: (0..capacity).map(|_| None).collect(),
            free: (0..capacity).rev().collect(),
            connection: None,
            serial: 0,
            waiting: 0,
            has_answered: false,
            is_last: false,
            watch,
            last: None,
        }
    }

    pub fn connect(
        &mut self,
        to: SocketAddr,
        local: Option<IpAddr>,
        token: u64,
        engine: &mut Engine,
    ) {
        self.has_answered = false;
        self.is_last = false;
        self.connection = Some(engine.inner.connect(to, local, token));
    }

    /// Takes over an established connection.
    pub fn establish(&mut self, established: speedwell_load_h3::Established) {
        if let Some(connection) = &mut self.connection {
            connection.establish(established);
        }
    }

    /// Closes the connection.
    pub fn hang_up(&mut self) {
        self.connection = None;
    }

    pub fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Number of requests that can be sent now. QUIC does not reveal how many streams are left, so
    /// nothing is sent while a request waits for a stream.
    pub fn room(&self) -> u32 {
        if self.waiting > 0 || self.is_last() {
            0
        } else {
            self.free.len() as u32
        }
    }

    /// Records that the server accepts no further requests.
    pub fn closing(&mut self) {
        self.is_last = true;
    }

    /// Whether the server accepts no further requests.
    pub fn is_last(&self) -> bool {
        self.is_last || self.connection.as_ref().is_some_and(Connection::is_closing)
    }

    /// Contents of the response that ended last.
    pub fn watch(&self) -> Option<&Watch> {
        self.last.as_ref()
    }

    /// Sends a request. Does nothing without a free slot on an established connection.
    pub fn send(&mut self, sent: Sent, request: &Request, engine: &mut Engine) {
        let (Some(connection), Some(&slot)) = (&self.connection, self.free.last()) else {
            return;
        };
        let key = StreamKey {
            slot,
            serial: self.serial + 1,
        };
        let keep_bytes = self.watch.as_ref().map(|_| BodyRule::WATCHED_BYTES);
        let in_flight = connection.send(&mut engine.inner, key, &request.inner, keep_bytes);
        let Some(in_flight) = in_flight else {
            return;
        };
        self.free.pop();
        self.serial = key.serial;
        self.places[slot as usize] = Some(UnderWay {
            sent: Sent {
                method: request.method,
                ..sent
            },
            serial: key.serial,
            waits: false,
            _in_flight: in_flight,
        });
    }

    /// Processes an event of a request.
    pub fn on_event(
        &mut self,
        key: StreamKey,
        event: StreamEvent,
        at_ns: u64,
        recorder: &mut Recorder,
    ) {
        let place = self.places[key.slot as usize].as_mut();
        let Some(under_way) = place.filter(|known| known.serial == key.serial) else {
            return;
        };
        let sent = &mut under_way.sent;
        match event {
            StreamEvent::Waits => {
                under_way.waits = true;
                self.waiting += 1;
            }
            StreamEvent::Opened => {
                sent.sent_ns = at_ns;
                under_way.waits = false;
                self.waiting -= 1;
            }
            StreamEvent::Head => sent.first_byte_ns = sent.first_byte_ns.min(at_ns),
            StreamEvent::Response(response) => self.answered(key.slot, *response, at_ns, recorder),
            StreamEvent::Failed(failure) => self.failed(key.slot, failure, at_ns, recorder),
        }
    }

    fn answered(&mut self, slot: u32, response: Response, at_ns: u64, recorder: &mut Recorder) {
        self.has_answered = true;
        let watch = response.kept.map(|kept| self.watched(kept));
        if let Some(sent) = self.take(slot) {
            let summary = Summary {
                status: response.status,
                interim: response.interim,
                interim_status: response.interim_status,
                body_bytes: response.body_bytes,
                reusable: true,
                ..Summary::default()
            };
            let answer = Answer {
                summary,
                has_good_body: has_good_body(recorder.body_rule(), watch.as_ref()),
            };
            recorder.answered(&sent, answer, at_ns);
        }
        self.last = watch;
    }

    /// Converts kept response contents to the form of the other protocols.
    fn watched(&self, kept: Kept) -> Watch {
        let mut watch = self.watch.as_deref().cloned().unwrap_or_default();
        for (name, value) in &kept.fields {
            watch.field(name.as_str().as_bytes(), value.as_bytes());
        }
        watch.take_body(kept.body);
        watch
    }

    fn failed(&mut self, slot: u32, failure: Failure, at_ns: u64, recorder: &mut Recorder) {
        let class = match failure {
            Failure::WithConnection => return,
            Failure::Reset(code) => {
                if let Some(sent) = self.take(slot) {
                    recorder.reset_http3_stream(&sent, code, at_ns);
                }
                return;
            }
            // A head that exceeds the server's limit was never sent.
            Failure::HeadTooLarge => ErrorClass::Send,
            Failure::Rejected => ErrorClass::H3Refused,
            Failure::GoAway => ErrorClass::H3GoAway,
            Failure::SwitchingProtocols => ErrorClass::ProtocolStatusLine,
            Failure::Fields => ErrorClass::ProtocolHeader,
            Failure::Length => ErrorClass::ProtocolLength,
            Failure::Protocol => ErrorClass::H3Protocol,
        };
        self.fail(slot, class, at_ns, recorder);
    }

    fn fail(&mut self, slot: u32, class: ErrorClass, at_ns: u64, recorder: &mut Recorder) {
        if let Some(sent) = self.take(slot) {
            recorder.failed(&sent, class, at_ns, &Summary::default());
        }
    }

    fn take(&mut self, slot: u32) -> Option<Sent> {
        let under_way = self.places[slot as usize].take()?;
        self.waiting -= u32::from(under_way.waits);
        self.free.push(slot);
        Some(under_way.sent)
    }

    /// Ends every stream of a lost connection.
    pub fn lose(&mut self, lost: Lost, now_ns: u64, recorder: &mut Recorder) {
        let is_announced = self.is_last();
        for slot in 0..self.places.len() as u32 {
            let Some(mut sent) = self.take(slot) else {
                continue;
            };
            let phase = if sent.first_byte_ns == NEVER {
                Phase::FirstByte
            } else {
                Phase::Body
            };
            // As with HTTP/2: whether the connection has had a response distinguishes servers that
            // close idle connections from those that close new ones.
            sent.is_reused = self.has_answered;
            let class = match lost {
                Lost::Ours => {
                    recorder.cancelled(&sent, now_ns);
                    continue;
                }
                Lost::End | Lost::Reset if is_announced => ErrorClass::H3GoAway,
                _ => lost.class(&sent, phase),
            };
            recorder.failed(&sent, class, now_ns, &Summary::default());
        }
    }

    /// Ends requests that exceed their timeouts; others continue.
    pub fn check_limits(&mut self, limits: Timeouts, now_ns: u64, recorder: &mut Recorder) {
        for slot in 0..self.places.len() as u32 {
            let under_way = self.places[slot as usize].as_ref();
            if let Some(class) = under_way.and_then(|known| known.sent.over(limits, now_ns)) {
                self.fail(slot, class, now_ns, recorder);
            }
        }
    }

    /// Removes and returns all requests.
    pub fn abandon(&mut self) -> Vec<Sent> {
        let capacity = 0..self.places.len() as u32;
        capacity.filter_map(|slot| self.take(slot)).collect()
    }
}
