//! Dispatches to the protocol of a connection: HTTP/1, HTTP/2 or HTTP/3.

#[cfg(feature = "http3")]
use super::quic;

use super::channel::{Channel, Traffic};
use super::core::Core;
use super::multiplex::Multiplex;
use super::pipeline::Pipeline;
use super::recorder::Recorder;
use super::sent::{Fed, Lost, Sent};
use crate::http1::Watch;
use crate::load::{Http, Timeouts};
use crate::outcomes::ErrorClass;
use rustix::io::Errno;

/// The requests of a connection, by protocol.
#[allow(
    clippy::large_enum_variant,
    reason = "one for each connection; the larger one is the usual one, and is used for every event"
)]
pub(super) enum Protocol {
    One(Pipeline),
    Two(Box<Multiplex>),
    /// The streams own their connection; there is no channel.
    #[cfg(feature = "http3")]
    Three(Box<quic::Streams>),
}

impl Protocol {
    pub fn new(core: &Core) -> Protocol {
        let capacity = core.load.streams_per_connection;
        match core.load.http {
            Http::One => Protocol::One(Pipeline::new(capacity, core.watch())),
            Http::Two { table_bytes } => Protocol::Two(Box::new(Multiplex::new(
                capacity,
                table_bytes,
                core.watch(),
            ))),
            #[cfg(feature = "http3")]
            Http::Three => Protocol::Three(Box::new(quic::Streams::new(capacity, core.watch()))),
            #[cfg(not(feature = "http3"))]
            Http::Three => unreachable!("such a load is refused before it begins"),
        }
    }

    pub fn in_flight(&self) -> usize {
        match self {
            Protocol::One(pipeline) => pipeline.in_flight(),
            Protocol::Two(streams) => streams.in_flight(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.in_flight(),
        }
    }

    /// Number of requests that can be sent now; `capacity` is the maximum in flight.
    pub fn room(&self, capacity: u32) -> u32 {
        match self {
            Protocol::One(pipeline) => capacity.saturating_sub(pipeline.in_flight() as u32),
            Protocol::Two(streams) => streams.room(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.room(),
        }
    }

    /// Whether the last request sent, or the server, rules out further requests.
    pub fn is_last(&self) -> bool {
        match self {
            Protocol::One(pipeline) => pipeline.newest().is_some_and(|sent| sent.closes),
            Protocol::Two(streams) => streams.is_last(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.is_last(),
        }
    }

    /// Sends a request. If several may be in flight, they are written together by
    /// [`Protocol::flush`].
    pub fn send(
        &mut self,
        sent: Sent,
        channel: Option<&mut Channel>,
        core: &mut Core,
    ) -> Result<(), Errno> {
        let source = core.source;
        match self {
            Protocol::One(pipeline) => {
                let request = source.http1_request(sent.kind, sent.index);
                pipeline.send(Sent {
                    method: request.method(),
                    closes: request.closes(),
                    ..sent
                });
                if let (1, Some(channel)) = (core.load.streams_per_connection, channel) {
                    return channel.send(request.bytes(), &mut core.traffic);
                }
                pipeline.output.extend_from_slice(request.bytes());
            }
            Protocol::Two(streams) => {
                streams.send(sent, source.http2_request(sent.kind, sent.index))
            }
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => {
                if let Some(engine) = &mut core.quic {
                    streams.send(sent, source.http3_request(sent.kind, sent.index), engine);
                }
            }
        }
        Ok(())
    }

    pub fn feed(&mut self, bytes: &[u8], now_ns: u64, recorder: &mut Recorder) -> Fed {
        match self {
            Protocol::One(pipeline) => pipeline.feed(bytes, now_ns, recorder),
            Protocol::Two(streams) => streams.feed(bytes, now_ns, recorder),
            #[cfg(feature = "http3")]
            Protocol::Three(_) => Fed::Open,
        }
    }

    /// Writes pending output.
    pub fn flush(&mut self, channel: &mut Channel, traffic: &mut Traffic) -> Result<(), Errno> {
        match self {
            Protocol::One(pipeline) => {
                if !pipeline.output.is_empty() {
                    channel.send(&pipeline.output, traffic)?;
                    pipeline.output.clear();
                }
            }
            Protocol::Two(streams) => {
                // Keep pending output in the protocol's buffer, which is limited in size.
                while !streams.output().is_empty() && !channel.is_waiting() {
                    let written = streams.output().len();
                    channel.send(streams.output(), traffic)?;
                    streams.written(written);
                }
            }
            #[cfg(feature = "http3")]
            Protocol::Three(_) => {}
        }
        Ok(())
    }

    /// Resets the state for a new connection.
    pub fn reset(&mut self) {
        match self {
            Protocol::One(pipeline) => pipeline.reset(),
            Protocol::Two(streams) => streams.reset(),
            #[cfg(feature = "http3")]
            Protocol::Three(_) => {}
        }
    }

    /// Closes the connection, if the protocol owns it.
    pub fn hang_up(&mut self) {
        #[cfg(feature = "http3")]
        if let Protocol::Three(streams) = self {
            streams.hang_up();
        }
    }

    /// Ends all requests of a lost connection. Returns one if it may be retried.
    pub fn lose(&mut self, lost: Lost, now_ns: u64, recorder: &mut Recorder) -> Option<Sent> {
        match self {
            Protocol::One(pipeline) => pipeline.lose(lost, now_ns, recorder),
            Protocol::Two(streams) => {
                streams.lose(lost, now_ns, recorder);
                None
            }
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => {
                streams.lose(lost, now_ns, recorder);
                None
            }
        }
    }

    /// Ends requests that exceed their timeouts, if they can be ended individually; otherwise
    /// returns the error class with which to close the connection.
    pub fn check_limits(
        &mut self,
        limits: Timeouts,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Option<ErrorClass> {
        match self {
            // Responses arrive in order, so checking the oldest request suffices.
            Protocol::One(pipeline) => pipeline.oldest()?.over(limits, now_ns),
            Protocol::Two(streams) => {
                streams.check_limits(limits, now_ns, recorder);
                None
            }
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => {
                streams.check_limits(limits, now_ns, recorder);
                None
            }
        }
    }

    /// Contents of the last response.
    pub fn watch(&self) -> Option<&Watch> {
        match self {
            Protocol::One(pipeline) => pipeline.watch.as_deref(),
            Protocol::Two(streams) => streams.watch(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.watch(),
        }
    }

    /// Removes and returns all requests.
    pub fn abandon(&mut self) -> Vec<Sent> {
        match self {
            Protocol::One(pipeline) => pipeline.abandon(),
            Protocol::Two(streams) => streams.abandon(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.abandon(),
        }
    }
}
