//! The table of the extra cost.

use super::ProfileSide;
use crate::document::Emphasis;
use crate::table::{Cell, Column, Kind, Row, Table};
use speedwell_analysis::profile::{CostRow, Direction, ExtraCost};

/// One row for each function that has a part in the difference.
pub fn of([old, new]: [ProfileSide<'_>; 2], extra: &ExtraCost) -> Table {
    let title = match extra.direction {
        Direction::Cheaper => "Where the saved cost sat",
        _ => "Where the extra cost sits",
    };
    let share = match extra.direction {
        Direction::Cheaper => "of the saved",
        _ => "of the extra",
    };
    let entry = extra.entry.as_ref().map(|entry| entry.row.frame.as_str());
    Table {
        caption: vec![title.to_owned()],
        columns: vec![
            Column::new("share_of_extra_percent", share, Kind::Figure),
            Column::new(
                "baseline_percent",
                format!("of {}", old.label),
                Kind::Figure,
            ),
            Column::new(
                "candidate_percent",
                format!("of {}", new.label),
                Kind::Figure,
            ),
            Column::new("new", "", Kind::Words),
            Column::new("frame", "function", Kind::Label),
        ],
        rows: extra
            .rows
            .iter()
            .map(|row| cells(row, extra.direction, entry))
            .collect(),
        ..Table::new("functions")
    }
}

fn cells(row: &CostRow, direction: Direction, entry: Option<&str>) -> Row {
    let percent = |share: f64, digits: usize| {
        let percent = share * 100.0;
        Cell::figure(Some(percent)).shown(format!("{percent:.digits$} %"))
    };
    let new = Cell::value(row.new).shown(match (row.new, direction) {
        (false, _) => "",
        (true, Direction::Cheaper) => "GONE",
        (true, _) => "NEW",
    });
    let frame = Cell::words(row.frame.clone());
    let is_entry = entry == Some(row.frame.as_str());
    Row::Cells(vec![
        percent(row.share, 1),
        percent(row.baseline, 2),
        percent(row.candidate, 2),
        new,
        if is_entry {
            frame.emphasised(Emphasis::Strong)
        } else {
            frame
        },
    ])
}
