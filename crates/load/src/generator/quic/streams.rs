//! HTTP/3 on one connection: many requests at once, and answers in any order.
//!
//! It decides what became of each stream's request. It does not know sockets or when the next
//! request is due. Start reading at [`Streams::on`].

use super::classes::Failure;
use super::engine::{Engine, Hold};
use super::events::{Answered, News};
use super::exchange::{Exchange, Teller};
use super::line::{Requests, Up};
use super::request::Request;
use crate::generator::clock::NEVER;
use crate::generator::recorder::{Answer, Recorder, has_good_body};
use crate::generator::sent::{Lost, Sent};
use crate::http1::{Phase, Summary, Watch};
use crate::load::Timeouts;
use crate::outcomes::ErrorClass;
use h3::ConnectionState;
use std::net::{IpAddr, SocketAddr};
use tokio::sync::oneshot;

/// The requests of a connection, each in a place of its own.
pub(in crate::generator) struct Streams {
    places: Vec<Option<UnderWay>>,
    free: Vec<u32>,
    hold: Option<Hold>,
    token: u64,
    requests: Option<Requests>,
    /// The number of the last request, so that late news of an earlier one are known as such.
    serial: u64,
    /// Requests whose stream the server does not allow yet.
    waiting: u32,
    has_answered: bool,
    /// The server takes no further requests.
    is_last: bool,
    /// What answers are looked at with, if they are.
    watch: Option<Box<Watch>>,
    /// What was kept of the last answer.
    last: Option<Watch>,
}

/// A request whose answer is awaited. Dropping it gives the request up.
struct UnderWay {
    sent: Sent,
    serial: u64,
    waits: bool,
    _give_up: oneshot::Sender<()>,
}

impl Streams {
    pub fn new(capacity: u32, watch: Option<Box<Watch>>) -> Streams {
        Streams {
            places: (0..capacity).map(|_| None).collect(),
            free: (0..capacity).rev().collect(),
            hold: None,
            token: 0,
            requests: None,
            serial: 0,
            waiting: 0,
            has_answered: false,
            is_last: false,
            watch,
            last: None,
        }
    }

    /// Begins to connect.
    pub fn connect(
        &mut self,
        to: SocketAddr,
        local: Option<IpAddr>,
        token: u64,
        engine: &mut Engine,
    ) {
        self.token = token;
        self.has_answered = false;
        self.is_last = false;
        self.hold = Some(engine.connect(to, local, token));
    }

    /// The connection came about.
    pub fn up(&mut self, up: Up) {
        self.requests = Some(up.requests);
    }

    /// Gives the connection up.
    pub fn hang_up(&mut self) {
        self.requests = None;
        self.hold = None;
    }

    pub fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Requests that may be sent now. QUIC does not say how many streams are left, so while one has
    /// to wait for a stream no further one is sent.
    pub fn room(&self) -> u32 {
        if self.waiting > 0 || self.is_last() {
            0
        } else {
            self.free.len() as u32
        }
    }

    /// The server said that it takes no further requests.
    pub fn closing(&mut self) {
        self.is_last = true;
    }

    /// Whether the server takes no further requests.
    pub fn is_last(&self) -> bool {
        self.is_last || self.requests.as_ref().is_some_and(|all| all.is_closing())
    }

    /// What is kept of the answer that ended last.
    pub fn watch(&self) -> Option<&Watch> {
        self.last.as_ref()
    }

    /// Sends a request. Nothing happens without a free place on a connection that is up.
    pub fn send(&mut self, sent: Sent, request: &Request, engine: &mut Engine) {
        let (Some(requests), Some(hold)) = (&self.requests, &self.hold) else {
            return;
        };
        let Some(slot) = self.free.pop() else {
            return;
        };
        self.serial += 1;
        let (give_up, given_up) = oneshot::channel();
        self.places[slot as usize] = Some(UnderWay {
            sent: Sent {
                asked: request.asked,
                ..sent
            },
            serial: self.serial,
            waits: false,
            _give_up: give_up,
        });
        engine.begin(Exchange {
            requests: requests.clone(),
            head: request.head(),
            body: request.body.clone(),
            asked: request.asked,
            watch: self.watch.as_deref().cloned(),
            teller: Teller {
                events: engine.events.clone(),
                clock: engine.clock,
                token: self.token,
                slot,
                serial: self.serial,
            },
            given_up,
            presence: hold.presence.clone(),
        });
    }

    /// Something happened to a request.
    pub fn on(&mut self, slot: u32, serial: u64, news: News, at_ns: u64, recorder: &mut Recorder) {
        let place = self.places[slot as usize].as_mut();
        let Some(under_way) = place.filter(|known| known.serial == serial) else {
            return;
        };
        let sent = &mut under_way.sent;
        match news {
            News::Waits => {
                under_way.waits = true;
                self.waiting += 1;
            }
            News::Opened => {
                sent.sent_ns = at_ns;
                under_way.waits = false;
                self.waiting -= 1;
            }
            News::Head => sent.first_byte_ns = sent.first_byte_ns.min(at_ns),
            News::Answered(answered) => self.answered(slot, *answered, at_ns, recorder),
            News::Failed(Failure::WithConnection) => {}
            News::Failed(Failure::ErrorClass(class)) => self.fail(slot, class, at_ns, recorder),
            News::Failed(Failure::Reset(code)) => {
                if let Some(sent) = self.take(slot) {
                    recorder.reset_http3_stream(&sent, code, at_ns);
                }
            }
        }
    }

    fn answered(&mut self, slot: u32, answered: Answered, at_ns: u64, recorder: &mut Recorder) {
        let Answered { summary, watch } = answered;
        self.has_answered = true;
        if let Some(sent) = self.take(slot) {
            let answer = Answer {
                summary,
                has_good_body: has_good_body(recorder.body_rule(), watch.as_ref()),
            };
            recorder.answered(&sent, answer, at_ns);
        }
        self.last = watch;
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

    /// The connection is over, and with it every stream.
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
            // As with HTTP/2: whether the connection has answered tells a server that gives up idle
            // connections from one that gives up new ones.
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

    /// Ends requests that took too long; the others go on.
    pub fn check_limits(&mut self, limits: Timeouts, now_ns: u64, recorder: &mut Recorder) {
        for slot in 0..self.places.len() as u32 {
            let under_way = self.places[slot as usize].as_ref();
            if let Some(class) = under_way.and_then(|known| known.sent.over(limits, now_ns)) {
                self.fail(slot, class, now_ns, recorder);
            }
        }
    }

    /// Forgets all requests and gives them back.
    pub fn abandon(&mut self) -> Vec<Sent> {
        let capacity = 0..self.places.len() as u32;
        capacity.filter_map(|slot| self.take(slot)).collect()
    }
}
