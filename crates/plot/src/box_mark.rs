//! One box of a box plot: box, median, whiskers, and its values as points.

use crate::draw::{Style, Svg, hatched_tint};
use crate::jitter;
use crate::layout::Banded;
use crate::scale::figure;
use crate::tukey::Tukey;

/// A box is never thicker, however wide its place.
const THICKEST_PX: f64 = 72.0;

/// One box, with what its tooltips say.
pub(crate) struct BoxMark<'a> {
    pub category: &'a str,
    pub name: &'a str,
    /// The values that can be shown, ascending.
    pub sorted: &'a [f64],
    /// Where the line across the box is, if not at the median.
    pub center: Option<f64>,
    pub style: Style,
    /// The pixel of its middle, across the direction of values.
    pub middle: f64,
}

impl BoxMark<'_> {
    pub fn draw(&self, svg: &mut Svg, banded: &Banded) {
        let Some(tukey) = Tukey::of(self.sorted) else {
            return;
        };
        let tukey = tukey.centered(self.center);
        let half = (banded.slot_px() * 0.86).min(THICKEST_PX) / 2.0;
        svg.group("series")
            .set("stroke", &self.style.colour())
            .num("stroke-width", if half < 3.0 { 0.6 } else { 1.2 })
            .containing(|svg| {
                self.draw_whiskers(svg, banded, &tukey, half * 0.4);
                self.draw_box(svg, banded, &tukey, half);
                self.draw_points(svg, banded, half);
                self.draw_center(svg, banded, &tukey, half);
            });
    }

    fn draw_whiskers(&self, svg: &mut Svg, banded: &Banded, tukey: &Tukey, cap: f64) {
        let arms = [
            (tukey.low_quartile, tukey.low_whisker),
            (tukey.high_quartile, tukey.high_whisker),
        ];
        for (from, to) in arms {
            let middle = banded.point(self.middle, to);
            svg.line(banded.point(self.middle, from), middle)
                .set("class", "whisker")
                .close();
            let (one, other) = (
                banded.point(self.middle - cap, to),
                banded.point(self.middle + cap, to),
            );
            svg.line(one, other).set("class", "cap").close();
        }
    }

    fn draw_box(&self, svg: &mut Svg, banded: &Banded, tukey: &Tukey, half: f64) {
        let across = (self.middle - half, self.middle + half);
        let rect = banded.rect(across, (tukey.low_quartile, tukey.high_quartile));
        svg.element("rect")
            .set("class", "box")
            .num("x", rect.left)
            .num("y", rect.top)
            .num("width", rect.right - rect.left)
            .num("height", rect.bottom - rect.top)
            .set("fill", &hatched_tint(self.style))
            .titled(&self.describe(tukey));
    }

    fn draw_center(&self, svg: &mut Svg, banded: &Banded, tukey: &Tukey, half: f64) {
        let ends = [self.middle - half, self.middle + half];
        let [one, other] = ends.map(|across| banded.point(across, tukey.center));
        let line = svg.line(one, other).set("class", "median");
        line.num("stroke-width", if half > 5.0 { 2.5 } else { 1.5 })
            .close();
    }

    fn draw_points(&self, svg: &mut Svg, banded: &Banded, half: f64) {
        let radius = self.radius(half);
        let opacity = if self.sorted.len() > 200 { 0.45 } else { 0.65 };
        // The whole label of the category in every tooltip would be most of the file.
        let name = match self.name.trim() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let points = svg
            .group("points")
            .set("stroke", "none")
            .set("fill", &self.style.colour());
        points.num("fill-opacity", opacity).containing(|svg| {
            for (value, offset) in self.sorted.iter().zip(jitter::offsets(self.sorted)) {
                let room = (half - radius).max(0.0) * 1.7;
                let (x, y) = banded.point(self.middle + offset * room, *value);
                svg.element("path")
                    .set("class", "point")
                    .set("d", &self.style.marker().path(x, y, radius))
                    .titled(&format!("{name}{}", figure(*value)));
            }
        });
    }

    /// Smaller points where there are many or where the box is thin.
    fn radius(&self, half: f64) -> f64 {
        let crowded = match self.sorted.len() {
            0..40 => 2.8,
            40..200 => 2.2,
            _ => 1.6,
        };
        f64::min(crowded, half * 0.2).max(0.6)
    }

    /// What this box belongs to, as the beginning of a tooltip.
    fn owner(&self) -> String {
        let parts = [self.category, self.name];
        let named: Vec<&str> = parts
            .into_iter()
            .filter(|part| !part.trim().is_empty())
            .collect();
        if named.is_empty() {
            String::new()
        } else {
            format!("{}: ", named.join(", "))
        }
    }

    fn describe(&self, tukey: &Tukey) -> String {
        format!(
            "{}{}\nquartiles {} to {}\nwhiskers {} to {}\nn = {}",
            self.owner(),
            tukey.describe_center(),
            figure(tukey.low_quartile),
            figure(tukey.high_quartile),
            figure(tukey.low_whisker),
            figure(tukey.high_whisker),
            self.sorted.len(),
        )
    }
}
