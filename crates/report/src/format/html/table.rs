//! Renders the parts of a table around its rows: captions, filters, heading and footnotes. Prepares
//! the drawings and the texts of its cells, with the attributes that the script needs to sort rows.
//!
//! A page shows the figures of both sides of a comparison in one column, and folds the
//! probabilities.

use crate::cell::CellForm;
use crate::document::{pick_most_severe, severity};
use crate::figure::{format_count, format_instant, format_moment, join_texts};
use crate::format::html::writer::{HtmlWriter, emphasis_class, escape_html, markup};
use crate::glossary::{GlossaryTerm, term_of_column};
use crate::table::{
    ColumnKind, Datum, ReportCell, ReportColumn, ReportTable, SUMMARIES_TABLE, superscript_number,
};
use indexmap::IndexMap;
use speedwell_plot::{ForestChart, ForestRow, ForestStrips};
use std::borrow::Cow;
use std::collections::HashSet;

/// Maximum number of rows of a table. A row takes about 2 kB with its drawing.
const MAX_ROWS: usize = 4_000;
/// Width of the drawings in a column, in CSS pixels.
const DRAWING_PX: u32 = 190;
/// Maximum length of a column heading that stays in one piece. A longer heading, such as a file
/// path, may break anywhere.
const MAX_UNBROKEN_HEADER: usize = 24;
/// Maximum number of values by which rows can be filtered. The style has a rule for each.
const MAX_FILTERS: usize = 8;
/// Maximum number of rows of the folded table of probabilities. The raw data have all of them.
const MAX_PROBABILITY_ROWS: usize = 1_000;
/// Key of the column with the verdict of a comparison.
pub const VERDICT_COLUMN: &str = "verdict";
/// Keys of the columns of probabilities, which pages fold.
const PROBABILITY_COLUMNS: [&str; 4] = ["p", "q", "detectable", "more_runs"];

/// The columns with the figures of both sides, which a page shows as one column.
struct SideColumns {
    baseline: usize,
    candidate: usize,
    unit: Option<usize>,
}

/// A table prepared for rendering.
pub struct TableView<'t> {
    pub table: &'t ReportTable,
    /// Whether the table is on a served page, which has an external style sheet.
    pub is_served: bool,
    /// Indexes of the columns shown.
    pub shown: Vec<usize>,
    /// The column whose values filter the rows.
    facet: Option<usize>,
    /// The values of this column, most urgent first, each with a cell and the number of its rows.
    facet_values: Vec<(&'t str, &'t ReportCell, usize)>,
    /// The columns that are shown as one, in the place of the candidate's.
    sides: Option<SideColumns>,
    /// Whether rows are cases, with their charts below them.
    pub has_cases: bool,
    /// The column of drawings, and the drawings in row order.
    pub drawn: Option<(usize, ForestStrips)>,
    /// Indexes of the rows that are shown, among all rows with cells.
    pub shown_rows: HashSet<usize>,
    /// The number of rows with cells.
    pub rows: usize,
}

impl<'t> TableView<'t> {
    /// Prepares a table that shows only the columns `shown`.
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
        let sides = side_columns(table, &shown);
        let has_column = |key: &str| table.columns.iter().any(|column| column.key == key);
        let drawn = find_column(|column| column.kind == ColumnKind::Drawn)
            .and_then(|column| Some((column, draw_strips(table, column, id, is_served)?)));
        let is_separate = |column: &usize| {
            let is_merged =
                |sides: &SideColumns| *column == sides.baseline || Some(*column) == sides.unit;
            !sides.as_ref().is_some_and(is_merged)
        };
        TableView {
            table,
            is_served,
            facet,
            facet_values: facet.map(|column| count_values(table, column)).unwrap_or_default(),
            has_cases: has_column("case")
                && (has_column("change_drawn") || table.name == SUMMARIES_TABLE),
            drawn,
            shown_rows: pick_most_severe(&emphases, MAX_ROWS).into_iter().collect(),
            rows: emphases.len(),
            shown: shown.into_iter().filter(is_separate).collect(),
            sides,
        }
    }

    /// Whether rows can be filtered by the values of the facet.
    fn has_filters(&self) -> bool {
        (2..=MAX_FILTERS).contains(&self.facet_values.len())
    }

    /// Returns the number of the filter that selects a row, from 1.
    pub fn facet_index(&self, cells: &[ReportCell]) -> Option<usize> {
        let facet = self.facet.filter(|_| self.has_filters())?;
        let value = cells[facet].value.as_ref().and_then(Datum::as_str)?;
        let index = self.facet_values.iter().position(|(other, ..)| *other == value)?;
        Some(index + 1)
    }

    /// Returns the heading of a column.
    pub fn header_text(&self, column: usize) -> Cow<'t, str> {
        let columns: &'t [ReportColumn] = &self.table.columns;
        let header = columns[column].header.as_str();
        match &self.sides {
            Some(sides) if sides.candidate == column => {
                Cow::Owned(format!("{} → {header}", columns[sides.baseline].header))
            }
            _ => Cow::Borrowed(header),
        }
    }

    /// Returns the figures of both sides, if this is their column.
    pub fn sides_text(&self, column: usize, cells: &[ReportCell]) -> Option<String> {
        let sides = self.sides.as_ref().filter(|sides| sides.candidate == column)?;
        let text = |column: usize| cells[column].text.as_str();
        let unit = sides.unit.map(text).unwrap_or_default();
        let figures = join_texts(" → ", [text(sides.baseline), text(sides.candidate)]);
        Some(format!("{figures} {unit}").trim_end().to_owned())
    }
}

fn side_columns(table: &ReportTable, shown: &[usize]) -> Option<SideColumns> {
    let find = |key: &str| shown.iter().copied().find(|&column| table.columns[column].key == key);
    Some(SideColumns {
        baseline: find("baseline_shown")?,
        candidate: find("candidate_shown")?,
        unit: find("unit_shown"),
    })
}

/// Counts the rows of each value of a column.
fn count_values(table: &ReportTable, column: usize) -> Vec<(&str, &ReportCell, usize)> {
    let mut counts: IndexMap<&str, (&ReportCell, usize)> = IndexMap::new();
    for cell in table.cell_rows().map(|cells| &cells[column]) {
        if let Some(value) = cell.value.as_ref().and_then(Datum::as_str) {
            counts.entry(value).or_insert((cell, 0)).1 += 1;
        }
    }
    let mut values: Vec<_> =
        counts.into_iter().map(|(value, (cell, count))| (value, cell, count)).collect();
    values.sort_by_key(|(_, cell, _)| severity(cell.emphasis));
    values
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
    chart.render_strips(DRAWING_PX, is_served.then_some(id))
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

/// Renders the number of rows for each value of the facet column. The numbers are radio buttons that
/// filter the rows, also without scripts. A comparison also has a link that sorts its rows.
pub fn write_tally(view: &TableView<'_>, id: &str, writer: &mut HtmlWriter) {
    if view.facet.is_none() {
        return;
    }
    writer.push_raw("<ul class=\"tally\">\n");
    let item = |class: &str, value: &str, number: usize, content: &str| {
        let (radio, end) = if view.has_filters() {
            let checked = if number == 0 { " checked" } else { "" };
            let radio = format!(
                "<label><input type=\"radio\" name=\"{id}-filter\" class=\"pick-{number}\" \
                 autocomplete=\"off\"{checked}> "
            );
            (radio, "</label>")
        } else {
            (String::new(), "")
        };
        markup!("<li class=\"{class}\" data-v=\"{}\">{radio}{content}{end}</li>\n", value)
    };
    if view.has_filters() {
        writer.push_raw(&item("", "", 0, &format!("all {}", view.rows)));
    }
    for (index, (value, cell, count)) in view.facet_values.iter().enumerate() {
        let first = cell.text.chars().next();
        let symbol = first.filter(|c| !c.is_alphanumeric()).map(String::from).unwrap_or_default();
        let content = markup!("<i aria-hidden=\"true\">{}</i> {} {count}", symbol, value);
        writer.push_raw(&item(emphasis_class(cell.emphasis), value, index + 1, &content));
    }
    writer.push_raw("</ul>\n");
    let sort_link = writer.sort_link.as_ref().filter(|_| view.has_cases && view.rows > 1);
    if let Some((href, text)) = sort_link {
        writer.push_raw(&markup!("<p class=\"sort-link\"><a href=\"{}\">{}</a></p>\n", href, text));
    }
}

/// Renders the probabilities of a comparison, which are for experts, in a folded table of their own.
/// Does nothing if the table shows them.
pub fn write_probabilities(view: &TableView<'_>, writer: &mut HtmlWriter) {
    let table = view.table;
    let has_text = |column: &usize| {
        !view.shown.contains(column)
            && table.cell_rows().any(|cells| !cells[*column].text.is_empty())
    };
    let find = |key: &&str| table.columns.iter().position(|column| column.key == *key);
    let columns: Vec<usize> =
        PROBABILITY_COLUMNS.iter().filter_map(find).filter(has_text).collect();
    if columns.is_empty() || !view.has_cases || view.rows > MAX_PROBABILITY_ROWS {
        return;
    }
    let mut out = String::from(
        "<details class=\"fold probabilities\">\n<summary>p, q</summary>\n<table>\n<thead><tr>\
         <th scope=\"col\">case</th>",
    );
    for column in &columns {
        let ReportColumn { key, header, .. } = &table.columns[*column];
        let term = term_of_column(key).map_or_else(String::new, term_link);
        writer.terms.extend(term_of_column(key));
        out += &markup!("<th scope=\"col\" class=\"f\">{}{term}</th>", header);
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for cells in table.cell_rows() {
        let name = cells
            .first()
            .map(|cell| cell.value.as_ref().and_then(Datum::as_str).unwrap_or(&cell.text));
        out += &markup!("<tr><th scope=\"row\">{}</th>", name.unwrap_or(""));
        let figure = |column: &usize| markup!("<td class=\"f\">{}</td>", cells[*column].text);
        out.extend(columns.iter().map(figure));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</details>\n");
    writer.push_raw(&out);
}

/// Renders the headings of the columns.
pub fn write_header(view: &TableView<'_>, writer: &mut HtmlWriter) {
    let mut out = String::from("<thead><tr>");
    for &column_index in &view.shown {
        let column = &view.table.columns[column_index];
        let class = kind_class(column.kind);
        let key = escape_html(column.key);
        // A column without a visible heading gets its key as a heading for screen readers.
        let header = view.header_text(column_index);
        let text = if header.is_empty() {
            format!("<span class=\"unseen\">{key}</span>")
        } else {
            escape_html(&header)
        };
        out += &match &view.drawn {
            Some((drawn, strips)) if *drawn == column_index => format!(
                "<th scope=\"col\" class=\"{class}\"><span class=\"unseen\">{text}, drawn</span>{}</th>",
                strips.axis
            ),
            _ => {
                let long = if header.chars().count() > MAX_UNBROKEN_HEADER { " long" } else { "" };
                let term = term_of_column(column.key).map_or_else(String::new, term_link);
                writer.terms.extend(term_of_column(column.key));
                format!(
                    "<th scope=\"col\" class=\"{class}{long}\" data-k=\"{key}\">{text}{term}</th>"
                )
            }
        };
    }
    writer.push_raw(&out);
    writer.push_raw("</tr></thead>\n");
}

/// Renders a link to the definition of a term. A script shows the definition next to it.
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
        Some(Datum::Text(text)) if **text != *cell.text => markup!(" data-v=\"{}\"", text),
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

// The cells of lists on served pages: moments, and small forms.

/// Marks a text, which is already escaped, as the name of a moment. The tooltip has its date.
pub fn moment_markup(text: &str, unix_ms: i64) -> String {
    match format_moment(unix_ms) {
        moment if moment.is_empty() => text.to_owned(),
        moment => format!(
            "<time datetime=\"{}\" title=\"{moment} UTC\">{text}</time>",
            format_instant(unix_ms)
        ),
    }
}

/// Renders a form of a row. `address` is the address of the page, to which the server returns.
pub fn form_markup(form: &CellForm, address: &str) -> String {
    let CellForm { action, title, name, note: (note, label), .. } = form;
    let page = ("to", address.to_owned());
    let hidden = |(name, value): &(&str, String)| {
        markup!("<input type=\"hidden\" name=\"{}\" value=\"{}\">", name, value)
    };
    let hidden: String = form.hidden.iter().chain([&page]).map(hidden).collect();
    let button = |(value, text): &(&str, &str)| {
        markup!(" <button type=\"submit\" name=\"{}\" value=\"{}\">{}</button>", name, value, text)
    };
    let buttons: String = form.buttons.iter().map(button).collect();
    markup!(
        "<form class=\"row-form\" action=\"{}\" method=\"post\" aria-label=\"{}\">{hidden}\
         <input name=\"{2}\" placeholder=\"{2}\" aria-label=\"{3}\" maxlength=\"1000\">{buttons}</form>",
        action,
        title,
        note,
        label
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_its_date_for_programs_and_for_people() {
        assert_eq!(
            moment_markup("3 h ago", 1_769_868_300_000),
            "<time datetime=\"2026-01-31T14:05:00Z\" title=\"2026-01-31 14:05 UTC\">3 h ago</time>"
        );
        assert_eq!(moment_markup("never", i64::MAX), "never");
    }

    #[test]
    fn a_form_in_a_row_is_escaped_and_names_its_page() {
        let hostile = "\"><script>'&";
        let form = CellForm {
            action: hostile.into(),
            title: hostile.into(),
            hidden: vec![("change", hostile.into())],
            note: ("note", hostile.into()),
            name: "triage",
            buttons: vec![("wrong", "wrong"), ("open", "reopen")],
        };
        let markup = form_markup(&form, hostile);
        assert!(!markup.contains("<script") && !markup.contains("\"\""), "{markup}");
        assert_eq!(markup.matches("<input type=\"hidden\"").count(), 2, "{markup}");
        assert!(markup.contains("name=\"to\" value=\"&quot;&gt;"), "{markup}");
        assert!(
            markup
                .contains("<button type=\"submit\" name=\"triage\" value=\"open\">reopen</button>"),
            "{markup}"
        );
    }
}
