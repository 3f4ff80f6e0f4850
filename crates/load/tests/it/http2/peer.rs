//! A client whose server is the test: the events of each stream, and the frames it wrote.

use super::frames::{Frame, parse, settings};
use speedwell_load::http1::{RequestParts, ResponseSummary};
use speedwell_load::http2::{
    Http2Connection, Http2ConnectionError, Http2ErrorCode, Http2Event, Http2Request, Http2Settings,
    Http2StreamError, UrlScheme,
};

/// An owned copy of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    FirstByte(u32),
    Interim(u32, u16),
    Head(u32, u16),
    Data(u32, Vec<u8>),
    Ended(u32, ResponseSummary),
    Failed(u32, Http2StreamError),
    Settings,
    GoAway(u32, Http2ErrorCode),
}

impl Seen {
    pub fn of(event: &Http2Event) -> Seen {
        match event {
            Http2Event::FirstByte { token } => Seen::FirstByte(*token),
            Http2Event::Interim { token, status } => Seen::Interim(*token, *status),
            Http2Event::Head { token, status, .. } => Seen::Head(*token, *status),
            Http2Event::Data { token, bytes } => Seen::Data(*token, bytes.to_vec()),
            Http2Event::Ended { token, summary } => Seen::Ended(*token, *summary),
            Http2Event::Failed { token, why } => Seen::Failed(*token, *why),
            Http2Event::Settings => Seen::Settings,
            Http2Event::GoAway { last_stream, code } => Seen::GoAway(*last_stream, *code),
        }
    }
}

pub fn request(method: &str, body: Option<&[u8]>) -> Http2Request {
    let parts = RequestParts { method, target: "/", host: "h", body, ..RequestParts::default() };
    Http2Request::new(&parts, UrlScheme::Http).unwrap()
}

pub struct Client {
    pub connection: Http2Connection,
}

impl Client {
    /// A client that has sent its greeting and received nothing.
    pub fn silent(settings: &Http2Settings) -> Client {
        let mut client = Client { connection: Http2Connection::new(settings) };
        let sent = client.connection.output().len();
        client.connection.mark_sent(sent);
        client
    }

    /// A client whose server has announced these settings.
    pub fn with(pairs: &[(u16, u32)]) -> Client {
        let mut client = Client::silent(&Http2Settings::default());
        assert_eq!(client.feed(&settings(pairs)), [Seen::Settings]);
        client.written();
        client
    }

    pub fn new() -> Client {
        Client::with(&[])
    }

    /// A client with GET requests in flight: token 0 on stream 1, token 1 on stream 3 and so on.
    pub fn asking(streams: u32) -> Client {
        let mut client = Client::new();
        for token in 0..streams {
            assert!(client.connection.open_stream(&request("GET", None), token));
        }
        client.written();
        client
    }

    pub fn try_feed(&mut self, bytes: &[u8]) -> (Vec<Seen>, Result<(), Http2ConnectionError>) {
        let mut seen = Vec::new();
        let result = self.connection.feed(bytes, &mut |event| seen.push(Seen::of(&event)));
        (seen, result)
    }

    #[track_caller]
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Seen> {
        let (seen, result) = self.try_feed(bytes);
        result.unwrap();
        seen
    }

    /// Feeds bytes that complete the only response and returns its summary.
    #[track_caller]
    pub fn ended(&mut self, bytes: &[u8]) -> ResponseSummary {
        match self.feed(bytes).last() {
            Some(Seen::Ended(_, summary)) => *summary,
            other => panic!("not ended: {other:?}"),
        }
    }

    /// Feeds bytes that fail the only stream and returns the reason.
    #[track_caller]
    pub fn failed(&mut self, bytes: &[u8]) -> Http2StreamError {
        match self.feed(bytes).last() {
            Some(Seen::Failed(_, why)) => *why,
            other => panic!("not failed: {other:?}"),
        }
    }

    /// Feeds bytes that fail the connection and returns the error; the GOAWAY frame must contain
    /// its code.
    #[track_caller]
    pub fn broken(&mut self, bytes: &[u8]) -> Http2ConnectionError {
        let error = self.try_feed(bytes).1.unwrap_err();
        let last = self.written().pop().unwrap();
        assert_eq!((last.kind, &last.payload[..4]), (super::frames::GOAWAY, &[0; 4][..]));
        assert_eq!(last.payload[4..], error.code().0.to_be_bytes());
        assert_eq!(self.try_feed(b"more"), (Vec::new(), Err(error)), "it stays broken");
        assert_eq!(self.connection.capacity(), 0);
        error
    }

    /// Frames written since the last call.
    pub fn written(&mut self) -> Vec<Frame> {
        let frames = parse(self.connection.output());
        let sent = self.connection.output().len();
        self.connection.mark_sent(sent);
        frames
    }
}
