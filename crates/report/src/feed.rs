//! Writes an Atom feed (RFC 4287) of a project: its open changes and its failed sessions.
//!
//! Start at [`render_feed`]. The server decides which sessions are entries, and where links lead.

use crate::changes::open_change_lines;
use crate::figure::{format_count, format_count_or, format_instant};
use crate::format::html::escape_html;
use crate::series_change::series_title;
use crate::session::command_line;
use speedwell_analysis::history::ProjectHistory;
use speedwell_model::stored::SessionOverview;
use std::fmt::Write as _;

/// A feed.
#[derive(Debug, Clone, Default)]
pub struct AtomFeed {
    /// The title.
    pub title: String,
    /// Address of the feed, which is also its id.
    pub address: String,
    /// Address of the page about the same subject.
    pub page: String,
    /// The entries. The feed shows the newest first.
    pub entries: Vec<FeedEntry>,
}

/// An entry of a feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedEntry {
    /// Permanent id, an absolute address.
    pub id: String,
    /// Address of the page about the entry.
    pub page: String,
    /// The title.
    pub title: String,
    /// A sentence.
    pub summary: String,
    /// When the entry was last changed, in milliseconds since the Unix epoch.
    pub updated_unix_ms: i64,
}

/// Returns an entry for each open change. `addresses` returns the id and the page of a change, given
/// its number and its case. A change is as old as the measurement that shows it.
pub fn open_change_entries(
    history: &ProjectHistory,
    addresses: &dyn Fn(i64, &str) -> [String; 2],
) -> Vec<FeedEntry> {
    let lines = open_change_lines(history);
    let entries = lines.iter().map(|line| {
        let [id, page] = addresses(line.change.number, &line.series.key.case);
        let points = line.series.trend.points.iter();
        let measured = points.filter(|point| point.revision.id == line.change.after);
        FeedEntry {
            id,
            page,
            title: format!(
                "{}: {} {}",
                series_title(line.series),
                line.verdict,
                line.size_text(false)
            ),
            summary: line.sentence(),
            updated_unix_ms: measured.map(|point| point.at_unix_ms).min().unwrap_or_default(),
        }
    });
    entries.collect()
}

/// Returns the entry of a session with failures. `address` is its page.
pub fn session_entry(session: &SessionOverview, address: String) -> FeedEntry {
    let branch = session.origin.as_ref().and_then(|origin| origin.branch.as_deref());
    let on_branch = branch.map_or_else(String::new, |branch| format!(" on '{branch}'"));
    let killed = "the measuring process was killed";
    let problem = format_count_or(killed, session.failures, "step failed", "steps failed");
    FeedEntry {
        id: address.clone(),
        page: address,
        title: format!("@{}{on_branch}: {problem}", session.number),
        summary: format!(
            "{problem}; {} finished: {}",
            format_count(session.runs, "run", "runs"),
            command_line(&session.command)
        ),
        updated_unix_ms: session.started_unix_ms.saturating_add_unsigned(session.elapsed_ms),
    }
}

/// Renders a feed. A feed without entries has the date of the Unix epoch.
pub fn render_feed(feed: &AtomFeed) -> String {
    let mut entries: Vec<&FeedEntry> = feed.entries.iter().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.updated_unix_ms));
    let updated = entries.first().map_or(0, |entry| entry.updated_unix_ms);
    let [title, address, page] =
        [&feed.title, &feed.address, &feed.page].map(|text| escape_xml(text));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <feed xmlns=\"http://www.w3.org/2005/Atom\">\n\
         <id>{address}</id>\n<title>{title}</title>\n<updated>{}</updated>\n\
         <author><name>Speedwell</name></author>\n\
         <link rel=\"self\" type=\"application/atom+xml\" href=\"{address}\"/>\n\
         <link rel=\"alternate\" type=\"text/html\" href=\"{page}\"/>\n",
        format_updated(updated)
    );
    for entry in entries {
        let [id, page, title, summary] =
            [&entry.id, &entry.page, &entry.title, &entry.summary].map(|text| escape_xml(text));
        let _ = write!(
            out,
            "<entry>\n<id>{id}</id>\n<title>{title}</title>\n<updated>{}</updated>\n\
             <link rel=\"alternate\" type=\"text/html\" href=\"{page}\"/>\n\
             <summary>{summary}</summary>\n</entry>\n",
            format_updated(entry.updated_unix_ms)
        );
    }
    out + "</feed>\n"
}

/// Formats a required time. One outside the calendar becomes the Unix epoch.
fn format_updated(unix_ms: i64) -> String {
    let time = format_instant(unix_ms);
    if time.is_empty() { format_instant(0) } else { time }
}

/// Escapes text for element content or a quoted attribute. XML forbids two more characters than
/// HTML ("Extensible Markup Language (XML) 1.0", section 2.2).
fn escape_xml(text: &str) -> String {
    escape_html(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_has_what_the_standard_requires_and_escapes_its_texts() {
        let hostile = "</title><script>\"'&\u{1}\u{ffff}";
        let entry = |id: &str, updated_unix_ms: i64| FeedEntry {
            id: id.into(),
            page: format!("http://host/{id}?a=1&b=2"),
            title: hostile.into(),
            summary: hostile.into(),
            updated_unix_ms,
        };
        let feed = AtomFeed {
            title: hostile.into(),
            address: "http://host/p/feed.atom".into(),
            page: "http://host/p/changes".into(),
            entries: vec![entry("old", 0), entry("new", 1_769_868_300_000)],
        };
        let text = render_feed(&feed);
        assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns="));
        assert!(!text.contains("<script") && !text.contains(['\u{1}', '\u{ffff}']), "{text}");
        assert!(text.contains("href=\"http://host/old?a=1&amp;b=2\""), "{text}");
        // The newest entry comes first, and dates the feed.
        let newest = "<updated>2026-01-31T14:05:00Z</updated>";
        assert_eq!(text.matches(newest).count(), 2, "{text}");
        assert!(text.find("<id>new</id>") < text.find("<id>old</id>"), "{text}");
        for element in ["id", "title", "updated"] {
            assert_eq!(text.matches(&format!("</{element}>")).count(), 3, "{element}: {text}");
        }
        let empty = render_feed(&AtomFeed::default());
        assert!(empty.contains("<updated>1970-01-01T00:00:00Z</updated>"), "{empty}");
    }
}
