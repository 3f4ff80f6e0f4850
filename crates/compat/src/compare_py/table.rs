//! The table, byte by byte as the original prints it.
//!
//! Decides widths, order and colours of its parts; it must not know where the figures come from.
//! Start at [`Table::write`].

use super::python_number::{fixed, signed};
use crate::u_test_table::{ENOUGH_FOR_TEST, Pair, Rules, Times, UTest, UTestTable};
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// The name of the row with the geometric means.
pub const GEOMEAN: &str = "OVERALL_GEOMEAN";

/// The end of the name of a row with p-values.
const P_VALUE: &str = "_pvalue";

/// What stands above the first column.
const BENCHMARK: &str = "Benchmark";

/// The other headings, in one piece.
const HEADINGS: &str =
    "Time             CPU      Time Old      Time New       CPU Old       CPU New";

/// A change above this is shown as a loss.
const LOSS_ABOVE: f64 = 0.05;

/// A change down to this is shown as a gain.
const GAIN_UP_TO: f64 = -0.07;

const NAME: &str = "\x1b[92m";
const RED: &str = "\x1b[91m";
const WHITE: &str = "\x1b[97m";
const CYAN: &str = "\x1b[96m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[93m";
const END: &str = "\x1b[0m";

/// How a table is shown.
#[derive(Debug, Clone, Copy)]
pub struct Table<'t> {
    /// The figures.
    pub figures: &'t UTestTable<'t>,
    /// Whether repetitions are left out.
    pub aggregates_only: bool,
    /// p-values below it are green.
    pub alpha: f64,
    /// Whether there are colours at all.
    pub colors: bool,
    /// Whose rules hold for widths and colours of what the original does not expect.
    pub rules: Rules,
}

impl Table<'_> {
    /// Writes heading and rows; returns how many rows there are besides the geometric means.
    ///
    /// # Errors
    /// The output is closed.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<usize> {
        let width = self.width();
        let heading = format!("{BENCHMARK:<0$}{HEADINGS}", width + 12);
        writeln!(out, "{heading}\n{}", "-".repeat(heading.len()))?;
        let mut count = 0;
        for row in &self.figures.rows {
            let name = &row.first.name;
            if !self.aggregates_only || row.first.is_aggregate() {
                for pair in &row.pairs {
                    self.pair(name, width, pair, out)?;
                }
                count += row.pairs.len();
            }
            if let Some(test) = &row.u_test {
                self.test(name, width, test, out)?;
                count += 1;
            }
        }
        if let Some(pair) = &self.figures.geomean {
            self.pair(GEOMEAN, width, pair, out)?;
        }
        Ok(count)
    }

    /// The width of the first column.
    fn width(&self) -> usize {
        let names = self.figures.rows.iter().map(|row| &*row.first.name);
        let means = self.figures.geomean.map(|_| GEOMEAN);
        let widths = names.chain(means).map(|name| self.width_of(name));
        widths.max().unwrap_or(0).max(BENCHMARK.len()) + P_VALUE.len()
    }

    /// The original counts characters, however wide they are.
    fn width_of(&self, name: &str) -> usize {
        match self.rules {
            Rules::Sound => name.width(),
            Rules::Original => name.chars().count(),
        }
    }

    fn paint(&self, color: &'static str) -> &'static str {
        if self.colors { color } else { "" }
    }

    fn pair(&self, name: &str, width: usize, pair: &Pair, out: &mut dyn Write) -> io::Result<()> {
        let (color, end) = (self.paint(NAME), self.paint(END));
        let blanks = width - self.width_of(name);
        let change = pair.change.map(|change| match change {
            Some(change) => signed(change, 16, 4),
            None => format!("{:>16}", "n/a"),
        });
        let colors = pair
            .change
            .map(|change| self.paint(self.color_of_change(change)));
        let Times { real, cpu } = pair.baseline;
        let new = pair.candidate;
        write!(out, "{color}{name}{:blanks$}{end}", "")?;
        write!(
            out,
            "{}{}{end}{}{}{end}",
            colors.real, change.real, colors.cpu, change.cpu
        )?;
        write!(out, "{}{}{end}", fixed(real, 14, 0), fixed(new.real, 14, 0))?;
        writeln!(out, "{}{}", fixed(cpu, 14, 0), fixed(new.cpu, 14, 0))
    }

    fn test(&self, name: &str, width: usize, test: &UTest, out: &mut dyn Write) -> io::Result<()> {
        let (color, end) = (self.paint(NAME), self.paint(END));
        let blanks = width - P_VALUE.len() - self.width_of(name);
        let colors = test.p.map(|p| self.paint(self.color_of_p(p)));
        write!(out, "{color}{name}{P_VALUE}{:blanks$}{end}", "")?;
        write!(out, "{}{}{end}", colors.real, fixed(test.p.real, 16, 4))?;
        write!(out, "{}{}{end}", colors.cpu, fixed(test.p.cpu, 16, 4))?;
        let (color, warning) = if test.is_reliable() {
            (GREEN, String::new())
        } else {
            (
                YELLOW,
                format!(
                    ". WARNING: Results unreliable! {ENOUGH_FOR_TEST}+ repetitions recommended."
                ),
            )
        };
        let (old, new) = (test.baseline_count, test.candidate_count);
        let color = self.paint(color);
        writeln!(
            out,
            "{color}      U Test, Repetitions: {old} vs {new}{warning}"
        )
    }

    /// A change that is no number is neither gain nor loss; the original shows it as a gain.
    fn color_of_change(&self, change: Option<f64>) -> &'static str {
        match change {
            Some(change) if change > LOSS_ABOVE => RED,
            Some(change) if change > GAIN_UP_TO => WHITE,
            Some(change) if self.rules == Rules::Original || !change.is_nan() => CYAN,
            Some(_) | None => WHITE,
        }
    }

    /// A p that is no number shows nothing; for the original it is significant.
    fn color_of_p(&self, p: f64) -> &'static str {
        if p >= self.alpha || (p.is_nan() && self.rules == Rules::Sound) {
            RED
        } else {
            GREEN
        }
    }
}
