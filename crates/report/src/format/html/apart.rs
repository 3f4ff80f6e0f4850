//! The charts of many cases on pages of their own: with all of them, a page has megabytes that hardly anybody looks at.
//!
//! Decides which galleries are divided, and into which parts. A part is a document like any other, so that it can be read
//! without scripts, and a script takes single charts out of it. Start at [`parts_of_charts`] and [`part_of_charts`].

use crate::document::{Block, CaseView, Document, Gallery};
use crate::figure::spell;

/// More cases than these are folded, and have their charts on pages of their own where a server can give them.
pub(super) const OPEN: usize = 60;
/// Cases with their charts on one page.
const PART: usize = 50;

/// Where the charts of many cases are.
#[derive(Debug, Clone, Default)]
pub enum Charts {
    /// On the page itself.
    #[default]
    Here,
    /// On pages of their own, whose addresses are this text and the number of a part.
    Apart(String),
    /// This is such a page, and so many cases of the whole come before its first.
    From(usize),
}

/// Some of the cases of a document, with their charts.
#[derive(Debug, Clone)]
pub struct PartOfCharts {
    /// What is shown of them.
    pub document: Document,
    /// How many cases come before the first.
    pub first: usize,
    /// `cases 51 to 100`.
    pub title: String,
}

/// Into how many parts the charts of a document are divided; 0 where all of them are on its page.
pub fn parts_of_charts(document: &Document) -> usize {
    if galleries(document).any(is_divided) {
        galleries(document)
            .map(|gallery| gallery.cases.len())
            .sum::<usize>()
            .div_ceil(PART)
    } else {
        0
    }
}

/// A part by its number, from 1 to [`parts_of_charts`].
pub fn part_of_charts(document: &Document, number: usize) -> Option<PartOfCharts> {
    if number == 0 || number > parts_of_charts(document) {
        return None;
    }
    let first = (number - 1) * PART;
    let mut before = 0;
    let mut shown = Vec::new();
    for gallery in galleries(document) {
        let skipped = first.saturating_sub(before).min(gallery.cases.len());
        let end = (first + PART)
            .saturating_sub(before)
            .min(gallery.cases.len());
        before += gallery.cases.len();
        if skipped < end {
            shown.push(Gallery {
                kind: gallery.kind,
                cases: gallery.cases[skipped..end].to_vec(),
            });
        }
    }
    let title = title_of(number, before);
    let mut document = Document::new(document.report);
    document.push(Block::Heading {
        level: 1,
        text: format!("{title} of {}", spell(before as f64, 0)),
    });
    document.extend(shown.into_iter().map(Block::Gallery));
    Some(PartOfCharts {
        document,
        first,
        title,
    })
}

/// `cases 51 to 100`
fn title_of(number: usize, cases: usize) -> String {
    let (first, last) = ((number - 1) * PART + 1, (number * PART).min(cases));
    let [from, to] = [first, last].map(|place| spell(place as f64, 0));
    if first == last {
        return format!("case {from}");
    }
    format!("cases {from} to {to}")
}

/// Addresses and titles of the parts of a document.
pub(super) fn parts(charts: &Charts, document: &Document) -> Vec<(String, String)> {
    let Charts::Apart(address) = charts else {
        return Vec::new();
    };
    let cases = galleries(document).map(|gallery| gallery.cases.len()).sum();
    let numbers = 1..=parts_of_charts(document);
    numbers
        .map(|number| (format!("{address}{number}"), title_of(number, cases)))
        .collect()
}

/// All galleries of a document, in reading order.
pub(super) fn galleries(document: &Document) -> impl Iterator<Item = &Gallery> {
    let blocks = document.walk().into_iter();
    blocks.filter_map(|block| match block {
        Block::Gallery(gallery) => Some(gallery),
        _ => None,
    })
}

fn is_divided(gallery: &Gallery) -> bool {
    gallery.cases.len() > OPEN
}

/// Whether the charts of a gallery are on pages of their own.
pub(super) fn is_apart(charts: &Charts, gallery: &Gallery) -> bool {
    matches!(charts, Charts::Apart(_)) && is_divided(gallery)
}

/// The address of the page that has the chart of a case, where that is another one.
pub(super) fn address_of(charts: &Charts, gallery: &Gallery, at: usize) -> Option<String> {
    let Charts::Apart(address) = charts else {
        return None;
    };
    is_divided(gallery).then(|| format!("{address}{}", at / PART + 1))
}

/// The number of the first case of a page in the whole.
pub(super) fn first_of(charts: &Charts) -> usize {
    match charts {
        Charts::From(first) => *first,
        Charts::Here | Charts::Apart(_) => 0,
    }
}

/// All cases of galleries, each with its gallery.
pub(super) fn cases_of<'g>(
    galleries: impl Iterator<Item = &'g Gallery>,
) -> Vec<(&'g Gallery, &'g CaseView)> {
    galleries
        .flat_map(|gallery| gallery.cases.iter().map(move |case| (gallery, case)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::GalleryKind;

    /// A document whose galleries have so many cases, called by their places in the whole.
    fn document(sizes: &[usize]) -> Document {
        let mut document = Document::new("comparison");
        let mut next = 0;
        for size in sizes {
            let view = |at: usize| CaseView {
                id: at.to_string(),
                answers: Vec::new(),
                charts: Vec::new(),
            };
            document.push(Block::Gallery(Gallery {
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
                assert!(cases.len() <= PART);
                seen.extend(cases.iter().map(|(_, case)| case.id.clone()));
            }
            let expected: Vec<String> = (0..all).map(|at| at.to_string()).collect();
            assert_eq!(seen, expected, "{sizes:?}");
            assert!(part_of_charts(&whole, all.div_ceil(PART) + 1).is_none());
        }
    }

    #[test]
    fn few_cases_stay_on_their_page() {
        let whole = document(&[60, 60]);
        assert_eq!(parts_of_charts(&whole), 0);
        assert!(part_of_charts(&whole, 1).is_none());
        let charts = Charts::Apart("?charts=".into());
        assert!(!is_apart(&charts, galleries(&whole).next().unwrap()));
        assert_eq!(parts(&charts, &document(&[101]))[2].1, "case 101");
    }
}
