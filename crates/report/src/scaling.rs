//! Reports at which concurrency throughput stops growing: the answer in words, the figures of each
//! level, the fitted law, and the chart. A visit is one measurement at a level.
//!
//! Load tests and snippets share this module, so it knows nothing about the work of a worker. Start
//! at [`scaling_headline`].

use crate::charts::point_series;
use crate::document::ReportChart;
use crate::figure::{
    Uncertainty, decimal_place, format_change_interval, format_number, format_quantity,
    format_share,
};
use crate::table::ReportCell;
use serde_json::{Value, json};
use speedwell_analysis::scaling::{
    LevelState, LevelStatus, MIN_LEVELS, MIN_R_SQUARED, SaturationAnswer, ScalingFindings,
    UslError, UslFit, UslParameter,
};
use speedwell_model::IntervalEstimate;
use speedwell_plot as plot;

/// Maximum relative standard deviation of the visits to a level. Larger differences hide where
/// throughput stops growing: in the simulations of crates/stats/DERIVATIONS.md, this point is then
/// found less than nine times in ten.
const MAX_NOISE: f64 = 0.15;

/// Formats a throughput with as many digits as its interval supports.
pub fn format_throughput(standing: &LevelState) -> String {
    let interval = standing.interval.filter(|interval| interval.low >= 0.0);
    let half_width = interval.map_or(Uncertainty::Unknown, |i| Uncertainty::Half(i.half_width()));
    format_quantity(standing.throughput, "1/s", half_width)
}

/// Formats a throughput with its relative uncertainty, as in `91.2 k/s ± 1.1 %`.
pub fn format_throughput_error(standing: &LevelState) -> String {
    let interval = standing.interval.filter(|_| standing.throughput > 0.0);
    match interval {
        // Throughput cannot be negative. An interval of a mean that includes negative values does
        // not tell how exact the mean is.
        Some(interval) if interval.low < 0.0 => {
            format!("{} (uncertainty unknown)", format_throughput(standing))
        }
        Some(interval) => format!(
            "{} ± {}",
            format_throughput(standing),
            format_share(interval.half_width() / standing.throughput)
        ),
        None => format_throughput(standing),
    }
}

/// Returns the answer in a sentence. `spoilt` is the level at which the work failed, if there is
/// one.
pub fn scaling_headline(label: &str, scaling: &ScalingFindings, spoilt: Option<u32>) -> String {
    let SaturationAnswer { standings, is_open, .. } = &scaling.answer;
    let (knee, best) = (scaling.answer.at_knee(), scaling.answer.at_best());
    let figure = format_throughput_error(knee);
    let concurrency = knee.concurrency;
    match (is_open, spoilt) {
        (true, Some(spoilt)) => {
            format!(
                "{label}: throughput grows up to {concurrency}: {figure}; at {spoilt}, requests \
                 fail."
            )
        }
        (true, None) => format!(
            "{label}: throughput still grows at {concurrency}, the highest level measured: \
             {figure}."
        ),
        (false, _) => {
            // The sentence mentions the next level up, unless the best level is more informative.
            let above = standings.iter().find(|standing| standing.concurrency > knee.concurrency);
            let next_levels = above.map_or(String::new(), |above| match above.status {
                LevelStatus::Lower => format!("; {} gives less", above.concurrency),
                _ if best.concurrency == knee.concurrency => {
                    format!("; {} gives no more", above.concurrency)
                }
                _ => format!(
                    "; {} ({}) is statistically indistinguishable from it",
                    best.concurrency,
                    format_throughput(best)
                ),
            });
            let verb = if is_too_noisy(scaling) {
                "does not measurably grow beyond"
            } else {
                "stops growing at"
            };
            format!("{label}: throughput {verb} {concurrency}: {figure}{next_levels}.")
        }
    }
}

/// Whether visits differ so much that the answer is probably too low.
pub fn is_too_noisy(scaling: &ScalingFindings) -> bool {
    scaling.answer.noise.spread > MAX_NOISE
}

/// Warns if visits differ too much to trust the answer. `visits` is the word for visits in the
/// report.
pub fn noise_warning(label: &str, scaling: &ScalingFindings, visits: &str) -> Option<String> {
    is_too_noisy(scaling).then(|| {
        format!(
            "{label}: {visits} of the same level differ by {} (standard deviation), so further \
             growth of throughput may be hidden: the answer is probably too low. A quieter \
             machine or a longer --time helps.",
            format_share(scaling.answer.noise.spread)
        )
    })
}

/// Returns a cell with the change of throughput from the best of the lower levels to this level.
pub fn change_cell(standing: Option<&LevelState>) -> ReportCell {
    let change = standing.and_then(|standing| standing.change);
    let formatted = change.map(|change| {
        let interval = change.interval();
        format_change_interval(&IntervalEstimate {
            value: change.ratio - 1.0,
            low: interval.low.max(0.0) - 1.0,
            high: interval.high - 1.0,
        })
    });
    ReportCell::figure(change.map(|change| change.ratio - 1.0))
        .with_text(formatted.unwrap_or_default())
}

/// Returns a cell with the status of a level. A mark replaces the status of the level that is the
/// answer. If `standing` is `None`, the level failed.
pub fn standing_cell(standing: Option<&LevelState>, is_knee: bool) -> ReportCell {
    let name = standing.map_or("failed", |standing| status_name(standing.status));
    ReportCell::value(name).with_text(if is_knee { "◀ here" } else { name })
}

fn status_name(status: LevelStatus) -> &'static str {
    match status {
        LevelStatus::Best => "best",
        LevelStatus::Lower => "lower",
        LevelStatus::AsGood => "as good",
        LevelStatus::Unclear => "unclear",
    }
}

/// Returns all figures with every digit, as a JSON object for programs. Its first member, `key`,
/// holds `label`, the name of what was measured.
pub fn scaling_data(key: &str, label: &str, scaling: Option<&ScalingFindings>) -> Value {
    let answer = scaling.map(|scaling| &scaling.answer);
    json!({
        key: label,
        "concurrency": answer.map(|answer| answer.at_knee().concurrency),
        "throughput": answer.map(|answer| answer.at_knee().throughput),
        "interval": answer.and_then(|answer| answer.at_knee().interval).map(|i| [i.low.max(0.0), i.high]),
        "best_concurrency": answer.map(|answer| answer.at_best().concurrency),
        "still_grows": answer.map(|answer| answer.is_open),
        "noise": answer.map(|answer| answer.noise.spread),
        "usl": scaling.map(law_data),
    })
}

/// Describes how the law fits the levels.
pub fn law_sentence(scaling: &ScalingFindings) -> String {
    let usl = match &scaling.curve {
        Err(error) => {
            return format!("No fit of the Universal Scalability Law: {}.", refusal_text(error));
        }
        Ok(usl) => usl,
    };
    let error = usl.lambda.error;
    let lambda = format_quantity(usl.lambda.value, "1/s", half_width(error));
    let peak = match scaling.peak {
        Some(peak) => {
            format!("its greatest throughput is at {peak:.0}{}", extrapolation_note(scaling, peak))
        }
        None if usl.kappa.error.is_none() => "it has no peak (kappa is 0)".to_owned(),
        None => "its peak is unknown: kappa is indistinguishable from 0".to_owned(),
    };
    format!(
        "Universal Scalability Law: one worker alone {lambda} (lambda), sigma {}, kappa {}, R² {}; {peak}{}.",
        format_parameter(&usl.sigma),
        format_parameter(&usl.kappa),
        format_number(usl.r_squared, 3),
        misfit_note(scaling)
    )
}

/// Warns if the curve is outside the intervals of more than a quarter of the levels, even if the
/// curve explains much of the variance. By chance alone, a curve is outside the 95 % interval at
/// one level in twenty.
fn misfit_note(scaling: &ScalingFindings) -> String {
    let standings = &scaling.answer.standings;
    let is_missed = |standing: &&LevelState| {
        let predicted = |usl: &UslFit| usl.throughput_at(f64::from(standing.concurrency));
        let prediction = scaling.curve.as_ref().ok().map(predicted);
        standing
            .interval
            .zip(prediction)
            .is_some_and(|(interval, prediction)| !interval.contains(prediction))
    };
    match standings.iter().filter(is_missed).count() {
        missed if 4 * missed > standings.len() => format!(
            "; the curve leaves the intervals of {missed} of {} levels, so it is a rough description",
            standings.len()
        ),
        _ => String::new(),
    }
}

/// Warns of a peak beyond the measured levels, where the curve says little.
fn extrapolation_note(scaling: &ScalingFindings, peak: f64) -> &'static str {
    let highest = scaling.answer.standings.last();
    let is_beyond = highest.is_some_and(|highest| peak > f64::from(highest.concurrency));
    if is_beyond { ", beyond the measured levels" } else { "" }
}

fn refusal_text(error: &UslError) -> String {
    match error {
        UslError::TooFewLevels { levels } => {
            format!(
                "{levels} levels are too few for its three parameters; it needs at least {MIN_LEVELS}"
            )
        }
        UslError::NotPositive => "throughput was 0 at one of the levels".to_owned(),
        UslError::NoFit => "no curve of this form fits the levels".to_owned(),
        UslError::Poor { r_squared } if r_squared.is_nan() || *r_squared <= 0.0 => {
            "throughput hardly depends on the concurrency, so there is nothing to explain"
                .to_owned()
        }
        UslError::Poor { r_squared } => format!(
            "its best curve explains {} of the differences between levels, less than {}; something \
             other than contention and coherency dominates here",
            format_share(*r_squared),
            format_share(MIN_R_SQUARED)
        ),
    }
}

fn half_width(error: Option<f64>) -> Uncertainty {
    error.map_or(Uncertainty::Unknown, Uncertainty::Half)
}

/// Formats a parameter with its standard error, as in `0.0268 ± 0.0033`. A parameter without an
/// error is at its lower bound, 0.
fn format_parameter(parameter: &UslParameter) -> String {
    match parameter.error {
        None => "0".to_owned(),
        Some(error) => {
            let place = decimal_place(parameter.value, half_width(parameter.error)).min(7);
            format!("{} ± {}", format_number(parameter.value, place), format_number(error, place))
        }
    }
}

/// Returns the fitted law with every digit, for programs.
pub fn law_data(scaling: &ScalingFindings) -> Value {
    let with_error =
        |parameter: &UslParameter| json!({"value": parameter.value, "error": parameter.error});
    match &scaling.curve {
        Ok(usl) => json!({
            "lambda": with_error(&usl.lambda),
            "sigma": with_error(&usl.sigma),
            "kappa": with_error(&usl.kappa),
            "r_squared": usl.r_squared,
            "peak": scaling.peak,
        }),
        Err(error) => json!({"refused": refusal_text(error)}),
    }
}

/// Number of points of the fitted curve, enough for a smooth look.
const CURVE_POINTS: u32 = 96;

fn visit_points(scaling: &ScalingFindings) -> Vec<plot::ChartPoint> {
    let visits = scaling.visits.iter();
    visits
        .map(|&(concurrency, throughput)| plot::ChartPoint::new(f64::from(concurrency), throughput))
        .collect()
}

/// Draws throughput over concurrency for `label`. `y` is the title of the vertical axis.
pub fn throughput_chart(label: &str, scaling: &ScalingFindings, y: &str) -> ReportChart {
    let standings = &scaling.answer.standings;
    let measured = standings.iter().map(|standing| plot::ChartPoint {
        x: f64::from(standing.concurrency),
        y: standing.throughput,
        low: standing.interval.map(|interval| interval.low.max(0.0)),
        high: standing.interval.map(|interval| interval.high),
    });
    let mut series = vec![point_series("mean with 95 % interval", measured)];
    let ends = standings.first().zip(standings.last());
    if let (Ok(usl), Some((first, last))) = (&scaling.curve, ends) {
        let (low, high) = (f64::from(first.concurrency), f64::from(last.concurrency));
        let concurrency_at =
            |point: u32| low * (high / low).powf(f64::from(point) / f64::from(CURVE_POINTS));
        let points = (0..=CURVE_POINTS).map(|point| {
            plot::ChartPoint::new(concurrency_at(point), usl.throughput_at(concurrency_at(point)))
        });
        series.push(point_series("Universal Scalability Law", points));
    }
    let title = "Throughput over concurrency";
    let picture = plot::AnyChart::Line(plot::LineChart {
        title: title.into(),
        subtitle: Some(label.to_owned()),
        x: plot::ChartAxis::log2("concurrency"),
        y: plot::ChartAxis::linear(y),
        observations: vec![visit_points(scaling)],
        curves: series.len() - 1,
        series,
    });
    ReportChart::new(title, picture)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_analysis::scaling::{ConcurrencyLevel, evaluate_scaling};

    /// Returns two levels whose visits are so far apart that the interval of the mean reaches below
    /// zero.
    fn wild() -> ScalingFindings {
        let level = |concurrency, throughputs: [f64; 2]| ConcurrencyLevel {
            concurrency,
            throughputs: throughputs.to_vec(),
            is_spoilt: false,
        };
        evaluate_scaling(&[level(1, [10.0, 590.0]), level(2, [20.0, 700.0])]).unwrap()
    }

    #[test]
    fn no_interval_of_a_throughput_reaches_below_zero() {
        let wild = wild();
        let knee = wild.answer.at_knee();
        assert!(knee.interval.unwrap().low < 0.0, "{knee:?}");
        assert!(format_throughput_error(knee).ends_with("/s (uncertainty unknown)"));

        let machines = scaling_data("code", "f()", Some(&wild));
        assert_eq!(machines["interval"][0], 0.0);

        let chart = throughput_chart("f()", &wild, "iterations per second");
        let plot::AnyChart::Line(line) = chart.picture else { panic!("{:?}", chart.title) };
        let lows: Vec<Option<f64>> = line.series[0].points.iter().map(|point| point.low).collect();
        assert_eq!(lows, [Some(0.0); 2]);
    }
}
