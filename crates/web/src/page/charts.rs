//! `?charts=NUMBER`: some of the charts of a page with many cases, as a separate page.
//!
//! Works for every page without its knowledge: the key is removed from the query first, and the
//! part is cut from the finished document. Start at [`Wanted::taken_from`].

use super::Page;
use crate::address::Format;
use crate::query::Query;
use crate::refusal::Refusal;
use speedwell_report::html::{Charts, Link, part_of_charts, parts_of_charts};

/// Query key of the part number.
const NAME: &str = "charts";

/// Requested part of a page; `None` for the whole page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted(Option<usize>);

impl Wanted {
    /// Extracts the part from a query; also returns the query without it.
    ///
    /// # Errors
    /// If it is not a number, or the format has no parts.
    pub fn taken_from(query: &Query, format: Format) -> Result<(Wanted, Query), Refusal> {
        let Some(number) = query.number(NAME)? else {
            return Ok((Wanted(None), query.clone()));
        };
        if format != Format::Page {
            return Err(Refusal::bad(format!(
                "'{NAME}' chooses a part of a page, and this format is not divided"
            ))
            .hint(format!("leave {NAME}={number} out: it has everything")));
        }
        let number = usize::try_from(number).unwrap_or(0);
        Ok((Wanted(Some(number)), query.without(NAME)))
    }

    /// Cuts the part from a page; `query` is that of the page.
    ///
    /// # Errors
    /// If the page has no parts, or fewer.
    pub fn of(self, page: Page, query: &Query) -> Result<Page, Refusal> {
        let Wanted(Some(number)) = self else {
            return Ok(page);
        };
        let all = parts_of_charts(&page.document);
        if all == 0 {
            return Err(Refusal::bad(format!("this page has no '{NAME}'"))
                .hint("it has all its charts on the page itself"));
        }
        let Some(part) = part_of_charts(&page.document, number) else {
            return Err(
                Refusal::missing(format!("this page has no part {number} of its charts"))
                    .hint(format!("{NAME} reaches from 1 to {all}")),
            );
        };
        let neighbour = |number: usize| {
            let title = part_of_charts(&page.document, number)?.title;
            Some((beginning(query) + &number.to_string(), title))
        };
        let before = neighbour(number.wrapping_sub(1));
        let after = neighbour(number + 1);
        let before = before.map(|(href, title)| Link::new(href, format!("← {title}")));
        let after = after.map(|(href, title)| Link::new(href, format!("{title} →")));
        let mut crumbs = page.crumbs;
        crumbs.push(Link::new(
            beginning(query) + &number.to_string(),
            part.title,
        ));
        Ok(Page {
            crumbs,
            links: before.into_iter().chain(after).collect(),
            sessions: page.sessions,
            is_lasting: page.is_lasting,
            charts: Charts::From(part.first),
            ..Page::of(part.document)
        })
    }
}

/// Returns the beginning of the addresses of a page's parts, relative to the page.
pub fn beginning(query: &Query) -> String {
    query.with(NAME, Some(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_number_and_of_a_page_only() {
        let query = Query::parse("base=%401&charts=3").unwrap();
        let (wanted, rest) = Wanted::taken_from(&query, Format::Page).unwrap();
        assert_eq!(wanted, Wanted(Some(3)));
        assert_eq!(rest.text(), "?base=@1");
        assert_eq!(beginning(&rest), "?base=@1&charts=");
        assert_eq!(beginning(&Query::default()), "?charts=");
        let json = Format::Document(speedwell_report::Format::Json);
        assert_eq!(Wanted::taken_from(&query, json).unwrap_err().status, 400);
        let query = Query::parse("charts=all").unwrap();
        let refused = Wanted::taken_from(&query, Format::Page).unwrap_err();
        assert_eq!(refused.status, 400);
    }
}
