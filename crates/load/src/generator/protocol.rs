//! Dispatches to the protocol of a connection: HTTP/1, HTTP/2 or HTTP/3.

#[cfg(feature = "http3")]
use super::quic;

use super::channel::{ByteChannel, TransportTraffic};
use super::core::WorkerCore;
use super::multiplex::Http2Requests;
use super::pipeline::Http1Requests;
use super::recorder::RequestRecorder;
use super::started_request::{ConnectionLoss, InputOutcome, StartedRequest};
use crate::http1::ResponseWatch;
use crate::load::{HttpVersion, RequestTimeouts};
use rustix::io::Errno;
use speedwell_model::load::outcomes::ErrorClass;

/// The requests of a connection, by protocol.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one per connection, and the larger variant is the usual one, used for every event"
)]
pub(super) enum ProtocolState {
    One(Http1Requests),
    Two(Box<Http2Requests>),
    /// The HTTP/3 streams own their connection, so there is no [`ByteChannel`].
    #[cfg(feature = "http3")]
    Three(Box<quic::QuicRequests>),
}

impl ProtocolState {
    pub fn new(core: &WorkerCore) -> ProtocolState {
        let capacity = core.load.streams_per_connection;
        match core.load.http {
            HttpVersion::One => {
                ProtocolState::One(Http1Requests::new(capacity, core.response_watch()))
            }
            HttpVersion::Two { table_bytes } => ProtocolState::Two(Box::new(Http2Requests::new(
                capacity,
                table_bytes,
                core.response_watch(),
            ))),
            #[cfg(feature = "http3")]
            HttpVersion::Three => ProtocolState::Three(Box::new(quic::QuicRequests::new(
                capacity,
                core.response_watch(),
            ))),
            #[cfg(not(feature = "http3"))]
            HttpVersion::Three => unreachable!("such a load is refused before it begins"),
        }
    }

    pub fn in_flight(&self) -> usize {
        match self {
            ProtocolState::One(pipeline) => pipeline.in_flight(),
            ProtocolState::Two(streams) => streams.in_flight(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.in_flight(),
        }
    }

    /// Number of requests that can be sent now; `capacity` is the maximum in flight.
    pub fn available_requests(&self, capacity: u32) -> u32 {
        match self {
            ProtocolState::One(pipeline) => capacity.saturating_sub(pipeline.in_flight() as u32),
            ProtocolState::Two(streams) => streams.available_streams(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.available_streams(),
        }
    }

    /// Whether the last request or the server rules out further requests.
    pub fn is_last(&self) -> bool {
        match self {
            ProtocolState::One(pipeline) => {
                pipeline.newest_request().is_some_and(|sent| sent.closes)
            }
            ProtocolState::Two(streams) => streams.is_draining(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.is_draining(),
        }
    }

    /// Sends or buffers a request. HTTP/2 buffers it, and so does HTTP/1 if several requests may be
    /// in flight. [`ProtocolState::flush_output`] then writes all buffered requests together.
    pub fn send(
        &mut self,
        sent: StartedRequest,
        channel: Option<&mut ByteChannel>,
        core: &mut WorkerCore,
    ) -> Result<(), Errno> {
        let source = core.source;
        match self {
            ProtocolState::One(pipeline) => {
                let request = source.http1_request(sent.kind, sent.index);
                pipeline.push_request(StartedRequest {
                    method: request.method(),
                    closes: request.closes(),
                    ..sent
                });
                if let (1, Some(channel)) = (core.load.streams_per_connection, channel) {
                    return channel.send(request.bytes(), &mut core.traffic);
                }
                pipeline.output.extend_from_slice(request.bytes());
            }
            ProtocolState::Two(streams) => {
                streams.start_request(sent, source.http2_request(sent.kind, sent.index))
            }
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => {
                if let Some(engine) = &mut core.quic {
                    streams.start_request(
                        sent,
                        source.http3_request(sent.kind, sent.index),
                        engine,
                    );
                }
            }
        }
        Ok(())
    }

    pub fn process_input(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) -> InputOutcome {
        match self {
            ProtocolState::One(pipeline) => pipeline.process_input(bytes, now_ns, recorder),
            ProtocolState::Two(streams) => streams.process_input(bytes, now_ns, recorder),
            #[cfg(feature = "http3")]
            ProtocolState::Three(_) => InputOutcome::Open,
        }
    }

    /// Writes pending output.
    pub fn flush_output(
        &mut self,
        channel: &mut ByteChannel,
        traffic: &mut TransportTraffic,
    ) -> Result<(), Errno> {
        match self {
            ProtocolState::One(pipeline) => {
                if !pipeline.output.is_empty() {
                    channel.send(&pipeline.output, traffic)?;
                    pipeline.output.clear();
                }
            }
            ProtocolState::Two(streams) => {
                // Pass output to the channel only when the channel has nothing left to write. Until
                // then, the output stays in the protocol's buffer, which is limited in size.
                while !streams.output().is_empty() && !channel.is_waiting() {
                    let written = streams.output().len();
                    channel.send(streams.output(), traffic)?;
                    streams.consume_output(written);
                }
            }
            #[cfg(feature = "http3")]
            ProtocolState::Three(_) => {}
        }
        Ok(())
    }

    pub fn reset_connection(&mut self) {
        match self {
            ProtocolState::One(pipeline) => pipeline.reset_connection(),
            ProtocolState::Two(streams) => streams.reset_connection(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(_) => {}
        }
    }

    /// Closes the connection, if the protocol owns it.
    pub fn close_connection(&mut self) {
        #[cfg(feature = "http3")]
        if let ProtocolState::Three(streams) = self {
            streams.close_connection();
        }
    }

    /// Ends all requests of a lost connection. Returns the request to retry, if there is one; only
    /// HTTP/1 has such requests.
    pub fn end_all(
        &mut self,
        lost: ConnectionLoss,
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) -> Option<StartedRequest> {
        match self {
            ProtocolState::One(pipeline) => pipeline.end_all(lost, now_ns, recorder),
            ProtocolState::Two(streams) => {
                streams.end_all(lost, now_ns, recorder);
                None
            }
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => {
                streams.end_all(lost, now_ns, recorder);
                None
            }
        }
    }

    /// Ends requests that exceed their timeouts. HTTP/1 cannot end a single request. For HTTP/1,
    /// this returns the error class with which to close the connection.
    pub fn expire_timeouts(
        &mut self,
        limits: RequestTimeouts,
        now_ns: u64,
        recorder: &mut RequestRecorder,
    ) -> Option<ErrorClass> {
        match self {
            // Responses arrive in order, so checking the oldest request suffices.
            ProtocolState::One(pipeline) => {
                pipeline.oldest_request()?.exceeded_timeout(limits, now_ns)
            }
            ProtocolState::Two(streams) => {
                streams.expire_timeouts(limits, now_ns, recorder);
                None
            }
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => {
                streams.expire_timeouts(limits, now_ns, recorder);
                None
            }
        }
    }

    /// Contents of the last response.
    pub fn response_watch(&self) -> Option<&ResponseWatch> {
        match self {
            ProtocolState::One(pipeline) => pipeline.watch.as_deref(),
            ProtocolState::Two(streams) => streams.watch(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.last_response(),
        }
    }

    pub fn take_all(&mut self) -> Vec<StartedRequest> {
        match self {
            ProtocolState::One(pipeline) => pipeline.take_all(),
            ProtocolState::Two(streams) => streams.take_all(),
            #[cfg(feature = "http3")]
            ProtocolState::Three(streams) => streams.take_all(),
        }
    }
}
