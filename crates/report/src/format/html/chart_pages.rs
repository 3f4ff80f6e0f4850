//! Puts the charts of many cases on separate pages. On one page, they would take megabytes that few
//! readers look at.
//!
//! This module decides which galleries are divided, and into which parts. A part is an ordinary
//! document, readable without scripts. On a page that links to a part, a script can fetch the part
//! and show its charts in place. Start at [`parts_of_charts`] and [`part_of_charts`].

use crate::document::{CaseGallery, CaseView, Document, ReportBlock};
use crate::figure::format_number;

/// Maximum number of cases that a gallery shows open. If there are more cases, each is collapsed,
/// and a server puts the charts on separate pages.
pub(super) const MAX_UNFOLDED_CASES: usize = 60;
/// Number of cases with charts per page.
const CASES_PER_PAGE: usize = 50;

/// Where the charts go if there are too many cases for one page.
#[derive(Debug, Clone, Default)]
pub enum ChartsLocation {
    /// On the page itself.
    #[default]
    Here,
    /// On separate pages. A page's address is this text followed by the number of its part.
    Apart(String),
    /// On this page, which is itself one of the separate pages. The number counts the cases on
    /// earlier pages.
    From(usize),
}

/// Some cases of a document, with their charts.
#[derive(Debug, Clone)]
pub struct PartOfCharts {
    /// The document with these cases.
    pub document: Document,
    /// The number of cases in earlier parts.
    pub first: usize,
    /// The title, as in `cases 51 to 100`.
    pub title: String,
}

/// Returns the number of parts into which the charts are divided; 0 if all charts stay on the page.
pub fn parts_of_charts(document: &Document) -> usize {
    if galleries(document).any(is_divided) {
        galleries(document)
            .map(|gallery| gallery.cases.len())
            .sum::<usize>()
            .div_ceil(CASES_PER_PAGE)
    } else {
        0
    }
}

/// Returns a part by its number, from 1 to [`parts_of_charts`].
pub fn part_of_charts(document: &Document, number: usize) -> Option<PartOfCharts> {
    if number == 0 || number > parts_of_charts(document) {
        return None;
    }
    let first = (number - 1) * CASES_PER_PAGE;
    let mut preceding = 0;
    let mut shown = Vec::new();
    for gallery in galleries(document) {
        let skipped = first.saturating_sub(preceding).min(gallery.cases.len());
        let end = (first + CASES_PER_PAGE).saturating_sub(preceding).min(gallery.cases.len());
        preceding += gallery.cases.len();
        if skipped < end {
            shown.push(CaseGallery {
                kind: gallery.kind,
                cases: gallery.cases[skipped..end].to_vec(),
            });
        }
    }
    let title = part_title(number, preceding);
    let mut document = Document::new(document.report);
    document.push(ReportBlock::Heading {
        level: 1,
        text: format!("{title} of {}", format_number(preceding as f64, 0)),
    });
    document.extend(shown.into_iter().map(ReportBlock::Gallery));
    Some(PartOfCharts { document, first, title })
}

/// Formats the title of part `number`, as in `cases 51 to 100`. The document has `cases` cases.
fn part_title(number: usize, cases: usize) -> String {
    let (first, last) = ((number - 1) * CASES_PER_PAGE + 1, (number * CASES_PER_PAGE).min(cases));
    let [from, to] = [first, last].map(|index| format_number(index as f64, 0));
    if first == last {
        return format!("case {from}");
    }
    format!("cases {from} to {to}")
}

/// Returns the addresses and titles of a document's parts.
pub(super) fn list_parts(charts: &ChartsLocation, document: &Document) -> Vec<(String, String)> {
    let ChartsLocation::Apart(address) = charts else {
        return Vec::new();
    };
    let cases = galleries(document).map(|gallery| gallery.cases.len()).sum();
    let numbers = 1..=parts_of_charts(document);
    numbers.map(|number| (format!("{address}{number}"), part_title(number, cases))).collect()
}

/// Returns every gallery of a document, in reading order.
pub(super) fn galleries(document: &Document) -> impl Iterator<Item = &CaseGallery> {
    let blocks = document.all_blocks().into_iter();
    blocks.filter_map(|block| match block {
        ReportBlock::Gallery(gallery) => Some(gallery),
        _ => None,
    })
}

fn is_divided(gallery: &CaseGallery) -> bool {
    gallery.cases.len() > MAX_UNFOLDED_CASES
}

/// Whether the charts of a gallery are on separate pages.
pub(super) fn has_separate_charts(charts: &ChartsLocation, gallery: &CaseGallery) -> bool {
    matches!(charts, ChartsLocation::Apart(_)) && is_divided(gallery)
}

/// Returns the address of the page with a case's chart, or `None` if the chart is on this page.
pub(super) fn chart_address(
    charts: &ChartsLocation,
    gallery: &CaseGallery,
    index: usize,
) -> Option<String> {
    let ChartsLocation::Apart(address) = charts else {
        return None;
    };
    is_divided(gallery).then(|| format!("{address}{}", index / CASES_PER_PAGE + 1))
}

/// Returns the number of cases on earlier pages if this page is one of the separate pages,
/// otherwise 0.
pub(super) fn cases_before(charts: &ChartsLocation) -> usize {
    match charts {
        ChartsLocation::From(first) => *first,
        ChartsLocation::Here | ChartsLocation::Apart(_) => 0,
    }
}

/// Returns every case of the galleries, with its gallery.
pub(super) fn cases_of<'g>(
    galleries: impl Iterator<Item = &'g CaseGallery>,
) -> Vec<(&'g CaseGallery, &'g CaseView)> {
    galleries.flat_map(|gallery| gallery.cases.iter().map(move |case| (gallery, case))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::GalleryKind;

    /// Creates a document with galleries of these sizes. A case's name is its index over all
    /// galleries.
    fn document(sizes: &[usize]) -> Document {
        let mut document = Document::new("comparison");
        let mut next = 0;
        for size in sizes {
            let view = |at: usize| CaseView {
                id: at.to_string(),
                answers: Vec::new(),
                charts: Vec::new(),
            };
            document.push(ReportBlock::Gallery(CaseGallery {
                kind: GalleryKind::Runs,
                cases: (next..next + size).map(view).collect(),
            }));
            next += size;
        }
        document
    }

    #[test]
    fn all_parts_together_have_every_case_once() {
        for sizes in [&[61][..], &[3, 100, 47], &[100, 1], &[61, 0, 61]] {
            let whole = document(sizes);
            let all: usize = sizes.iter().sum();
            let mut seen: Vec<String> = Vec::new();
            for number in 1..=parts_of_charts(&whole) {
                let part = part_of_charts(&whole, number).unwrap();
                assert_eq!(part.first, seen.len());
                let cases = cases_of(galleries(&part.document));
                assert!(cases.len() <= CASES_PER_PAGE);
                seen.extend(cases.iter().map(|(_, case)| case.id.clone()));
            }
            let expected: Vec<String> = (0..all).map(|at| at.to_string()).collect();
            assert_eq!(seen, expected, "{sizes:?}");
            assert!(part_of_charts(&whole, all.div_ceil(CASES_PER_PAGE) + 1).is_none());
        }
    }

    #[test]
    fn few_cases_get_no_separate_chart_pages() {
        let whole = document(&[60, 60]);
        assert_eq!(parts_of_charts(&whole), 0);
        assert!(part_of_charts(&whole, 1).is_none());
        let charts = ChartsLocation::Apart("?charts=".into());
        assert!(!has_separate_charts(&charts, galleries(&whole).next().unwrap()));
        assert_eq!(list_parts(&charts, &document(&[101]))[2].1, "case 101");
    }
}
