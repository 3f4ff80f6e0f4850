//! The end of a thread: what has no end is accounted for, and the counts are closed.

use super::super::pacing::Pacing;
use super::Worker;
use crate::measured::{RequestRecord, ThreadReport, Totals};

/// How a thread came to its end.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct End {
    pub at_ns: u64,
    pub by_time: bool,
    pub is_interrupted: bool,
}

/// What a thread gave.
pub(in super::super) struct Finished {
    pub totals: Totals,
    pub warmup: Totals,
    pub ok_in_time: u64,
    pub last_end_ns: u64,
    pub under_way_ns: u128,
    pub ended_by_time: bool,
    pub rows: Vec<RequestRecord>,
    pub report: ThreadReport,
    pub most_open: u32,
    pub reached_most_connections: bool,
    pub is_interrupted: bool,
}

impl Worker<'_> {
    /// Totals for what has no end, and closes the counts.
    pub fn finish(mut self, end: End) -> Finished {
        let End {
            at_ns: end_ns,
            by_time: ended_by_time,
            is_interrupted,
        } = end;
        let (mut in_flight, mut in_flight_warmup) = (0, 0);
        let had_room = self
            .connections
            .iter()
            .any(|connection| connection.has_room(self.core.load));
        for connection in &mut self.connections {
            let (measured, warmup) = connection.abandon(is_interrupted, end_ns, &mut self.core);
            in_flight += measured;
            in_flight_warmup += warmup;
        }
        if let Pacing::Open(pacing) = &mut self.pacing {
            pacing.advance(end_ns.min(self.core.recorder.window_end_ns));
            // With room for them, they would have been sent by a generator that was in time.
            while let Some(mut sent) = pacing.take(end_ns) {
                if had_room {
                    sent.own_lag_ns = end_ns.saturating_sub(sent.intended_ns);
                }
                self.core.recorder.unsent(&sent, end_ns);
            }
        }
        #[cfg(feature = "http3")]
        self.say_goodbye();
        self.core.settle_traffic(end_ns);
        let recorder = &mut self.core.recorder;
        recorder.totals.outcomes.close(in_flight);
        recorder.warmup.outcomes.close(in_flight_warmup);
        self.check.report.system_calls = self.core.traffic.calls;
        let (fewest, most) = self.core.uses.unwrap_or_default();
        self.check.report.fewest_requests = fewest;
        self.check.report.most_requests = most;
        let recorder = self.core.recorder;
        Finished {
            totals: *recorder.totals,
            warmup: *recorder.warmup,
            ok_in_time: recorder.ok_in_time,
            last_end_ns: recorder.last_end_ns,
            under_way_ns: recorder.under_way_ns,
            ended_by_time,
            rows: recorder.rows,
            report: self.check.finish(end_ns),
            most_open: self.core.most_open,
            reached_most_connections: self.reached_most_connections,
            is_interrupted,
        }
    }
}
