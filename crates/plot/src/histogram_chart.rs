//! How often values occur. One or two series share a plot; more of them get a row each over
//! the same axis, because more than two overlapping histograms cannot be read.

use crate::bins::{Bins, Counted, total};
use crate::draw::{Rect, Style, Svg};
use crate::histogram_plots::{Plots, Tally};
use crate::layout::{Header, Key, Swatch, omitted_note};
use crate::page::Figure;
use crate::scale::{Projection, can_show};
use crate::summary::{count, list};
use crate::{Axis, Scale};

/// Series that may share a plot.
const MOST_OVERLAID: usize = 2;
const ROW_PX: f64 = 90.0;

/// Histograms over one axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramChart {
    /// What the chart shows, in large letters.
    pub title: String,
    /// A line of explanation.
    pub subtitle: Option<String>,
    /// The axis of the values. A category scale makes no sense here and is read as linear.
    pub x: Axis,
    /// The values, series by series.
    pub series: Vec<HistogramSeries>,
}

/// The values of one histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSeries {
    /// The name in the legend, or beside the row.
    pub name: String,
    /// The values, in any order.
    pub values: Vec<f64>,
    /// How often each of the values occurred; once each, where it is empty.
    pub counts: Vec<u64>,
}

impl HistogramSeries {
    /// Each value with how often it occurred.
    fn counted(&self) -> impl Iterator<Item = Counted> + '_ {
        let count = |at: usize| match self.counts.is_empty() {
            true => 1,
            false => self.counts.get(at).copied().unwrap_or(0),
        };
        let values = self.values.iter().enumerate();
        values.map(move |(at, value)| Counted {
            value: *value,
            count: count(at),
        })
    }

    fn total(&self) -> u64 {
        self.counted().map(|value| value.count).sum()
    }
}

impl HistogramChart {
    fn scale(&self) -> &Scale {
        match &self.x.scale {
            Scale::Category(_) => &Scale::Linear,
            scale => scale,
        }
    }

    fn shown(&self, series: &HistogramSeries) -> Vec<Counted> {
        series
            .counted()
            .filter(|of| of.count > 0 && can_show(self.scale(), of.value))
            .collect()
    }

    fn count_shown(&self) -> u64 {
        let shown = self.series.iter().map(|series| self.shown(series));
        shown.map(|values| total(&values)).sum()
    }

    fn overlaid(&self) -> bool {
        self.series.len() <= MOST_OVERLAID
    }

    /// Whether heights are shares: counts of series of different size cannot be compared.
    fn as_shares(&self) -> bool {
        let mut sizes = self.series.iter().map(|series| total(&self.shown(series)));
        let first = sizes.next();
        sizes.any(|size| Some(size) != first)
    }

    /// The bars of all series, with heights that can be compared.
    fn tallies(&self, bins: &Bins) -> Vec<Tally<'_>> {
        let as_shares = self.as_shares();
        let tally = |(at, series): (usize, &'_ HistogramSeries)| {
            let values = self.shown(series);
            let counts = bins.counts(&values);
            let total = total(&values);
            let unit = if as_shares {
                100.0 / total.max(1) as f64
            } else {
                1.0
            };
            (at, counts, total, unit)
        };
        let tallies = self.series.iter().enumerate().map(tally);
        tallies
            .map(|(at, counts, total, unit)| Tally {
                name: &self.series[at].name,
                style: Style::of(at),
                counts,
                total,
                unit,
            })
            .collect()
    }

    fn names(&self) -> Vec<&str> {
        self.series
            .iter()
            .map(|series| series.name.as_str())
            .collect()
    }
}

impl Figure for HistogramChart {
    fn header(&self) -> Header<'_> {
        let values: u64 = self.series.iter().map(HistogramSeries::total).sum();
        let legend = if self.overlaid() {
            Key::list(&self.names(), Swatch::Area)
        } else {
            Vec::new()
        };
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note((values - self.count_shown()) as usize, &[self.scale()]),
            legend,
        }
    }

    fn summary(&self) -> String {
        let values = count(self.count_shown() as usize, "value", "s");
        format!(
            "Histogram of {values} in {} series: {}.",
            self.series.len(),
            list(&self.names())
        )
    }

    fn is_empty(&self) -> bool {
        self.count_shown() == 0
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        let values: Vec<Vec<Counted>> = self
            .series
            .iter()
            .map(|series| self.shown(series))
            .collect();
        let Some(bins) = Bins::of(Projection::of(self.scale()), &values) else {
            return;
        };
        let tallies = self.tallies(&bins);
        let x = Axis {
            label: self.x.label.clone(),
            scale: self.scale().clone(),
        };
        let Some(extent) = bins.extent(&x.scale) else {
            return;
        };
        let plots = Plots {
            bins: &bins,
            tallies: &tallies,
            as_shares: self.as_shares(),
        };
        if self.overlaid() {
            plots.draw_overlaid(svg, area, &x, extent);
        } else {
            plots.draw_rows(svg, area, &x, extent);
        }
    }

    fn natural_height(&self, _width: f64) -> f64 {
        if self.overlaid() {
            480.0
        } else {
            self.series.len() as f64 * ROW_PX + 80.0
        }
    }
}
