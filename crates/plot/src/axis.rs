//! What a chart says about one of its axes: its label and how values become distances.
//! Positions in pixels are the business of `scale::Mapping`.

/// One axis of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Words beside the axis, with the unit; may be empty.
    pub label: String,
    /// How values become distances.
    pub scale: Scale,
}

impl Axis {
    /// An axis on which equal differences are equal distances.
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Linear,
        }
    }

    /// An axis on which doubling is always the same distance.
    pub fn log2(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Log2,
        }
    }

    /// An axis on which ten times is always the same distance.
    pub fn log10(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Log10,
        }
    }

    /// An axis of percentages of which each further nine is the same distance: 90, 99, 99.9.
    pub fn nines(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Nines,
        }
    }

    /// The label, with a word on what it cannot be guessed from its ticks: that they are logarithmic.
    pub(crate) fn described(&self) -> String {
        match self.scale {
            Scale::Log2 | Scale::Log10 if !self.label.trim().is_empty() => {
                format!("{} (logarithmic)", self.label)
            }
            _ => self.label.clone(),
        }
    }

    /// The scale of an axis of values, on which names make no sense: they are read as linear.
    pub(crate) fn value_scale(&self) -> &Scale {
        match &self.scale {
            Scale::Category(_) => &Scale::Linear,
            scale => scale,
        }
    }

    /// An axis of named places: value 0 is the first name, 1 the second, and so on.
    pub fn category(label: impl Into<String>, names: Vec<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Category(names),
        }
    }
}

/// How the values of an axis become distances.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scale {
    /// Equal differences are equal distances.
    #[default]
    Linear,
    /// Logarithmic with ticks at powers of two. Values that are not positive cannot be shown.
    Log2,
    /// Logarithmic with ticks at powers of ten. Values that are not positive cannot be shown.
    Log10,
    /// Percentages from 0 up to, and without, 100: from 90 to 99 it is as far as from 99 to 99.9, so that
    /// the tail of a distribution can be read. HdrHistogram's plots made it usual (G. Tene). Values of
    /// 100 and more cannot be shown.
    Nines,
    /// Changes in percent, by their ratio: from 0 to +100 % it is as far as from 0 to -50 %. Changes of
    /// -100 % and less cannot be shown.
    Change,
    /// Named places; a value is an index into the names. Values outside cannot be shown.
    Category(Vec<String>),
}
