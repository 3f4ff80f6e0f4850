//! Records the end of every request: in the counts, the times, and optionally as a row.
//!
//! Decides which totals a request belongs to, and nothing about connections. Start at
//! [`Recorder::answered`].

use super::sent::Sent;
use crate::http1::{Summary, Watch};
use crate::latency::Outcome;
use crate::load::{BodyRule, Load};
use crate::measured::{RequestRecord, Totals};
use crate::outcomes::{ErrorClass, OutcomeCounts};

/// Counts and times of a thread.
pub(super) struct Recorder<'a> {
    load: &'a Load,
    /// Totals since the last handover, after the warm-up.
    pub totals: Box<Totals>,
    /// Totals of the warm-up.
    pub warmup: Box<Totals>,
    /// End of sending, if the load ends by time.
    pub window_end_ns: u64,
    /// Successful responses within the window.
    pub ok_in_time: u64,
    /// Requests started but not ended.
    pub under_way: u64,
    /// The last complete response.
    pub last: Summary,
    /// When the last response or failure after the warm-up arrived.
    pub last_end_ns: u64,
    /// Total time that requests were in flight between the warm-up and the end of sending.
    pub under_way_ns: u128,
    /// One row per request, if requested.
    pub rows: Vec<RequestRecord>,
}

/// A complete response and its assessment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub summary: Summary,
    /// Whether the body meets the expectations of the load, as far as inspected.
    pub has_good_body: bool,
}

impl<'a> Recorder<'a> {
    pub fn new(load: &'a Load, window_end_ns: u64) -> Recorder<'a> {
        Recorder {
            load,
            totals: Box::new(Totals::new(load.is_closed())),
            warmup: Box::new(Totals::new(load.is_closed())),
            window_end_ns,
            ok_in_time: 0,
            under_way: 0,
            last: Summary::default(),
            last_end_ns: 0,
            under_way_ns: 0,
            rows: Vec::new(),
        }
    }

    /// Totals for requests or connections started during or after the warm-up.
    pub fn totals_mut(&mut self, is_warmup: bool) -> &mut Box<Totals> {
        if is_warmup {
            &mut self.warmup
        } else {
            &mut self.totals
        }
    }

    /// Outcome counts for requests started during or after the warm-up.
    pub fn outcomes(&mut self, is_warmup: bool) -> &mut OutcomeCounts {
        &mut self.totals_mut(is_warmup).outcomes
    }

    pub fn body_rule(&self) -> Option<&'a BodyRule> {
        self.load.success.body.as_ref()
    }

    /// Whether to retry a request whose connection was stale.
    pub fn retries(&self, sent: &Sent) -> bool {
        self.load.rules.retries_stale && !sent.is_retry
    }

    /// Records the start of a request.
    pub fn attempt(&mut self, is_warmup: bool) {
        self.outcomes(is_warmup).attempt();
        self.under_way += 1;
    }

    /// Records a complete response.
    pub fn answered(&mut self, sent: &Sent, answer: Answer, end_ns: u64) {
        let Answer {
            summary,
            has_good_body,
        } = answer;
        let is_good_status = self.load.success.admits(summary.status);
        let is_good_length = match self.load.success.body {
            Some(BodyRule::Length(bytes)) => summary.body_bytes == bytes,
            _ => true,
        };
        let totals = self.totals_mut(sent.is_warmup);
        let outcomes = &mut totals.outcomes;
        let outcome = match (is_good_status, has_good_body && is_good_length) {
            (true, true) => {
                outcomes.ok(summary.status);
                Outcome::Ok
            }
            (false, _) => {
                outcomes.refused_status(summary.status);
                Outcome::Failed(ErrorClass::Status)
            }
            (true, false) => {
                outcomes.failed_assertion(summary.status);
                Outcome::Failed(ErrorClass::Assertion)
            }
        };
        outcomes.bytes.body += summary.body_bytes;
        (0..summary.interim).for_each(|_| outcomes.interim(summary.interim_status));
        if is_good_status {
            totals.replies.count(
                summary.body_bytes,
                summary.reusable,
                summary.doubtful_framing,
            );
        }
        self.last = summary;
        self.ended(sent, outcome, end_ns, &summary);
    }

    /// Records a failure without a complete response; `summary` describes the part received.
    pub fn failed(&mut self, sent: &Sent, class: ErrorClass, end_ns: u64, summary: &Summary) {
        self.outcomes(sent.is_warmup).failed(class);
        self.ended(sent, Outcome::Failed(class), end_ns, summary);
    }

    /// Records that the server reset the stream of a request.
    pub fn reset_stream(&mut self, sent: &Sent, code: u32, end_ns: u64) {
        self.outcomes(sent.is_warmup).reset_stream(code);
        let outcome = Outcome::Failed(ErrorClass::H2Reset);
        self.ended(sent, outcome, end_ns, &Summary::default());
    }

    /// Records that the server reset the HTTP/3 stream of a request.
    #[cfg(feature = "http3")]
    pub fn reset_http3_stream(&mut self, sent: &Sent, code: u64, end_ns: u64) {
        self.outcomes(sent.is_warmup).reset_http3_stream(code);
        let outcome = Outcome::Failed(ErrorClass::H3Reset);
        self.ended(sent, outcome, end_ns, &Summary::default());
    }

    /// Records that the client cancelled a request.
    pub fn cancelled(&mut self, sent: &Sent, end_ns: u64) {
        self.outcomes(sent.is_warmup).cancelled();
        self.ended(sent, Outcome::Cancelled, end_ns, &Summary::default());
    }

    /// Records that the load ended before this request. Closing the counts adds the number of
    /// these.
    pub fn in_flight(&mut self, sent: &Sent, end_ns: u64) {
        self.ended(sent, Outcome::InFlight, end_ns, &Summary::default());
    }

    /// Records that a request was due but not sent before the load ended.
    pub fn unsent(&mut self, sent: &Sent, end_ns: u64) {
        let totals = self.totals_mut(sent.is_warmup);
        totals.outcomes.attempt();
        totals.outcomes.unsent();
        if let crate::measured::Latency::Open(latency) = &mut totals.latency {
            latency.unsent(sent.intended(), end_ns);
        }
    }

    fn ended(&mut self, sent: &Sent, outcome: Outcome, end_ns: u64, summary: &Summary) {
        self.under_way -= 1;
        if sent.is_sent() {
            let totals = self.totals_mut(sent.is_warmup);
            totals
                .latency
                .record(outcome, sent.intended(), sent.times(end_ns));
            let from_ns = sent.sent_ns.max(self.load.warmup_ns);
            let to_ns = end_ns.min(self.window_end_ns);
            self.under_way_ns += u128::from(to_ns.saturating_sub(from_ns));
        }
        if sent.is_warmup {
            return;
        }
        if outcome.is_over() {
            self.last_end_ns = self.last_end_ns.max(end_ns);
        }
        self.ok_in_time += u64::from(outcome == Outcome::Ok && end_ns <= self.window_end_ns);
        if self.load.keeps_rows {
            self.rows.push(RequestRecord {
                index: sent.index,
                kind: sent.kind,
                intended_ns: (!self.load.is_closed()).then_some(sent.intended_ns),
                begun_ns: sent.begun_ns,
                sent_ns: sent.is_sent().then_some(sent.sent_ns),
                first_byte_ns: sent.first_byte(),
                end_ns,
                outcome,
                status: summary.status,
                body_bytes: summary.body_bytes,
                wire_bytes: summary.wire_bytes(),
                is_reused: sent.is_reused,
            });
        }
    }
}

/// Whether a body meets the rule, as far as it was kept.
pub(super) fn has_good_body(rule: Option<&BodyRule>, watch: Option<&Watch>) -> bool {
    match (rule, watch) {
        (Some(BodyRule::Contains(text)), Some(watch)) => {
            text.is_empty() || watch.body().windows(text.len()).any(|part| part == text)
        }
        _ => true,
    }
}
