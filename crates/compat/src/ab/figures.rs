//! The figures of a report, computed from what a load gave.
//!
//! Decides what the original's words mean (docs/reference/ab.md). It must not know how figures are printed.
//! Start at [`Figures::of`]; the formulas of rates are the methods below it.

use super::arguments::Request;
use super::failures::Failures;
use super::times::Times;
use speedwell_load::latency::{LEAST_CONCURRENCY, Outcome};
use speedwell_load::measured::{Measured, RequestRecord};
use speedwell_load::outcomes::ErrorClass;

/// Starting a thread and opening connections takes some milliseconds, which are a good part of a test
/// that is shorter than this.
const SHORT_TEST_NS: u64 = 200_000_000;

/// The lengths of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Of the first answer.
    pub first: u64,
    /// Of the shortest and the longest.
    pub range: (u64, u64),
    /// Answers with another length than the first, which the original calls failed.
    pub others: u64,
}

/// The figures of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Clients at once.
    pub concurrency: u32,
    /// Length of the test in nanoseconds.
    pub elapsed_ns: u64,
    /// Requests that came to an end, well or not.
    pub complete: u64,
    /// Those that failed.
    pub failures: Failures,
    /// Answers with another status than 2xx.
    pub non2xx: u64,
    /// Answers whose connection could be used again.
    pub kept_alive: u64,
    /// Bytes of answers, heads included.
    pub received_bytes: u64,
    /// Bytes of requests, heads included as in the original; absent without a body to send.
    pub sent_bytes: Option<u64>,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Lengths of bodies; absent without a whole answer.
    pub lengths: Option<Lengths>,
    /// Times of requests with a whole answer.
    pub times: Option<Times>,
    /// Every way in which requests ended, with its number: they add up to the attempts.
    pub account: Vec<(&'static str, u64)>,
    /// Requests that were attempted.
    pub attempted: u64,
}

impl Figures {
    /// Computes them. Every request was written in `request_bytes`.
    pub fn of(request: &Request, measured: &Measured, request_bytes: usize) -> Figures {
        let counts = &measured.totals.outcomes;
        let rows = &measured.rows;
        let sent_bytes = counts.connections.sends * request_bytes as u64;
        Figures {
            concurrency: request.concurrency,
            elapsed_ns: measured.elapsed_ns,
            complete: counts.succeeded() + counts.all_errors(),
            failures: Failures::of(counts),
            non2xx: counts.codes().total() - counts.codes().of_hundred(2),
            kept_alive: measured.totals.replies.reusable,
            received_bytes: rows.iter().map(|row| row.wire_bytes).sum(),
            sent_bytes: request.is_upload().then_some(sent_bytes),
            body_bytes: rows.iter().map(|row| row.body_bytes).sum(),
            lengths: lengths(rows),
            times: Times::of(rows),
            account: account(measured),
            attempted: counts.attempts(),
        }
    }

    fn elapsed_s(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.elapsed_ns as f64 / 1e9)
    }

    /// Complete requests per second.
    pub fn rate(&self) -> Option<f64> {
        Some(self.complete as f64 / self.elapsed_s()?)
    }

    /// Time per request in milliseconds, for a client and across all of them.
    pub fn time_per_request_ms(&self) -> Option<(f64, f64)> {
        let each = self.elapsed_s()? * 1000.0 / self.complete as f64;
        (self.complete > 0).then(|| (each * f64::from(self.concurrency), each))
    }

    /// Bytes as kilobytes of 1024 bytes per second.
    pub fn kilobytes_per_second(&self, bytes: u64) -> Option<f64> {
        Some(bytes as f64 / 1024.0 / self.elapsed_s()?)
    }

    /// Requests with an answer of 2xx that is what was asked for.
    pub fn succeeded(&self) -> u64 {
        let ok = self.account.iter().find(|(name, _)| *name == "ok");
        ok.map_or(0, |(_, count)| *count)
    }

    /// Requests in flight on average, by Little's law: rate times mean time (Little 1961).
    pub fn effective_concurrency(&self) -> Option<f64> {
        let sum_ns = self.times.as_ref()?.sum_ns() as f64;
        (self.elapsed_ns > 0).then(|| sum_ns / self.elapsed_ns as f64)
    }

    /// Whether clearly fewer requests were in flight than asked for. At the beginning and at the end
    /// clients come and go one by one, for about one request: that much is allowed for. Where
    /// requests failed it is not known, and of a short test its begin is too large a part.
    pub fn is_concurrency_short(&self) -> bool {
        if self.failures != Failures::default() || self.elapsed_ns < SHORT_TEST_NS {
            return false;
        }
        let (Some(effective), Some(times)) = (self.effective_concurrency(), &self.times) else {
            return false;
        };
        let mean_ns = times.sum_ns() as f64 / times.count() as f64;
        let edges = mean_ns / self.elapsed_ns as f64;
        effective < f64::from(self.concurrency) * (LEAST_CONCURRENCY - edges)
    }
}

/// ab compares every answer, also one that was cut short, with the first whole one.
fn lengths(rows: &[RequestRecord]) -> Option<Lengths> {
    let first = rows.iter().find(|row| row.status != 0)?.body_bytes;
    let mut lengths = Lengths {
        first,
        range: (first, first),
        others: 0,
    };
    for row in rows {
        let is_cut = row.outcome == Outcome::Failed(ErrorClass::EofInBody);
        if row.status != 0 {
            let (least, greatest) = lengths.range;
            lengths.range = (least.min(row.body_bytes), greatest.max(row.body_bytes));
        }
        lengths.others += u64::from((row.status != 0 || is_cut) && row.body_bytes != first);
    }
    Some(lengths)
}

/// The load takes every status for an answer, as ab does; here those other than 2xx are told apart.
fn account(measured: &Measured) -> Vec<(&'static str, u64)> {
    let is_other =
        |row: &&RequestRecord| row.outcome == Outcome::Ok && !(200..300).contains(&row.status);
    let others = measured.rows.iter().filter(is_other).count() as u64;
    let mut account = Vec::new();
    for row in measured.totals.outcomes.rows() {
        match row.name {
            "ok" => account.extend([
                ("ok", row.count - others.min(row.count)),
                (ErrorClass::Status.name(), others.min(row.count)),
            ]),
            name => account.push((name, row.count)),
        }
    }
    account.retain(|(name, count)| *count > 0 || *name == "ok");
    account
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, row};
    use super::*;

    #[test]
    fn the_identity_has_one_place_for_every_request() {
        let made = Made::new()
            .ok(3, 200)
            .ok(2, 404)
            .failed(4, ErrorClass::EofInBody);
        let figures = Figures::of(&Request::default(), &made.measured(), 0);
        assert_eq!(
            figures.account,
            [("ok", 3), ("status", 2), ("eof.in-body", 4)]
        );
        let sum: u64 = figures.account.iter().map(|(_, count)| count).sum();
        assert_eq!((figures.attempted, sum), (9, 9));
        assert_eq!((figures.complete, figures.non2xx), (9, 2));
        assert_eq!(figures.failures.failed(), 4);
        assert_eq!(figures.succeeded(), 3);
    }

    #[test]
    fn what_ab_would_call_a_wrong_length_is_counted() {
        let with = |bytes| RequestRecord {
            body_bytes: bytes,
            ..row(1_000_000)
        };
        let lengths = lengths(&[with(2), with(5), with(2), with(1)]).unwrap();
        assert_eq!(
            (lengths.first, lengths.range, lengths.others),
            (2, (1, 5), 2)
        );
    }

    #[test]
    fn a_load_that_was_half_idle_is_short_of_concurrency() {
        // Published figures of a test with -c 250: 8000 requests in 8.162 s, 124 ms each, so that
        // 121.5 were under way; another with 1129 ms each in 36.856 s had 245.
        let of = |ms: u64, elapsed_ms: u64| {
            let rows: Vec<RequestRecord> = (0..8000).map(|_| row(ms * 1_000_000)).collect();
            let request = Request {
                concurrency: 250,
                ..Request::default()
            };
            let measured = Made::of_rows(rows, elapsed_ms * 1_000_000).measured();
            Figures::of(&request, &measured, 0)
        };
        let idle = of(124, 8162);
        assert!((idle.effective_concurrency().unwrap() - 121.5).abs() < 0.1);
        assert!(idle.is_concurrency_short());
        let busy = of(1129, 36_856);
        assert!((busy.effective_concurrency().unwrap() - 245.0).abs() < 0.1);
        assert!(!busy.is_concurrency_short());
    }
}
