//! Renders the parts of a table around its rows: captions, heading and footnotes. Prepares the
//! drawings and the texts of its cells, with the attributes that the script needs to sort rows.

use crate::document::{pick_most_severe, severity};
use crate::figure::format_count;
use crate::format::html::writer::{HtmlWriter, emphasis_class, escape_html};
use crate::glossary::{GlossaryTerm, term_of_column};
use crate::table::{ColumnKind, Datum, ReportCell, ReportTable, superscript_number};
use indexmap::IndexMap;
use speedwell_plot::{ForestChart, ForestRow, ForestStrips};
use std::collections::HashSet;
use std::fmt::Write as _;

/// Maximum number of rows of a table. A row takes about 2 kB with its drawing.
const MAX_ROWS: usize = 4_000;
/// Width of the drawings in a column, in CSS pixels.
const DRAWING_PX: u32 = 190;
/// Maximum length of a column heading that stays in one piece. A longer heading, such as a file
/// path, may break anywhere.
const MAX_UNBROKEN_HEADER: usize = 24;
/// A table prepared for rendering.
pub struct TableView<'t> {
    pub table: &'t ReportTable,
    /// Whether the table is on a served page, which has an external style sheet.
    pub is_served: bool,
    /// Indexes of the columns shown.
    pub shown: Vec<usize>,
    /// The column whose values filter the rows.
    facet: Option<usize>,
    /// The column of drawings, and the drawings in row order.
    pub drawn: Option<(usize, ForestStrips)>,
    /// Indexes of the rows that are shown, among all rows with cells.
    pub shown_rows: HashSet<usize>,
    /// The number of rows with cells.
    pub rows: usize,
}

impl<'t> TableView<'t> {
    /// Prepares a table of which the columns `shown` are shown.
    pub fn new(
        table: &'t ReportTable,
        shown: Vec<usize>,
        id: &str,
        is_served: bool,
    ) -> TableView<'t> {
        let find_column = |is_wanted: fn(&crate::table::ReportColumn) -> bool| {
            shown.iter().copied().find(|&column| is_wanted(&table.columns[column]))
        };
        let facet = find_column(|column| column.facet);
        let emphases = table.row_emphases();
        let drawn = find_column(|column| column.kind == ColumnKind::Drawn)
            .and_then(|column| Some((column, draw_strips(table, column, id, is_served)?)));
        TableView {
            table,
            is_served,
            facet,
            drawn,
            shown_rows: pick_most_severe(&emphases, MAX_ROWS).into_iter().collect(),
            rows: emphases.len(),
            shown,
        }
    }
}

/// Renders the drawings of a column on a common axis.
fn draw_strips(
    table: &ReportTable,
    column: usize,
    id: &str,
    is_served: bool,
) -> Option<ForestStrips> {
    let row = |cells: &Vec<ReportCell>| match cells[column].drawn() {
        Some(drawn) => drawn.clone(),
        None => ForestRow {
            label: String::new(),
            estimate: f64::NAN,
            low: f64::NAN,
            high: f64::NAN,
            mark: speedwell_plot::VerdictMark::Unclear,
        },
    };
    let chart = ForestChart {
        band: table.band,
        percent: true,
        rows: table.cell_rows().map(row).collect(),
        ..ForestChart::default()
    };
    if is_served {
        chart.render_shared_strips(DRAWING_PX, id)
    } else {
        chart.render_strips(DRAWING_PX)
    }
}

/// Writes the caption lines, except a first line that repeats the page title. Returns whether any
/// line was written.
pub fn write_captions(table: &ReportTable, id: &str, writer: &mut HtmlWriter) -> bool {
    let lines = &table.caption[..];
    let lines = match lines.split_first() {
        Some((first, others)) if writer.subject.as_ref() == Some(first) => others,
        _ => lines,
    };
    if lines.is_empty() {
        return false;
    }
    writer.push_raw(&format!("<div class=\"caption\" id=\"{id}\">\n"));
    for line in lines {
        writer.push_element("p", "", line);
    }
    writer.push_raw("</div>\n");
    true
}

/// Renders the number of rows for each value of the facet column.
pub fn write_tally(view: &TableView<'_>, writer: &mut HtmlWriter) {
    let Some(facet) = view.facet else { return };
    let mut counts: IndexMap<&str, (&ReportCell, usize)> = IndexMap::new();
    for cell in view.table.cell_rows().map(|cells| &cells[facet]) {
        if let Some(value) = cell.value.as_ref().and_then(Datum::as_str) {
            counts.entry(value).or_insert((cell, 0)).1 += 1;
        }
    }
    let mut values: Vec<_> = counts.into_iter().collect();
    values.sort_by_key(|(_, (cell, _))| severity(cell.emphasis));
    let key = escape_html(view.table.columns[facet].key);
    writer.push_raw(&format!("<ul class=\"tally\" data-facet=\"{key}\">\n"));
    for (value, (cell, number)) in values {
        let symbol = cell.text.chars().next().filter(|c| !c.is_alphanumeric());
        writer.push_raw(&format!(
            "<li class=\"{}\" data-v=\"{1}\"><i aria-hidden=\"true\">{2}</i> {number} {1}</li>\n",
            emphasis_class(cell.emphasis),
            escape_html(value),
            escape_html(&symbol.map(String::from).unwrap_or_default())
        ));
    }
    writer.push_raw("</ul>\n");
}

/// Renders the headings of the columns.
pub fn write_header(view: &TableView<'_>, writer: &mut HtmlWriter) {
    let mut out = String::from("<thead><tr>");
    for &column_index in &view.shown {
        let column = &view.table.columns[column_index];
        let class = kind_class(column.kind);
        let key = escape_html(column.key);
        // A column without a visible heading gets its key as a heading for screen readers.
        let text = if column.header.is_empty() {
            format!("<span class=\"unseen\">{key}</span>")
        } else {
            escape_html(&column.header)
        };
        let _ = match &view.drawn {
            Some((drawn, strips)) if *drawn == column_index => write!(
                out,
                "<th scope=\"col\" class=\"{class}\"><span class=\"unseen\">{text}, drawn</span>{}</th>",
                strips.axis
            ),
            _ => {
                let long =
                    if column.header.chars().count() > MAX_UNBROKEN_HEADER { " long" } else { "" };
                let term = term_of_column(column.key).map_or_else(String::new, term_link);
                writer.terms.extend(term_of_column(column.key));
                write!(
                    out,
                    "<th scope=\"col\" class=\"{class}{long}\" data-k=\"{key}\">{text}{term}</th>"
                )
            }
        };
    }
    writer.push_raw(&out);
    writer.push_raw("</tr></thead>\n");
}

/// Renders a link to the definition of a term. A script shows the definition beside it.
fn term_link(term: &GlossaryTerm) -> String {
    let GlossaryTerm { id, name, .. } = term;
    format!("<a class=\"term\" href=\"#term-{id}\" aria-label=\"What is {name}?\">?</a>")
}

/// Returns the CSS class of a kind of column.
pub fn kind_class(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Label => "n",
        ColumnKind::Identifier => "i",
        ColumnKind::Words => "w",
        ColumnKind::Figure => "f",
        ColumnKind::Drawn => "d",
    }
}

/// Keeps command-line options in one piece: browsers break lines after hyphens.
pub fn unbroken_options(text: &str) -> String {
    if !text.starts_with('-') && !text.contains(" -") {
        return text.to_owned();
    }
    let word = |word: &str| match word.trim_start_matches('-').chars().next() {
        Some(character) if word.starts_with('-') && character.is_alphabetic() => {
            format!("<span class=\"option\">{word}</span>")
        }
        _ => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the attribute with the sort key of a cell, or nothing if the cell is sorted by its text.
/// On served pages, the key is rounded, because these pages link to a file with all digits.
pub fn sort_value(cell: &ReportCell, is_served: bool) -> String {
    match &cell.value {
        Some(Datum::Number(number)) if is_served && number.is_f64() => {
            // Seven significant digits are enough to sort by.
            let value = number.as_f64().unwrap_or_default();
            let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
            format!(" data-v=\"{rounded}\"")
        }
        Some(Datum::Number(number)) => format!(" data-v=\"{number}\""),
        Some(Datum::Text(text)) if **text != *cell.text => {
            format!(" data-v=\"{}\"", escape_html(text))
        }
        _ => String::new(),
    }
}

/// Renders the footnotes, and the number of rows that are left out.
pub fn write_footnotes(view: &TableView<'_>, writer: &mut HtmlWriter) {
    let omitted_count = view.rows - view.shown_rows.len();
    if omitted_count > 0 {
        let text = format!(
            "{} of {} are left out to keep this page small; -o report.csv has all of them.",
            format_count(omitted_count, "row", "rows"),
            view.rows
        );
        writer.push_element("p", "left-out", &text);
    }
    if view.table.footnotes.is_empty() {
        return;
    }
    writer.push_raw("<div class=\"footnotes\">\n");
    for (index, footnote) in view.table.footnotes.iter().enumerate() {
        writer.push_element("p", "", &format!("{} {footnote}", superscript_number(index + 1)));
    }
    writer.push_raw("</div>\n");
}
