//! Draws a small chart of values for a cell of a table: a line, its levels, and its last point.
//! The style of the page chooses the colors.

use std::fmt::Write as _;

/// Distance of the drawing from its edges, where lines and the last point must not be cut off.
const MARGIN_PX: f64 = 2.5;

/// Values in equal steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sparkline {
    /// The values, oldest first.
    pub points: Vec<f64>,
    /// The levels of the values.
    pub levels: Vec<SparkLevel>,
}

/// A level: a stretch of points without a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparkLevel {
    /// Index of its first point.
    pub first: usize,
    /// Index of its last point.
    pub last: usize,
    /// The value of the level.
    pub value: f64,
}

impl Sparkline {
    /// Renders the values as SVG of this size in pixels; `None` without a finite value. The drawing
    /// is hidden from screen readers, because the row states the same in words.
    pub fn render_svg(&self, width_px: u32, height_px: u32) -> Option<String> {
        let (width, height) = (f64::from(width_px), f64::from(height_px));
        let values = self.points.iter().copied().chain(self.levels.iter().map(|each| each.value));
        let finite = values.filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let last_index = self.points.iter().rposition(|value| value.is_finite())?;
        let steps = self.points.len().saturating_sub(1).max(1) as f64;
        let x = |index: f64| MARGIN_PX + (width - 2.0 * MARGIN_PX) * index / steps;
        let y = |value: f64| {
            let share = if high > low { (value - low) / (high - low) } else { 0.5 };
            height - MARGIN_PX - (height - 2.0 * MARGIN_PX) * share
        };
        let mut out = format!(
            "<svg class=\"mini\" width=\"{width_px}\" height=\"{height_px}\" \
             viewBox=\"0 0 {width_px} {height_px}\" aria-hidden=\"true\">"
        );
        let corners = self.corners((width_px / 2).max(1) as usize);
        // Writing to a `String` cannot fail.
        if corners.len() > 1 {
            out.push_str("<path class=\"line\" d=\"");
            for (number, (index, value)) in corners.iter().enumerate() {
                let step = if number == 0 { 'M' } else { 'L' };
                let _ = write!(out, "{step}{:.1} {:.1}", x(*index), y(*value));
            }
            out.push_str("\"/>");
        }
        let shown = self.levels.iter().filter(|each| each.value.is_finite());
        let lines: String = shown
            .map(|level| {
                let [from, to] = [level.first, level.last].map(|index| x(index as f64));
                format!("M{from:.1} {:.1}H{:.1}", y(level.value), to.max(from + 2.0))
            })
            .collect();
        if !lines.is_empty() {
            let _ = write!(out, "<path class=\"level\" d=\"{lines}\"/>");
        }
        let (end_x, end_y) = (x(last_index as f64), y(self.points[last_index]));
        let _ = write!(out, "<circle cx=\"{end_x:.1}\" cy=\"{end_y:.1}\" r=\"1.8\"/></svg>");
        Some(out)
    }

    /// Returns at most about `max_count` corners of the line: the means of neighboring points, with
    /// their indexes.
    fn corners(&self, max_count: usize) -> Vec<(f64, f64)> {
        let size = self.points.len().div_ceil(max_count).max(1);
        let chunks = self.points.chunks(size).enumerate();
        let mean = |(number, chunk): (usize, &[f64])| {
            let finite: Vec<f64> =
                chunk.iter().copied().filter(|value| value.is_finite()).collect();
            let count = finite.len() as f64;
            let middle = (number * size) as f64 + (chunk.len() - 1) as f64 / 2.0;
            (count > 0.0).then(|| (middle, finite.iter().sum::<f64>() / count))
        };
        chunks.filter_map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_has_a_line_its_levels_and_its_last_point() {
        let level = |first, last, value| SparkLevel { first, last, value };
        let spark = Sparkline {
            points: vec![1.0, 1.0, f64::NAN, 3.0, 3.0],
            levels: vec![level(0, 1, 1.0), level(3, 4, 3.0)],
        };
        let svg = spark.render_svg(105, 15).unwrap();
        assert!(svg.contains("d=\"M2.5 12.5L27.5 12.5L77.5 2.5L102.5 2.5\""), "{svg}");
        assert!(svg.contains("d=\"M2.5 12.5H27.5M77.5 2.5H102.5\""), "{svg}");
        assert!(svg.contains("<circle cx=\"102.5\" cy=\"2.5\""), "{svg}");
    }

    #[test]
    fn few_or_no_points_and_very_many_are_drawn() {
        let of = |points: Vec<f64>| Sparkline { points, levels: Vec::new() };
        assert_eq!(of(Vec::new()).render_svg(100, 16), None);
        assert_eq!(of(vec![f64::NAN]).render_svg(100, 16), None);
        let one = of(vec![7.0]).render_svg(100, 16).unwrap();
        assert!(one.contains("cy=\"8.0\"") && !one.contains("<path"), "{one}");
        let many = of((0..2_000).map(f64::from).collect()).render_svg(100, 16).unwrap();
        assert!(many.len() < 900, "{}", many.len());
    }
}
