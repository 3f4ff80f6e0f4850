//! Every case of a plan, for `--list`: nothing is shortened, so that ids can be copied and piped.

use super::case_fields::parameters;
use super::digits::spell;
use super::document::{Block, Document};
use super::field::{Field, table_of};
use super::metric_words::count;
use super::table::{Cell, Column, Kind};
use speedwell_model::Case;

/// A case of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseLine {
    /// The case.
    pub case: Case,
    /// Runs planned, all variants together; at most so many where the number is found while
    /// measuring.
    pub runs: u64,
}

/// The list, with its sums.
pub fn cases(cases: &[CaseLine]) -> Document {
    let mut document = Document::new("cases");
    document.push(Block::Table(table_of("cases", fields(), cases)));
    let runs: u64 = cases.iter().map(|case| case.runs).sum();
    let runs = count(runs as usize, "run", "runs");
    document.push(Block::Note(format!(
        "{}, {runs}",
        count(cases.len(), "case", "cases")
    )));
    document
}

fn fields() -> Vec<Field<CaseLine>> {
    vec![
        Field::new(
            Column::new("case", "case", Kind::Identifier),
            |line: &CaseLine| Cell::words(line.case.id()),
        ),
        Field::machine("benchmark", |line: &CaseLine| {
            Cell::value(line.case.benchmark.clone())
        }),
        Field::machine("parameters", |line: &CaseLine| {
            Cell::value(parameters(&line.case))
        }),
        Field::new(
            Column::new("runs", "runs", Kind::Figure),
            |line: &CaseLine| Cell::value(line.runs).shown(spell(line.runs as f64, 0)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Output, print};

    #[test]
    fn ids_stay_whole_on_a_narrow_screen() {
        let id = "string_decoder/string-decoder.js encoding=utf8 inLen=1024 n=2500000";
        let line = CaseLine {
            case: Case::parse(id).unwrap(),
            runs: 1_060,
        };
        let output = Output {
            width: Some(30),
            ..Output::default()
        };
        let mut out = Vec::new();
        print(&cases(&[line]), &output, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(&format!("{id}  1,060\n")), "{text}");
        assert!(text.ends_with("\n1 case, 1,060 runs\n"), "{text}");
    }
}
