//! HTTP/2 on one connection: concurrent requests with responses in any order.
//!
//! Determines the outcome of each stream's request. Knows neither sockets nor when the next request
//! is due. Start at [`Multiplex::feed`].

use super::clock::NEVER;
use super::recorder::{Answer, Recorder, has_good_body};
use super::sent::{Fed, Lost, Sent};
use crate::http1::{Summary, Watch};
use crate::http2::hpack::Fields;
use crate::http2::{
    Closing, Connection, ConnectionError, ErrorCode, Event, Request, Settings, StreamError,
};
use crate::load::Timeouts;
use crate::outcomes::ErrorClass;

/// The streams of one connection.
pub(super) struct Multiplex {
    settings: Settings,
    http: Connection,
    streams: Streams,
}

/// Requests by their token on the connection, which is an index into these lists.
struct Streams {
    under_way: Vec<Option<Sent>>,
    free: Vec<u32>,
    has_answered: bool,
    /// Contents of responses, if they are inspected, by token.
    watches: Vec<Watch>,
    fields: Fields,
    /// Token of the response that ended last.
    last: usize,
    interim_status: u16,
}

impl Multiplex {
    pub fn new(capacity: u32, table_bytes: u32, watch: Option<Box<Watch>>) -> Multiplex {
        let settings = Settings {
            table_size: table_bytes,
            ..Settings::default()
        };
        let watches = watch.map_or(Vec::new(), |watch| vec![*watch; capacity as usize]);
        Multiplex {
            settings,
            http: Connection::new(&settings),
            streams: Streams {
                under_way: vec![None; capacity as usize],
                free: (0..capacity).rev().collect(),
                has_answered: false,
                watches,
                fields: Fields::new(),
                last: 0,
                interim_status: 0,
            },
        }
    }

    /// Resets the state for a new connection.
    pub fn reset(&mut self) {
        self.http = Connection::new(&self.settings);
        self.streams.has_answered = false;
    }

    pub fn in_flight(&self) -> usize {
        self.streams.under_way.len() - self.streams.free.len()
    }

    /// Number of requests that can be sent now. Until the server has announced its stream limit,
    /// only the request for which the connection was opened is sent: some servers refuse excess
    /// streams.
    pub fn room(&self) -> u32 {
        if self.http.is_ready() {
            self.streams.free.len().min(self.http.capacity()) as u32
        } else {
            0
        }
    }

    /// Whether the server accepts no further requests.
    pub fn is_last(&self) -> bool {
        self.http.is_draining()
    }

    /// Contents of the response that ended last.
    pub fn watch(&self) -> Option<&Watch> {
        self.streams.watches.get(self.streams.last)
    }

    /// Sends a request. Does nothing if [`Multiplex::room`] is 0.
    pub fn send(&mut self, sent: Sent, request: &Request) {
        if let Some(token) = self.streams.free.pop() {
            self.streams.under_way[token as usize] = Some(Sent {
                method: request.method(),
                ..sent
            });
            self.http.open(request, token);
        }
    }

    pub fn output(&self) -> &[u8] {
        self.http.output()
    }

    /// Marks this many bytes of the output as written.
    pub fn written(&mut self, bytes: usize) {
        self.http.sent(bytes);
    }

    /// Processes received bytes.
    pub fn feed(&mut self, bytes: &[u8], now_ns: u64, recorder: &mut Recorder) -> Fed {
        let Multiplex { http, streams, .. } = self;
        let fed = http.feed(bytes, &mut |event| {
            streams.on_event(event, now_ns, recorder)
        });
        match fed {
            Ok(()) => Fed::Open,
            Err(ConnectionError::NotHttp2 | ConnectionError::NoSettings) => {
                Fed::Broken(ErrorClass::ProtocolStatusLine)
            }
            Err(ConnectionError::Flood) => Fed::Broken(ErrorClass::H2Flood),
            Err(_) => Fed::Broken(ErrorClass::H2Protocol),
        }
    }

    /// Ends every stream of a lost connection.
    pub fn lose(&mut self, lost: Lost, now_ns: u64, recorder: &mut Recorder) {
        let is_announced = matches!(self.http.closing(), Closing::Announced(_));
        for token in 0..self.streams.under_way.len() {
            let phase = self.http.phase(token as u32);
            let has_answered = self.streams.has_answered;
            let Some(mut sent) = self.streams.take(token as u32) else {
                continue;
            };
            // A stream is never "reused". Whether the connection was distinguishes servers that
            // close idle connections from those that close new ones.
            sent.is_reused = has_answered;
            let class = match lost {
                Lost::Ours => {
                    recorder.cancelled(&sent, now_ns);
                    continue;
                }
                Lost::End | Lost::Truncated | Lost::Reset if is_announced => ErrorClass::H2GoAway,
                _ => lost.class(&sent, phase),
            };
            recorder.failed(&sent, class, now_ns, &Summary::default());
        }
    }

    /// Ends streams that exceed their timeouts; others continue.
    pub fn check_limits(&mut self, limits: Timeouts, now_ns: u64, recorder: &mut Recorder) {
        for token in 0..self.streams.under_way.len() as u32 {
            let over = self.streams.under_way[token as usize]
                .as_ref()
                .and_then(|sent| sent.over(limits, now_ns));
            let Some(class) = over else { continue };
            let class = if self.http.waits_for_window(token) {
                ErrorClass::H2FlowStall
            } else {
                class
            };
            self.http.cancel(token);
            if let Some(sent) = self.streams.take(token) {
                recorder.failed(&sent, class, now_ns, &Summary::default());
            }
        }
    }

    /// Removes and returns all requests.
    pub fn abandon(&mut self) -> Vec<Sent> {
        let tokens = 0..self.streams.under_way.len() as u32;
        tokens
            .filter_map(|token| self.streams.take(token))
            .collect()
    }
}

impl Streams {
    fn take(&mut self, token: u32) -> Option<Sent> {
        let sent = self.under_way[token as usize].take()?;
        self.free.push(token);
        Some(sent)
    }

    fn on_event(&mut self, event: Event, now_ns: u64, recorder: &mut Recorder) {
        match event {
            Event::FirstByte { token } => {
                let sent = self.under_way[token as usize].as_mut();
                if let Some(sent) = sent.filter(|sent| sent.first_byte_ns == NEVER) {
                    sent.first_byte_ns = now_ns;
                }
                if let Some(watch) = self.watches.get_mut(token as usize) {
                    watch.clear();
                }
            }
            Event::Interim { status, .. } => self.interim_status = status,
            Event::Head { token, block, .. } => {
                if let Some(watch) = self.watches.get_mut(token as usize)
                    && let Ok(fields) = block.read(&mut self.fields)
                {
                    fields
                        .iter()
                        .for_each(|(name, value)| watch.field(name, value));
                }
            }
            Event::Data { token, bytes } => {
                if let Some(watch) = self.watches.get_mut(token as usize) {
                    watch.data(bytes);
                }
            }
            Event::Ended { token, summary } => self.answered(token, summary, now_ns, recorder),
            Event::Failed { token, why } => self.failed(token, why, now_ns, recorder),
            Event::Settings | Event::GoAway { .. } => {}
        }
    }

    fn answered(&mut self, token: u32, summary: Summary, now_ns: u64, recorder: &mut Recorder) {
        self.has_answered = true;
        self.last = token as usize;
        if let Some(sent) = self.take(token) {
            let watch = self.watches.get(token as usize);
            let answer = Answer {
                summary: Summary {
                    interim_status: self.interim_status,
                    ..summary
                },
                has_good_body: has_good_body(recorder.body_rule(), watch),
            };
            recorder.answered(&sent, answer, now_ns);
        }
    }

    fn failed(&mut self, token: u32, why: StreamError, now_ns: u64, recorder: &mut Recorder) {
        let Some(sent) = self.take(token) else {
            return;
        };
        let class = match why {
            StreamError::Refused => ErrorClass::H2Refused,
            StreamError::GoAway(_) => ErrorClass::H2GoAway,
            StreamError::Length | StreamError::LengthConflict => ErrorClass::ProtocolLength,
            StreamError::Status => ErrorClass::ProtocolStatusLine,
            StreamError::Header | StreamError::Order => ErrorClass::ProtocolHeader,
            StreamError::Reset(ErrorCode(code)) => {
                return recorder.reset_stream(&sent, code, now_ns);
            }
            StreamError::Window | StreamError::NoIncrement => ErrorClass::H2Protocol,
        };
        recorder.failed(&sent, class, now_ns, &Summary::default());
    }
}
