//! Handles `?charts=NUMBER`. A page with many cases shows its charts in parts, each on a separate
//! page.
//!
//! The code for each page knows nothing of parts. This module removes the key `charts` from the
//! query before the page is built, and then cuts the part from the finished document. Start at
//! [`ChartPart::split_query`].

use crate::dashboard::address::PageFormat;
use crate::dashboard::page::content::PageContent;
use crate::dashboard::query::PageQuery;
use crate::http::HttpError;
use speedwell_report::html::{ChartsLocation, PageLink, part_of_charts, parts_of_charts};

/// Query key of the part number.
const QUERY_KEY: &str = "charts";

/// Requested part of a page. `None` stands for the whole page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChartPart(Option<usize>);

impl ChartPart {
    /// Splits a query into the requested part and the query without the key `charts`.
    ///
    /// # Errors
    /// Fails if the part is not a number, or the format has no parts.
    pub fn split_query(
        query: &PageQuery,
        format: PageFormat,
    ) -> Result<(ChartPart, PageQuery), HttpError> {
        let Some(number) = query.get_number(QUERY_KEY)? else {
            return Ok((ChartPart(None), query.clone()));
        };
        if format != PageFormat::Page {
            return Err(HttpError::bad_request(format!(
                "'{QUERY_KEY}' selects a part of a page, but this format is not split"
            ))
            .with_hint(format!("omit {QUERY_KEY}={number} to get all charts")));
        }
        let number = usize::try_from(number).unwrap_or(0);
        Ok((ChartPart(Some(number)), query.without_name(QUERY_KEY)))
    }

    /// Cuts the part from a page that was built for `query`.
    ///
    /// # Errors
    /// Fails if the page has no such part.
    pub fn cut_from(self, page: PageContent, query: &PageQuery) -> Result<PageContent, HttpError> {
        let ChartPart(Some(number)) = self else {
            return Ok(page);
        };
        let part_count = parts_of_charts(&page.document);
        if part_count == 0 {
            return Err(HttpError::bad_request(format!("unknown parameter '{QUERY_KEY}'"))
                .with_hint("all charts are on the page itself"));
        }
        let Some(part) = part_of_charts(&page.document, number) else {
            return Err(HttpError::not_found(format!("part {number} of the charts not found"))
                .with_hint(format!("{QUERY_KEY} ranges from 1 to {part_count}")));
        };
        let neighbour = |number: usize| {
            let title = part_of_charts(&page.document, number)?.title;
            Some((part_link_prefix(query) + &number.to_string(), title))
        };
        let before = neighbour(number.wrapping_sub(1))
            .map(|(href, title)| PageLink::new(href, format!("← {title}")));
        let after =
            neighbour(number + 1).map(|(href, title)| PageLink::new(href, format!("{title} →")));
        let mut crumbs = page.crumbs;
        crumbs.push(PageLink::new(part_link_prefix(query) + &number.to_string(), part.title));
        Ok(PageContent {
            crumbs,
            links: before.into_iter().chain(after).collect(),
            sessions: page.sessions,
            is_cacheable: page.is_cacheable,
            charts: ChartsLocation::From(part.first),
            ..PageContent::from_document(part.document)
        })
    }
}

/// Returns the query string of a part's address, without the part number.
pub fn part_link_prefix(query: &PageQuery) -> String {
    query.with_value(QUERY_KEY, Some(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_part_is_a_number_and_accepted_for_pages_only() {
        let query = PageQuery::parse("base=%401&charts=3").unwrap();
        let (wanted, rest) = ChartPart::split_query(&query, PageFormat::Page).unwrap();
        assert_eq!(wanted, ChartPart(Some(3)));
        assert_eq!(rest.to_query_string(), "?base=@1");
        assert_eq!(part_link_prefix(&rest), "?base=@1&charts=");
        assert_eq!(part_link_prefix(&PageQuery::default()), "?charts=");
        let json = PageFormat::Document(speedwell_report::ReportFormat::Json);
        assert_eq!(ChartPart::split_query(&query, json).unwrap_err().status, 400);
        let query = PageQuery::parse("charts=all").unwrap();
        let refused = ChartPart::split_query(&query, PageFormat::Page).unwrap_err();
        assert_eq!(refused.status, 400);
    }
}
