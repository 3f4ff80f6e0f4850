//! Every case by itself: its answers and its runs. Few cases stand side by side; many are folded, so that a
//! browser lays out only those that are looked at.

use super::escape::escape;
use super::room::CHARTS_BYTES;
use super::writer::{Writer, class_of};
use crate::document::{Block, CaseView, Chart, Document, Emphasis};
use crate::metric_words::count;
use crate::urgency::{by_urgency, urgency};

/// Width at which the chart of a case is laid out, in CSS pixels: two fit beside each other on a desktop,
/// and on a telephone the letters are still legible.
const CASE_PX: u32 = 420;
/// More cases than these are folded.
const OPEN: usize = 60;

/// How to read the charts.
const LEGEND: &str = "Left, every run in order of execution: a slope or a step is drift of the machine. A \
                      horizontal line is the median of a side; fine vertical lines part the blocks of the \
                      plan, or sides that were not measured together. Right, quartiles, with whiskers up to \
                      1.5 times their distance.";

/// Draws the cases of `document`, the most urgent ones first, as long as there is room. Rows of tables
/// lead to what is drawn here, so it comes before them.
pub fn prepare(document: &Document, writer: &mut Writer) {
    let cases: Vec<&CaseView> = document
        .walk()
        .into_iter()
        .filter_map(|block| match block {
            Block::Gallery(cases) => Some(cases),
            _ => None,
        })
        .flatten()
        .collect();
    let emphases: Vec<Emphasis> = cases.iter().map(|case| emphasis(case)).collect();
    let mut room = CHARTS_BYTES;
    for at in by_urgency(&emphases) {
        let case = cases[at];
        let anchor = format!("case-{at}");
        let draw = |(number, chart): (usize, &Chart)| {
            chart
                .picture
                .svg_on_page(CASE_PX, &format!("c{at}-{number}"))
        };
        let drawing: String = case.charts.iter().enumerate().map(draw).collect();
        let Some(left) = room.checked_sub(drawing.len()) else {
            return;
        };
        room = left;
        writer.expect(&case.id, anchor, drawing);
    }
}

/// All cases that were drawn.
pub fn gallery(cases: &[CaseView], writer: &mut Writer) {
    let drawn = cases
        .iter()
        .filter(|case| writer.anchor(&case.id).is_some());
    let left_out = cases.len() - drawn.count();
    let id = writer.new_id("cases");
    writer.contents.push((id.clone(), "Every run".into()));
    writer.raw(&format!(
        "<section id=\"{id}\" class=\"gallery\">\n<h2>Every run</h2>\n"
    ));
    writer.element("p", "hint", LEGEND);
    if left_out > 0 {
        let text = format!(
            "{} of {} are left out to keep this page small: first those that are the same, then the unclear \
             ones. Their values are in the raw data.",
            count(left_out, "chart", "charts"),
            cases.len()
        );
        writer.element("p", "left-out", &text);
    }
    let folded = cases.len() > OPEN;
    let class = if folded { "cases folded" } else { "cases" };
    writer.raw(&format!("<div class=\"{class}\">\n"));
    for case in cases {
        if let Some((anchor, drawing)) = writer.take(&case.id) {
            card(case, &anchor, &drawing, folded, writer);
        }
    }
    writer.raw("</div>\n</section>\n");
}

/// The most urgent of a case's answers stands for it.
fn emphasis(case: &CaseView) -> Emphasis {
    let emphases = case.answers.iter().map(|answer| answer.emphasis);
    emphases
        .min_by_key(|emphasis| urgency(*emphasis))
        .unwrap_or_default()
}

fn card(case: &CaseView, anchor: &str, drawing: &str, folded: bool, writer: &mut Writer) {
    let name = escape(&case.id);
    let mut answers = String::new();
    for answer in &case.answers {
        let about = match case.answers.len() {
            1 => String::new(),
            _ => format!("<span class=\"about\">{}:</span> ", escape(&answer.about)),
        };
        answers.push_str(&format!(
            "<span class=\"answer {}\">{about}{}</span>",
            class_of(answer.emphasis),
            escape(&answer.text)
        ));
    }
    let markup = if folded {
        format!(
            "<details class=\"case\" id=\"{anchor}\"><summary><span class=\"id\">{name}</span> {answers}\
             </summary>\n{drawing}</details>\n"
        )
    } else {
        format!(
            "<article class=\"case\" id=\"{anchor}\"><h3><span class=\"id\">{name}</span> {answers}</h3>\n\
             {drawing}</article>\n"
        )
    };
    writer.raw(&markup);
}
