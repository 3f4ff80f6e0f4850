//! What a reader should know of a load, as sentences that say what it means for the figures.

use crate::figure::{count, share, spell};
use crate::load::tables::requests;
use crate::load::{rate, spelled_ns};
use speedwell_analysis::load::{Course, Halves, LoadFindings, Remark};
use speedwell_load::latency::OpenVerdict;
use speedwell_load::outcomes::Imbalance;

/// The sentence.
pub fn sentence(remark: &Remark, load: &LoadFindings<'_>) -> String {
    match remark {
        Remark::Imbalance(wrong) => imbalance(wrong),
        Remark::NothingAnswered => {
            "No request was answered well: there is nothing to measure.".into()
        }
        Remark::Interrupted => {
            "The load was interrupted: its figures are those of the part that was carried out."
                .into()
        }
        Remark::GeneratorLimited(verdict) => generator_limited(verdict),
        Remark::RateMissed(verdict) => rate_missed(verdict),
        Remark::ConcurrencyShort {
            asked,
            effective,
            connecting,
        } => concurrency_short(*asked, *effective, *connecting),
        Remark::GeneratorBound {
            bottlenecks,
            threads,
            busiest,
        } => format!(
            "{bottlenecks} of {} of the generator had no time to spare ({} busy): this may be the \
             generator's throughput, not the server's. Give it more threads, or processors of its own.",
            count(*threads, "thread", "threads"),
            share(*busiest)
        ),
        Remark::ConnectionsCapped { most } => format!(
            "The load needed more than the {} it may have: requests waited for a free one, which is in \
             the response times. Allow more with --max-connections.",
            count(*most as usize, "connection", "connections")
        ),
        Remark::Unsteady(halves) => unsteady(halves),
        Remark::Disturbed {
            switches_per_s,
            share: met,
        } => format!(
            "Other programs took the processor from the generator {} times a second, which up to {} of the \
             requests met: the longest times may be theirs. Quiet the machine, or use --pin or --rt.",
            few(*switches_per_s),
            share(*met)
        ),
        other => of_requests(other, load),
    }
}

/// What concerns requests and answers.
fn of_requests(remark: &Remark, load: &LoadFindings<'_>) -> String {
    match remark {
        Remark::Failed { count, of, class } => format!(
            "{} of {} failed ({}); most often {} ({}). Throughput counts good answers only.",
            spell(*count as f64, 0),
            requests(*of),
            share(*count as f64 / (*of).max(1) as f64),
            class.sentence(),
            class.name()
        ),
        Remark::Unfinished {
            unsent,
            in_flight,
            cancelled,
        } => unfinished(*unsent, *in_flight, *cancelled),
        Remark::Accepted { count } => format!(
            "{} with a status other than 2xx count as good, as requested.",
            answers(*count)
        ),
        Remark::LengthsVary { least, greatest } => format!(
            "The bodies of good answers differ in length ({} to {} bytes): no failure, but were all of \
             them the answer that was meant?",
            spell(*least as f64, 0),
            spell(*greatest as f64, 0)
        ),
        Remark::NotReusable { count, of } => format!(
            "The server closed the connection after {} of {}: the times of connecting belong to its cost.",
            spell(*count as f64, 0),
            answers(*of)
        ),
        Remark::DoubtfulFraming { count } => format!(
            "{} stated their length in two ways (Transfer-Encoding and Content-Length), which proxies \
             read differently.",
            answers(*count)
        ),
        Remark::StrayBytes { count: lines } => format!(
            "{} closed because unexpected bytes arrived.",
            match lines {
                1 => "1 connection was".to_owned(),
                _ => count(*lines as usize, "connection", "connections were"),
            }
        ),
        Remark::Retried { count } => format!(
            "{} sent once more, because the server had closed an idle connection at that moment.",
            match count {
                1 => "1 request was".to_owned(),
                _ => format!("{} were", requests(*count)),
            }
        ),
        Remark::Interim { count } => format!(
            "{} preceded by an answer with a status from 100 to 199, which is not counted.",
            match load.run.measured.totals.outcomes.succeeded() {
                _ if *count == 1 => "1 answer was".to_owned(),
                _ => format!("{} were", answers(*count)),
            }
        ),
        _ => String::new(),
    }
}

/// A number of events in a second; once in some seconds is not never.
fn few(rate: f64) -> String {
    let decimals = match rate {
        10.0.. => 0,
        1.0.. => 1,
        _ => 2,
    };
    spell(rate, decimals)
}

fn answers(number: u64) -> String {
    count(number as usize, "answer", "answers")
}

fn imbalance(wrong: &[Imbalance]) -> String {
    let sums: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    format!(
        "ERROR OF SPEEDWELL: the books of this load do not balance, so none of its figures can be \
         trusted: {}. Please report it together with the JSON of this load.",
        sums.join("; ")
    )
}

fn generator_limited(verdict: &OpenVerdict) -> String {
    format!(
        "The generator itself was late: by {} at the 99th percentile, where up to {} would do. How late it was with \
         each request is known, so response times are ranges: from the time without its lateness to the time from \
         when the request was due. Where the two are further apart than a factor of two they are refused. For narrower \
         ranges lower the rate, give it more --threads or processors of its own (--pin), or quiet the machine.",
        spelled_ns(verdict.own_lag_p99_ns as f64, false),
        spelled_ns(verdict.own_lag_limit_ns as f64, false)
    )
}

fn rate_missed(verdict: &OpenVerdict) -> String {
    format!(
        "Only {} % of the due requests were sent, and 98 % are needed: the 99th percentile and what lies \
         beyond are refused, because nobody knows what the others would have met. Lower the rate, or allow \
         more connections (--max-connections).",
        short_of_98(verdict.achieved)
    )
}

/// A percentage below 98 that does not read as 98.
fn short_of_98(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = (1..6).find(|decimals| {
        let step = 10f64.powi(*decimals);
        (percent * step).round() < 98.0 * step
    });
    spell(percent, decimals.unwrap_or(6))
}

fn concurrency_short(asked: u32, effective: f64, connecting: f64) -> String {
    let missing = f64::from(asked) - effective;
    // Connecting explains it where it makes up most of what is missing.
    let reason = if connecting > missing / 2.0 {
        format!(
            " On average {connecting:.1} were still waiting for their connection, whose time is no \
         service time."
        )
    } else {
        String::new()
    };
    format!(
        "Only {effective:.1} of {asked} requests were in flight on average (rate times mean service time): \
         this was a lighter load than was asked for, and its latency must not be compared with that of \
         one that had them all.{reason}"
    )
}

fn unfinished(unsent: u64, in_flight: u64, cancelled: u64) -> String {
    let parts = [
        (unsent, "due and not sent"),
        (in_flight, "sent and not answered"),
        (cancelled, "given up"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{} {words}", spell(count as f64, 0)))
        .collect();
    format!(
        "When the load ended, some requests had not: {}. Their times are reported as lower bounds.",
        parts.join(", ")
    )
}

fn unsteady(halves: &Halves) -> String {
    let change = if halves.first > 0.0 {
        format!(" by {}", share((halves.second / halves.first - 1.0).abs()))
    } else {
        String::new()
    };
    let (what, first, second) = match halves.course {
        Course::Throughput => ("Throughput", rate(halves.first), rate(halves.second)),
        Course::Median => (
            "The median service time",
            spelled_ns(halves.first, false),
            spelled_ns(halves.second, false),
        ),
    };
    let way = if halves.second > halves.first {
        "rose"
    } else {
        "fell"
    };
    format!(
        "{what} {way}{change} from the first half ({first}) to the second ({second}): the load was not \
         steady, and one figure for the whole is that of neither. Use a longer --warmup or load for longer."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_half_without_answers_has_no_percentage() {
        let halves = Halves {
            course: Course::Throughput,
            first: 0.0,
            second: 93.3,
        };
        let told = unsteady(&halves);
        let begin = "Throughput rose from the first half (0.00/s) to the second (93.3/s)";
        assert!(told.starts_with(begin), "{told}");
    }

    #[test]
    fn a_share_that_was_missed_by_little_does_not_read_as_if_it_were_reached() {
        let words = [0.5, 0.976, 0.9796, 0.979_99].map(short_of_98);
        assert_eq!(words, ["50.0", "97.6", "97.96", "97.999"]);
    }

    #[test]
    fn what_happens_once_in_some_seconds_is_not_told_as_never() {
        assert_eq!([0.25, 4.96, 50.0].map(few), ["0.25", "5.0", "50"]);
    }
}
