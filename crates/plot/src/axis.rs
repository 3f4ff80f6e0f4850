//! Describes a chart axis: its label, and how its values map to distances. `scale::AxisMapping`
//! computes positions in pixels.

/// An axis of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartAxis {
    /// Axis label with the unit; may be empty.
    pub label: String,
    /// Scale that maps values to distances.
    pub scale: AxisScale,
}

impl ChartAxis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: AxisScale::Linear }
    }

    /// A base-2 logarithmic axis.
    pub fn log2(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: AxisScale::Log2 }
    }

    /// A base-10 logarithmic axis.
    pub fn log10(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: AxisScale::Log10 }
    }

    /// An axis of percentages on which each additional nine is the same distance: 90, 99, 99.9.
    pub fn nines(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: AxisScale::Nines }
    }

    /// The label, with a note if the axis is logarithmic, because the ticks do not make that
    /// obvious.
    pub(crate) fn full_label(&self) -> String {
        match self.scale {
            AxisScale::Log2 | AxisScale::Log10 if !self.label.trim().is_empty() => {
                format!("{} (logarithmic)", self.label)
            }
            _ => self.label.clone(),
        }
    }

    /// Scale of a value axis. A category scale makes no sense here and is treated as linear.
    pub(crate) fn value_scale(&self) -> &AxisScale {
        match &self.scale {
            AxisScale::Category(_) => &AxisScale::Linear,
            scale => scale,
        }
    }

    /// A category axis: value 0 is the first name, 1 the second, and so on.
    pub fn category(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { label: label.into(), scale: AxisScale::Category(names) }
    }
}

/// How the values of an axis map to distances.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AxisScale {
    /// Equal differences are equal distances.
    #[default]
    Linear,
    /// Logarithmic with ticks at powers of two. Cannot show values that are not positive.
    Log2,
    /// Logarithmic with ticks at powers of ten. Cannot show values that are not positive.
    Log10,
    /// Percentages from 0 to below 100. The distance from 90 to 99 equals the distance from 99 to
    /// 99.9, so the tail of a distribution is readable. Popularized by HdrHistogram's plots (G.
    /// Tene). Cannot show values of 100 or more.
    Nines,
    /// Relative changes in percent, placed by the logarithm of the ratio. The distance from 0 to
    /// +100 % equals the distance from 0 to -50 %. Cannot show changes of -100 % or less.
    Change,
    /// Named categories; a value is an index into the names. Cannot show other values.
    Category(Vec<String>),
}
