//! What may spoil the numbers on this machine, and the remedy: the report of `doctor`.

use crate::document::{Block, Document, Emphasis};
use crate::table::{Cell, Column, Columns, Kind, Row};

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    /// What was looked at: `cpu frequency`.
    pub name: String,
    /// The result in one word: `ok`, `warning`, `problem`, `missing`, `skipped`.
    pub state: String,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where nothing is to be done.
    pub remedy: String,
}

/// The report, with the remedies below the checks that need one.
pub fn checks(checks: &[CheckLine]) -> Document {
    let columns = columns();
    let mut rows = Vec::new();
    for check in checks {
        rows.push(columns.row(check));
        if !check.remedy.is_empty() {
            rows.push(Row::Remark(format!("→ {}", check.remedy)));
        }
    }
    let mut document = Document::new("checks");
    document.push(Block::Table(columns.table_of_rows("checks", rows)));
    document
}

fn columns() -> Columns<CheckLine> {
    let mut columns = Columns::new();
    columns.add(Column::words("state", "state"), |check: &CheckLine| {
        let (symbol, emphasis) = symbol(&check.state);
        Cell::value(check.state.clone())
            .shown(format!("{symbol} {}", check.state))
            .emphasised(emphasis)
    });
    columns.add(Column::new("name", "check", Kind::Identifier), |check| {
        Cell::words(check.name.clone())
    });
    columns.add(Column::new("found", "found", Kind::Label), |check| {
        Cell::words(check.found.clone())
    });
    columns.add_value("remedy", |check| check.remedy.clone());
    columns
}

/// A symbol and an emphasis for a result.
fn symbol(state: &str) -> (char, Emphasis) {
    match state {
        "ok" => ('✓', Emphasis::Good),
        "problem" => ('✗', Emphasis::Bad),
        "warning" => ('!', Emphasis::Caution),
        _ => ('-', Emphasis::Muted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Output, print};

    #[test]
    fn a_remedy_stands_below_its_check() {
        let check = |state: &str, name: &str, remedy: &str| CheckLine {
            name: name.into(),
            state: state.into(),
            found: "found".into(),
            remedy: remedy.into(),
        };
        let document = checks(&[
            check("ok", "timer", ""),
            check(
                "warning",
                "cpu frequency",
                "cpupower frequency-set -g performance",
            ),
        ]);
        let mut out = Vec::new();
        print(&document, &Output::default(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "state      check          found\n\
             ───────────────────────────────\n\
             ✓ ok       timer          found\n\
             ! warning  cpu frequency  found\n  \
               → cpupower frequency-set -g performance\n"
        );
    }
}
