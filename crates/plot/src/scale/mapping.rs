//! From a value to a pixel along one axis, and the ticks of that axis.
//! The only place that knows both values and pixels.

use super::extent::Extent;
use super::ticks::{Tick, ticks};
use crate::{Axis, Scale};

/// One axis laid along a line of pixels.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    scale: Scale,
    extent: Extent,
    from_px: f64,
    to_px: f64,
    whole_numbers: bool,
}

impl Mapping {
    /// Lays `extent` along the pixels `from_px..to_px`; `from_px` is the low end and may be larger.
    pub fn new(axis: &Axis, extent: Extent, from_px: f64, to_px: f64) -> Self {
        Self {
            scale: axis.scale.clone(),
            extent,
            from_px,
            to_px,
            whole_numbers: false,
        }
    }

    /// With ticks at whole numbers only, for counts.
    pub fn of_counts(self) -> Self {
        Self {
            whole_numbers: true,
            ..self
        }
    }

    /// The pixel of a value. What lies outside, or cannot be shown, is drawn at the edge.
    pub fn at(&self, value: f64) -> f64 {
        let edge = if value == f64::INFINITY {
            self.extent.high
        } else {
            self.extent.low
        };
        let projected = self.extent.projection().forward(value).unwrap_or(edge);
        let Extent { low, high, .. } = self.extent;
        let share = ((projected - low) / (high - low)).clamp(0.0, 1.0);
        self.from_px + share * (self.to_px - self.from_px)
    }

    /// Whether the axis reaches as far as `value`.
    pub fn reaches(&self, value: f64) -> bool {
        let projected = self.extent.projection().forward(value);
        let slack = (self.extent.high - self.extent.low) * 1e-9;
        projected.is_some_and(|at| at >= self.extent.low - slack && at <= self.extent.high + slack)
    }

    /// Length in pixels.
    pub fn length_px(&self) -> f64 {
        (self.to_px - self.from_px).abs()
    }

    /// The pixel of the low end.
    pub fn start_px(&self) -> f64 {
        self.from_px
    }

    /// The names of a category axis.
    pub fn names(&self) -> Option<&[String]> {
        match &self.scale {
            Scale::Category(names) => Some(names),
            _ => None,
        }
    }

    /// About `about` ticks; for a category axis all its names.
    pub fn ticks(&self, about: usize) -> Vec<Tick> {
        match self.names() {
            Some(names) => names
                .iter()
                .enumerate()
                .map(|(at, name)| Tick {
                    value: at as f64,
                    label: name.clone(),
                })
                .collect(),
            None => ticks(self.extent, about, self.whole_numbers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(axis: &Axis, values: [f64; 2]) -> Mapping {
        let extent = Extent::of(&axis.scale, values).unwrap();
        Mapping::new(axis, extent, 0.0, 100.0)
    }

    #[test]
    fn linear_and_logarithmic_places() {
        let linear = mapping(&Axis::linear(""), [0.0, 10.0]);
        assert_eq!(
            (linear.at(0.0), linear.at(5.0), linear.at(10.0)),
            (0.0, 50.0, 100.0)
        );
        let log = mapping(&Axis::log10(""), [1.0, 100.0]);
        assert!((log.at(10.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn what_lies_outside_is_at_the_edge() {
        let log = mapping(&Axis::log2(""), [1.0, 4.0]);
        assert_eq!((log.at(0.0), log.at(-5.0), log.at(1e9)), (0.0, 0.0, 100.0));
        assert_eq!(
            (log.at(f64::INFINITY), log.at(f64::NEG_INFINITY)),
            (100.0, 0.0)
        );
        assert!(log.reaches(4.0) && !log.reaches(4.1) && !log.reaches(0.0));
    }

    #[test]
    fn named_places_are_in_the_middle_of_their_share() {
        let axis = Axis::category("", vec!["a".into(), "b".into()]);
        let mapping = Mapping::new(&axis, Extent::of_names(2), 0.0, 100.0);
        assert_eq!((mapping.at(0.0), mapping.at(1.0)), (25.0, 75.0));
        assert_eq!(mapping.ticks(1).len(), 2);
    }
}
