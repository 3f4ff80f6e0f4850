//! One row of a forest plot, and what its mark means: shape and colour say the same, so that either
//! is enough.

use crate::draw::{Marker, NEUTRAL, PAPER, Svg};

/// One estimate with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    /// Written at the left; a line break in it divides a name from its description.
    pub label: String,
    /// The estimate.
    pub estimate: f64,
    /// Low end of the interval; minus infinity where it is open.
    pub low: f64,
    /// High end of the interval; infinity where it is open.
    pub high: f64,
    /// What the interval says.
    pub mark: Mark,
}

/// What an interval says about an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Better than the reference: a green triangle that points up.
    Better,
    /// Worse than the reference: a red triangle that points down.
    Worse,
    /// As good as the reference: a blue square.
    Same,
    /// The interval does not tell: a hollow grey circle.
    Unclear,
}

impl Mark {
    /// All marks, in the order of a legend.
    pub(crate) const ALL: [Self; 4] = [Self::Better, Self::Worse, Self::Same, Self::Unclear];

    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Unclear => "unclear",
        }
    }

    /// Colours of Okabe and Ito again: bluish green, vermilion, blue, and a grey.
    pub(crate) fn colour(self) -> &'static str {
        match self {
            Self::Better => "#009e73",
            Self::Worse => "#d55e00",
            Self::Same => "#0072b2",
            Self::Unclear => NEUTRAL,
        }
    }

    fn marker(self) -> Marker {
        match self {
            Self::Better => Marker::TriangleUp,
            Self::Worse => Marker::TriangleDown,
            Self::Same => Marker::Square,
            Self::Unclear => Marker::Circle,
        }
    }

    /// Draws the mark around (`x`, `y`); one with a tooltip is an estimate of the chart, one without a
    /// swatch of its legend.
    pub(crate) fn draw(self, svg: &mut Svg, x: f64, y: f64, radius: f64, tooltip: Option<&str>) {
        let hollow = self == Self::Unclear;
        // The line of a hollow mark lies half outside of it.
        let radius = if hollow { radius - 0.6 } else { radius };
        let (fill, stroke) = match hollow {
            true => (PAPER, self.colour()),
            false => (self.colour(), PAPER),
        };
        let shape = svg
            .element("path")
            .set("class", if tooltip.is_some() { "estimate" } else { "key" })
            .set("d", &self.marker().path(x, y, radius))
            .set("fill", fill)
            .set("stroke", stroke)
            .num("stroke-width", if hollow { 1.8 } else { 1.0 });
        match tooltip {
            Some(tooltip) => shape.titled(tooltip),
            None => shape.close(),
        }
    }
}
