//! The bend of a scale: values into a space in which equal distances are drawn equally, and back.

use crate::Scale;

/// Beyond this a linear axis cannot be widened without leaving the numbers a machine has. Larger
/// values are drawn at the edge.
const LINEAR_LIMIT: f64 = 4e307;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Projection {
    Linear,
    Log2,
    Log10,
    Nines,
    Change,
}

impl Projection {
    pub fn of(scale: &Scale) -> Self {
        match scale {
            Scale::Linear | Scale::Category(_) => Self::Linear,
            Scale::Log2 => Self::Log2,
            Scale::Log10 => Self::Log10,
            Scale::Nines => Self::Nines,
            Scale::Change => Self::Change,
        }
    }

    /// The projected value; `None` for what the scale cannot show.
    pub fn forward(self, value: f64) -> Option<f64> {
        let projected = match self {
            Self::Linear if value.is_finite() => value.clamp(-LINEAR_LIMIT, LINEAR_LIMIT),
            Self::Log2 => value.log2(),
            Self::Log10 => value.log10(),
            Self::Nines if value < 0.0 => f64::NAN,
            // The share above, as a power of ten: 0 at 0 %, 1 at 90 %, 2 at 99 %.
            Self::Nines => -(1.0 - value / 100.0).log10(),
            Self::Change => (value / 100.0).ln_1p(),
            Self::Linear => value,
        };
        // The logarithm of zero is infinite and that of a negative number is not a number.
        projected.is_finite().then_some(projected)
    }

    pub fn back(self, projected: f64) -> f64 {
        match self {
            Self::Linear => projected,
            Self::Log2 => projected.exp2(),
            Self::Log10 => 10.0_f64.powf(projected),
            Self::Nines => 100.0 * (1.0 - 10.0_f64.powf(-projected)),
            Self::Change => 100.0 * projected.exp_m1(),
        }
    }
}

/// Whether `scale` has a place for `value`.
pub(crate) fn can_show(scale: &Scale, value: f64) -> bool {
    match scale {
        Scale::Category(names) => value >= -0.5 && value <= names.len() as f64 - 0.5,
        other => Projection::of(other).forward(value).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scale_says_what_it_has_a_place_for() {
        let names = Scale::Category(vec!["a".into(), "b".into()]);
        assert!(can_show(&names, 1.0) && !can_show(&names, 2.0) && !can_show(&names, f64::NAN));
        assert!(can_show(&Scale::Linear, -1.0) && !can_show(&Scale::Linear, f64::INFINITY));
        assert!(can_show(&Scale::Log2, 0.5) && !can_show(&Scale::Log2, 0.0));
        assert!(!can_show(&Scale::Log10, -1.0) && !can_show(&Scale::Log10, f64::NAN));
    }

    #[test]
    fn each_further_nine_is_the_same_distance() {
        let at = |value| Projection::Nines.forward(value);
        assert_eq!((at(0.0), at(100.0), at(-1.0)), (Some(0.0), None, None));
        for (percent, nines) in [(90.0, 1.0), (99.0, 2.0), (99.99, 4.0)] {
            assert!((at(percent).unwrap() - nines).abs() < 1e-9);
            assert!((Projection::Nines.back(nines) - percent).abs() < 1e-9);
        }
    }

    #[test]
    fn a_doubling_and_a_halving_are_the_same_distance() {
        let at = |percent| Projection::Change.forward(percent);
        assert_eq!((at(0.0), at(-100.0), at(-101.0)), (Some(0.0), None, None));
        assert!((at(100.0).unwrap() + at(-50.0).unwrap()).abs() < 1e-12);
        assert!((Projection::Change.back(at(300.0).unwrap()) - 300.0).abs() < 1e-9);
    }

    #[test]
    fn back_undoes_forward() {
        for projection in [Projection::Linear, Projection::Log2, Projection::Log10] {
            for value in [1e-12, 1.0, 3.5, 1e12] {
                let there = projection.forward(value).unwrap();
                assert!((projection.back(there) / value - 1.0).abs() < 1e-12);
            }
        }
    }
}
