//! Draws a text chart of values with intervals.
//!
//! Decides scale and marks: `o` for the value, `[---]` for the interval, `|` for the reference (`+`
//! within an interval). Uses no color. Does not know what the values mean. Start at [`band_chart`].

use unicode_width::UnicodeWidthStr;

/// Width of the scale in columns.
const SCALE_COLUMNS: usize = 60;

/// One line of the chart.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartBand {
    /// Label on the left.
    pub label: String,
    /// Value.
    pub value: f64,
    /// Interval around the value, if defined.
    pub interval: Option<(f64, f64)>,
}

/// Draws one line for each band, and a last line with the two ends of the scale. `number` formats
/// these ends. The scale includes `reference`.
///
/// Bands without a finite value are omitted. The chart is empty if no band is left, or if all
/// values and bounds equal `reference`.
pub fn band_chart(bands: &[ChartBand], reference: f64, number: impl Fn(f64) -> String) -> String {
    let bands: Vec<&ChartBand> = bands.iter().filter(|band| band.value.is_finite()).collect();
    let values = bands.iter().flat_map(|band| {
        let (low, high) = band.interval.unwrap_or((band.value, band.value));
        [low, high, band.value]
    });
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((reference, reference), |(low, high), value| (low.min(value), high.max(value)));
    if bands.is_empty() || low == high {
        return String::new();
    }
    let scale = ChartScale { low, high };
    let label_width = bands.iter().map(|band| band.label.width()).max().unwrap_or(0);
    let mut chart = String::new();
    for band in &bands {
        let padding = " ".repeat(label_width - band.label.width());
        let line = format!("{}{padding}  {}", band.label, scale.draw_line(band, reference));
        chart.push_str(line.trim_end());
        chart.push('\n');
    }
    let (low, high) = (number(low), number(high));
    let gap = " ".repeat(SCALE_COLUMNS.saturating_sub(low.width() + high.width()).max(1));
    chart + &" ".repeat(label_width + 2) + &low + &gap + &high + "\n"
}

struct ChartScale {
    low: f64,
    high: f64,
}

impl ChartScale {
    /// Returns the column of a value; values beyond the ends are placed at the ends.
    fn column(&self, value: f64) -> usize {
        let fraction = (value - self.low) / (self.high - self.low);
        (fraction.clamp(0.0, 1.0) * (SCALE_COLUMNS - 1) as f64).round() as usize
    }

    fn draw_line(&self, band: &ChartBand, reference: f64) -> String {
        let mut marks = [b' '; SCALE_COLUMNS];
        marks[self.column(reference)] = b'|';
        if let Some((low, high)) = band.interval {
            let (low, high) = (self.column(low), self.column(high));
            for mark in &mut marks[low..=high] {
                *mark = if *mark == b'|' { b'+' } else { b'-' };
            }
            (marks[low], marks[high]) = (b'[', b']');
        }
        marks[self.column(band.value)] = b'o';
        String::from_utf8_lossy(&marks).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_band(label: &str, value: f64, interval: Option<(f64, f64)>) -> ChartBand {
        ChartBand { label: label.into(), value, interval }
    }

    #[test]
    fn all_bands_and_the_reference_share_one_scale() {
        let bands = [
            sample_band("slower", -15.0, Some((-20.0, -10.0))),
            sample_band("same", 1.0, Some((-5.0, 7.0))),
            sample_band("é", 39.0, None),
            sample_band("unknown", f64::NAN, None),
        ];
        let chart = band_chart(&bands, 0.0, |number| format!("{number} %"));
        // One column per percent, from -20 to 39: the reference, 0 %, is in column 20.
        assert_eq!(
            chart,
            "slower  [----o----]         |\n\
             same                   [----+o-----]\n\
             é                           |                                      o\n        \
             -20 %                                                   39 %\n"
        );
    }

    #[test]
    fn a_chart_without_a_range_is_empty() {
        assert_eq!(band_chart(&[], 0.0, |number| number.to_string()), "");
        assert_eq!(
            band_chart(&[sample_band("a", 0.0, None)], 0.0, |number| number.to_string()),
            ""
        );
    }
}
