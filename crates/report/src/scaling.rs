//! Where throughput stops growing: the answer in words, the figures of a level, the law, the chart.
//!
//! Shared by loads and snippets; does not know what a worker does. Start at [`headline`].

use crate::charts::point_series;
use crate::document::Chart;
use crate::figure::{Uncertainty, change_with_interval, place, quantity, share, spell};
use crate::table::Cell;
use serde_json::{Value, json};
use speedwell_analysis::scaling::{
    Answer, FEWEST_LEVELS, LEAST_R_SQUARED, Parameter, Scaling, Standing, Status, Usl, UslError,
};
use speedwell_model::Estimate;
use speedwell_plot as plot;

/// Visits of one level that differ by more than this share hide where throughput stops growing: the simulations
/// of crates/stats/DERIVATIONS.md find it less than nine times of ten then.
const MOST_NOISE: f64 = 0.15;

/// Formats a throughput with as many digits as its interval supports.
pub fn throughput(standing: &Standing) -> String {
    let known = standing.interval.filter(|interval| interval.low >= 0.0);
    let half = known.map_or(Uncertainty::Unknown, |i| Uncertainty::Half(i.half_width()));
    quantity(standing.throughput, "1/s", half)
}

/// `91.2 k/s ± 1.1 %`.
pub fn throughput_with_error(standing: &Standing) -> String {
    let interval = standing.interval.filter(|_| standing.throughput > 0.0);
    match interval {
        // Throughput cannot be negative: such visits do not tell how exact their mean is.
        Some(interval) if interval.low < 0.0 => {
            format!("{} (how exact is unknown)", throughput(standing))
        }
        Some(interval) => format!(
            "{} ± {}",
            throughput(standing),
            share(interval.half_width() / standing.throughput)
        ),
        None => throughput(standing),
    }
}

/// The answer in a sentence. At the level `spoilt`, if any, the work failed.
pub fn headline(label: &str, scaling: &Scaling, spoilt: Option<u32>) -> String {
    let Answer {
        standings, is_open, ..
    } = &scaling.answer;
    let (knee, best) = (scaling.answer.at_knee(), scaling.answer.at_best());
    let figure = throughput_with_error(knee);
    let at = knee.concurrency;
    match (is_open, spoilt) {
        (true, Some(spoilt)) => {
            format!("{label}: throughput grows up to {at}: {figure}; at {spoilt} requests fail.")
        }
        (true, None) => format!(
            "{label}: throughput still grows at {at}, the highest level that was measured: {figure}."
        ),
        (false, _) => {
            // The next level up, unless the best level is more informative.
            let above = standings
                .iter()
                .find(|one| one.concurrency > knee.concurrency);
            let more = above.map_or(String::new(), |above| match above.status {
                Status::Lower => format!("; {} gives less", above.concurrency),
                _ if best.concurrency == knee.concurrency => {
                    format!("; {} gives no more", above.concurrency)
                }
                _ => format!(
                    "; {} ({}) is statistically indistinguishable from it",
                    best.concurrency,
                    throughput(best)
                ),
            });
            let verb = if is_too_noisy(scaling) {
                "cannot be seen to grow beyond"
            } else {
                "stops growing at"
            };
            format!("{label}: throughput {verb} {at}: {figure}{more}.")
        }
    }
}

/// Whether visits differ so much that the answer is probably too low.
pub fn is_too_noisy(scaling: &Scaling) -> bool {
    scaling.answer.noise.spread > MOST_NOISE
}

/// Warns of visits that differ that much; `visits` is the noun for them.
pub fn noise_warning(label: &str, scaling: &Scaling, visits: &str) -> Option<String> {
    is_too_noisy(scaling).then(|| {
        format!(
            "{label}: {visits} of the same level differ by {} (standard deviation), so throughput may go on growing \
             unseen: the answer is probably too low. A quieter machine or a longer --time helps.",
            share(scaling.answer.noise.spread)
        )
    })
}

/// The change from the best lower level to this one.
pub fn change_cell(standing: Option<&Standing>) -> Cell {
    let change = standing.and_then(|standing| standing.change);
    let words = change.map(|change| {
        let interval = change.interval();
        change_with_interval(&Estimate {
            value: change.ratio - 1.0,
            low: interval.low.max(0.0) - 1.0,
            high: interval.high - 1.0,
        })
    });
    Cell::figure(change.map(|change| change.ratio - 1.0)).shown(words.unwrap_or_default())
}

/// The status of a level, with a mark on the answer; a level without standing failed.
pub fn standing_cell(standing: Option<&Standing>, is_knee: bool) -> Cell {
    let name = standing.map_or("failed", |standing| status_name(standing.status));
    Cell::value(name).shown(if is_knee { "◀ here" } else { name })
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Best => "best",
        Status::Lower => "lower",
        Status::AsGood => "as good",
        Status::Unclear => "unclear",
    }
}

/// All figures with every digit; `key` names the measured item.
pub fn for_machines(key: &str, label: &str, scaling: Option<&Scaling>) -> Value {
    let answer = scaling.map(|scaling| &scaling.answer);
    json!({
        key: label,
        "concurrency": answer.map(|answer| answer.at_knee().concurrency),
        "throughput": answer.map(|answer| answer.at_knee().throughput),
        "interval": answer.and_then(|answer| answer.at_knee().interval).map(|i| [i.low.max(0.0), i.high]),
        "best_concurrency": answer.map(|answer| answer.at_best().concurrency),
        "still_grows": answer.map(|answer| answer.is_open),
        "noise": answer.map(|answer| answer.noise.spread),
        "usl": scaling.map(law_for_machines),
    })
}

/// Describes how the law fits the levels.
pub fn sentence(scaling: &Scaling) -> String {
    let usl = match &scaling.curve {
        Err(why) => return format!("No Universal Scalability Law: {}.", refusal(why)),
        Ok(usl) => usl,
    };
    let error = usl.lambda.error;
    let lambda = quantity(usl.lambda.value, "1/s", half(error));
    let peak = match scaling.peak {
        Some(peak) => format!(
            "its greatest throughput is at {peak:.0}{}",
            beyond(scaling, peak)
        ),
        None if usl.kappa.error.is_none() => "it has no peak (kappa is 0)".to_owned(),
        None => "its peak is unknown: kappa is indistinguishable from 0".to_owned(),
    };
    format!(
        "Universal Scalability Law: one worker alone {lambda} (lambda), sigma {}, kappa {}, R² {}; {peak}{}.",
        parameter(&usl.sigma),
        parameter(&usl.kappa),
        spell(usl.r_squared, 3),
        misfit(scaling)
    )
}

/// Warns of a curve that misses the intervals of many levels, whatever variance it explains: 95 %
/// intervals may miss one level in twenty.
fn misfit(scaling: &Scaling) -> String {
    let standings = &scaling.answer.standings;
    let is_missed = |standing: &&Standing| {
        let at = |usl: &Usl| usl.at(f64::from(standing.concurrency));
        let curve = scaling.curve.as_ref().ok().map(at);
        standing
            .interval
            .zip(curve)
            .is_some_and(|(interval, at)| !interval.contains(at))
    };
    match standings.iter().filter(is_missed).count() {
        missed if 4 * missed > standings.len() => format!(
            "; the curve leaves the intervals of {missed} of {} levels, so it is a rough description",
            standings.len()
        ),
        _ => String::new(),
    }
}

/// Warns of a peak outside the data, where a curve says little.
fn beyond(scaling: &Scaling, peak: f64) -> &'static str {
    let highest = scaling.answer.standings.last();
    let is_beyond = highest.is_some_and(|highest| peak > f64::from(highest.concurrency));
    if is_beyond {
        ", beyond what was measured"
    } else {
        ""
    }
}

fn refusal(why: &UslError) -> String {
    match why {
        UslError::TooFewLevels { levels } => format!(
            "{levels} levels are too few for its three parameters (it needs {FEWEST_LEVELS})"
        ),
        UslError::NotPositive => "at a level nothing was answered".to_owned(),
        UslError::NoFit => "no curve of this form comes near the levels".to_owned(),
        UslError::Poor { r_squared } if r_squared.is_nan() || *r_squared <= 0.0 => {
            "throughput hardly depends on the concurrency, so there is nothing to explain"
                .to_owned()
        }
        UslError::Poor { r_squared } => format!(
            "its best curve explains {} of the differences between levels, less than {}; something else \
             than contention and coherency decides here",
            share(*r_squared),
            share(LEAST_R_SQUARED)
        ),
    }
}

fn half(error: Option<f64>) -> Uncertainty {
    error.map_or(Uncertainty::Unknown, Uncertainty::Half)
}

/// Formats `0.0268 ± 0.0033`, with the standard error; a parameter at its bound is 0.
fn parameter(parameter: &Parameter) -> String {
    match parameter.error {
        None => "0".to_owned(),
        Some(error) => {
            let place = place(parameter.value, half(parameter.error)).min(7);
            format!(
                "{} ± {}",
                spell(parameter.value, place),
                spell(error, place)
            )
        }
    }
}

/// The law with every digit.
pub fn law_for_machines(scaling: &Scaling) -> Value {
    let known = |parameter: &Parameter| json!({"value": parameter.value, "error": parameter.error});
    match &scaling.curve {
        Ok(usl) => json!({
            "lambda": known(&usl.lambda),
            "sigma": known(&usl.sigma),
            "kappa": known(&usl.kappa),
            "r_squared": usl.r_squared,
            "peak": scaling.peak,
        }),
        Err(why) => json!({"refused": refusal(why)}),
    }
}

/// Points of the fitted curve, enough to look smooth.
const CURVE_POINTS: u32 = 96;

/// Every visit of every level.
fn visits(scaling: &Scaling) -> Vec<plot::Point> {
    let visits = scaling.visits.iter();
    visits
        .map(|&(concurrency, throughput)| plot::Point::new(f64::from(concurrency), throughput))
        .collect()
}

/// Draws the chart of `label`; `y` names the counted quantity.
pub fn throughput_chart(label: &str, scaling: &Scaling, y: &str) -> Chart {
    let standings = &scaling.answer.standings;
    let measured = standings.iter().map(|one| plot::Point {
        x: f64::from(one.concurrency),
        y: one.throughput,
        low: one.interval.map(|interval| interval.low.max(0.0)),
        high: one.interval.map(|interval| interval.high),
    });
    let mut series = vec![point_series("mean with 95 % interval", measured)];
    let ends = standings.first().zip(standings.last());
    if let (Ok(usl), Some((first, last))) = (&scaling.curve, ends) {
        let (low, high) = (f64::from(first.concurrency), f64::from(last.concurrency));
        let at = |point: u32| low * (high / low).powf(f64::from(point) / f64::from(CURVE_POINTS));
        let points = (0..=CURVE_POINTS).map(|point| plot::Point::new(at(point), usl.at(at(point))));
        series.push(point_series("Universal Scalability Law", points));
    }
    let title = "Throughput over concurrency";
    let picture = plot::Chart::Line(plot::LineChart {
        title: title.into(),
        subtitle: Some(label.to_owned()),
        x: plot::Axis::log2("concurrency"),
        y: plot::Axis::linear(y),
        observations: vec![visits(scaling)],
        curves: series.len() - 1,
        series,
    });
    Chart::new(title, picture)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_analysis::scaling::{Level, scaling};

    /// Two visits of one level that are so far apart that the interval of their mean reaches below zero.
    fn wild() -> Scaling {
        let level = |concurrency, throughputs: [f64; 2]| Level {
            concurrency,
            throughputs: throughputs.to_vec(),
            is_spoilt: false,
        };
        scaling(&[level(1, [10.0, 590.0]), level(2, [20.0, 700.0])]).unwrap()
    }

    #[test]
    fn no_interval_of_a_throughput_reaches_below_zero() {
        let wild = wild();
        let knee = wild.answer.at_knee();
        assert!(knee.interval.unwrap().low < 0.0, "{knee:?}");
        assert!(throughput_with_error(knee).ends_with("/s (how exact is unknown)"));

        let machines = for_machines("code", "f()", Some(&wild));
        assert_eq!(machines["interval"][0], 0.0);

        let chart = throughput_chart("f()", &wild, "iterations per second");
        let plot::Chart::Line(line) = chart.picture else {
            panic!("{:?}", chart.title)
        };
        let lows: Vec<Option<f64>> = line.series[0]
            .points
            .iter()
            .map(|point| point.low)
            .collect();
        assert_eq!(lows, [Some(0.0); 2]);
    }
}
