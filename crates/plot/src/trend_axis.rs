//! Draws the area below a trend: revisions or dates, a row of tags, and the axis label. Selects
//! labels that do not overlap.

use crate::axes::{PlotArea, TICK_PX, bottom_label_height, draw_base_line, draw_bottom_label};
use crate::axis::AxisMapping;
use crate::color::{AXIS, INK, MUTED};
use crate::svg::{PixelRect, SvgWriter, TextAnchor, TextLine};
use crate::text::{reserved_width, truncate_end};

/// Height of a row of labels.
const ROW_PX: f64 = 17.0;
/// Length of a tick above the labels.
const TICK_LENGTH_PX: f64 = 5.0;
/// Minimum gap between two labels.
const GAP_PX: f64 = 14.0;
/// Maximum width of a tag. Longer tags are truncated.
const MAX_TAG_PX: f64 = 110.0;

/// Meaning of the positions of a trend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrendAxis {
    /// Positions in a sequence of revisions, labeled with revisions.
    #[default]
    Revisions,
    /// Milliseconds since the Unix epoch, labeled with dates in UTC.
    Time,
}

pub(crate) type PositionLabel = (f64, String);

/// Contents of the area below a trend.
pub(crate) struct TrendFoot<'a> {
    pub axis: TrendAxis,
    pub label: &'a str,
    /// Revisions by position, ascending.
    pub revisions: Vec<PositionLabel>,
    pub tags: Vec<PositionLabel>,
}

impl TrendFoot<'_> {
    pub fn height(&self) -> f64 {
        let rows = if self.tags.is_empty() { 1.0 } else { 2.0 };
        TICK_LENGTH_PX + rows * ROW_PX + bottom_label_height(self.label)
    }

    /// Draws everything below `area`.
    pub fn draw(&self, svg: &mut SvgWriter, sheet: PixelRect, area: &PlotArea) {
        let PixelRect { left, right, bottom, .. } = area.rect;
        draw_base_line(svg, (left, bottom), (right, bottom));
        let ends = (sheet.left, sheet.right);
        let ticks = match self.axis {
            TrendAxis::Revisions => place_labels(&self.revisions, &area.x, ends),
            TrendAxis::Time => date_labels(&area.x, ends),
        };
        let tick_end = bottom + TICK_LENGTH_PX;
        svg.start_group("x-ticks").end_with(|svg| {
            for tick in &ticks {
                let line = svg.start_line((tick.x_px, bottom), (tick.x_px, tick_end));
                line.set_text("stroke", AXIS).end_empty();
                tick.write(svg, tick_end + TICK_PX, MUTED);
            }
        });
        self.draw_tags(svg, ends, area);
        draw_bottom_label(svg, area.rect, bottom + self.height(), self.label);
    }

    /// Draws a thin line at every tag, and the names of tags if they fit.
    fn draw_tags(&self, svg: &mut SvgWriter, ends: (f64, f64), area: &PlotArea) {
        if self.tags.is_empty() {
            return;
        }
        let PixelRect { top, bottom, .. } = area.rect;
        let shorten =
            |(position, name): &PositionLabel| (*position, truncate_end(name, MAX_TAG_PX, TICK_PX));
        let short: Vec<PositionLabel> = self.tags.iter().map(shorten).collect();
        svg.start_group("tags").end_with(|svg| {
            let inside = self.tags.iter().filter(|(position, _)| area.x.contains_value(*position));
            for (position, name) in inside {
                let x_px = area.x.pixel_at(*position);
                svg.start_line((x_px, top), (x_px, bottom))
                    .set_text("class", "tag")
                    .set_stroke(AXIS, 0.8)
                    .set_text("stroke-dasharray", "1 3")
                    .end_with_tooltip(name);
            }
            for label in place_labels(&short, &area.x, ends) {
                label.write(svg, bottom + TICK_LENGTH_PX + ROW_PX + TICK_PX, INK);
            }
        });
    }
}

/// A label that fits. `x_px` is the pixel of its position. `middle` is the center of the text,
/// which may be shifted to keep the text on the sheet.
#[derive(Debug, PartialEq)]
struct PlacedLabel {
    x_px: f64,
    middle: f64,
    text: String,
}

impl PlacedLabel {
    fn write(&self, svg: &mut SvgWriter, baseline: f64, colour: &str) {
        let text = TextLine::at(&self.text, self.middle, baseline, TICK_PX);
        svg.write_text(&text.with_anchor(TextAnchor::Middle).with_color(colour));
    }
}

/// Selects as many labels as fit: the newest first, then the oldest, then labels halfway between
/// selected labels.
fn place_labels(labels: &[PositionLabel], x: &AxisMapping, ends: (f64, f64)) -> Vec<PlacedLabel> {
    let inside: Vec<&PositionLabel> =
        labels.iter().filter(|(position, _)| x.contains_value(*position)).collect();
    let mut occupied: Vec<(f64, f64)> = Vec::new();
    let mut written = Vec::new();
    for index in halving_order(inside.len()) {
        let (value, text) = inside[index];
        let half_width = reserved_width(text, TICK_PX) / 2.0;
        let x_px = x.pixel_at(*value);
        let middle = x_px.min(ends.1 - half_width).max(ends.0 + half_width);
        let (low, high) = (middle - half_width - GAP_PX, middle + half_width);
        if occupied.iter().all(|(start, end)| high + GAP_PX <= *start || low >= *end) {
            occupied.push((middle - half_width, high));
            written.push(PlacedLabel { x_px, middle, text: text.clone() });
        }
    }
    written.sort_by(|one, other| one.x_px.total_cmp(&other.x_px));
    written
}

/// Order in which to select indices: the last, the first, then repeatedly the middle between two
/// selected neighbors.
fn halving_order(count: usize) -> Vec<usize> {
    let Some(last) = count.checked_sub(1) else {
        return Vec::new();
    };
    let mut order = vec![last, 0];
    let mut gaps = std::collections::VecDeque::from([(0, last)]);
    while let Some((low, high)) = gaps.pop_front() {
        let middle = usize::midpoint(low, high);
        if middle > low {
            order.push(middle);
            gaps.extend([(low, middle), (middle, high)]);
        }
    }
    order.truncate(count.max(1));
    order
}

// Labels with dates, at the finest calendar step at which they do not overlap.

const MINUTE_MS: f64 = 60e3;
const DAY_MS: f64 = 86.4e6;
/// Range of the ECMAScript calendar (ECMA-262, section 21.4.1.1). Dates beyond this range are
/// meaningless.
const MAX_DATE_MS: f64 = 8.64e15;

/// A step from one date to the next. The variants are sorted from fine to coarse.
#[derive(Clone, Copy)]
enum DateStep {
    Minutes(f64),
    Days(f64),
    Months(i64),
}

const DATE_STEPS: [DateStep; 19] = [
    DateStep::Minutes(1.0),
    DateStep::Minutes(5.0),
    DateStep::Minutes(15.0),
    DateStep::Minutes(60.0),
    DateStep::Minutes(180.0),
    DateStep::Minutes(720.0),
    DateStep::Days(1.0),
    DateStep::Days(2.0),
    DateStep::Days(7.0),
    DateStep::Days(14.0),
    DateStep::Months(1),
    DateStep::Months(2),
    DateStep::Months(3),
    DateStep::Months(6),
    DateStep::Months(12),
    DateStep::Months(24),
    DateStep::Months(60),
    DateStep::Months(120),
    DateStep::Months(1200),
];

fn date_labels(x: &AxisMapping, ends: (f64, f64)) -> Vec<PlacedLabel> {
    let (low, high) = (x.extent.low, x.extent.high);
    if low.abs() > MAX_DATE_MS || high.abs() > MAX_DATE_MS {
        return Vec::new();
    }
    // A label is at least a few letters wide, so more labels cannot fit.
    let max_labels = x.length_px() / 30.0;
    for step in DATE_STEPS {
        let labels = step.step_labels(low, high, max_labels);
        let written = place_labels(&labels, x, ends);
        if !labels.is_empty() && written.len() == labels.len() {
            return written;
        }
    }
    Vec::new()
}

impl DateStep {
    /// Dates of this step from `low` to `high`; none if there are more than `max_labels`.
    fn step_labels(self, low: f64, high: f64, max_labels: f64) -> Vec<PositionLabel> {
        let length = match self {
            Self::Minutes(minutes) => minutes * MINUTE_MS,
            Self::Days(days) => days * DAY_MS,
            Self::Months(months) => months as f64 * 30.0 * DAY_MS,
        };
        if (high - low) / length > max_labels {
            return Vec::new();
        }
        match self {
            Self::Months(months) => {
                let first = civil_date(low).month_number().div_euclid(months) * months;
                let starts = (0..).map(|index| first + index * months).map(start_of_month);
                let inside =
                    starts.take_while(|date_ms| *date_ms <= high).filter(|date_ms| *date_ms >= low);
                inside.map(|date_ms| (date_ms, self.format_date(date_ms))).collect()
            }
            Self::Minutes(_) | Self::Days(_) => {
                let first = (low / length).ceil() as i64;
                let last = (high / length).floor() as i64;
                let inside = (first..=last).map(|index| index as f64 * length);
                inside.map(|date_ms| (date_ms, self.format_date(date_ms))).collect()
            }
        }
    }

    fn format_date(self, at_ms: f64) -> String {
        let CivilDate { year, month, day } = civil_date(at_ms);
        match self {
            Self::Minutes(_) => {
                let minute = (at_ms.rem_euclid(DAY_MS) / MINUTE_MS) as u32;
                format!("{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
            }
            Self::Days(_) => format!("{year}-{month:02}-{day:02}"),
            Self::Months(months) if months < 12 => format!("{year}-{month:02}"),
            Self::Months(_) => year.to_string(),
        }
    }
}

struct CivilDate {
    year: i64,
    month: i64,
    day: i64,
}

impl CivilDate {
    /// Months since the year 0.
    fn month_number(&self) -> i64 {
        self.year * 12 + self.month - 1
    }
}

/// Gregorian date (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"). In the computation,
/// years start in March, so the leap day is the last day of a year.
fn civil_date(at_ms: f64) -> CivilDate {
    let days = (at_ms / DAY_MS).floor() as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    CivilDate {
        year: era * 400 + year_of_era + i64::from(month <= 2),
        month,
        day: day_of_year - (153 * shifted + 2) / 5 + 1,
    }
}

/// Start of the month with this number (see [`CivilDate::month_number`]), in milliseconds since the
/// Unix epoch.
fn start_of_month(number: i64) -> f64 {
    let month = number.rem_euclid(12) + 1;
    let year = number.div_euclid(12) - i64::from(month <= 2);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let year_of_era = year.rem_euclid(400);
    let day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * shifted + 2) / 5;
    (year.div_euclid(400) * 146_097 + day_of_era - 719_468) as f64 * DAY_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisExtent;
    use crate::{AxisScale, ChartAxis};

    /// Expected values from `date -u -d @SECONDS +%F`.
    #[test]
    fn civil_dates_match_the_calendar() {
        for (seconds, year, month, day) in [
            (0.0, 1970, 1, 1),
            (951_782_400.0, 2000, 2, 29),
            (1_709_164_799.0, 2024, 2, 28),
            (4_107_542_400.0, 2100, 3, 1),
            (-1.0, 1969, 12, 31),
        ] {
            let date = civil_date(seconds * 1e3);
            assert_eq!((date.year, date.month, date.day), (year, month, day));
        }
        for number in 12 * 1890..12 * 2110 {
            let date = civil_date(start_of_month(number));
            assert_eq!((date.month_number(), date.day), (number, 1));
        }
    }

    fn days(count: f64, width: f64) -> Vec<String> {
        let low = 1_767_225_600e3; // 2026-01-01
        let extent =
            AxisExtent::of_values(&AxisScale::Linear, [low, low + count * DAY_MS]).unwrap();
        let x = AxisMapping::new(&ChartAxis::linear(""), extent, 0.0, width);
        let written = date_labels(&x, (-20.0, width + 20.0));
        written.into_iter().map(|label| label.text).collect()
    }

    #[test]
    fn dates_are_as_fine_as_the_room_allows() {
        assert_eq!(days(0.5, 300.0), ["01-01 00:00", "01-01 12:00"]);
        assert_eq!(days(3.0, 400.0), ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]);
        assert_eq!(days(150.0, 400.0), ["2026-01", "2026-02", "2026-03", "2026-04", "2026-05"]);
        assert_eq!(days(800.0, 200.0), ["2026", "2027", "2028"]);
        assert_eq!(days(1e9, 200.0), [""; 0]);
    }

    #[test]
    fn the_halving_order_begins_with_both_ends_and_repeats_nothing() {
        assert_eq!(halving_order(0), [0; 0]);
        assert_eq!(halving_order(1), [0]);
        assert_eq!(halving_order(5), [4, 0, 2, 1, 3]);
        let mut all = halving_order(1000);
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
    }
}
