//! Compares simulated cells with reference figures, and counts those out of tolerance.
//!
//! Independent of the meaning of a cell.

/// Counts cells out of tolerance.
#[derive(Default)]
pub struct ToleranceCheck {
    pub cells: usize,
    /// Names of the cells out of tolerance.
    pub failures: Vec<String>,
}

impl ToleranceCheck {
    /// Formats a cell: measured value, reference and difference; `!` if out of tolerance.
    pub fn compare_cell(
        &mut self,
        place: &str,
        value: f64,
        reference: f64,
        tolerance: f64,
    ) -> String {
        let mark = self.count_cell(place, value, reference, tolerance);
        format!("{value:.1} ({reference:.1}, {:+.1}){mark}", value - reference)
    }

    /// Formats a cell without reference, which must lie within `tolerance` of `target`.
    pub fn check_near(&mut self, place: &str, value: f64, target: f64, tolerance: f64) -> String {
        let mark = self.count_cell(place, value, target, tolerance);
        format!("{value:.2}{mark}")
    }

    /// Formats a cell that must not be below `least`.
    pub fn at_least(&mut self, place: &str, value: f64, least: f64) -> String {
        let mark = self.count_cell(place, value.min(least), least, 1e-9);
        format!("{value:.1}{mark}")
    }

    /// Formats a cell that must not be above `most`.
    pub fn at_most(&mut self, place: &str, value: f64, most: f64) -> String {
        let mark = self.count_cell(place, value.max(most), most, 1e-9);
        format!("{value:.1}{mark}")
    }

    fn count_cell(
        &mut self,
        place: &str,
        value: f64,
        reference: f64,
        tolerance: f64,
    ) -> &'static str {
        self.cells += 1;
        if (value - reference).abs() <= tolerance {
            return "";
        }
        self.failures.push(format!("{place}: {value:.2} is not {reference} +- {tolerance}"));
        " !"
    }
}

/// Percentage of items that are counted.
pub fn percent<T>(items: &[T], is_counted: impl Fn(&T) -> bool) -> f64 {
    100.0 * items.iter().filter(|item| is_counted(item)).count() as f64 / items.len() as f64
}

/// Mean of a number per item.
pub fn average<T>(items: &[T], number: impl Fn(&T) -> f64) -> f64 {
    items.iter().map(number).sum::<f64>() / items.len() as f64
}

/// Prints a row of a Markdown table.
pub fn print_row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// Prints the head of a Markdown table under a title.
pub fn print_head(title: &str, columns: &[&str]) {
    println!("\n{title}\n\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}
