//! Formats numbers for people to read: `1.23 M/s`, `+8.2%`, `[+6.9, +9.6]`, `p < 0.001`. This
//! module decides how many digits the data support. It also formats counted nouns, durations and
//! timestamps.
//!
//! Figures have three significant digits, in every table, chart and page; exact ones keep their
//! digits, and the whole part of a large figure keeps those that its interval supports. The two
//! sides of a change have up to two more where they would look equal. Changes follow the rule of
//! the Particle Data Group (Review of Particle Physics, introduction, section "Rounding"). The
//! first three digits of the uncertainty decide: from 100 to 354, the uncertainty keeps two digits;
//! from 355 to 949, it keeps one; from 950 to 999, it is rounded up to 1000 and keeps two digits.
//! The change itself is rounded at the same decimal place. `unit.rs` chooses the units.

use crate::unit::{FigureScale, UnitChoice, UnitDimension, dimension_of, in_base_units};
use jiff::Timestamp;
use speedwell_analysis::load::ReportedTime;
use speedwell_model::{IntervalEstimate, Metric, MetricDirection};
use std::time::Duration;

/// The two-sided 95% quantile of the normal distribution. It turns a standard error into half the
/// width of an interval.
const NORMAL_QUANTILE_95: f64 = 1.96;
/// Ratio of the standard errors of a median and a mean for normal data: sqrt(pi / 2), Laplace 1818.
const MEDIAN_OVER_MEAN: f64 = 1.2533;

/// Estimates the uncertainty of a median from the spread of `runs` runs, in the unit of `median`.
/// Used if the median has no known interval.
pub fn uncertainty_of_median(median: f64, variation: Option<f64>, runs: usize) -> Uncertainty {
    match variation {
        Some(0.0) => Uncertainty::Exact,
        Some(variation) if runs > 1 => {
            let standard_error = MEDIAN_OVER_MEAN * variation * median.abs() / (runs as f64).sqrt();
            Uncertainty::Half(NORMAL_QUANTILE_95 * standard_error)
        }
        _ => Uncertainty::Unknown,
    }
}

/// Returns half the width of an estimate's interval; unknown without an interval.
pub fn uncertainty_of(estimate: &IntervalEstimate) -> Uncertainty {
    let half = (estimate.high - estimate.low) / 2.0;
    if half > 0.0 && half.is_finite() { Uncertainty::Half(half) } else { Uncertainty::Unknown }
}

impl FigureScale {
    /// Returns the decimal place to which `stored` is rounded on this scale. Counts of whole things
    /// and exact whole numbers keep all digits.
    pub fn rounding_place(&self, stored: f64, uncertainty: Uncertainty) -> i32 {
        let shown = self.to_shown(stored);
        match uncertainty {
            Uncertainty::Half(half) => decimal_place(shown, Uncertainty::Half(self.to_shown(half))),
            Uncertainty::Exact => shortest_place(shown, last_exact_place(shown)),
            Uncertainty::Unknown if self.is_count && shown.fract() == 0.0 => 0,
            Uncertainty::Unknown => decimal_place(shown, Uncertainty::Unknown),
        }
    }

    /// Returns the first place from `place` on at which the figures of two sides look different. It
    /// stays at `place` if [`MAX_EXTRA_DIGITS`] more do not distinguish them.
    pub fn distinct_place(&self, sides: [f64; 2], place: i32) -> i32 {
        let are_distinct = |place: &i32| {
            let [baseline, candidate] = sides.map(|side| self.format_bare(side, *place));
            baseline != candidate
        };
        (place..=place + MAX_EXTRA_DIGITS).find(are_distinct).unwrap_or(place)
    }

    /// Returns a scale in bytes if `figures` are exact sizes that would lose digits on this scale
    /// (`9,304 B` instead of `9.086 KiB`). Otherwise, or if `choice` fits, returns this scale.
    #[must_use]
    pub fn keeping_counts(
        self,
        stored_unit: &str,
        figures: impl IntoIterator<Item = (f64, Uncertainty)>,
        choice: Option<UnitChoice>,
    ) -> FigureScale {
        let is_chosen = choice.is_some_and(|choice| choice.fits(stored_unit));
        if is_chosen || dimension_of(stored_unit) != Some(UnitDimension::Size) {
            return self;
        }
        let bytes = FigureScale {
            symbol: "B".to_owned(),
            stored_per_shown: 1.0 / in_base_units(1.0, stored_unit).unwrap_or(1.0),
            is_count: false,
        };
        let (mut loses_digits, mut are_counts) = (false, true);
        // Zero has no digits to lose.
        for (stored, uncertainty) in figures.into_iter().filter(|(stored, _)| *stored != 0.0) {
            are_counts &=
                uncertainty == Uncertainty::Exact && bytes.to_shown(stored).fract() == 0.0;
            let shown = self.to_shown(stored);
            loses_digits |= !is_exact_at(shown, last_exact_place(shown).max(0));
        }
        if are_counts && loses_digits { bytes } else { self }
    }

    /// Formats `stored` on this scale, rounded at `place`, without the unit.
    pub fn format_bare(&self, stored: f64, place: i32) -> String {
        format_number(self.to_shown(stored), place)
    }

    /// Formats `stored` with its unit, rounded at `place`: `1.23 M/s`, but `1,234/s`.
    pub fn format_full(&self, stored: f64, place: i32) -> String {
        let number = self.format_bare(stored, place);
        match &*self.symbol {
            "" => number,
            // A rate such as `/s` is not a unit on its own, and `46%` has no space.
            symbol if symbol.starts_with(['/', '%']) => number + symbol,
            symbol => format!("{number} {symbol}"),
        }
    }

    /// Formats `stored` with its unit and the digits that its uncertainty supports.
    pub fn format_rounded(&self, stored: f64, uncertainty: Uncertainty) -> String {
        self.format_full(stored, self.rounding_place(stored, uncertainty))
    }

    /// Formats an estimate with its interval, rounded at `place`: `231 ns [228, 236]`. An empty
    /// interval is omitted.
    pub fn format_estimate(&self, estimate: &IntervalEstimate, place: i32) -> String {
        let value = self.format_full(estimate.value, place);
        let [low, high] = [estimate.low, estimate.high].map(|end| self.format_bare(end, place));
        if estimate.low < estimate.high { format!("{value} [{low}, {high}]") } else { value }
    }
}

/// Formats a single stored figure on the scale that suits it.
pub fn format_quantity(stored: f64, unit: &str, uncertainty: Uncertainty) -> String {
    let fit_scale = |figure: f64| {
        let scale = FigureScale::fit_scale(unit, &[figure], None);
        scale.keeping_counts(unit, [(figure, uncertainty)], None)
    };
    let scale = fit_scale(stored);
    // Round the figure before choosing its unit, so that 999.99 µs becomes 1.00 ms.
    let shown = round_figure(scale.to_shown(stored), scale.rounding_place(stored, uncertainty));
    let rounded = shown * scale.stored_per_shown;
    fit_scale(rounded).format_rounded(rounded, uncertainty)
}

/// Formats a rate of unknown uncertainty: `4,000/s`.
pub fn format_rate(per_s: f64) -> String {
    format_quantity(per_s, "1/s", Uncertainty::Unknown)
}

/// Formats a time of unknown uncertainty: `1.23 ms`.
pub fn format_ns(ns: f64) -> String {
    format_quantity(ns, "ns", Uncertainty::Unknown)
}

/// Formats a size of unknown uncertainty: `1.50 MiB`.
pub fn format_bytes(bytes: f64) -> String {
    format_quantity(bytes, "B", Uncertainty::Unknown)
}

/// Formats a time as `1.23 ms`, or as `≥ 1.23 ms` if the true time may be longer.
pub fn format_bounded_ns(ns: f64, is_lower_bound: bool) -> String {
    if is_lower_bound { format!("≥ {}", format_ns(ns)) } else { format_ns(ns) }
}

/// Formats the bounds of a time as `14.1-15.9 ms`, or as `950 µs-1.20 ms` if their units differ.
pub fn format_ns_range(low_ns: f64, high_ns: f64) -> String {
    let (low, high) = (format_ns(low_ns), format_ns(high_ns));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((low, unit)), Some((high, same))) if unit == same => format!("{low}-{high} {unit}"),
        _ => format!("{low}-{high}"),
    }
}

/// Formats a time or a range of times. A withheld time becomes `unknown`.
pub fn format_reported_time(reported: ReportedTime) -> String {
    match reported {
        ReportedTime::Time(time) => format_bounded_ns(time.ns as f64, time.is_lower_bound),
        ReportedTime::Range { low, high } => format_ns_range(low.ns as f64, high.ns as f64),
        ReportedTime::Refused(_) => "unknown".to_owned(),
    }
}

/// Maximum number of decimals of a change: thousandths of a percent.
const MAX_PERCENT_PLACES: i32 = 3;

/// A change without an interval is shown in whole percent if it is at least this large (10 is +1000
/// %).
const PLAIN_CHANGE: f64 = 10.0;

/// Returns the last decimal place that the interval of a change in percent supports; at most three.
/// Whole percents are always kept: the verdict depends on which side of a threshold of a few
/// percent a bound is, and rounding to tens would hide this. For the same reason, a bound next to
/// zero keeps its first digit: `[-8, 0]` would contradict a verdict that there is a change.
fn percent_place(change: &IntervalEstimate) -> i32 {
    if has_no_width(change) {
        return i32::from(change.value.abs() < PLAIN_CHANGE);
    }
    let half = (change.high - change.low) / 2.0 * 100.0;
    let supported = supported_place(half).unwrap_or(0);
    let excludes_zero = change.low > 0.0 || change.high < 0.0;
    let nearest = change.low.abs().min(change.high.abs()) * 100.0;
    let distinct_from_zero = if excludes_zero {
        (0..MAX_PERCENT_PLACES).find(|place| nearest * 10f64.powi(*place) >= 0.5)
    } else {
        Some(0)
    };
    supported.max(distinct_from_zero.unwrap_or(MAX_PERCENT_PLACES)).clamp(0, MAX_PERCENT_PLACES)
}

fn has_no_width(estimate: &IntervalEstimate) -> bool {
    estimate.low == estimate.high || estimate.low.is_nan() || estimate.high.is_nan()
}

/// Formats a change as a signed percentage: `+8.2%`.
pub fn format_change(change: &IntervalEstimate) -> String {
    format!("{}%", format_signed(change.value * 100.0, percent_place(change)))
}

/// Formats the interval of a change in percent: `[+6.9, +9.6]`. Empty without an interval.
pub fn format_interval(change: &IntervalEstimate) -> String {
    if has_no_width(change) {
        return String::new();
    }
    let place = percent_place(change);
    let end = |share: f64| format_signed(share * 100.0, place);
    format!("[{}, {}]", end(change.low), end(change.high))
}

/// Does the same as [`format_interval`] with a sign of percent at both ends: `[+6.9%, +9.6%]`.
pub fn format_percent_interval(change: &IntervalEstimate) -> String {
    format_interval(change).replace(", ", "%, ").replace(']', "%]")
}

/// Formats a change with its interval, for sentences: `+8.2% [+6.9, +9.6]`.
pub fn format_change_interval(estimate: &IntervalEstimate) -> String {
    format!("{} {}", format_change(estimate), format_interval(estimate)).trim_end().to_owned()
}

/// Formats the size of a change and its interval without plus signs, for sentences that name the
/// direction: `1.3%` and `[0.4, 2.6]`.
pub fn format_magnitude(change: &IntervalEstimate) -> [String; 2] {
    [format_change(change), format_interval(change)].map(|text| text.replace('+', ""))
}

/// Formats a factor and its interval with up to three significant digits: `9.28` and
/// `[9.19, 9.37]`. The interval is empty if it has no width.
pub fn format_factor(factor: &IntervalEstimate) -> [String; 2] {
    let most = (first_place(factor.value).unwrap_or(0) + DEFAULT_DIGITS - 1).max(0);
    let fewest = if factor.value < 2.0 { 2 } else { i32::from(factor.value < 10.0) };
    let supported = supported_place((factor.high - factor.low) / 2.0).unwrap_or(most);
    let place = supported.max(fewest).min(most);
    let [value, low, high] =
        [factor.value, factor.low, factor.high].map(|factor| format_number(factor, place));
    let interval = if has_no_width(factor) { String::new() } else { format!("[{low}, {high}]") };
    [value, interval]
}

/// A percentage below this is printed as `<0.001%`.
const MIN_PERCENT: f64 = 0.001;

/// Formats a fraction as a percentage with two significant digits, without sign: `1.2%`.
pub fn format_share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < MIN_PERCENT {
        return format!("<{MIN_PERCENT}%");
    }
    let place = if percent == 0.0 { 0 } else { 1 - percent.abs().log10().floor() as i32 };
    format!("{}%", format_number(percent, place.clamp(0, 3)))
}

/// Formats a percentage with the digits that the user gave: `2%`, `0.5%`, `99.9%`.
pub fn format_setting(share: f64) -> String {
    let percent = share * 100.0;
    format!("{}%", format_number(percent, decimal_place(percent, Uncertainty::Exact)))
}

/// Formats a p-value or q-value: three decimals below 0.1, two above; never 0.
pub fn format_probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "<0.001".to_owned(),
        p if p < 0.0995 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}

/// The known uncertainty of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Uncertainty {
    /// Half the width of the figure's interval, in the unit of the figure.
    Half(f64),
    /// Exact, for example because all runs gave the same value.
    Exact,
    /// Unknown.
    Unknown,
}

/// Number of significant digits of a figure that is not exact.
const DEFAULT_DIGITS: i32 = 3;
/// Maximum number of further digits that distinguish the two sides of a change.
const MAX_EXTRA_DIGITS: i32 = 2;
/// Maximum number of significant digits: the seventh digit never matters. Exact whole numbers have
/// no maximum.
const MAX_DIGITS: i32 = 6;
/// Maximum number of significant digits of an exact figure with a fraction. Four are enough: exact
/// figures are treated as different only if they differ by more than 0.1% (`analysis::exact`).
const EXACT_DIGITS: i32 = 4;

/// Returns the last decimal place that an uncertainty of `half_width` supports. Negative places are
/// left of the point. Returns `None` if the width is zero or not finite.
fn supported_place(half_width: f64) -> Option<i32> {
    if !half_width.is_finite() || half_width <= 0.0 {
        return None;
    }
    let exponent = half_width.log10().floor();
    let leading = (half_width / 10f64.powf(exponent) * 100.0).round();
    let place = -exponent as i32;
    Some(if leading <= 354.0 { place + 1 } else { place })
}

/// Returns the decimal place of the first digit, or `None` for zero. Negative places are left of
/// the point.
fn first_place(figure: f64) -> Option<i32> {
    (figure != 0.0 && figure.is_finite()).then(|| -figure.abs().log10().floor() as i32)
}

/// Returns the decimal place at which to round `figure`: the third significant digit, unless the
/// figure is exact or has a longer whole part that its interval supports.
pub fn decimal_place(figure: f64, uncertainty: Uncertainty) -> i32 {
    let first = first_place(figure).unwrap_or(0);
    let last = first + MAX_DIGITS - 1;
    match uncertainty {
        Uncertainty::Half(half) => {
            let whole = supported_place(half).map_or(first, |place| place.min(0).min(last));
            whole.max(first + DEFAULT_DIGITS - 1)
        }
        Uncertainty::Exact => shortest_place(figure, last),
        // Zero is always shown as one digit.
        Uncertainty::Unknown if figure == 0.0 => 0,
        Uncertainty::Unknown => first + DEFAULT_DIGITS - 1,
    }
}

/// Returns the decimal place at which an exact figure is rounded.
fn last_exact_place(figure: f64) -> i32 {
    first_place(figure).unwrap_or(0) + EXACT_DIGITS - 1
}

/// Returns the first place, up to `last`, after which only zeros would follow.
fn shortest_place(figure: f64, last: i32) -> i32 {
    let is_exact = |place: &i32| is_exact_at(figure, *place);
    (0..last.max(0)).find(is_exact).unwrap_or(last.max(0))
}

/// Whether only zeros would follow the digit at `place`.
fn is_exact_at(figure: f64, place: i32) -> bool {
    let power = 10f64.powi(place);
    let tail = figure * power - (figure * power).round();
    tail.abs() <= 1e-9 * (figure * power).abs()
}

fn round_figure(figure: f64, place: i32) -> f64 {
    let (power, step) = (10f64.powi(place), 10f64.powi(-place));
    if place >= 0 { (figure * power).round() / power } else { (figure / step).round() * step }
}

/// Formats `figure` rounded at `place`, with thousands separators.
pub fn format_number(figure: f64, place: i32) -> String {
    if figure.is_nan() {
        return "?".to_owned();
    }
    if figure.is_infinite() {
        return if figure > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let rounded = if place >= 0 { figure } else { round_figure(figure, place) };
    let number = format!("{rounded:.*}", place.max(0) as usize);
    let number = match number.strip_prefix('-') {
        Some(zero) if is_zero(zero) => zero,
        _ => &number,
    };
    insert_separators(number)
}

/// Does the same as [`format_number`], but puts a sign in front of positive figures. A figure that
/// rounds to zero has no sign.
pub fn format_signed(figure: f64, place: i32) -> String {
    let formatted = format_number(figure, place);
    if figure > 0.0 && !is_zero(&formatted) { format!("+{formatted}") } else { formatted }
}

fn is_zero(formatted: &str) -> bool {
    !formatted.contains(|c: char| ('1'..='9').contains(&c) || c == '∞')
}

/// Formats a whole number with thousands separators.
pub fn format_whole(number: impl ToString) -> String {
    insert_separators(&number.to_string())
}

/// Inserts thousands separators into the integer part of a number.
pub fn insert_separators(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let (integer, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut formatted = String::from(sign);
    for (index, digit) in integer.chars().enumerate() {
        if index > 0 && (integer.len() - index) % 3 == 0 {
            formatted.push(',');
        }
        formatted.push(digit);
    }
    formatted + fraction
}

/// Formats a metric's name with its unit, as in `throughput in M/s`. A unit that starts with a
/// slash gets a 1 in front.
pub fn name_in_unit(name: &str, unit: &str) -> String {
    match unit {
        "" => name.to_owned(),
        _ if unit.starts_with('/') => format!("{name} in 1{unit}"),
        _ => format!("{name} in {unit}"),
    }
}

/// Says which direction of a metric is better.
pub fn better_direction(better: MetricDirection) -> &'static str {
    match better {
        MetricDirection::Higher => "higher is better",
        MetricDirection::Lower => "lower is better",
        MetricDirection::Unknown => "preferred direction unknown",
    }
}

/// Describes a metric for the caption of a table: `time in ns, lower is better`.
pub fn describe_metric(metric: &Metric, unit: Option<String>) -> String {
    let name = name_in_unit(metric.plain_name(), &unit.unwrap_or_default());
    format!("{name}, {}", better_direction(metric.better))
}

/// Returns adjectives for a good and a bad candidate: "faster" and "slower" for times and rates,
/// "better" and "worse" for other metrics. Both are "different" if it is unknown whether higher or
/// lower is better.
pub fn quality_words(metric: &Metric) -> (&'static str, &'static str) {
    match dimension_of(&metric.unit) {
        _ if metric.better == MetricDirection::Unknown => ("different", "different"),
        Some(UnitDimension::Rate | UnitDimension::Time | UnitDimension::Bandwidth) => {
            ("faster", "slower")
        }
        Some(UnitDimension::Size) | None => ("better", "worse"),
    }
}

/// Formats a count with its noun: `1 case`, `1,234 cases`.
pub fn format_count(number: usize, singular: &str, plural: &str) -> String {
    let word = if number == 1 { singular } else { plural };
    format!("{} {word}", format_whole(number))
}

/// Formats a count with its noun, or returns `none` if there is nothing: `no change`, `2 changes`.
pub fn format_count_or(none: &str, number: usize, singular: &str, plural: &str) -> String {
    if number == 0 { none.to_owned() } else { format_count(number, singular, plural) }
}

/// Returns the part of a sentence that `text` makes of a number or a name; nothing for zero or an
/// empty name.
pub fn unless_empty<T: Default + PartialEq>(value: T, text: impl FnOnce(T) -> String) -> String {
    if value == T::default() { String::new() } else { text(value) }
}

/// Begins a text with a capital letter.
pub fn capitalize_first(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

/// Joins the texts that are not empty.
pub fn join_texts<T: AsRef<str>>(separator: &str, texts: impl IntoIterator<Item = T>) -> String {
    let mut joined = String::new();
    for text in texts {
        let is_next = !joined.is_empty() && !text.as_ref().is_empty();
        joined.extend([if is_next { separator } else { "" }, text.as_ref()]);
    }
    joined
}

/// Formats a duration: `820 ms`, `12.3 s`, `4 min 05 s`, `2 h 07 min`.
pub fn format_duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{:.1} s", milliseconds as f64 / 1e3),
        60_000..3_600_000 => {
            format!("{} min {:02} s", milliseconds / 60_000, milliseconds / 1_000 % 60)
        }
        _ => format!("{} h {:02} min", milliseconds / 3_600_000, milliseconds / 60_000 % 60),
    }
}

/// Formats an approximate duration: `30 s`, `3 min 20 s`, `12 min`, `2 h 10 min`.
pub fn format_about(time: Duration) -> String {
    let seconds = time.as_secs_f64().round().max(1.0) as u64;
    let (tens, minutes) = ((seconds + 5) / 10, (seconds + 30) / 60);
    let join_parts = |large: String, small: u64, unit: &str| {
        if small == 0 { large } else { format!("{large} {small} {unit}") }
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => join_parts(format!("{} min", tens / 6), tens % 6 * 10, "s"),
        _ if minutes < 60 => format!("{minutes} min"),
        _ => join_parts(format!("{} h", minutes / 60), minutes % 60, "min"),
    }
}

/// Formats a time in UTC to the minute: `2026-01-31 14:05`. Empty for times outside the calendar.
pub fn format_moment(unix_ms: i64) -> String {
    Timestamp::from_millisecond(unix_ms)
        .map(|time| time.strftime("%Y-%m-%d %H:%M").to_string())
        .unwrap_or_default()
}

pub(crate) const MINUTE_MS: i64 = 60_000;
pub(crate) const DAY_MS: i64 = 86_400_000;

/// Formats a time that has passed, as in `12 min`, `5 h` or `2 d`.
pub(crate) fn format_age(ms: i64) -> String {
    match ms.max(0) {
        ms if ms < MINUTE_MS => "< 1 min".to_owned(),
        ms if ms < 60 * MINUTE_MS => format!("{} min", ms / MINUTE_MS),
        ms if ms < DAY_MS => format!("{} h", ms / (60 * MINUTE_MS)),
        ms => format!("{} d", ms / DAY_MS),
    }
}

/// Formats a time for programs as RFC 3339 requires: `2026-03-01T12:30:05Z`. Empty for times outside
/// the calendar.
pub(crate) fn format_instant(unix_ms: i64) -> String {
    Timestamp::from_millisecond(unix_ms).map(|time| time.to_string()).unwrap_or_default()
}

/// Parses a time such as `2026-03-01` or `2026-03-01T12:30` (UTC) into milliseconds since the Unix
/// epoch. A day without a time means the start of the day or, with `is_end`, the end of the day.
pub fn parse_time(text: &str, is_end: bool) -> Option<i64> {
    let time: jiff::civil::DateTime = text.trim().parse().ok()?;
    let begin = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond();
    let is_day = text.trim().len() <= "2026-03-01".len();
    Some(if is_end && is_day { begin + 86_399_999 } else { begin })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approximate_durations_have_few_digits() {
        let of = |seconds: f64| format_about(Duration::from_secs_f64(seconds));
        assert_eq!([of(0.2), of(19.2), of(59.7)], ["1 s", "19 s", "1 min"]);
        assert_eq!([of(64.0), of(200.0), of(597.0)], ["1 min", "3 min 20 s", "10 min"]);
        assert_eq!([of(704.0), of(3590.0), of(7800.0)], ["12 min", "1 h", "2 h 10 min"]);
    }

    #[test]
    fn a_date_means_the_beginning_or_the_end_of_its_day() {
        assert_eq!(parse_time("1970-01-02", false), Some(86_400_000));
        assert_eq!(parse_time("1970-01-02", true), Some(172_799_999));
        assert_eq!(parse_time("1970-01-01T00:01", true), Some(60_000));
        for wrong in ["", "yesterday", "2026-13-01", "12"] {
            assert_eq!(parse_time(wrong, false), None, "{wrong}");
        }
    }

    fn estimate(value: f64, low: f64, high: f64) -> IntervalEstimate {
        IntervalEstimate { value, low, high }
    }

    #[test]
    fn changes_are_rounded_by_their_interval() {
        for (change, text) in [
            (estimate(0.0823, 0.0691, 0.0958), "+8.2% [+6.9, +9.6]"),
            (estimate(-0.001_234, -0.0016, -0.0008), "-0.12% [-0.16, -0.08]"),
            (estimate(1.234, 0.78, 1.68), "+123% [+78, +168]"),
            (estimate(0.05, 0.05, 0.05), "+5.0%"),
            (estimate(102_879.583, 102_879.583, 102_879.583), "+10,287,958%"),
            (estimate(0.05, f64::NEG_INFINITY, 0.2), "+5% [-∞, +20]"),
            (estimate(12.34, 12.1, 12.6), "+1,234% [+1,210, +1,260]"),
            (estimate(-0.041, -0.08, -0.0042), "-4.1% [-8.0, -0.4]"),
            (estimate(-0.000_2, -0.06, 0.05), "0% [-6, +5]"),
            (estimate(-1e-8, -3e-6, 2e-6), "0.000% [0.000, 0.000]"),
        ] {
            assert_eq!(format_change_interval(&change), text);
        }
    }

    #[test]
    fn figures_carry_their_unit() {
        assert_eq!(format_quantity(1_234_567.0, "1/s", Uncertainty::Half(12_000.0)), "1.23 M/s");
        assert_eq!(format_quantity(1_234.0, "1/s", Uncertainty::Half(4.0)), "1,234/s");
        assert_eq!(format_quantity(810.0, "ns", Uncertainty::Unknown), "810 ns");
        assert_eq!(format_quantity(1_500_000.0, "ns", Uncertainty::Unknown), "1.50 ms");
        assert_eq!(format_quantity(1_572_864.0, "B", Uncertainty::Exact), "1.5 MiB");
    }

    #[test]
    fn exact_counts_keep_all_digits() {
        use Uncertainty::{Exact, Half, Unknown};
        for (stored, unit, uncertainty, text) in [
            (9_304.0, "B", Exact, "9,304 B"),
            (9_304.0, "B", Unknown, "9.09 KiB"),
            (9_304.0, "B", Half(100.0), "9.09 KiB"),
            (123_456.0, "B", Exact, "123,456 B"),
            (98_304.0, "B", Exact, "96 KiB"),
            (1_234_567.0, "allocs", Exact, "1,234,567 allocs"),
            (1_234_567.0, "instructions", Unknown, "1,234,567 instructions"),
            (1_234_567.0, "1", Unknown, "1,234,567"),
            (1_234_567.0, "instructions", Half(12_000.0), "1,235,000 instructions"),
            (1_234_567.0, "ns", Exact, "1.235 ms"),
            (1_234.5, "1", Unknown, "1,230"),
            (2.0 / 3.0, "1", Exact, "0.6667"),
        ] {
            assert_eq!(format_quantity(stored, unit, uncertainty), text);
        }
    }

    #[test]
    fn both_sides_have_as_many_digits_as_distinguish_them() {
        let scale = FigureScale::fit_scale("us", &[101.0], None);
        for (sides, text) in [
            ([101.0, 102.0], "101 102"),
            ([101.0, 101.4], "101.0 101.4"),
            ([101.0, 101.04], "101.00 101.04"),
            ([101.0, 101.004], "101 101"),
            ([101.0, 101.0], "101 101"),
        ] {
            let place = scale.distinct_place(sides, 0);
            assert_eq!(sides.map(|side| scale.format_bare(side, place)).join(" "), text);
        }
    }

    #[test]
    fn a_zero_does_not_change_the_unit_of_exact_sizes() {
        let symbol = |figures: &[(f64, Uncertainty)]| {
            let scale = FigureScale::common_scale("B", figures.iter().map(|(size, _)| *size), None)
                .unwrap();
            scale.keeping_counts("B", figures.iter().copied(), None).symbol
        };
        let exact = [(9_304.0, Uncertainty::Exact), (12_800.0, Uncertainty::Exact)];
        let zero = (0.0, Uncertainty::Unknown);
        assert_eq!(symbol(&exact), "B");
        assert_eq!(symbol(&[exact[0], zero]), "B");
        assert_eq!(symbol(&[exact[1], zero]), "KiB");
        assert_eq!(symbol(&[exact[0], (12_800.0, Uncertainty::Half(9.0))]), "KiB");
    }

    #[test]
    fn zero_has_one_digit_and_no_sign() {
        for uncertainty in [Uncertainty::Unknown, Uncertainty::Exact] {
            assert_eq!(format_quantity(0.0, "ns", uncertainty), "0 ns");
            assert_eq!(format_quantity(-0.0, "1/s", uncertainty), "0/s");
            assert_eq!(format_quantity(0.0, "B", uncertainty), "0 B");
        }
        assert_eq!(format_share(-0.0), "0%");
    }

    #[test]
    fn figures_are_rounded_before_their_unit_is_chosen() {
        assert_eq!(format_quantity(999_990.0, "ns", Uncertainty::Unknown), "1.00 ms");
        assert_eq!(format_quantity(999.6, "ns", Uncertainty::Half(20.0)), "1.00 µs");
        assert_eq!(format_quantity(2_500.0, "us", Uncertainty::Unknown), "2.50 ms");
        assert_eq!(format_quantity(2.5, "us", Uncertainty::Unknown), "2.50 µs");
    }

    #[test]
    fn a_median_is_rounded_by_the_spread_of_its_runs() {
        // 1.2533 * 0.02 / sqrt(25) * 1.96 is 0.98% of the median.
        let rounded = uncertainty_of_median(1000.0, Some(0.02), 25);
        assert_eq!(format_quantity(1000.0, "ns", rounded), "1.00 µs");
        assert_eq!(uncertainty_of_median(5.0, Some(0.0), 9), Uncertainty::Exact);
        assert_eq!(uncertainty_of_median(5.0, None, 1), Uncertainty::Unknown);
    }

    #[test]
    fn percentages_and_probabilities_have_few_digits() {
        assert_eq!((format_share(0.0123), format_share(0.5), format_share(0.000_04)).0, "1.2%");
        assert_eq!(format_share(0.5), "50%");
        assert_eq!(format_share(0.000_04), "0.004%");
        assert_eq!(format_share(1e-8), "<0.001%");
        assert_eq!((format_setting(0.02), format_setting(0.005), format_setting(0.999)).1, "0.5%");
        assert_eq!(format_setting(0.95), "95%");
        for (p, text) in
            [(0.0, "<0.001"), (0.0123, "0.012"), (0.0996, "0.10"), (0.34, "0.34"), (1.0, "1.00")]
        {
            assert_eq!(format_probability(p), text);
        }
    }

    /// The examples of the Particle Data Group: 0.827 ± 0.119, 0.827 ± 0.367, 0.827 ± 0.996.
    #[test]
    fn the_published_rounding_examples_hold() {
        for (half, place, figure, error) in
            [(0.119, 2, "0.83", "0.12"), (0.367, 1, "0.8", "0.4"), (0.996, 1, "0.8", "1.0")]
        {
            assert_eq!(supported_place(half), Some(place), "{half}");
            assert_eq!(
                (format_number(0.827, place).as_str(), format_number(half, place).as_str()),
                (figure, error)
            );
        }
    }

    #[test]
    fn figures_have_three_digits_or_the_whole_part_that_their_interval_supports() {
        for (figure, half, text) in [
            (1.234_567, 0.0123, "1.23"),
            (15.438, 1e-9, "15.4"),
            (1_234.6, 4.0, "1,235"),
            (123_456.0, 40_000.0, "123,000"),
            (5.0, 300.0, "5.00"),
        ] {
            let place = decimal_place(figure, Uncertainty::Half(half));
            assert_eq!(format_number(figure, place), text);
        }
    }

    #[test]
    fn factors_have_at_most_three_digits() {
        for (factor, text) in [
            (estimate(9.284, 9.19, 9.37), "9.28 [9.19, 9.37]"),
            (estimate(6.02, 5.2, 6.9), "6.0 [5.2, 6.9]"),
            (estimate(1.14, 0.9, 1.9), "1.14 [0.90, 1.90]"),
            (estimate(92.84, 92.83, 92.85), "92.8 [92.8, 92.8]"),
            (estimate(1234.0, 1200.0, f64::INFINITY), "1,234 [1,200, ∞]"),
            (estimate(2.0, 2.0, 2.0), "2.00"),
        ] {
            assert_eq!(format_factor(&factor).join(" ").trim_end(), text);
        }
        assert_eq!(
            format_magnitude(&estimate(0.0131, 0.004, 0.0262)).join(" "),
            format_change_interval(&estimate(0.0131, 0.004, 0.0262)).replace('+', "")
        );
    }

    #[test]
    fn exact_figures_keep_their_digits_and_unknown_ones_have_three() {
        let exact = |figure| format_number(figure, decimal_place(figure, Uncertainty::Exact));
        assert_eq!(exact(12_345.0), "12,345");
        assert_eq!(exact(0.25), "0.25");
        assert_eq!(exact(1.0 / 3.0), "0.333333");
        assert_eq!(exact(0.0), "0");
        assert_eq!(format_number(1234.5, decimal_place(1234.5, Uncertainty::Unknown)), "1,230");
        assert_eq!(
            format_number(0.012_345, decimal_place(0.012_345, Uncertainty::Unknown)),
            "0.0123"
        );
    }

    #[test]
    fn commas_stand_between_every_three_digits_of_the_whole_part() {
        for (figure, place, text) in [
            (999.0, 0, "999"),
            (1000.0, 0, "1,000"),
            (-1_234_567.891, 2, "-1,234,567.89"),
            (0.000_12, 5, "0.00012"),
        ] {
            assert_eq!(format_number(figure, place), text);
        }
        assert_eq!(format_signed(0.04, 1), "0.0");
        assert_eq!(format_signed(-0.04, 1), "0.0");
        assert_eq!(format_number(-40.0, -2), "0");
        assert_eq!(format_signed(f64::INFINITY, 1), "+∞");
    }

    #[test]
    fn throughput_is_faster_or_slower_and_memory_better_or_worse() {
        assert_eq!(quality_words(&Metric::throughput()), ("faster", "slower"));
        let memory = Metric::new("max_rss", "B", MetricDirection::Lower);
        assert_eq!(quality_words(&memory), ("better", "worse"));
    }

    #[test]
    fn nouns_agree_with_their_count_and_names_include_their_unit() {
        assert_eq!(format_count(1, "case", "cases"), "1 case");
        assert_eq!(format_count(1234, "case", "cases"), "1,234 cases");
        assert_eq!(name_in_unit("throughput", "/s"), "throughput in 1/s");
        assert_eq!(name_in_unit("time", "µs"), "time in µs");
        assert_eq!(name_in_unit("ratio", ""), "ratio");
    }

    #[test]
    fn durations_are_formatted_with_one_or_two_units() {
        for (milliseconds, text) in [
            (820, "820 ms"),
            (12_345, "12.3 s"),
            (245_000, "4 min 05 s"),
            (7_620_000, "2 h 07 min"),
        ] {
            assert_eq!(format_duration(milliseconds), text);
        }
    }

    #[test]
    fn times_are_formatted_as_date_and_minute() {
        assert_eq!(format_moment(0), "1970-01-01 00:00");
        assert_eq!(format_moment(1_769_868_300_999), "2026-01-31 14:05");
        assert_eq!(format_moment(i64::MAX), "");
    }

    #[test]
    fn ages_have_one_unit() {
        let minutes = |minutes: i64| format_age(minutes * MINUTE_MS);
        assert_eq!([minutes(0), minutes(5), minutes(60)], ["< 1 min", "5 min", "1 h"]);
        assert_eq!([minutes(1439), minutes(1440), minutes(-3)], ["23 h", "1 d", "< 1 min"]);
    }
}
