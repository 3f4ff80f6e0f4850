//! Checks loads against conditions: `p99>200ms` fails a load whose 99th percentile is above 200 ms.
//!
//! A condition says when a load fails. It has the form `[QUANTITY] FIGURE OPERATOR LIMIT`, such as
//! `response p99.9 >= 1s`, `lag-p99>5ms`, `errors>0.1%`, `ok<100%`, `throughput<5000`. A syntax
//! error reports its position. Start at [`judge_conditions`] and [`LoadCondition`].
//!
//! A failed request has no latency, however soon it failed, and counts as slower than any limit.
//! So a percentile is that of all requests that should have been answered, and a mean or a maximum
//! is above every limit as soon as a request fails. Otherwise, a server that refuses requests would
//! pass a limit on time more easily than a server that answers them.
//!
//! A condition cannot be judged if its figure is unknown or refused (not reported, because the
//! measurement does not support the figure), unless a lower bound of the figure decides.

use crate::gate::GateOutcome;
use crate::load::{
    GeneratorTrust, LoadFindings, ReportedTime, RequestGroup, TimeRefusal, TimedQuantity,
};
use crate::warnings::format_count;
use speedwell_model::load::latency::{
    ALL_PPM, TimeDistribution, TimeQuantile, bounds_agree, is_reached_by_failures, quantile_rank,
};
use speedwell_model::{ParameterValue, ValueKind, parse_duration};
use std::fmt;
use std::str::FromStr;

/// Result of a condition for one load.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedCondition<'a> {
    /// The condition.
    pub condition: &'a LoadCondition,
    /// Label of the load.
    pub load: &'a str,
    /// Quantity examined, if the figure is a time.
    pub quantity: Option<TimedQuantity>,
    /// The figure in the unit of the limit, if it is known and finite.
    pub value: Option<f64>,
    /// Lower bound of a figure known only as a range.
    pub low: Option<f64>,
    /// Whether the true figure may be larger.
    pub is_lower_bound: bool,
    /// What counts as slower than any limit because it failed, if anything did.
    pub failures: Option<UntimedFailures>,
    /// The answer.
    pub answer: ConditionAnswer,
}

/// Failures that count as slower than any limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UntimedFailures {
    /// Whether these are attempts to connect rather than requests.
    pub is_of_connections: bool,
    /// The failures as a fraction of everything that should have a time.
    pub share: f64,
    /// Whether the failures alone put the figure above every limit.
    pub are_decisive: bool,
}

/// Whether a load passes a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionAnswer {
    /// The condition is not met.
    Passed,
    /// The condition is met.
    Failed,
    /// The answer cannot be known.
    Unknown(UnknownReason),
}

/// Why a condition cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownReason {
    /// The figure is refused, because the measurement does not support it.
    Refused(TimeRefusal),
    /// The figure is a time since a request was due, but the load is closed: without a schedule,
    /// its requests are never due.
    ClosedLoad,
    /// No request contributes to the figure.
    NoRequests,
    /// Only a lower bound of the figure is known.
    LowerBound,
    /// The limit lies within the figure's range, so the answer depends on how the generator's own
    /// lateness is counted.
    Range,
    /// A machine that sent part of the load was lost, so the load was not as requested.
    MachineLost,
    /// There are no requests, or so few that none of them lies beyond the percentile.
    TooFewRequests,
}

/// Checks every condition against every load.
pub fn judge_conditions<'a>(
    conditions: &'a [LoadCondition],
    loads: &'a [LoadFindings<'a>],
) -> Vec<JudgedCondition<'a>> {
    let judge_load = |load: &'a LoadFindings<'a>| {
        conditions.iter().map(move |condition| judge_one(condition, load))
    };
    loads.iter().flat_map(judge_load).collect()
}

/// Combines the results into the outcome of a gate (a pass/fail check); `None` if there are no
/// results. A condition on a refused or unknown figure cannot be judged, which keeps the gate from
/// passing.
pub fn gate_outcome(judged: &[JudgedCondition<'_>]) -> Option<GateOutcome> {
    let several = judged.iter().any(|row| row.load != judged[0].load);
    let describe = |row: &JudgedCondition<'_>| {
        let load_suffix = if several { format!(" of {}", row.load) } else { String::new() };
        format!("'{}'{load_suffix}", row.condition)
    };
    let rows_with = |has_answer: fn(&ConditionAnswer) -> bool| {
        judged.iter().filter(move |row| has_answer(&row.answer))
    };
    let failed = rows_with(|answer| *answer == ConditionAnswer::Failed);
    let unknown = rows_with(|answer| matches!(answer, ConditionAnswer::Unknown(_)));
    (!judged.is_empty()).then(|| GateOutcome {
        judged: format_count(judged.len(), "condition", "conditions"),
        failing: failed.map(|row| format!("met {}", describe(row))).collect(),
        obstacles: unknown.map(|row| format!("{} cannot be judged", describe(row))).collect(),
        remarks: Vec::new(),
    })
}

/// A figure, or why there is none.
type FigureResult = Result<FigureValue, UnknownReason>;

#[derive(Debug, Clone, Copy)]
struct FigureValue {
    value: f64,
    /// Lower bound if the value is only known as a range.
    low: Option<f64>,
    /// Whether the true figure may be larger.
    is_lower_bound: bool,
    /// Why the figure itself is not reported, if only a lower bound is known.
    refusal: Option<TimeRefusal>,
    failures: Option<UntimedFailures>,
}

impl From<f64> for FigureValue {
    fn from(value: f64) -> FigureValue {
        FigureValue { value, low: None, is_lower_bound: false, refusal: None, failures: None }
    }
}

fn judge_one<'a>(condition: &'a LoadCondition, load: &'a LoadFindings<'a>) -> JudgedCondition<'a> {
    let (quantity, result) = figure_of(condition.figure, load);
    let is_lost = load.run.parts.iter().any(|part| part.lost.is_some());
    let attempts = load.run.measured.totals.outcomes.attempts();
    let result = match result {
        _ if is_lost => Err(UnknownReason::MachineLost),
        Ok(figure) if figure.value.is_finite() && attempts < condition.fewest_requests() => {
            Err(UnknownReason::TooFewRequests)
        }
        result => result,
    };
    let answer =
        result.map_or_else(ConditionAnswer::Unknown, |figure| answer_condition(condition, figure));
    // The lower bound of a refused figure is of interest only if it decides.
    let is_refused = matches!(answer, ConditionAnswer::Unknown(UnknownReason::Refused(_)));
    let figure = result.ok().filter(|_| !is_refused);
    JudgedCondition {
        condition,
        load: &load.run.label,
        quantity,
        value: figure.map(|figure| figure.value).filter(|value| value.is_finite()),
        low: figure.and_then(|figure| figure.low),
        is_lower_bound: figure.is_some_and(|figure| figure.is_lower_bound),
        failures: figure.and_then(|figure| figure.failures),
        answer,
    }
}

/// Judges a figure. A range has an answer only if both its ends give the same answer. A lower bound
/// has an answer only if every larger figure gives the same answer.
fn answer_condition(condition: &LoadCondition, figure: FigureValue) -> ConditionAnswer {
    let holds = |value: f64| condition.operator.holds(value, condition.limit);
    let is_bad = holds(figure.value);
    match is_bad {
        _ if figure.is_lower_bound && holds(f64::INFINITY) != is_bad => {
            let reason = figure.refusal.map_or(UnknownReason::LowerBound, UnknownReason::Refused);
            ConditionAnswer::Unknown(reason)
        }
        _ if figure.low.is_some_and(|low| holds(low) != is_bad) => {
            ConditionAnswer::Unknown(UnknownReason::Range)
        }
        true => ConditionAnswer::Failed,
        false => ConditionAnswer::Passed,
    }
}

fn figure_of(figure: LoadFigure, load: &LoadFindings<'_>) -> (Option<TimedQuantity>, FigureResult) {
    let counts = &load.run.measured.totals.outcomes;
    let of_attempts = |count: u64| match counts.attempts() {
        0 => Err(UnknownReason::NoRequests),
        attempts => Ok(FigureValue::from(count as f64 / attempts as f64)),
    };
    let result = match figure {
        LoadFigure::Throughput => {
            load.throughput_per_s.map(FigureValue::from).ok_or(UnknownReason::NoRequests)
        }
        LoadFigure::ErrorShare => of_attempts(counts.all_errors()),
        LoadFigure::OkShare => of_attempts(counts.succeeded()),
        LoadFigure::ErrorCount => Ok(FigureValue::from(counts.all_errors() as f64)),
        LoadFigure::OkCount => Ok(FigureValue::from(counts.succeeded() as f64)),
        LoadFigure::Time(quantity, statistic) => {
            let timed = quantity.unwrap_or_else(|| load.principal_quantity().0);
            return (Some(timed), time_figure(timed, statistic, load));
        }
    };
    (None, result)
}

fn time_figure(
    quantity: TimedQuantity,
    statistic: TimeStatistic,
    load: &LoadFindings<'_>,
) -> FigureResult {
    let is_of_schedule = matches!(quantity, TimedQuantity::Response | TimedQuantity::Lag);
    if is_of_schedule && load.open.is_none() {
        return Err(UnknownReason::ClosedLoad);
    }
    let latency = load.run.measured.totals.latency.without_failed();
    let trust = GeneratorTrust::new(&latency, load.open);
    let values_of = |group| trust.values_of(&latency, (quantity, group));
    let values = values_of(RequestGroup::All).or_else(|| values_of(RequestGroup::Ok));
    let times = AnsweredTimes { quantity, trust: &trust, values };
    let timed = values.map_or(0, |(times, _)| times.count());
    let failed = untimed_failures(quantity, load);
    let total = timed + failed;
    if total == 0 {
        return Err(UnknownReason::NoRequests);
    }
    let ppm = match statistic {
        TimeStatistic::Quantile { ppm } => Some(ppm),
        TimeStatistic::Greatest => Some(ALL_PPM),
        TimeStatistic::Mean => None,
    };
    let reaches = |ppm| is_reached_by_failures(ppm, failed, total);
    let are_decisive = failed > 0 && ppm.is_none_or(reaches);
    let failures = (failed > 0).then(|| UntimedFailures {
        is_of_connections: quantity == TimedQuantity::Connect,
        share: failed as f64 / total as f64,
        are_decisive,
    });
    let figure = match ppm {
        _ if are_decisive => FigureValue::from(f64::INFINITY),
        None => times.mean()?,
        Some(ppm) if failed == 0 => times.quantile(ppm)?,
        Some(ppm) => times.quantile(share_of(quantile_rank(ppm, total), timed))?,
    };
    Ok(FigureValue { failures, ..figure })
}

/// Fraction, in millionths, at which this rank is reached among `count` values.
fn share_of(rank: u64, count: u64) -> u32 {
    let product = u128::from(rank) * u128::from(ALL_PPM);
    product.div_ceil(u128::from(count.max(1))).min(u128::from(ALL_PPM)) as u32
}

/// Number of failures that leave this quantity without a time.
fn untimed_failures(quantity: TimedQuantity, load: &LoadFindings<'_>) -> u64 {
    let counts = &load.run.measured.totals.outcomes;
    match quantity {
        TimedQuantity::Response | TimedQuantity::Service | TimedQuantity::FirstByte => {
            counts.all_errors()
        }
        TimedQuantity::Connect => counts.connections.failed,
        // A request is late or not, whatever becomes of it.
        TimedQuantity::Lag => 0,
    }
}

/// The times of all requests that did not fail. Unfinished requests count with their age, which is
/// a lower bound.
struct AnsweredTimes<'a> {
    quantity: TimedQuantity,
    trust: &'a GeneratorTrust,
    /// The times, and the same times without the generator's own lateness.
    values: Option<(&'a TimeDistribution, Option<&'a TimeDistribution>)>,
}

impl<'a> AnsweredTimes<'a> {
    fn quantile(&self, ppm: u32) -> FigureResult {
        let (times, low) = self.values.ok_or(UnknownReason::NoRequests)?;
        match self.trust.quantiles(self.quantity, &[ppm], times, low).pop() {
            None => Err(UnknownReason::NoRequests),
            Some(ReportedTime::Refused(why)) => {
                let bound_ns = self.bounding_times(why).and_then(|bound| bound.quantile(ppm));
                refused_figure(why, bound_ns.map(|bound| bound.ns as f64))
            }
            Some(ReportedTime::Time(TimeQuantile { ns, is_lower_bound })) => {
                Ok(FigureValue { is_lower_bound, ..FigureValue::from(ns as f64) })
            }
            Some(ReportedTime::Range { low, high }) => {
                Ok(FigureValue { low: Some(low.ns as f64), ..FigureValue::from(high.ns as f64) })
            }
        }
    }

    fn mean(&self) -> FigureResult {
        let (times, low) = self.values.ok_or(UnknownReason::NoRequests)?;
        let mean_ns = times.mean_ns().ok_or(UnknownReason::NoRequests)?;
        if let Some(why) = self.trust.mean_refusal(self.quantity) {
            let bound = self.bounding_times(why);
            return refused_figure(why, bound.and_then(TimeDistribution::mean_ns));
        }
        let low_ns = low.and_then(TimeDistribution::mean_ns);
        Ok(FigureValue {
            low: low_ns.filter(|low_ns| !bounds_agree(*low_ns, mean_ns)),
            is_lower_bound: times.lower_bounds() > 0,
            ..FigureValue::from(mean_ns)
        })
    }

    /// Lower bounds of the true times, usable even though the times themselves are refused.
    /// Service times have no such bound: they depend on when the requests were sent.
    fn bounding_times(&self, refusal: TimeRefusal) -> Option<&'a TimeDistribution> {
        let (times, low) = self.values.filter(|_| self.quantity == TimedQuantity::Response)?;
        match refusal {
            TimeRefusal::GeneratorLimited => low,
            // A request that was never sent counts with its age.
            TimeRefusal::RateMissed => Some(low.unwrap_or(times)),
        }
    }
}

/// A refused figure, with a lower bound if one is known.
fn refused_figure(why: TimeRefusal, bound_ns: Option<f64>) -> FigureResult {
    let figure = FigureValue::from(bound_ns.ok_or(UnknownReason::Refused(why))?);
    Ok(FigureValue { is_lower_bound: true, refusal: Some(why), ..figure })
}

/// A failure condition.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCondition {
    /// The figure.
    pub figure: LoadFigure,
    /// How the figure of a failing load compares with the limit.
    pub operator: LimitOperator,
    /// Limit, in nanoseconds, in requests per second, as a fraction (0 to 1), or as a count.
    pub limit: f64,
    /// Source text.
    pub text: String,
}

/// A figure of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadFigure {
    /// Successful requests per second.
    Throughput,
    /// Failed requests as a fraction of all requests.
    ErrorShare,
    /// Failed requests.
    ErrorCount,
    /// Successful requests as a fraction of all requests.
    OkShare,
    /// Successful requests.
    OkCount,
    /// A time of the given quantity, or of the load's principal quantity if none is given.
    Time(Option<TimedQuantity>, TimeStatistic),
}

/// Statistic of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeStatistic {
    /// Quantile.
    Quantile {
        /// Fraction of the requests at or below the quantile, in millionths.
        ppm: u32,
    },
    /// The mean.
    Mean,
    /// The longest.
    Greatest,
}

/// How the figure of a failing load compares with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitOperator {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl LimitOperator {
    /// Whether a figure is on the failing side of the limit.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            LimitOperator::Below => value < limit,
            LimitOperator::AtMost => value <= limit,
            LimitOperator::Above => value > limit,
            LimitOperator::AtLeast => value >= limit,
        }
    }
}

impl LoadCondition {
    /// Number of requests needed for at least one to lie beyond the percentile; 1 for other
    /// figures.
    pub fn fewest_requests(&self) -> u64 {
        match self.figure {
            LoadFigure::Time(_, TimeStatistic::Quantile { ppm }) if ppm < ALL_PPM => {
                u64::from(ALL_PPM.div_ceil(ALL_PPM - ppm))
            }
            _ => 1,
        }
    }

    /// Returns which loads fail, and the condition with the opposite operator, if the operator is
    /// the wrong way round: only `throughput` and `ok` have a lower limit.
    pub fn mend_operator(&self) -> Option<(&'static str, String)> {
        let is_below = matches!(self.operator, LimitOperator::Below | LimitOperator::AtMost);
        let failing = match (self.figure, is_below) {
            (LoadFigure::Time(..), true) | (LoadFigure::Throughput, false) => "the load is fast",
            (LoadFigure::ErrorShare | LoadFigure::ErrorCount, true) => "few requests fail",
            (LoadFigure::OkShare | LoadFigure::OkCount, false) => "many requests succeed",
            _ => return None,
        };
        let (sign, opposite) = if is_below { ('<', ">") } else { ('>', "<") };
        Some((failing, self.text.replacen(sign, opposite, 1)))
    }
}

impl fmt::Display for LoadCondition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for LoadCondition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<LoadCondition, ConditionError> {
        let condition_error = |position: usize, message: String| ConditionError {
            text: text.to_owned(),
            position: text[..position].chars().count(),
            message,
        };
        let Some(position) = text.find(['<', '>', '=']) else {
            let message = "expected <, <=, > or >=".to_owned();
            return Err(condition_error(text.len(), message));
        };
        let entry = OPERATORS.iter().find(|(sign, _)| text[position..].starts_with(sign));
        let Some((sign, operator)) = entry else {
            let message = "unsupported operator '='; use <=, >=, < or >".to_owned();
            return Err(condition_error(position, message));
        };
        let (name, limit) = (&text[..position], &text[position + sign.len()..]);
        let limit_at = text.len() - limit.trim_start().len();
        let limit = limit.trim();
        if let Some(condition) = translate_threshold(name.trim(), *operator, limit) {
            let message =
                format!("k6 states what must hold, but this what must not; write '{condition}'");
            return Err(condition_error(0, message));
        }
        let figure = parse_figure(name, limit.ends_with('%'))
            .map_err(|(position, message)| condition_error(position, message))?;
        let limit =
            parse_limit(figure, limit).map_err(|message| condition_error(limit_at, message))?;
        Ok(LoadCondition { figure, operator: *operator, limit, text: text.trim().to_owned() })
    }
}

/// Translates a threshold of k6, `p(99)<200`, which must hold and is in milliseconds, to a condition
/// that must not.
fn translate_threshold(name: &str, operator: LimitOperator, limit: &str) -> Option<String> {
    let percent = name.strip_prefix("p(")?.strip_suffix(')')?;
    let opposite = match operator {
        LimitOperator::Below | LimitOperator::AtMost => ">",
        LimitOperator::Above | LimitOperator::AtLeast => "<",
    };
    let unit = if limit.ends_with(|c: char| c.is_ascii_digit()) { "ms" } else { "" };
    Some(format!("p{percent}{opposite}{limit}{unit}"))
}

/// Error of parsing a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    text: String,
    /// Position of the error in characters, from 0.
    position: usize,
    message: String,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConditionError { text, position, message } = self;
        write!(out, "cannot parse condition '{text}': {message}\n  {text}\n  ")?;
        write!(out, "{}^", " ".repeat(*position))
    }
}

impl std::error::Error for ConditionError {}

/// Operators. Longer operators come first, so that `<=` is not parsed as `<`.
const OPERATORS: [(&str, LimitOperator); 4] = [
    ("<=", LimitOperator::AtMost),
    (">=", LimitOperator::AtLeast),
    ("<", LimitOperator::Below),
    (">", LimitOperator::Above),
];

const FIGURE_NAMES: &str = "throughput, errors, ok, mean, max, p50 ... p99.99";

/// Parses the figure. An error contains its position in `name`, in bytes.
fn parse_figure(name: &str, is_share: bool) -> Result<LoadFigure, (usize, String)> {
    let start = name.len() - name.trim_start().len();
    let name = name.trim();
    match (name, is_share) {
        ("", _) => return Err((start, format!("missing figure (supported: {FIGURE_NAMES})"))),
        ("throughput", _) => return Ok(LoadFigure::Throughput),
        ("errors", true) => return Ok(LoadFigure::ErrorShare),
        ("errors", false) => return Ok(LoadFigure::ErrorCount),
        ("ok", true) => return Ok(LoadFigure::OkShare),
        ("ok", false) => return Ok(LoadFigure::OkCount),
        _ => {}
    }
    let is_of = |quantity: &TimedQuantity| {
        let suffix = name.strip_prefix(quantity.name());
        suffix.is_some_and(|suffix| suffix.starts_with(['-', ' ']))
    };
    let quantity = TimedQuantity::ALL.into_iter().find(is_of);
    let skipped = quantity.map_or(0, |quantity| quantity.name().len() + 1);
    let word = name[skipped..].trim_start();
    let position = start + name.len() - word.len();
    let statistic = parse_statistic(word).ok_or_else(|| {
        let message = match quantity {
            Some(_) => format!("unknown statistic '{word}' (supported: mean, max, p50 ... p99.99)"),
            None => format!(
                "unknown figure '{word}' (supported: {FIGURE_NAMES}; for other quantities {}-p99 and \
                 so on)",
                TimedQuantity::ALL.map(TimedQuantity::name).join("-p99, ")
            ),
        };
        (position, message)
    })?;
    Ok(LoadFigure::Time(quantity, statistic))
}

/// Parses a statistic: `mean`, `max`, or `p` followed by a percentage above 0 and at most 100 with
/// at most four decimals.
fn parse_statistic(word: &str) -> Option<TimeStatistic> {
    match word {
        "mean" => return Some(TimeStatistic::Mean),
        "max" => return Some(TimeStatistic::Greatest),
        _ => {}
    }
    let digits = word.strip_prefix('p')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let ppm = digits.parse::<f64>().ok()? * 1e4;
    let is_whole = (ppm - ppm.round()).abs() < 1e-6;
    (is_whole && (1.0..=1e6).contains(&ppm))
        .then_some(TimeStatistic::Quantile { ppm: ppm.round() as u32 })
}

/// Parses the limit in the unit of the figure.
fn parse_limit(figure: LoadFigure, text: &str) -> Result<f64, String> {
    let number = |text: &str| match ParameterValue::parse(text, ValueKind::Number) {
        Some(ParameterValue::Number(number)) if number >= 0.0 && number.is_finite() => Some(number),
        _ => None,
    };
    if text.is_empty() {
        return Err("missing limit".to_owned());
    }
    if matches!(figure, LoadFigure::Time(..)) && number(text).is_some() {
        return Err(format!(
            "the limit has no unit of time (supported: ns, us, ms, s, m and h, as in {text}ms)"
        ));
    }
    let (limit, expected) = match figure {
        LoadFigure::Time(..) => {
            let ns = parse_duration(text).map(|duration| duration.as_nanos() as f64);
            (ns, "a time such as 200ms or 1.5s")
        }
        LoadFigure::ErrorShare | LoadFigure::OkShare => {
            let percent = number(text.trim_end_matches('%').trim_end());
            let share = percent.filter(|percent| *percent <= 100.0).map(|percent| percent / 100.0);
            (share, "a percentage from 0 to 100")
        }
        LoadFigure::Throughput => {
            (number(text.strip_suffix("/s").unwrap_or(text)), "a rate such as 5000, 5k or 5k/s")
        }
        LoadFigure::ErrorCount | LoadFigure::OkCount => (number(text), "a number or a percentage"),
    };
    limit.ok_or_else(|| format!("expected {expected}, found '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_read(text: &str, figure: LoadFigure, operator: LimitOperator, limit: f64) {
        let read = text.parse::<LoadCondition>().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((read.figure, read.operator), (figure, operator), "{text}");
        let error = (read.limit - limit).abs();
        assert!(error <= limit * 1e-12, "{text}: {}", read.limit);
    }

    #[test]
    fn conditions_on_times_say_quantity_statistic_and_limit() {
        use LimitOperator::{Above, AtLeast, AtMost, Below};
        use TimeStatistic::{Greatest, Mean};
        let p = |ppm| TimeStatistic::Quantile { ppm };
        let (main, lag) = (None, Some(TimedQuantity::Lag));
        let (response, first) = (Some(TimedQuantity::Response), Some(TimedQuantity::FirstByte));
        for (text, quantity, statistic, operator, limit) in [
            ("p99>200ms", main, p(990_000), Above, 2e8),
            ("p99.99 >= 1.5s", main, p(999_900), AtLeast, 1.5e9),
            ("p50<100us", main, p(500_000), Below, 1e5),
            ("mean<=5ms", main, Mean, AtMost, 5e6),
            ("max>1m", main, Greatest, Above, 6e10),
            ("lag-p99>5ms", lag, p(990_000), Above, 5e6),
            ("response p99.9>1s", response, p(999_000), Above, 1e9),
            (" first-byte-mean > 3ms ", first, Mean, Above, 3e6),
        ] {
            assert_read(text, LoadFigure::Time(quantity, statistic), operator, limit);
        }
    }

    #[test]
    fn conditions_on_requests_say_share_number_or_rate() {
        use LimitOperator::{Above, Below};
        for (text, figure, operator, limit) in [
            ("errors>0.1%", LoadFigure::ErrorShare, Above, 0.001),
            ("errors>0", LoadFigure::ErrorCount, Above, 0.0),
            ("ok<100%", LoadFigure::OkShare, Below, 1.0),
            ("ok<1000", LoadFigure::OkCount, Below, 1000.0),
            ("throughput<5k", LoadFigure::Throughput, Below, 5000.0),
            ("throughput < 5000/s", LoadFigure::Throughput, Below, 5000.0),
        ] {
            assert_read(text, figure, operator, limit);
        }
    }

    #[test]
    fn a_percentile_needs_a_request_beyond_it() {
        let fewest = |text: &str| text.parse::<LoadCondition>().unwrap().fewest_requests();
        assert_eq!(fewest("p99.99>1s"), 10_000);
        assert_eq!((fewest("p99>1s"), fewest("p50>1s")), (100, 2));
        assert_eq!((fewest("max>1s"), fewest("errors>0")), (1, 1));
    }

    #[test]
    fn only_throughput_and_successes_have_lower_limits() {
        for (text, mended) in [
            ("p99<20ms", Some("p99>20ms")),
            ("lag max <= 1s", Some("lag max >= 1s")),
            ("errors<1%", Some("errors>1%")),
            ("throughput>5k", Some("throughput<5k")),
            ("ok>=99%", Some("ok<=99%")),
            ("p99>20ms", None),
            ("errors>=1", None),
            ("throughput<5k", None),
            ("ok<100%", None),
        ] {
            let found = text.parse::<LoadCondition>().unwrap().mend_operator();
            assert_eq!(found.map(|(_, mended)| mended).as_deref(), mended, "{text}");
        }
    }

    #[test]
    fn parse_errors_point_at_the_invalid_part() {
        for (text, place, word) in [
            ("p99", 3, "expected <"),
            ("p99=5ms", 3, "unsupported operator '='"),
            ("p99==5ms", 3, "unsupported operator '='"),
            (">5ms", 0, "missing figure"),
            ("p99>200", 4, "the limit has no unit of time"),
            ("p99>", 4, "missing limit"),
            ("p99>fast", 4, "expected a time such as 200ms or 1.5s, found 'fast'"),
            ("p101>1s", 0, "unknown figure 'p101'"),
            ("p0>1s", 0, "unknown figure 'p0'"),
            ("pe5>1s", 0, "unknown figure 'pe5'"),
            ("response p>1s", 9, "unknown statistic 'p'"),
            ("speed>1", 0, "unknown figure 'speed'"),
            ("p(99)<200", 0, "write 'p99>200ms'"),
            ("errors > 101%", 9, "expected a percentage"),
            ("errors>-1", 7, "expected a number"),
            ("throughput<fast/s", 11, "expected a rate"),
            ("µ>1", 0, "unknown figure 'µ'"),
        ] {
            let words = text.parse::<LoadCondition>().map(|_| "read").unwrap_err().to_string();
            let lines: Vec<&str> = words.lines().collect();
            assert!(lines[0].contains(word), "{text}: {words}");
            assert_eq!(lines[2].find('^'), Some(2 + place), "{words}");
        }
    }
}
