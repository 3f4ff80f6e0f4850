//! The protocol of a connection: HTTP/1, HTTP/2 or HTTP/3 behind the same few questions.

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
    /// Its streams hold their connection themselves; there is no channel.
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

    /// Requests that may be sent now, of `streams` at once.
    pub fn room(&self, capacity: u32) -> u32 {
        match self {
            Protocol::One(pipeline) => capacity.saturating_sub(pipeline.in_flight() as u32),
            Protocol::Two(streams) => streams.room(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.room(),
        }
    }

    /// Whether the last request that was sent, or the server, allows no further one.
    pub fn is_last(&self) -> bool {
        match self {
            Protocol::One(pipeline) => pipeline.newest().is_some_and(|sent| sent.closes),
            Protocol::Two(streams) => streams.is_last(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.is_last(),
        }
    }

    /// Sends a request. Where several may be in flight at once they are written by
    /// [`Protocol::flush`], all in one call.
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

    /// Writes what waits.
    pub fn flush(&mut self, channel: &mut Channel, traffic: &mut Traffic) -> Result<(), Errno> {
        match self {
            Protocol::One(pipeline) => {
                if !pipeline.output.is_empty() {
                    channel.send(&pipeline.output, traffic)?;
                    pipeline.output.clear();
                }
            }
            Protocol::Two(streams) => {
                // What waits for room stays where its amount is limited.
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

    /// For a fresh connection.
    pub fn reset(&mut self) {
        match self {
            Protocol::One(pipeline) => pipeline.reset(),
            Protocol::Two(streams) => streams.reset(),
            #[cfg(feature = "http3")]
            Protocol::Three(_) => {}
        }
    }

    /// The connection is given up, where it is the protocol that holds it.
    pub fn hang_up(&mut self) {
        #[cfg(feature = "http3")]
        if let Protocol::Three(streams) = self {
            streams.hang_up();
        }
    }

    /// The connection is over. Gives a request back that may be sent once more.
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

    /// Ends requests that took too long, where they can be ended alone; else says what the connection
    /// is to be given up for.
    pub fn check_limits(
        &mut self,
        limits: Timeouts,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Option<ErrorClass> {
        match self {
            // Of answers in order, the oldest request stands for all.
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

    /// What is kept of the last answer.
    pub fn watch(&self) -> Option<&Watch> {
        match self {
            Protocol::One(pipeline) => pipeline.watch.as_deref(),
            Protocol::Two(streams) => streams.watch(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.watch(),
        }
    }

    /// Forgets all requests and gives them back.
    pub fn abandon(&mut self) -> Vec<Sent> {
        match self {
            Protocol::One(pipeline) => pipeline.abandon(),
            Protocol::Two(streams) => streams.abandon(),
            #[cfg(feature = "http3")]
            Protocol::Three(streams) => streams.abandon(),
        }
    }
}
