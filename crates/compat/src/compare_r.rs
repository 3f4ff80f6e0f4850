//! Drop-in for `compare.R`: the table of comparisons from the CSV of `compare.js`.
//!
//! Decides text and order of the table; the figures come from `welch_table`, the picture
//! from `plot_r.rs`. It differs from the original where that stops: a case whose values do not
//! vary is shown without a p value, and all other cases are shown, too. Start at [`run`].

use super::console::Console;
use super::r_collation::Collation;
use super::r_options::ROptions;
use super::r_print::{self, Column};
use super::r_script::RScript;
use crate::plot_r::{self, Picture};
use crate::welch_table::{RISKS, Tested, WelchRow, welch_row};
use anyhow::Result;
use speedwell_results::formats::node_csv::Groups;
use speedwell_results::formats::node_csv::groups::Rates;
use std::fmt::Write as _;

const SCRIPT: RScript = RScript {
    tool: "compare.R",
    usage: include_str!("usage/compare.R.txt"),
    options: &[],
};

/// The script sets `options(width = 200)`.
const WIDTH: usize = 200;

/// Reads standard input and prints the table; returns the exit status.
///
/// # Errors
/// The input is no output of `compare.js`, or something cannot be written.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    SCRIPT.carry_out(arguments, console, compare)
}

fn compare(options: &ROptions, console: &mut Console<'_>) -> Result<i32> {
    let picture = options.value("plot").map(Picture::at).transpose()?;
    let groups = read_groups(SCRIPT.tool, console)?;
    let table = Table::of(&groups, Collation::of_environment(console.variable));
    if let Some(warning) = table.warning() {
        console.warn(SCRIPT.tool, &warning)?;
    }
    console.stdout.write_all(table.text().as_bytes())?;
    if let Some(picture) = picture {
        writeln!(
            console.stderr,
            "{}",
            picture.save(&box_plot(&groups, &table))?
        )?;
    }
    Ok(0)
}

/// The rates on standard input; what is odd about them is told in the name of `tool`.
///
/// # Errors
/// The input is no output of `compare.js`, or standard error is closed.
pub fn read_groups(tool: &str, console: &mut Console<'_>) -> Result<Groups> {
    let groups = Groups::read(&mut *console.stdin)?;
    for warning in groups.warnings() {
        console.warn(tool, &warning)?;
    }
    Ok(groups)
}

fn box_plot(groups: &Groups, table: &Table) -> plot_r::Chart {
    let rates: Vec<_> = groups.iter().map(|(_, rates)| rates).collect();
    let cases: Vec<_> = table
        .rows
        .iter()
        .map(|row| plot_r::ComparedRates {
            name: &row.name,
            old: &rates[row.index].old,
            new: &rates[row.index].new,
        })
        .collect();
    plot_r::boxes(&cases)
}

/// The comparisons, sorted by name.
pub struct Table {
    rows: Vec<NamedRow>,
}

/// One comparison.
pub struct NamedRow {
    /// File name, blank, configuration.
    pub name: String,
    /// Its figures.
    pub row: WelchRow,
    /// Its place among the groups.
    index: usize,
}

impl Table {
    /// Compares every group.
    pub fn of(groups: &Groups, collation: Collation) -> Table {
        let named = |(index, (name, rates)): (usize, (&[u8], &Rates))| NamedRow {
            name: String::from_utf8_lossy(name).into_owned(),
            row: welch_row(&rates.old, &rates.new),
            index,
        };
        let mut rows: Vec<NamedRow> = groups.iter().enumerate().map(named).collect();
        collation.sort(&mut rows, |row| &row.name);
        Table { rows }
    }

    /// The comparisons in order.
    pub fn rows(&self) -> &[NamedRow] {
        &self.rows
    }

    /// One sentence about the comparisons that have no p value because nothing varies, and one
    /// about those that R does not show.
    pub fn warning(&self) -> Option<String> {
        let constant: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.row.test == Tested::Constant)
            .map(|row| row.name.as_str())
            .collect();
        let hidden = self.rows.len().saturating_sub(r_print::most_rows(5));
        let about_constant = constant.first().map(|first| {
            format!(
                "{} of {} comparisons have no confidence because their rates do not vary; the \
                 first is '{first}'",
                constant.len(),
                self.rows.len(),
            )
        });
        let about_hidden = (hidden > 0).then(|| {
            format!(
                "the last {hidden} of {} comparisons are not shown, as in R; 'speedwell compare' \
                 shows all",
                self.rows.len(),
            )
        });
        let sentences: Vec<String> = about_constant.into_iter().chain(about_hidden).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    /// Table and note as the original prints them.
    pub fn text(&self) -> String {
        let names: Vec<String> = self.rows.iter().map(|row| row.name.clone()).collect();
        let column = |name: &str, cell: &dyn Fn(&WelchRow) -> String| {
            Column::new(name, self.rows.iter().map(|row| cell(&row.row)).collect())
        };
        let columns = [
            column("confidence", &confidence),
            column("improvement", &|row| {
                format!("{} %", percent(row.improvement_percent))
            }),
            column("accuracy (*)", &|row| accuracy(row, 0)),
            column("(**)", &|row| accuracy(row, 1)),
            column("(***)", &|row| accuracy(row, 2)),
        ];
        let mut text = r_print::data_frame(&names, &columns, WIDTH);
        text.push_str(&note(self.rows.len()));
        text
    }
}

fn confidence(row: &WelchRow) -> String {
    match row.test {
        Tested::Done { .. } => "*".repeat(row.stars()),
        Tested::TooFew | Tested::Constant => "NA".to_owned(),
    }
}

fn accuracy(row: &WelchRow, risk: usize) -> String {
    match row.test {
        Tested::Done {
            accuracy_percent, ..
        } => format!("±{}%", percent(accuracy_percent[risk])),
        Tested::TooFew | Tested::Constant => "NA".to_owned(),
    }
}

/// R's `sprintf("%.2f")`.
fn percent(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => format!("{value:.2}"),
    }
}

fn note(comparisons: usize) -> String {
    let expected = RISKS.map(|risk| comparisons as f64 * risk);
    let mut note = format!(
        "\nBe aware that when doing many comparisons the risk of a false-positive\n\
         result increases. In this case, there are {comparisons} comparisons, you can thus\n\
         expect the following amount of false-positive results:\n"
    );
    for (expected, (risk, stars)) in
        expected
            .iter()
            .zip([("  5%", "*, **, ***"), ("  1%", "**, ***"), ("0.1%", "***")])
    {
        let _ = write!(
            note,
            "  {expected:.2} false positives, when considering a {risk} risk acceptance ({stars})"
        );
        note.push_str(if stars == "***" { "\n" } else { ",\n" });
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_results::formats::node_csv::Side;

    #[test]
    fn percentages_are_those_of_r() {
        let values = [1.005, -0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(values.map(percent), ["1.00", "-0.00", "NaN", "Inf", "-Inf"]);
    }

    #[test]
    fn a_table_longer_than_r_shows_says_so() {
        let mut groups = Groups::default();
        for case in 0..20_000 {
            groups.add(format!("a n={case}").as_bytes(), Side::Old, 1.0);
        }
        let table = Table::of(&groups, Collation::CodePoints);
        assert_eq!(
            table.warning().as_deref(),
            Some(
                "the last 1 of 20000 comparisons are not shown, as in R; 'speedwell compare' shows all"
            )
        );
        assert!(table.text().contains("omitted 1 rows ]\n\nBe aware"));
    }
}
