//! The legend: a swatch and a name for every series, in rows from left to right.

use super::swatch::Swatch;
use crate::draw::{MUTED, Style, Svg, Text};
use crate::text::{CAP_HEIGHT, elide, room_for};

const SIZE_PX: f64 = 13.0;
const ROW: f64 = 22.0;
const BETWEEN: f64 = 20.0;
/// Names beyond these rows are only counted: the legend must not crowd out the chart.
const MAX_ROWS: usize = 4;

/// One entry of the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub name: String,
    pub swatch: Swatch,
}

impl Key {
    /// One key per name; none when there is nothing to tell apart.
    pub fn list(names: &[&str], swatch: impl Fn(Style) -> Swatch) -> Vec<Self> {
        if names.iter().all(|name| name.trim().is_empty()) {
            return Vec::new();
        }
        let key = |(at, name): (usize, &&str)| Self {
            name: (*name).to_owned(),
            swatch: swatch(Style::of(at)),
        };
        names.iter().enumerate().map(key).collect()
    }
}

/// A legend whose places are known, relative to its upper left corner.
pub(crate) struct Legend {
    keys: Vec<(f64, usize, Key)>,
    rows: usize,
    more: Option<(f64, String)>,
}

impl Legend {
    pub fn lay_out(keys: &[Key], width: f64) -> Self {
        let mut legend = Self {
            keys: Vec::new(),
            rows: 0,
            more: None,
        };
        let (mut x, mut row) = (0.0, 0);
        for (at, key) in keys.iter().enumerate() {
            let swatch = key.swatch.width();
            let name = elide(&key.name, (width - swatch).clamp(40.0, 420.0), SIZE_PX);
            let wide = swatch + room_for(&name, SIZE_PX);
            // The last row keeps room for the count of what is not named.
            let spare = if row + 1 == MAX_ROWS && at + 1 < keys.len() {
                90.0
            } else {
                0.0
            };
            if x > 0.0 && x + wide + spare > width {
                if row + 1 == MAX_ROWS {
                    legend.more = Some((x, format!("and {} more", keys.len() - at)));
                    break;
                }
                (x, row) = (0.0, row + 1);
            }
            legend.keys.push((
                x,
                row,
                Key {
                    name,
                    swatch: key.swatch,
                },
            ));
            x += wide + BETWEEN;
        }
        legend.rows = if keys.is_empty() { 0 } else { row + 1 };
        legend
    }

    /// Height in pixels, with the gap above; zero for no keys.
    pub fn height(&self) -> f64 {
        if self.rows == 0 {
            0.0
        } else {
            self.rows as f64 * ROW + 8.0
        }
    }

    pub fn draw(&self, svg: &mut Svg, left: f64, top: f64) {
        if self.keys.is_empty() {
            return;
        }
        let middle = |row: usize| top + 8.0 + (row as f64 + 0.5) * ROW;
        svg.group("legend").containing(|svg| {
            for (x, row, key) in &self.keys {
                let (x, y) = (left + x, middle(*row));
                key.swatch.draw(svg, x, y);
                let baseline = y + SIZE_PX * CAP_HEIGHT / 2.0;
                let start = x + key.swatch.width();
                svg.text(&Text::at(&key.name, start, baseline, SIZE_PX));
            }
            if let Some((x, text)) = &self.more {
                let baseline = middle(self.rows - 1) + SIZE_PX * CAP_HEIGHT / 2.0;
                svg.text(&Text::at(text, left + x, baseline, SIZE_PX).coloured(MUTED));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: usize) -> Vec<Key> {
        let names: Vec<String> = (0..count).map(|at| format!("series number {at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Key::list(&names, Swatch::Points)
    }

    #[test]
    fn keys_flow_into_rows_within_the_width() {
        let legend = Legend::lay_out(&keys(7), 400.0);
        assert!(legend.rows > 1 && legend.more.is_none());
        for (x, _, key) in &legend.keys {
            assert!(x + key.swatch.width() + room_for(&key.name, SIZE_PX) <= 400.0);
        }
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let legend = Legend::lay_out(&keys(60), 400.0);
        assert_eq!(legend.rows, MAX_ROWS);
        let (x, text) = legend.more.as_ref().unwrap();
        assert_eq!(*text, format!("and {} more", 60 - legend.keys.len()));
        assert!(x + room_for(text, SIZE_PX) <= 400.0);
    }

    #[test]
    fn nameless_series_need_no_legend() {
        assert!(Key::list(&["", " "], Swatch::Bar).is_empty());
        assert_eq!(Legend::lay_out(&[], 400.0).height(), 0.0);
    }
}
