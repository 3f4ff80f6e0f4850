//! Computes the figures of a report from the results of a load.
//!
//! Defines what ab's terms mean (docs/reference/ab.md). Does not print. Start at
//! [`AbFigures::from_measured`]; the methods below it contain the formulas for rates.

use crate::ab::arguments::AbRequest;
use speedwell_model::load::latency::{MIN_CONCURRENCY_SHARE, RequestOutcome};
use speedwell_model::load::measurement::{LoadMeasurement, RequestRecord};
use speedwell_model::load::outcomes::{ErrorClass, OutcomeCounts};

/// Tests shorter than this are not checked for idle clients. Starting a thread and opening
/// connections takes some milliseconds, which is a large part of such a test.
const SHORT_TEST_NS: u64 = 200_000_000;

/// Lengths of response bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLengths {
    /// Length of the first response.
    pub first: u64,
    /// Lengths of the shortest and the longest response.
    pub range: (u64, u64),
    /// Number of responses whose length differs from the length of the first response. ab counts
    /// them as failed.
    pub others: u64,
}

/// Figures of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct AbFigures {
    /// Number of concurrent clients.
    pub concurrency: u32,
    /// Start of the test in Unix time.
    pub began_epoch_ms: u64,
    /// Duration of the test in nanoseconds.
    pub elapsed_ns: u64,
    /// Requests that ended, successfully or not.
    pub complete: u64,
    /// Failed requests.
    pub failures: FailureCounts,
    /// Responses with a status other than 2xx.
    pub non2xx: u64,
    /// Responses after which the connection could be reused.
    pub kept_alive: u64,
    /// Bytes of responses, headers included.
    pub received_bytes: u64,
    /// Bytes of requests, including headers as in ab; `None` if requests have no body.
    pub sent_bytes: Option<u64>,
    /// Bytes of response bodies.
    pub body_bytes: u64,
    /// Lengths of bodies; `None` without a complete response.
    pub lengths: Option<BodyLengths>,
    /// Times of requests with a complete response.
    pub times: Option<RequestTimings>,
    /// Number of requests by outcome; the sum is the number of attempts.
    pub account: Vec<(&'static str, u64)>,
    /// Number of attempted requests.
    pub attempted: u64,
}

impl AbFigures {
    /// Computes the figures. `size` is the number of bytes of each request.
    pub fn from_measured(request: &AbRequest, measured: &LoadMeasurement, size: usize) -> Self {
        let counts = &measured.totals.outcomes;
        let rows = &measured.rows;
        let sent_bytes = counts.connections.sends * size as u64;
        AbFigures {
            concurrency: request.concurrency,
            began_epoch_ms: measured.began_epoch_ms,
            elapsed_ns: measured.elapsed_ns,
            complete: counts.succeeded() + counts.all_errors(),
            failures: FailureCounts::from_counts(counts),
            non2xx: counts.codes.total() - counts.codes.class_count(2),
            kept_alive: measured.totals.responses.reusable,
            received_bytes: rows.iter().map(|row| row.wire_bytes).sum(),
            sent_bytes: request.upload.is_some().then_some(sent_bytes),
            body_bytes: rows.iter().map(|row| row.body_bytes).sum(),
            lengths: body_lengths(rows),
            times: RequestTimings::of_requests(rows),
            account: outcome_counts(measured),
            attempted: counts.attempts(),
        }
    }

    fn elapsed_s(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.elapsed_ns as f64 / 1e9)
    }

    /// Returns the completed requests per second.
    pub fn requests_per_second(&self) -> Option<f64> {
        Some(self.complete as f64 / self.elapsed_s()?)
    }

    /// Returns two mean times per request in milliseconds: the mean for one client, and the mean
    /// across all clients.
    pub fn time_per_request_ms(&self) -> Option<(f64, f64)> {
        let per_request_ms = self.elapsed_s()? * 1000.0 / self.complete as f64;
        (self.complete > 0).then(|| (per_request_ms * f64::from(self.concurrency), per_request_ms))
    }

    /// Converts a number of bytes to KiB per second.
    pub fn kib_per_second(&self, bytes: u64) -> Option<f64> {
        Some(bytes as f64 / 1024.0 / self.elapsed_s()?)
    }

    /// Returns the number of 2xx responses that passed verification.
    pub fn success_count(&self) -> u64 {
        let ok = self.account.iter().find(|(name, _)| *name == "ok");
        ok.map_or(0, |(_, count)| *count)
    }

    /// Returns the mean number of requests in flight by Little's law: rate times mean time (Little
    /// 1961).
    pub fn effective_concurrency(&self) -> Option<f64> {
        let sum_ns = self.times.as_ref()?.sum_ns() as f64;
        (self.elapsed_ns > 0).then(|| sum_ns / self.elapsed_ns as f64)
    }

    /// Whether clearly fewer requests were in flight than requested. At the start and at the end of
    /// the test, clients start and stop one by one; this is tolerated for about the duration of one
    /// request. Returns `false` if requests failed, or if the test is so short that its start is a
    /// large part of it.
    pub fn lacks_concurrency(&self) -> bool {
        if self.failures != FailureCounts::default() || self.elapsed_ns < SHORT_TEST_NS {
            return false;
        }
        self.effective_concurrency().zip(self.times.as_ref()).is_some_and(|(effective, times)| {
            let mean_ns = times.sum_ns() as f64 / times.count() as f64;
            let edge_share = mean_ns / self.elapsed_ns as f64;
            effective < f64::from(self.concurrency) * (MIN_CONCURRENCY_SHARE - edge_share)
        })
    }
}

/// Returns the lengths of bodies. ab compares every response, even a truncated one, with the first
/// complete response.
fn body_lengths(rows: &[RequestRecord]) -> Option<BodyLengths> {
    let first = rows.iter().find(|row| row.status != 0)?.body_bytes;
    let mut lengths = BodyLengths { first, range: (first, first), others: 0 };
    for row in rows {
        let is_cut = row.outcome == RequestOutcome::Failed(ErrorClass::EofInBody);
        if row.status != 0 {
            let (min, max) = lengths.range;
            lengths.range = (min.min(row.body_bytes), max.max(row.body_bytes));
        }
        lengths.others += u64::from((row.status != 0 || is_cut) && row.body_bytes != first);
    }
    Some(lengths)
}

/// Counts requests by outcome. The load accepts every status, as ab does, but these counts treat
/// only 2xx as `ok`.
fn outcome_counts(measured: &LoadMeasurement) -> Vec<(&'static str, u64)> {
    let ok_rows = measured.rows.iter().filter(|row| row.outcome == RequestOutcome::Ok);
    let not_2xx = ok_rows.filter(|row| !(200..300).contains(&row.status)).count() as u64;
    let mut account = Vec::new();
    for row in measured.totals.outcomes.rows() {
        match row.name {
            "ok" => account.extend([
                ("ok", row.count - not_2xx.min(row.count)),
                (ErrorClass::Status.name(), not_2xx.min(row.count)),
            ]),
            name => account.push((name, row.count)),
        }
    }
    account.retain(|(name, count)| *count > 0 || *name == "ok");
    account
}

/// Failed requests, by the categories of ab's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailureCounts {
    /// The connection was not established, or its TLS handshake failed.
    pub connect: u64,
    /// The connection broke, or the response timed out.
    pub receive: u64,
    /// The body was shorter than announced.
    pub length: u64,
    /// The response was malformed or failed `--verify`.
    pub exceptions: u64,
    /// The request could not be written. ab reports these on a separate line.
    pub write: u64,
}

impl FailureCounts {
    /// Sorts the errors of a load into categories.
    pub fn from_counts(counts: &OutcomeCounts) -> FailureCounts {
        let mut failures = FailureCounts::default();
        for class in ErrorClass::all_classes() {
            let counter = match (class.phase(), class) {
                // These TLS errors occur in a response, after the connection was established.
                (_, ErrorClass::TlsRecord | ErrorClass::TlsTruncated) => &mut failures.receive,
                ("dns" | "connect" | "tls", _) | (_, ErrorClass::TimeoutConnect) => {
                    &mut failures.connect
                }
                ("send", _) => &mut failures.write,
                (_, ErrorClass::EofInBody) => &mut failures.length,
                ("reset" | "eof" | "timeout" | "h2" | "h3", _) => &mut failures.receive,
                _ => &mut failures.exceptions,
            };
            *counter += counts.errors(class);
        }
        failures
    }

    /// Returns the number after `Failed requests`.
    pub fn failed_requests(&self) -> u64 {
        self.connect + self.receive + self.length + self.exceptions
    }
}

/// Whether an error ends the test if `-r` is not given. Socket errors end it; wrong responses do
/// not.
pub fn aborts_test(class: ErrorClass) -> bool {
    let phases = ["dns", "connect", "tls", "send", "reset", "timeout"];
    phases.contains(&class.phase()) && class != ErrorClass::TlsTruncated
}

/// Whether an error ends the test even with `-r`, because every further request would fail as well.
pub fn always_aborts_test(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Dns | ErrorClass::TlsVerify | ErrorClass::TlsAlpn)
}

/// Times of one request with a complete response, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTiming {
    /// Start of the request, relative to the start of the test.
    pub begun_ns: u64,
    /// Time to connect; 0 on a reused connection.
    pub connect_ns: u64,
    /// From sending to the end of the response.
    pub processing_ns: u64,
    /// From sending to the first byte of the response.
    pub waiting_ns: u64,
}

impl RequestTiming {
    /// Returns the time from the start to the end of the request.
    pub fn total_ns(self) -> u64 {
        self.connect_ns + self.processing_ns
    }

    fn from_record(row: &RequestRecord) -> Option<RequestTiming> {
        let sent_ns = row.sent_ns?;
        Some(RequestTiming {
            begun_ns: row.begun_ns,
            connect_ns: if row.is_reused { 0 } else { sent_ns.saturating_sub(row.begun_ns) },
            processing_ns: row.end_ns.saturating_sub(sent_ns),
            waiting_ns: row.first_byte_ns?.saturating_sub(sent_ns),
        })
    }
}

/// Selects one of the times of a request, in nanoseconds.
pub type TimeSelector = fn(RequestTiming) -> u64;

/// Statistics of one kind of time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeStatistics {
    pub least_ns: u64,
    pub mean_ns: f64,
    /// Sample standard deviation (n - 1); 0 for a single value.
    pub deviation_ns: f64,
    pub median_ns: u64,
    pub greatest_ns: u64,
}

impl TimeStatistics {
    /// Computes the statistics of the times, which may be in any order. There must be at least one
    /// time.
    fn from_times(mut times_ns: Vec<u64>) -> TimeStatistics {
        times_ns.sort_unstable();
        let count = times_ns.len();
        let mean_ns = times_ns.iter().map(|ns| *ns as f64).sum::<f64>() / count as f64;
        let squares: f64 = times_ns.iter().map(|ns| (*ns as f64 - mean_ns).powi(2)).sum();
        TimeStatistics {
            least_ns: times_ns[0],
            mean_ns,
            deviation_ns: if count == 1 { 0.0 } else { (squares / (count - 1) as f64).sqrt() },
            median_ns: times_ns[(count - 1) / 2].midpoint(times_ns[count / 2]),
            greatest_ns: times_ns[count - 1],
        }
    }
}

/// Times of all requests with a complete response; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTimings {
    /// The requests in the order in which they began.
    pub timings: Vec<RequestTiming>,
    sorted_totals_ns: Vec<u64>,
}

impl RequestTimings {
    /// Collects the times of requests with a complete response; `None` without any.
    pub fn of_requests(rows: &[RequestRecord]) -> Option<RequestTimings> {
        let answered = rows.iter().filter(|row| has_full_response(row));
        let mut timings: Vec<_> = answered.filter_map(RequestTiming::from_record).collect();
        timings.sort_by_key(|timing| timing.begun_ns);
        let mut sorted_totals_ns: Vec<_> = timings.iter().map(|timing| timing.total_ns()).collect();
        sorted_totals_ns.sort_unstable();
        (!timings.is_empty()).then_some(RequestTimings { timings, sorted_totals_ns })
    }

    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.timings.len()
    }

    /// Returns the statistics of one kind of time.
    pub fn spread(&self, part: TimeSelector) -> TimeStatistics {
        TimeStatistics::from_times(self.timings.iter().map(|timing| part(*timing)).collect())
    }

    /// Returns the time within which `percent` of the requests were served; 0 gives the shortest.
    pub fn percentile_ns(&self, percent: u32) -> u64 {
        let count = self.sorted_totals_ns.len();
        let rank = (count * percent as usize).div_ceil(100).clamp(1, count);
        self.sorted_totals_ns[rank - 1]
    }

    /// Returns the sum of all times in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sorted_totals_ns.iter().map(|ns| u128::from(*ns)).sum()
    }
}

/// Whether the complete response arrived. Its status and body may still be wrong.
fn has_full_response(row: &RequestRecord) -> bool {
    let is_ok = row.outcome == RequestOutcome::Ok;
    is_ok || matches!(row.outcome, RequestOutcome::Failed(class) if class.has_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::tests::{LoadBuilder, answered_row};
    use speedwell_model::load::outcomes::ErrorClass;

    #[test]
    fn the_account_counts_every_request_exactly_once() {
        let made = LoadBuilder::new()
            .with_answers(3, 200)
            .with_answers(2, 404)
            .with_failures(4, ErrorClass::EofInBody);
        let figures =
            AbFigures::from_measured(&AbRequest::with_defaults(), &made.build_measured(), 0);
        assert_eq!(figures.account, [("ok", 3), ("status", 2), ("eof.in-body", 4)]);
        let sum: u64 = figures.account.iter().map(|(_, count)| count).sum();
        assert_eq!((figures.attempted, sum), (9, 9));
        assert_eq!((figures.complete, figures.non2xx), (9, 2));
        assert_eq!(figures.failures.failed_requests(), 4);
        assert_eq!(figures.success_count(), 3);
    }

    #[test]
    fn bodies_that_differ_in_length_from_the_first_are_counted() {
        let record = |bytes| RequestRecord { body_bytes: bytes, ..answered_row(1_000_000) };
        let lengths = body_lengths(&[record(2), record(5), record(2), record(1)]).unwrap();
        assert_eq!((lengths.first, lengths.range, lengths.others), (2, (1, 5), 2));
    }

    #[test]
    fn a_load_that_was_half_idle_is_short_of_concurrency() {
        // Published figures of two tests with -c 250. In the first, 8000 requests of 124 ms each
        // took 8.162 s, so 121.5 were in flight. In the second, 8000 requests of 1129 ms each took
        // 36.856 s, so 245 were in flight.
        let figures_of = |ms: u64, elapsed_ms: u64| {
            let rows: Vec<RequestRecord> =
                (0..8000).map(|_| answered_row(ms * 1_000_000)).collect();
            let request = AbRequest { concurrency: 250, ..AbRequest::with_defaults() };
            let measured = LoadBuilder::of_rows(rows, elapsed_ms * 1_000_000).build_measured();
            AbFigures::from_measured(&request, &measured, 0)
        };
        let idle = figures_of(124, 8162);
        assert!((idle.effective_concurrency().unwrap() - 121.5).abs() < 0.1);
        assert!(idle.lacks_concurrency());
        let busy = figures_of(1129, 36_856);
        assert!((busy.effective_concurrency().unwrap() - 245.0).abs() < 0.1);
        assert!(!busy.lacks_concurrency());
    }

    #[test]
    fn every_failure_is_of_exactly_one_kind() {
        let mut counts = OutcomeCounts::default();
        for class in ErrorClass::all_classes() {
            counts.count_attempt();
            counts.count_failed(class);
        }
        let failures = FailureCounts::from_counts(&counts);
        assert_eq!(failures.failed_requests() + failures.write, ErrorClass::COUNT as u64);
        assert_eq!((failures.length, failures.write), (1, 1));
        // One error of dns, four of connect, three of tls, and the timeout while connecting.
        assert_eq!(failures.connect, 9);
    }

    #[test]
    fn socket_errors_end_the_test_but_wrong_responses_do_not() {
        assert!(aborts_test(ErrorClass::ResetInHead) && aborts_test(ErrorClass::ConnectRefused));
        assert!(!aborts_test(ErrorClass::EofInBody) && !aborts_test(ErrorClass::Assertion));
        assert!(aborts_test(ErrorClass::TlsRecord) && !aborts_test(ErrorClass::TlsTruncated));
        assert!(
            always_aborts_test(ErrorClass::TlsVerify)
                && !always_aborts_test(ErrorClass::ConnectRefused)
        );
    }

    fn of_totals_ms(totals: &[u64]) -> RequestTimings {
        let rows: Vec<RequestRecord> =
            totals.iter().map(|ms| answered_row(*ms * 1_000_000)).collect();
        RequestTimings::of_requests(&rows).unwrap()
    }

    #[test]
    fn the_median_is_the_middle() {
        let median = |totals| of_totals_ms(totals).spread(RequestTiming::total_ns).median_ns;
        assert_eq!(median(&[3, 1, 2]), 2_000_000);
        assert_eq!(median(&[4, 1, 3, 2]), 2_500_000);
        assert_eq!(median(&[7]), 7_000_000);
    }

    #[test]
    fn the_deviation_uses_the_sample_formula() {
        // R: mean(c(2, 4, 4, 5)) = 3.75, sd(...) = 1.258306.
        let spread = of_totals_ms(&[4, 2, 5, 4]).spread(RequestTiming::total_ns);
        assert_eq!(spread.mean_ns, 3_750_000.0);
        assert!((spread.deviation_ns - 1_258_306.0).abs() < 1.0);
        assert_eq!((spread.least_ns, spread.greatest_ns), (2_000_000, 5_000_000));
        assert_eq!(of_totals_ms(&[9]).spread(RequestTiming::total_ns).deviation_ns, 0.0);
    }

    #[test]
    fn a_percentile_is_the_smallest_time_that_its_share_did_not_exceed() {
        let times = of_totals_ms(&(1..=100).collect::<Vec<_>>());
        for percent in speedwell_model::load::latency::AB_PERCENTS {
            assert_eq!(times.percentile_ns(percent), u64::from(percent) * 1_000_000);
        }
        assert_eq!(times.percentile_ns(0), 1_000_000);
        // By definition, a percentile is the smallest time that this percentage of the requests did
        // not exceed.
        let three_times = of_totals_ms(&[10, 20, 30]);
        assert_eq!(three_times.percentile_ns(66), 20_000_000);
        assert_eq!(three_times.percentile_ns(67), 30_000_000);
    }

    #[test]
    fn a_request_without_a_whole_answer_has_no_times() {
        let mut failed = answered_row(5_000_000);
        failed.outcome = RequestOutcome::Failed(ErrorClass::ResetInBody);
        assert_eq!(RequestTimings::of_requests(&[failed]), None);
        let mut failed_check = answered_row(5_000_000);
        failed_check.outcome = RequestOutcome::Failed(ErrorClass::Assertion);
        assert_eq!(RequestTimings::of_requests(&[failed_check, failed]).unwrap().count(), 1);
    }
}
