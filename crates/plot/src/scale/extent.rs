//! Which part of the numbers an axis shows. Ends are in projected space (logarithms on a logarithmic
//! scale), so that padding is even on the screen.

use super::projection::Projection;
use crate::Scale;

/// Low and high end of an axis, in projected space, low < high after [`Extent::padded`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extent {
    pub low: f64,
    pub high: f64,
    projection: Projection,
}

impl Extent {
    /// Spans all values that the scale can show; `None` when there are none.
    pub fn of(scale: &Scale, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let projection = Projection::of(scale);
        let mut shown = values
            .into_iter()
            .filter_map(|value| projection.forward(value));
        let first = shown.next()?;
        let start = Self {
            low: first,
            high: first,
            projection,
        };
        Some(shown.fold(start, |extent, value| Self {
            low: extent.low.min(value),
            high: extent.high.max(value),
            ..extent
        }))
    }

    /// The places of a category axis, half a place to spare at both ends.
    pub fn of_names(count: usize) -> Self {
        Self {
            low: -0.5,
            high: count.max(1) as f64 - 0.5,
            projection: Projection::Linear,
        }
    }

    /// The projection in whose space the ends are.
    pub fn projection(&self) -> Projection {
        self.projection
    }

    /// Also spans `value`, if the scale can show it.
    pub fn including(self, value: f64) -> Self {
        match self.projection.forward(value) {
            Some(projected) => self.reaching(projected),
            None => self,
        }
    }

    /// Also spans a place in projected space.
    pub fn reaching(self, projected: f64) -> Self {
        Self {
            low: self.low.min(projected),
            high: self.high.max(projected),
            ..self
        }
    }

    /// Reaches to zero when that costs at most a third of the axis: an axis that starts at zero
    /// shows true proportions, but must not squeeze the data to do so.
    pub fn including_near_zero(self) -> Self {
        let (near, far) = (
            self.low.abs().min(self.high.abs()),
            self.low.abs().max(self.high.abs()),
        );
        let linear = self.projection == Projection::Linear;
        if linear && near <= far / 3.0 && self.low * self.high > 0.0 {
            return self.including(0.0);
        }
        self
    }

    /// Widens by a share of the span at both ends, yet never across zero, where it would suggest
    /// that values of the other sign occur. Equal values get a span of their own.
    pub fn padded(self, share: f64) -> Self {
        let largest = self.low.abs().max(self.high.abs());
        let span = self.high - self.low;
        let linear = self.projection == Projection::Linear;
        // Spans near the resolution of a double have no ticks that could be told apart.
        if span <= largest * 1e-11 || span < f64::MIN_POSITIVE * 1e6 || (!linear && span < 1e-9) {
            return self.opened();
        }
        let mut wide = Self {
            low: self.low - span * share,
            high: self.high + span * share,
            ..self
        };
        // Below 0 % there is nothing either.
        if (linear || self.projection == Projection::Nines) && self.low >= 0.0 {
            wide.low = wide.low.max(0.0);
        }
        if linear && self.high <= 0.0 {
            wide.high = wide.high.min(0.0);
        }
        wide
    }

    /// Widens by a share of the span at both ends, across zero if need be.
    pub fn padded_across(self, share: f64) -> Self {
        let padded = self.padded(0.0);
        let more = (padded.high - padded.low) * share;
        Self {
            low: padded.low - more,
            high: padded.high + more,
            ..self
        }
    }

    /// A span around one single value.
    fn opened(self) -> Self {
        let middle = self.low / 2.0 + self.high / 2.0;
        let half = match self.projection {
            Projection::Linear if middle.abs() < f64::MIN_POSITIVE * 1e6 => 1.0,
            Projection::Linear => middle.abs() * 0.05,
            Projection::Log2 => 1.0,
            Projection::Log10 | Projection::Nines | Projection::Change => 0.5,
        };
        Self {
            low: middle - half,
            high: middle + half,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(values: &[f64]) -> Extent {
        Extent::of(&Scale::Linear, values.iter().copied()).unwrap()
    }

    #[test]
    fn what_cannot_be_shown_does_not_count() {
        let extent = linear(&[f64::NAN, 3.0, f64::INFINITY, 7.0]);
        assert_eq!((extent.low, extent.high), (3.0, 7.0));
        assert_eq!(Extent::of(&Scale::Log10, [0.0, -1.0]), None);
    }

    #[test]
    fn zero_is_included_only_when_it_is_near() {
        assert_eq!(linear(&[1.0, 10.0]).including_near_zero().low, 0.0);
        assert_eq!(linear(&[9.0, 10.0]).including_near_zero().low, 9.0);
        assert_eq!(linear(&[-10.0, -1.0]).including_near_zero().high, 0.0);
    }

    #[test]
    fn padding_does_not_cross_zero() {
        let extent = linear(&[0.0, 10.0]).padded(0.1);
        assert_eq!((extent.low, extent.high), (0.0, 11.0));
    }

    #[test]
    fn equal_zero_and_extreme_values_get_a_span() {
        for values in [
            &[5.0, 5.0][..],
            &[0.0],
            &[-3.0],
            &[f64::MAX, f64::MIN],
            &[5e-324, 1e-320],
        ] {
            let extent = linear(values).padded(0.05);
            assert!(extent.low < extent.high, "{values:?}");
            assert!((extent.high - extent.low).is_finite(), "{values:?}");
        }
        let log = Extent::of(&Scale::Log2, [8.0]).unwrap().padded(0.05);
        assert_eq!((log.low, log.high), (2.0, 4.0));
    }
}
