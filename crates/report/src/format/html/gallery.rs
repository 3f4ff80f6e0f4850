//! Renders galleries: each case with a chart of its runs, or each series with a chart of its trend.
//! A list of sparklines precedes the trends. The charts of a case are below its row in a table, if
//! it has one; galleries show the others. [`figure_markup`] is the markup of any chart.
//!
//! [`prepare_gallery`] draws as many charts as the page has room for. It is called before tables
//! are rendered, because table rows link to the charts. It does not draw charts that are on
//! separate pages.

use crate::document::{
    CaseAnswer, CaseGallery, CaseView, Document, GalleryKind, ReportChart, by_severity, severity,
};
use crate::figure::{format_count, unless_empty};
use crate::format::html::writer::{
    ChartsLocation, HtmlWriter, MAX_UNFOLDED_CASES, chart_address, emphasis_class, escape_html,
    galleries, has_separate_charts, list_parts, markup,
};
use crate::table::TextEmphasis;
use speedwell_plot::{AnyChart as Picture, TrendChart, TrendDetail};
use std::borrow::Cow;

/// Maximum size of all charts together, in bytes. A chart of runs takes about 4 kB with 16 runs per
/// side. A trend chart with 80 points takes 60 kB, because it is drawn twice.
const MAX_CHARTS_BYTES: usize = 6 << 20;
/// Width of the second drawing of a chart, and of the only one where a page has many. It is not
/// scaled down on a screen 390 pixels wide, whose margins and indents take 36.
pub const PHONE_PX: u32 = 350;
/// Width of a trend chart on wide screens. It needs the full width, so it is drawn twice.
const TREND_PX: u32 = 1040;
/// Width of the chart of a case that has the width of the page.
const WIDE_CASE_PX: u32 = 1120;
/// Size of a sparkline in the list.
const SPARK_PX: (u32, u32) = (240, 34);

/// Returns the title of a gallery, and how to read its charts.
fn title_and_legend(kind: GalleryKind) -> (&'static str, &'static str) {
    match kind {
        GalleryKind::Runs => (
            "Every run",
            "On the left is every run in order of execution: a slope or a step is machine drift. \
             A horizontal line marks the figure that the table gives for a side; fine vertical lines \
             separate the blocks of the plan, or sides that were not measured together. On the \
             right are the quartiles, with whiskers up to 1.5 times the interquartile range.",
        ),
        GalleryKind::Trends => (
            "Trends",
            "Every point is a session. A horizontal line is a level. A mark above is a change: \
             filled if found, ringed if measured again and confirmed, hollow if suspected, \
             crossed out if refuted, dashed if it is a drift. The Tab key moves from change to change.",
        ),
    }
}

/// Draws the charts of the cases in `document`, most urgent case first, until [`MAX_CHARTS_BYTES`]
/// are used up. Must be called before tables are rendered, because table rows link to the charts.
pub fn prepare_gallery(document: &Document, writer: &mut HtmlWriter) {
    let mut cases_with_gallery = Vec::new();
    for gallery in galleries(document) {
        cases_with_gallery.extend(gallery.cases.iter().map(|case| (gallery, case)));
    }
    let cases: Vec<&CaseView> = cases_with_gallery.iter().map(|(_, case)| *case).collect();
    let first = if let ChartsLocation::From(first) = writer.charts { first } else { 0 };
    writer.parts = list_parts(&writer.charts, document);
    // Tooltips suffice on a served page, because programs can read its data in other formats.
    let is_served = writer.served.is_some();
    let detail = if is_served { TrendDetail::Tooltips } else { TrendDetail::Full };
    let mut budget = MAX_CHARTS_BYTES;
    let mut is_full = false;
    for index in sort_by_urgency(&cases) {
        let (gallery, case) = cases_with_gallery[index];
        let number = first + index;
        let anchor = format!("case-{number}");
        if let Some(address) = chart_address(&writer.charts, gallery, index) {
            writer.links.insert(case.id.clone(), format!("{address}#{anchor}"));
            continue;
        }
        if is_full {
            continue;
        }
        let charts = case.charts.iter().enumerate();
        let is_wide = has_wide_charts(gallery, &writer.charts);
        let draw = |(index, chart): (usize, &ReportChart)| {
            draw_case(&chart.picture, &format!("{number}-{index}"), detail, is_wide)
        };
        let drawing: String = charts.map(draw).collect();
        match budget.checked_sub(drawing.len()) {
            Some(remaining) => {
                budget = remaining;
                writer.links.insert(case.id.clone(), format!("#{anchor}"));
                writer.drawings.insert(case.id.clone(), (anchor, drawing));
            }
            None => is_full = true,
        }
    }
}

/// Whether the charts of runs have the width of the page. They are then drawn twice, which would
/// double the size of a page with many cases.
fn has_wide_charts(gallery: &CaseGallery, charts: &ChartsLocation) -> bool {
    gallery.cases.len() <= MAX_UNFOLDED_CASES && !matches!(charts, ChartsLocation::From(_))
}

/// Draws a chart of a case. `detail` applies to the points of a trend chart on wide screens. Other
/// charts have the width of the page if `is_wide`.
fn draw_case(picture: &Picture, number: &str, detail: TrendDetail, is_wide: bool) -> String {
    let (id, narrow_id) = (format!("c{number}"), format!("n{number}"));
    let (class, wide, narrow) = match picture {
        Picture::Trend(_) => {
            let draw = |detail, width_px, id: &str| {
                picture_in_detail(picture, detail).svg_below_heading(width_px, id)
            };
            let wide = draw(detail, TREND_PX, &id);
            ("trend", wide, draw(TrendDetail::Nothing, PHONE_PX, &narrow_id))
        }
        _ if is_wide => {
            let draw = |width_px, id: &str| picture.svg_on_page(width_px, id);
            ("", draw(WIDE_CASE_PX, &id), draw(PHONE_PX, &narrow_id))
        }
        _ => return picture.svg_on_page(PHONE_PX, &id),
    };
    figure_markup(class, &wide, Some(&narrow))
}

fn sort_by_urgency(cases: &[&CaseView]) -> Vec<usize> {
    // The emphasis of a case's most urgent answer.
    let emphasis = |case: &&CaseView| -> TextEmphasis {
        let emphases = case.answers.iter().map(|answer| answer.emphasis);
        emphases.min_by_key(|emphasis| severity(*emphasis)).unwrap_or_default()
    };
    by_severity(&cases.iter().map(emphasis).collect::<Vec<_>>())
}

/// Renders a gallery with all cases whose charts were drawn.
pub fn add_gallery(gallery: &CaseGallery, writer: &mut HtmlWriter) {
    let CaseGallery { kind, cases } = gallery;
    let (title, legend) = title_and_legend(*kind);
    // The rows above have the charts.
    let is_elsewhere = |case: &CaseView| {
        writer.links.contains_key(&case.id) && !writer.drawings.contains_key(&case.id)
    };
    if !has_separate_charts(&writer.charts, gallery) && cases.iter().all(is_elsewhere) {
        writer.push_raw("<details class=\"fold\">\n<summary>How to read the charts</summary>\n");
        writer.push_element("p", "hint", legend);
        writer.push_raw("</details>\n");
        return;
    }
    let id = writer.new_id("cases");
    writer.contents.push((id.clone(), title.into()));
    writer.push_raw(&format!("<section id=\"{id}\" class=\"gallery\">\n<h2>{title}</h2>\n"));
    let mut order: Vec<&CaseView> = cases.iter().collect();
    if *kind == GalleryKind::Trends {
        order = sort_by_urgency(&order).into_iter().map(|index| &cases[index]).collect();
        write_sparklines(&order, writer);
    }
    writer.push_element("p", "hint", legend);
    if has_separate_charts(&writer.charts, gallery) {
        // A script turns each link into a collapsed part, and fetches the part when it is opened.
        let part = |(address, title): (String, String)| {
            markup!("<li><a href=\"{}\">{}</a></li>\n", address, title)
        };
        let parts: String = std::mem::take(&mut writer.parts).into_iter().map(part).collect();
        writer.push_raw(&format!("<ul class=\"parts\">\n{parts}</ul>\n</section>\n"));
        return;
    }
    note_omitted(*kind, &order, writer);
    let folded = cases.len() > MAX_UNFOLDED_CASES;
    let class = match (kind, folded) {
        (GalleryKind::Trends, _) => "cases trends",
        (GalleryKind::Runs, true) => "cases folded",
        (GalleryKind::Runs, false) if has_wide_charts(gallery, &writer.charts) => "cases full",
        (GalleryKind::Runs, false) => "cases",
    };
    writer.push_raw(&format!("<div class=\"{class}\">\n"));
    for case in order {
        if let Some((anchor, drawing)) = writer.drawings.remove(&case.id) {
            write_card(case, &anchor, &drawing, folded, writer);
        }
    }
    writer.push_raw("</div>\n</section>\n");
}

fn note_omitted(kind: GalleryKind, cases: &[&CaseView], writer: &mut HtmlWriter) {
    let is_drawn = |case: &&&CaseView| writer.links.contains_key(&case.id);
    let omitted = cases.len() - cases.iter().filter(is_drawn).count();
    if omitted > 0 {
        let omitted_first = match kind {
            GalleryKind::Runs => "cases that are the same, then unclear ones",
            GalleryKind::Trends => "series without a change, then series with suspicions only",
        };
        let text = format!(
            "{} of {} are left out to keep this page small, starting with {omitted_first}. Their \
             values are in the raw data.",
            format_count(omitted, "chart", "charts"),
            cases.len()
        );
        writer.push_element("p", "left-out", &text);
    }
}

/// Renders a sparkline per series, linked to the series' chart.
fn write_sparklines(cases: &[&CaseView], writer: &mut HtmlWriter) {
    if cases.len() < 2 {
        return;
    }
    writer.push_raw("<table class=\"sparks\"><tbody>\n");
    for case in cases {
        let name = match writer.links.get(&case.id) {
            Some(href) => markup!("<a href=\"{}\">{}</a>", href, case.id),
            None => escape_html(&case.id),
        };
        let spark = case.charts.iter().find_map(|chart| match &chart.picture {
            Picture::Trend(trend) => trend.render_sparkline(SPARK_PX.0, SPARK_PX.1),
            _ => None,
        });
        writer.push_raw(&format!(
            "<tr><th scope=\"row\">{name}</th><td>{}</td><td>{}</td></tr>\n",
            spark.unwrap_or_default(),
            answers_markup(case)
        ));
    }
    writer.push_raw("</tbody></table>\n");
}

fn answers_markup(case: &CaseView) -> String {
    let answer_markup = |answer: &CaseAnswer| {
        let subject = if case.answers.len() > 1 { &*answer.about } else { "" };
        let subject =
            unless_empty(subject, |subject| markup!("<span class=\"about\">{}:</span> ", subject));
        let class = emphasis_class(answer.emphasis);
        markup!("<span class=\"answer {class}\">{subject}{}</span>", answer.text)
    };
    case.answers.iter().map(answer_markup).collect()
}

fn write_card(case: &CaseView, anchor: &str, drawing: &str, folded: bool, writer: &mut HtmlWriter) {
    let answers = answers_markup(case);
    let (element, title) = if folded { ("details", "summary") } else { ("article", "h3") };
    writer.push_raw(&markup!(
        "<{element} class=\"case\" id=\"{anchor}\"><{title}><span class=\"id\">{}</span> {answers}\
         </{title}>\n{drawing}</{element}>\n",
        case.id
    ));
}

/// Returns the picture with this amount of detail about single points. Only trends have a choice.
pub fn picture_in_detail(picture: &Picture, detail: TrendDetail) -> Cow<'_, Picture> {
    match picture {
        Picture::Trend(trend) => Cow::Owned(Picture::Trend(TrendChart { detail, ..trend.clone() })),
        other => Cow::Borrowed(other),
    }
}

/// Renders a figure with the drawings for wide and for narrow screens. It can be focused, because
/// it may scroll; a script does this for trends.
pub fn figure_markup(class: &str, wide: &str, narrow: Option<&str>) -> String {
    let focus = if class.ends_with("trend") { "" } else { " tabindex=\"0\"" };
    let drawings = match narrow {
        Some(narrow) => {
            format!("<div class=\"wide\">\n{wide}</div>\n<div class=\"narrow\">\n{narrow}</div>")
        }
        None => format!("<div>\n{wide}</div>"),
    };
    format!("<figure class=\"{class}\"{focus}>\n{drawings}\n</figure>\n")
}
