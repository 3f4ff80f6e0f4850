//! Describes load tests in words: the headline, and for each remark a sentence that explains what
//! the remark means for the results.
//!
//! Start at [`loads_headline`] and [`remark_sentence`].

use crate::figure::{
    format_bounded_ns, format_count, format_duration, format_ns, format_number, format_rate,
    format_share, format_whole, join_texts,
};
use crate::load::tables::{format_achieved, format_failed, format_in_flight, format_requests};
use speedwell_analysis::load::{
    DriftMetric, LoadFindings, LoadHalves, LoadRemark, MachineLimit, ReportedTime, RequestsInFlight,
};
use speedwell_model::load::outcomes::OutcomeCounts;

/// Returns the headline: the main result of the loads in one sentence.
pub fn loads_headline(loads: &[LoadFindings<'_>]) -> String {
    match loads {
        [] => "nothing was measured".to_owned(),
        [load] => headline_of_one(load),
        _ if is_one_load(loads) => headline_of_runs(loads),
        _ => headline_of_several(loads),
    }
}

/// Formats the sent requests, their rate, and how many succeeded:
/// `GET http://127.0.0.1/: 300/s for 3.0 s; 900 ok, 0 failed.`
fn headline_of_one(load: &LoadFindings<'_>) -> String {
    let counts = &load.run.measured.totals.outcomes;
    let method = match &load.run.requested.kinds[..] {
        [kind] if load.run.label == load.run.url => format!("{} ", kind.method),
        _ => String::new(),
    };
    let rate = load.throughput_per_s.map_or("no rate".to_owned(), format_rate);
    let time = format_duration(load.run.measured.elapsed_ns / 1_000_000);
    let number = |count: f64| format_number(count, 0);
    let pace = match (load.concurrency.requested, load.open) {
        (_, Some(verdict)) if verdict.achieved < 0.995 => {
            format!(" ({})", format_achieved(&verdict))
        }
        (Some(clients), None) => format!(" with {} in flight", number(f64::from(clients))),
        _ => String::new(),
    };
    let [ok, failed] = [counts.succeeded(), counts.all_errors()].map(|count| number(count as f64));
    format!("{method}{}: {rate}{pace} for {time}; {ok} ok, {failed} failed.", load.run.label)
}

/// Whether these are several runs of one load.
pub fn is_one_load(loads: &[LoadFindings<'_>]) -> bool {
    let [first, others @ ..] = loads else { return false };
    let is_same = |load: &LoadFindings<'_>| {
        load.run.label == first.run.label && load.run.requested.pace == first.run.requested.pace
    };
    others.iter().all(is_same) && others.iter().any(|load| load.run.round > 0)
}

/// Gives the medians and ranges over the runs of one load:
/// `http://127.0.0.1/: 500/s in 2 runs; p99 3.50 ms (3.40 ms to 3.60 ms in 2 runs); no request failed.`
fn headline_of_runs(loads: &[LoadFindings<'_>]) -> String {
    let rates = loads.iter().filter_map(|load| load.throughput_per_s).collect();
    let times: Vec<ReportedTime> =
        loads.iter().filter_map(|load| load.principal_quantile(990_000)).collect();
    let is_bound = times.iter().any(|time| {
        let (ReportedTime::Time(end) | ReportedTime::Range { high: end, .. }) = time else {
            return false;
        };
        end.is_lower_bound
    });
    let longest = times.iter().filter_map(|time| time.longest_ns()).map(|ns| ns as f64).collect();
    let figures = [
        format_over_runs(rates, format_rate),
        format_over_runs(longest, |ns| format_bounded_ns(ns, is_bound))
            .map(|text| format!("p99 {text}")),
        Some(format_failures(loads)),
    ];
    format!("{}: {}.", loads[0].run.label, join_texts("; ", figures.into_iter().flatten()))
}

/// Formats the median over the runs with their range. Returns `None` if there are no values.
fn format_over_runs(mut values: Vec<f64>, format: impl Fn(f64) -> String) -> Option<String> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (format(*values.first()?), format(*values.last()?));
    let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    let runs = format_count(values.len(), "run", "runs");
    Some(if low == high {
        format!("{low} in {runs}")
    } else {
        format!("{} ({low} to {high} in {runs})", format(median))
    })
}

fn format_failures(loads: &[LoadFindings<'_>]) -> String {
    let errors = |load: &LoadFindings<'_>| load.run.measured.totals.outcomes.all_errors();
    match loads.iter().map(errors).sum::<u64>() {
        0 => "no request failed".to_owned(),
        failed => format!("{} failed", format_requests(failed)),
    }
}

fn headline_of_several(loads: &[LoadFindings<'_>]) -> String {
    let rates =
        loads.iter().filter_map(|load| Some((load.throughput_per_s?, load.run.label.as_str())));
    let mut rates: Vec<(f64, &str)> = rates.collect();
    rates.sort_by(|one, other| one.0.total_cmp(&other.0));
    let failed = format_failures(loads);
    let loads = format_count(loads.len(), "load", "loads");
    match (rates.first(), rates.last()) {
        (Some((low, slowest)), Some((high, fastest))) => {
            let [low, high] = [*low, *high].map(format_rate);
            format!("{loads}: throughput from {low} ({slowest}) to {high} ({fastest}); {failed}.")
        }
        _ => format!("{loads}; {failed}."),
    }
}

/// Says how late the generator itself was, and how late it is allowed to be.
fn format_own_lag(p99_ns: u64, limit_ns: u64) -> String {
    format!("p99 {}, limit {}", format_ns(p99_ns as f64), format_ns(limit_ns as f64))
}

/// Puts a remark into a sentence.
pub fn remark_sentence(remark: &LoadRemark<'_>, load: &LoadFindings<'_>) -> String {
    match remark {
        LoadRemark::Imbalance => imbalance_sentence(load),
        LoadRemark::NothingAnswered => "No request succeeded: there is nothing to measure.".into(),
        LoadRemark::Interrupted => {
            "The load was interrupted: its figures cover only the completed part.".into()
        }
        LoadRemark::GeneratorLimited(verdict) => format!(
            "This machine sent late ({}), so response times are ranges up to the time since requests \
             were due, or unknown if the range is too wide. Use --pin, or load from another host.",
            format_own_lag(verdict.own_lag_p99_ns, verdict.own_lag_limit_ns)
        ),
        LoadRemark::RateMissed(verdict) => format!(
            "Only {}% of the due requests were sent, and 98% are needed: the 99th percentile and \
             above are unknown, because the other requests have no times. Lower the rate, or allow more connections (--max-connections).",
            short_of_98(verdict.achieved)
        ),
        LoadRemark::ConcurrencyShort => concurrency_short(&load.concurrency),
        LoadRemark::GeneratorBound => format!(
            "{} of {} of the generator had no time to spare ({} busy): the measured \
             throughput may be the generator's limit, not the server's. Give the generator more threads, \
             or processors of its own.",
            load.generator.bottlenecks,
            format_count(load.generator.threads, "thread", "threads"),
            format_share(load.generator.busiest)
        ),
        LoadRemark::ConnectionsCapped => format!(
            "The load needed more than the {} allowed: requests waited for a free one, and the \
             response times include this wait. Allow more with --max-connections.",
            format_count(load.run.measured.max_connections as usize, "connection", "connections")
        ),
        LoadRemark::Unsteady(halves) => unsteady_sentence(halves),
        LoadRemark::Disturbed(share) => format!(
            "Other programs took the processor from the generator {} times a second, which \
             affected up to {} of the requests: the longest times may be due to this. Quiet the \
             machine, or use --pin or --rt.",
            format_few(load.generator.switches_per_s),
            format_share(*share)
        ),
        other => machines_sentence(other).unwrap_or_else(|| requests_sentence(other, load)),
    }
}

fn machines_sentence(remark: &LoadRemark<'_>) -> Option<String> {
    Some(match remark {
        LoadRemark::PartsUnlike { parts, whole } => format!(
            "BUG IN SPEEDWELL: the machines counted {} in total, but the combined result contains {}, \
             so no figure can be trusted. Please report this with the JSON of the load.",
            format_requests(*parts),
            format_whole(whole)
        ),
        LoadRemark::MachineLost(part) => format!(
            "{} was lost ({}): it had attempted {} within {}; no figure includes them. \
             The others were stopped, so the figures are for a smaller load than requested.",
            part.machine,
            part.lost.as_deref().unwrap_or_default(),
            format_requests(part.attempted),
            format_ns(part.elapsed_ns as f64)
        ),
        LoadRemark::MachineLimited(part, limit) => {
            let explanation = match limit {
                MachineLimit::Busy(busiest) => format!(
                    "one of its threads had no time to spare ({} busy)",
                    format_share(*busiest)
                ),
                MachineLimit::Late(lag_ns, limit_ns) => {
                    format!("it was itself late ({})", format_own_lag(*lag_ns, *limit_ns))
                }
                MachineLimit::Link(share) => {
                    format!("its network device ran at {} of its speed", format_share(*share))
                }
            };
            format!(
                "{} was at its limit: {explanation}. The results may show the limits of the \
                 generator, not of the server. Send from more machines, or give it more processors.",
                part.machine
            )
        }
        LoadRemark::StartsApart(ns) => format!(
            "The machines did not start together: the last one started {} after the first, and the \
             load grew in between.",
            format_ns(*ns as f64)
        ),
        LoadRemark::ClockSet(part, drift_ns) => format!(
            "The clock of {} shifted by {} against ours during the load. No latency depends \
             on it.",
            part.machine,
            format_ns(drift_ns.unsigned_abs() as f64)
        ),
        _ => return None,
    })
}

fn requests_sentence(remark: &LoadRemark<'_>, load: &LoadFindings<'_>) -> String {
    let totals = &load.run.measured.totals;
    let (counts, responses) = (&totals.outcomes, &totals.responses);
    match remark {
        LoadRemark::Failed(class) => format!(
            "{}; most often {} ({}). Throughput counts successful requests only.",
            format_failed(counts.all_errors(), counts.attempts()),
            class.description(),
            class.name()
        ),
        LoadRemark::Unfinished => unfinished_sentence(counts),
        LoadRemark::Accepted(count) => format!(
            "{} with a status other than 2xx {} as successful, as requested.",
            format_responses(*count),
            if *count == 1 { "counts" } else { "count" }
        ),
        LoadRemark::LengthsVary => format!(
            "The bodies of successful responses differ in length ({} to {} bytes): not a failure, \
             but check that all of them are the expected response.",
            format_whole(responses.min_body_bytes),
            format_whole(responses.max_body_bytes)
        ),
        LoadRemark::NotReusable => format!(
            "The server closed the connection after {} of {}, so the results include the time to \
             connect again.",
            format_whole(responses.closing()),
            format_responses(responses.count)
        ),
        LoadRemark::DoubtfulFraming => format!(
            "{} length in two ways (Transfer-Encoding and Content-Length), which proxies \
             read differently.",
            format_count(
                responses.doubtful_framing as usize,
                "response stated its",
                "responses stated their"
            )
        ),
        LoadRemark::StrayBytes => format!(
            "{} closed because unexpected bytes arrived.",
            format_count(responses.stray_bytes as usize, "connection was", "connections were")
        ),
        LoadRemark::Retried => format!(
            "{} sent again, because the server had just closed an idle connection.",
            format_count(counts.retries as usize, "request was", "requests were")
        ),
        LoadRemark::Interim => format!(
            "{} preceded by an interim response (status 100 to 199), which is not counted.",
            format_count(counts.interim_codes.total() as usize, "response was", "responses were")
        ),
        _ => String::new(),
    }
}

/// Formats a number of events per second. Rare events get more decimals, so that they do not read
/// as 0.
fn format_few(rate: f64) -> String {
    let decimals = match rate {
        10.0.. => 0,
        1.0.. => 1,
        _ => 2,
    };
    format_number(rate, decimals)
}

fn format_responses(number: u64) -> String {
    format_count(number as usize, "response", "responses")
}

fn imbalance_sentence(load: &LoadFindings<'_>) -> String {
    let imbalances = load.balance.as_ref().err().into_iter().flatten();
    format!(
        "BUG IN SPEEDWELL: the outcomes of this load do not add up, so none of its figures can \
         be trusted: {}. Please report this with the JSON of the load.",
        join_texts("; ", imbalances.map(ToString::to_string))
    )
}

/// Formats a fraction below 0.98 in percent, with enough decimals that it does not read as 98.
fn short_of_98(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = (1..6).find(|decimals| {
        let step = 10f64.powi(*decimals);
        (percent * step).round() < 98.0 * step
    });
    format_number(percent, decimals.unwrap_or(6))
}

fn concurrency_short(in_flight: &RequestsInFlight) -> String {
    let requested = in_flight.requested.map_or(0.0, f64::from);
    let missing = requested - in_flight.effective.unwrap_or(0.0);
    let connecting = in_flight.connecting.unwrap_or(0.0);
    // Give the wait for connections as the reason if it accounts for most of the missing requests.
    let waiting = format!(
        " On average {connecting:.1} were still waiting for their connection, which does not \
         count as service time."
    );
    let reason = if connecting > missing / 2.0 { waiting.as_str() } else { "" };
    format!(
        "Only {} requests were in flight on average (rate times mean \
         service time): the load was lighter than requested, so its latency must not be \
         compared with the latency of a full load.{reason}",
        format_in_flight(in_flight).unwrap_or_default()
    )
}

fn unfinished_sentence(counts: &OutcomeCounts) -> String {
    let outcomes = [
        ("unsent", "due but not sent"),
        ("in-flight", "sent but not answered"),
        ("cancelled", "given up"),
    ];
    let parts = outcomes.into_iter().filter_map(|(outcome, description)| {
        let count = counts.count_of(outcome);
        (count > 0).then(|| format!("{} {description}", format_whole(count)))
    });
    format!(
        "Some requests were unfinished when the load ended: {}. Their times are lower bounds.",
        join_texts(", ", parts)
    )
}

fn unsteady_sentence(halves: &LoadHalves) -> String {
    let share = || format_share((halves.second / halves.first - 1.0).abs());
    let change = if halves.first > 0.0 { format!(" by {}", share()) } else { String::new() };
    let sides = [halves.first, halves.second];
    let (subject, [first, second]) = match halves.course {
        DriftMetric::Throughput => ("Throughput", sides.map(format_rate)),
        DriftMetric::Median => ("The median service time", sides.map(format_ns)),
    };
    let verb = if halves.second > halves.first { "rose" } else { "fell" };
    format!(
        "{subject} {verb}{change} from the first half ({first}) to the second ({second}): the load \
         was not steady, and one figure for the whole describes neither half. Use a longer \
         --warmup or a longer load."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_from_a_first_half_without_answers_has_no_percentage() {
        let halves = LoadHalves { course: DriftMetric::Throughput, first: 0.0, second: 93.3 };
        let told = unsteady_sentence(&halves);
        let begin = "Throughput rose from the first half (0/s) to the second (93.3/s)";
        assert!(told.starts_with(begin), "{told}");
    }

    #[test]
    fn a_share_just_below_the_limit_is_not_rounded_up_to_it() {
        let words = [0.5, 0.976, 0.9796, 0.979_99].map(short_of_98);
        assert_eq!(words, ["50.0", "97.6", "97.96", "97.999"]);
    }

    #[test]
    fn rates_below_one_per_second_are_not_rounded_to_zero() {
        assert_eq!([0.25, 4.96, 50.0].map(format_few), ["0.25", "5.0", "50"]);
    }
}
