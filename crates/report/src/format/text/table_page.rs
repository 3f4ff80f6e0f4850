//! Fits a table to the screen width: chooses the columns to show and their widths, and writes the
//! lines.
//!
//! Rows show their full names if every important column fits next to them, otherwise their short
//! names. If even the required columns do not fit next to the short names, headings are wrapped, and
//! names and headings are cut, with a key below the table, where that saves room. If that does not
//! suffice, the last columns are omitted. Expendable columns fill the remaining room, the first of
//! them even if names must be cut, and a line below the table lists the omitted columns.
//! A wide screen also shows the intervals as drawings. Control characters are escaped, because text
//! that others wrote must not control the terminal.

use crate::case_labels::distinct;
use crate::format::text::line::{display_width, escape_line, paint_text, shorten_text, wrap_text};
use crate::table::{ColumnKind, ReportCell, ReportRow, ReportTable, RowName, TextEmphasis};
use speedwell_plot::ForestRow;
use std::borrow::Cow;

/// Spaces between columns.
const COLUMN_GAP: usize = 2;
/// Columns with an `expendable` number up to this are important. If they do not fit next to full
/// names, rows show their short names.
const MAX_IMPORTANT_ORDER: u8 = 2;
/// Columns with an `expendable` number up to this are worth cutting names.
const MAX_KEPT_ORDER: u8 = 1;
/// Place of the drawings among the expendable columns.
const DRAWN_ORDER: u8 = 3;
/// Minimum width to which a name is shortened.
const MIN_NAME_WIDTH: usize = 8;
/// Minimum width to which words are shortened.
const MIN_WORDS_WIDTH: usize = 16;
/// Width to which headings are shortened before names are: a variant may be named after a command.
const LONG_HEADING_WIDTH: usize = 20;
/// Minimum number of columns that a cut saves: each cut name takes a line of the key.
const MIN_SAVING: usize = 6;
/// Maximum number of lines of a heading.
const MAX_HEADING_LINES: usize = 3;
/// Maximum number of names that the key of a table lists.
const MAX_KEYS: usize = 30;
/// Indent of rows below a heading.
const GROUP_INDENT: usize = 2;

/// A column's index in the table and its width on the screen.
type PlacedColumn = (usize, usize);

/// Appends `table` to `out`, at most `max_width` terminal columns wide if possible.
pub fn write_table(table: &ReportTable, max_width: Option<usize>, color: bool, out: &mut String) {
    let page = TablePage::fit_columns(table, max_width.unwrap_or(usize::MAX), color);
    if page.layout.is_empty() {
        return;
    }
    page.write_header(out);
    let mut indent = 0;
    let mut keys = page.cut_headings();
    for row in &table.rows {
        match row {
            ReportRow::Group(name) => indent = page.write_group(name, out),
            ReportRow::Cells(cells) | ReportRow::Reference(cells) => {
                keys.extend(page.cut_cells(cells, indent));
                page.write_cells(cells, indent, out);
            }
            ReportRow::Remark(text) => page.write_remark(text, indent + GROUP_INDENT, out),
        }
    }
    page.write_notes(keys, out);
}

/// A shortened name and the whole name.
type NameKey = (String, String);

struct TablePage<'a> {
    table: &'a ReportTable,
    max_width: usize,
    /// Indexes of the columns that people see. Other columns are only in machine-readable output.
    people: Vec<usize>,
    layout: Vec<PlacedColumn>,
    /// The axis of the drawings, on a screen wide enough for them.
    axis: Option<IntervalAxis>,
    short: bool,
    color: bool,
}

impl<'a> TablePage<'a> {
    fn fit_columns(table: &'a ReportTable, max_width: usize, color: bool) -> TablePage<'a> {
        let is_wide = (MIN_DRAWN_SCREEN..usize::MAX).contains(&max_width);
        let is_drawn = |index: &usize| table.columns[*index].kind == ColumnKind::Drawn;
        let drawn = (0..table.columns.len()).find(is_drawn).filter(|_| is_wide);
        let axis = drawn.and_then(|column| IntervalAxis::of_column(table, column));
        let people = if axis.is_some() { table.for_pages() } else { table.for_people() };
        let mut page =
            TablePage { table, max_width, people, layout: Vec::new(), axis, short: false, color };
        page.layout = page.columns_up_to(MAX_IMPORTANT_ORDER);
        page.short = page.total_width() > max_width;
        // A kind of column whose cells may be cut, or only headings, and the least width and saving.
        // The first step only wraps.
        let steps = [
            (None, usize::MAX, 0),
            (None, LONG_HEADING_WIDTH, MIN_SAVING),
            (Some(ColumnKind::Label), MIN_NAME_WIDTH, MIN_SAVING),
            (None, MIN_NAME_WIDTH, MIN_SAVING),
            (Some(ColumnKind::Words), MIN_WORDS_WIDTH, 0),
            (Some(ColumnKind::Label), MIN_NAME_WIDTH, 0),
            (None, MIN_NAME_WIDTH, 0),
        ];
        let is_complete =
            [(MAX_KEPT_ORDER, 4), (0, steps.len())].into_iter().any(|(order, used)| {
                page.layout = page.columns_up_to(order);
                for (kind, least, saving) in &steps[..used] {
                    for position in 0..page.layout.len() {
                        page.layout[position].1 =
                            page.reduced_width(position, *kind, *least, *saving);
                    }
                }
                page.total_width() <= max_width
            });
        if is_complete {
            page.add_expendable();
        } else {
            page.remove_columns();
        }
        page
    }

    /// Returns the width to which a column is reduced so that the table fits, if it is one whose
    /// heading or cells of the given kind may be cut. A cut leaves at least `least` columns and
    /// saves at least `saving`. A heading may be wrapped at any width.
    fn reduced_width(
        &self,
        position: usize,
        kind: Option<ColumnKind>,
        least: usize,
        saving: usize,
    ) -> usize {
        let excess = self.total_width().saturating_sub(self.max_width);
        let (index, width) = self.layout[position];
        let column = &self.table.columns[index];
        let uncut = if kind.is_none() { self.widest_cell(index) } else { 0 };
        if excess == 0 || kind.is_some_and(|kind| kind != column.kind) {
            return width;
        }
        let wanted = (width - excess.min(width)).max(uncut).max(1);
        let wrapped = (wanted..width).find(|&width| {
            kind.is_none() && least == usize::MAX && wrap_heading(&column.header, width).is_some()
        });
        let most = self.natural_width(index).saturating_sub(saving);
        let cut = wanted.max(least).min(most);
        wrapped.unwrap_or(if cut >= least.max(uncut) { cut.min(width) } else { width })
    }

    /// Removes the last columns until the table fits.
    fn remove_columns(&mut self) {
        while self.layout.len() > 2 && self.total_width() > self.max_width {
            let is_facet = |(index, _): &PlacedColumn| self.table.columns[*index].facet;
            let last = self.layout.iter().skip(1).rposition(|column| !is_facet(column));
            self.layout.remove(last.map_or(self.layout.len() - 1, |position| position + 1));
        }
    }

    /// Returns the columns whose `expendable` number is at most the given one, with their natural
    /// widths. Columns with the number 0 are required.
    fn columns_up_to(&self, expendable: u8) -> Vec<PlacedColumn> {
        let shown = self.people.iter().copied();
        let included = shown.filter(|&index| self.order_of(index) <= expendable);
        included.map(|index| (index, self.natural_width(index))).collect()
    }

    fn order_of(&self, index: usize) -> u8 {
        let column = &self.table.columns[index];
        if column.kind == ColumnKind::Drawn { DRAWN_ORDER } else { column.expendable }
    }

    /// Adds each expendable column that still fits, most important column first.
    fn add_expendable(&mut self) {
        let mut others = self.people.clone();
        others.retain(|&index| self.layout.iter().all(|&(shown, _)| shown != index));
        others.sort_by_key(|&index| self.order_of(index));
        for index in others {
            let width = self.natural_width(index);
            if self.total_width() + COLUMN_GAP + width <= self.max_width {
                let position = self.layout.partition_point(|&(other, _)| other < index);
                self.layout.insert(position, (index, width));
            }
        }
    }

    /// Returns the width of a column if nothing is shortened.
    fn natural_width(&self, index: usize) -> usize {
        display_width(&self.table.columns[index].header).max(self.widest_cell(index))
    }

    fn widest_cell(&self, index: usize) -> usize {
        if self.table.columns[index].kind == ColumnKind::Drawn {
            return DRAWN_WIDTH;
        }
        let mut widest = 0;
        let mut indent = 0;
        for row in &self.table.rows {
            match row {
                ReportRow::Group(name) => {
                    indent = if self.shown_name(name).is_empty() { 0 } else { GROUP_INDENT }
                }
                ReportRow::Cells(cells) | ReportRow::Reference(cells) => {
                    let indent = if self.people.first() == Some(&index) { indent } else { 0 };
                    widest = widest.max(indent + display_width(&self.shown_text(&cells[index])));
                }
                ReportRow::Remark(_) => {}
            }
        }
        widest
    }

    /// Returns a name on a single line, whatever the name contains.
    fn shown_name<'n>(&self, name: &'n RowName) -> Cow<'n, str> {
        escape_line(if self.short { &name.short } else { &name.full })
    }

    fn shown_text<'c>(&self, cell: &'c ReportCell) -> Cow<'c, str> {
        escape_line(cell.short().filter(|_| self.short).unwrap_or(&cell.text))
    }

    fn total_width(&self) -> usize {
        let gaps = self.layout.len().saturating_sub(1) * COLUMN_GAP;
        self.layout.iter().map(|(_, width)| width).sum::<usize>() + gaps
    }

    fn write_header(&self, out: &mut String) {
        let heading = |&(index, width): &PlacedColumn| {
            let header = &self.table.columns[index].header;
            wrap_heading(header, width).unwrap_or_else(|| vec![shorten_text(header, width)])
        };
        let headings: Vec<Vec<String>> = self.layout.iter().map(heading).collect();
        let height = headings.iter().map(Vec::len).max().unwrap_or(0);
        if headings.iter().flatten().all(|line| line.is_empty()) {
            return;
        }
        for row in 0..height {
            let cell = |(lines, &(index, width)): (&Vec<String>, &PlacedColumn)| {
                // Short headings are at the bottom.
                let line =
                    (row + lines.len()).checked_sub(height).map_or("", |line| lines[line].as_str());
                let padding = " ".repeat(width.saturating_sub(display_width(line)));
                let is_figure = self.table.columns[index].kind == ColumnKind::Figure;
                if is_figure { padding + line } else { line.to_owned() + &padding }
            };
            let cells: Vec<String> = headings.iter().zip(&self.layout).map(cell).collect();
            let line = cells.join(&" ".repeat(COLUMN_GAP));
            self.write_line(line.trim_end(), TextEmphasis::Strong, out);
        }
        self.write_line(&"─".repeat(self.total_width()), TextEmphasis::Muted, out);
    }

    /// Writes a heading. Returns the indent of the rows below it.
    fn write_group(&self, name: &RowName, out: &mut String) -> usize {
        let name = self.shown_name(name);
        if name.is_empty() {
            return 0;
        }
        self.write_line(&shorten_text(&name, self.max_width), TextEmphasis::Strong, out);
        GROUP_INDENT
    }

    fn write_cells(&self, cells: &[ReportCell], indent: usize, out: &mut String) {
        let mut line = String::new();
        let mut pending_spaces = 0;
        for (position, &(index, width)) in self.layout.iter().enumerate() {
            let indent = if position == 0 { indent } else { 0 };
            let text = match (&self.axis, cells[index].drawn()) {
                (Some(axis), Some(interval)) => axis.draw_interval(interval),
                _ => shorten_text(&self.shown_text(&cells[index]), width.saturating_sub(indent)),
            };
            let text = " ".repeat(indent) + &text;
            let padding = width.saturating_sub(display_width(&text));
            let is_right_aligned = self.table.columns[index].kind == ColumnKind::Figure;
            let (before, after) = if is_right_aligned { (padding, 0) } else { (0, padding) };
            line.push_str(&" ".repeat(pending_spaces + before));
            line.push_str(&paint_text(&text, cells[index].emphasis, self.color));
            pending_spaces = after + COLUMN_GAP;
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    fn write_remark(&self, text: &str, margin: usize, out: &mut String) {
        let width = self.max_width.min(self.total_width().max(80));
        for line in wrap_text(text, width.saturating_sub(margin)) {
            out.push_str(&" ".repeat(margin));
            self.write_line(&line, TextEmphasis::Muted, out);
        }
    }

    /// Returns the headings that do not fit.
    fn cut_headings(&self) -> Vec<NameKey> {
        let heading = |&(index, width): &PlacedColumn| {
            let header = &self.table.columns[index].header;
            cut_key(header, width).filter(|_| wrap_heading(header, width).is_none())
        };
        self.layout.iter().filter_map(heading).collect()
    }

    /// Returns the name of a row and its words if they do not fit.
    fn cut_cells(&self, cells: &[ReportCell], indent: usize) -> Vec<NameKey> {
        let cut = |(position, &(index, width)): (usize, &PlacedColumn)| {
            let indent = if position == 0 { indent } else { 0 };
            let has_key = position == 0 || self.table.columns[index].kind == ColumnKind::Words;
            let text = self.shown_text(&cells[index]);
            has_key.then(|| cut_key(&text, width.saturating_sub(indent))).flatten()
        };
        self.layout.iter().enumerate().filter_map(cut).collect()
    }

    /// Writes which columns are omitted, and the whole names of those that were cut, unless they
    /// are too many.
    fn write_notes(&self, keys: Vec<NameKey>, out: &mut String) {
        let is_named = |index: &usize| {
            let is_shown = self.layout.iter().any(|(shown, _)| shown == index);
            !is_shown && self.table.columns[*index].kind != ColumnKind::Drawn
        };
        let missing = self.people.iter().copied().filter(is_named);
        let names: Vec<_> =
            missing.map(|index| self.table.columns[index].header.as_str()).collect();
        let omitted = (!names.is_empty()).then(|| format!("(no room for: {})", names.join(", ")));
        let shown_keys = if keys.len() <= MAX_KEYS { distinct(keys) } else { Vec::new() };
        let keys = shown_keys.iter().map(|(cut, name)| format!("{cut}: {name}"));
        for line in
            omitted.into_iter().chain(keys).flat_map(|note| wrap_text(&note, self.max_width))
        {
            self.write_line(&line, TextEmphasis::Muted, out);
        }
    }

    fn write_line(&self, text: &str, emphasis: TextEmphasis, out: &mut String) {
        out.push_str(&paint_text(text, emphasis, self.color));
        out.push('\n');
    }
}

/// Wraps a heading into lines of at most `width` columns, if a few lines suffice.
fn wrap_heading(heading: &str, width: usize) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for part in heading.split_inclusive([' ', '=', '/', ',', '-', '_', ':']) {
        let fits = |line: &str| display_width(format!("{line}{part}").trim_end()) <= width;
        let is_joined = lines.last().is_some_and(|line| fits(line));
        match lines.last_mut() {
            Some(line) if is_joined => line.push_str(part),
            _ if fits("") => lines.push(part.to_owned()),
            _ => return None,
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    (lines.len() <= MAX_HEADING_LINES).then_some(lines)
}

/// Returns a name with its shortened form, if it must be shortened to `width` columns.
fn cut_key(name: &str, width: usize) -> Option<NameKey> {
    (display_width(name) > width).then(|| (shorten_text(name, width), name.to_owned()))
}

// Draws the intervals of a table's rows in characters, on one axis for the whole column.

/// Minimum width of a screen that shows drawn intervals.
const MIN_DRAWN_SCREEN: usize = 100;
/// Width of a drawn interval.
const DRAWN_WIDTH: usize = 21;

/// The axis that all rows of a column share. It includes zero, which means no change.
struct IntervalAxis {
    low: f64,
    high: f64,
}

impl IntervalAxis {
    /// Returns the axis of a column, or `None` if all changes are zero or unknown.
    fn of_column(table: &ReportTable, column: usize) -> Option<IntervalAxis> {
        let rows = table.cell_rows().filter_map(|cells| cells[column].drawn());
        let ends = rows.flat_map(|row| [row.low, row.estimate, row.high]);
        let (low, high) = ends
            .filter(|end| end.is_finite())
            .fold((0.0_f64, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)));
        (low < high).then_some(IntervalAxis { low, high })
    }

    /// Draws an interval, such as `  ──●──    │`.
    fn draw_interval(&self, row: &ForestRow) -> String {
        let mut characters = [' '; DRAWN_WIDTH];
        if !row.low.is_nan() && !row.high.is_nan() {
            characters[self.position(row.low)..=self.position(row.high)].fill('─');
        }
        let zero = &mut characters[self.position(0.0)];
        *zero = if *zero == ' ' { '│' } else { '┼' };
        if row.estimate.is_finite() {
            characters[self.position(row.estimate)] = '●';
        }
        characters.iter().collect()
    }

    fn position(&self, value: f64) -> usize {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        (share * (DRAWN_WIDTH - 1) as f64).round() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ReportColumn;

    fn sample() -> ReportTable {
        let columns = vec![
            ReportColumn::new("case", "", ColumnKind::Label),
            ReportColumn::new("old", "old", ColumnKind::Figure),
            ReportColumn::new("p", "p", ColumnKind::Figure).expendable(3),
            ReportColumn::new("q", "q", ColumnKind::Figure).expendable(1),
            ReportColumn::new("verdict", "verdict", ColumnKind::Words),
        ];
        let row = |full: &str, short: &str| {
            let name = RowName { full: full.into(), short: short.into() };
            ReportRow::Cells(vec![
                ReportCell::words(full).with_name(&name),
                ReportCell::words("1.23"),
                ReportCell::words("<0.001"),
                ReportCell::words("0.02"),
                ReportCell::words("▲ better"),
            ])
        };
        let heading =
            RowName { full: "decoder n=5".into(), short: "decoder n=5 (encoding, len)".into() };
        let rows = vec![
            ReportRow::Group(heading),
            row("encoding=base64-utf8 len=16", "base64-utf8 16"),
            ReportRow::Remark("mean +9%".into()),
            ReportRow::Group(RowName::default()),
            row("compare", "compare"),
        ];
        ReportTable { columns, rows, ..ReportTable::new("t") }
    }

    fn lines(room: Option<usize>) -> Vec<String> {
        let mut out = String::new();
        write_table(&sample(), room, false, &mut out);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_table_with_room_shows_everything_aligned() {
        assert_eq!(
            lines(None),
            [
                "                                old       p     q  verdict",
                "───────────────────────────────────────────────────────────",
                "decoder n=5",
                "  encoding=base64-utf8 len=16  1.23  <0.001  0.02  ▲ better",
                "    mean +9%",
                "compare                        1.23  <0.001  0.02  ▲ better",
            ]
        );
    }

    #[test]
    fn names_stay_whole_if_only_unimportant_columns_have_to_go() {
        let narrow = lines(Some(55));
        assert_eq!(narrow[3], "  encoding=base64-utf8 len=16  1.23  0.02  ▲ better");
        assert_eq!(narrow[6], "(no room for: p)");
    }

    #[test]
    fn shortened_names_are_explained_by_a_longer_heading() {
        let narrow = lines(Some(45));
        assert_eq!(narrow[2], "decoder n=5 (encoding, len)");
        assert_eq!(narrow[3], "  base64-utf8 16  1.23  0.02  ▲ better");
        let narrower = lines(Some(26));
        assert_eq!(narrower[3], "  ba…f8 16  1.23  ▲ better");
        assert_eq!(narrower.last().unwrap(), "ba…f8 16: base64-utf8 16");
        for width in 20..60 {
            let fits = |line: &String| display_width(line) <= width;
            assert!(lines(Some(width)).iter().all(fits), "{width}");
        }
    }

    #[test]
    fn a_wide_screen_shows_intervals_and_a_narrow_one_cuts_headings_with_a_key() {
        let row = |estimate: f64, low: f64, high: f64| {
            let drawn = speedwell_plot::ForestRow {
                label: String::new(),
                estimate,
                low,
                high,
                mark: speedwell_plot::VerdictMark::Better,
            };
            ReportRow::Cells(vec![
                ReportCell::words("a"),
                ReportCell::words("1.23"),
                ReportCell::drawing(Some(drawn)),
            ])
        };
        let columns = vec![
            ReportColumn::label("case", "case"),
            ReportColumn::figure("old", "python3 scripts/with-a-long-name.py --fast"),
            ReportColumn::new("drawn", "change in %", ColumnKind::Drawn).for_people(),
        ];
        let rows = vec![row(-10.0, -20.0, -5.0), row(10.0, f64::NEG_INFINITY, 20.0)];
        let table = ReportTable { columns, rows, ..ReportTable::new("t") };
        let drawn = |width| {
            let mut out = String::new();
            write_table(&table, width, false, &mut out);
            out.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let wide = drawn(Some(100));
        assert!(wide[2].ends_with("1.23  ─────●─── │"), "{}", wide[2]);
        assert!(wide[3].ends_with("1.23  ──────────┼────●─────"), "{}", wide[3]);
        let narrow = drawn(Some(30));
        assert_eq!(narrow[0], "       python3 scripts/with-a-");
        assert_eq!(narrow[1], "case       long-name.py --fast");
        assert!(!drawn(None).concat().contains('●'));
    }

    #[test]
    fn names_are_cut_for_the_interval_and_headings_only_if_that_saves_room() {
        let columns = vec![
            ReportColumn::label("case", "case"),
            ReportColumn::figure("old", "gomaxprocs=2"),
            ReportColumn::figure("interval", "95% interval").expendable(1),
            ReportColumn::words("verdict", "verdict").facet(),
        ];
        let cells = ["words/Join/of/many/parts", "1.23 ms", "[-2.6, -0.4]", "▲ better"];
        let rows = vec![ReportRow::Cells(cells.map(ReportCell::words).to_vec())];
        let table = ReportTable { columns, rows, ..ReportTable::new("t") };
        for (width, heading, name) in [
            (62, "gomaxprocs=2  95% interval", cells[0]),
            (61, "gomaxprocs=", cells[0]),
            (52, "gomaxprocs=", "words…any/parts"),
        ] {
            let mut out = String::new();
            write_table(&table, Some(width), false, &mut out);
            assert!(out.lines().next().is_some_and(|line| line.contains(heading)), "{out}");
            assert!(out.contains(&format!("\n{name}  ")) && out.contains("[-2.6"), "{out}");
            assert!(out.lines().all(|line| display_width(line) <= width), "{out}");
            assert!(!out.contains("go…"), "{out}");
        }
    }

    #[test]
    fn colours_do_not_change_the_layout() {
        let (mut plain, mut painted) = (String::new(), String::new());
        write_table(&sample(), Some(60), false, &mut plain);
        write_table(&sample(), Some(60), true, &mut painted);
        let bare =
            regex::Regex::new("\x1b\\[[0-9]*m").unwrap().replace_all(&painted, "").into_owned();
        assert!(painted.len() > plain.len());
        assert_eq!(bare, plain);
    }

    #[test]
    fn a_name_with_a_line_feed_is_escaped_and_aligned_by_its_shown_width() {
        let columns = vec![
            ReportColumn::new("c", "case", ColumnKind::Label),
            ReportColumn::new("x", "x", ColumnKind::Figure),
        ];
        let rows = ["a\n\u{1b}b", "abcdefghij"]
            .map(|name| ReportRow::Cells(vec![ReportCell::words(name), ReportCell::words("1")]));
        let named = ReportTable { columns, rows: rows.to_vec(), ..ReportTable::new("t") };
        let mut out = String::new();
        write_table(&named, None, false, &mut out);
        let lines: Vec<&str> = out.lines().skip(2).collect();
        assert_eq!(lines, ["a\\x0a\\x1bb  1", "abcdefghij  1"]);
    }
}
