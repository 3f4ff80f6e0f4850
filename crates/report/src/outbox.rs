//! Reports the outbox, which is the queue of sessions to upload, and the state of its entries.

use crate::doctor::CheckLine;
use crate::document::{Document, ReportBlock};
use crate::figure::format_moment;
use crate::table::{ColumnSet, ReportCell, ReportColumn, TextEmphasis};
use speedwell_model::stored::{OutboxEntry, UploadState};

/// Lists the entries of the outbox.
pub fn report_outbox(items: &[OutboxEntry]) -> Document {
    let mut document = Document::new("outbox");
    if items.is_empty() {
        document.push(ReportBlock::Paragraph("the outbox is empty".to_owned()));
    }
    let mut columns = ColumnSet::new();
    columns.add_column(ReportColumn::figure("number", "session"), |item: &OutboxEntry| {
        ReportCell::value(item.session).with_text(format!("@{}", item.session))
    });
    columns.add_value("id", |item| item.id.clone());
    columns.add_column(ReportColumn::words("state", "state"), |item| {
        let emphasis = match item.state {
            UploadState::Sent => TextEmphasis::None,
            UploadState::Waiting => TextEmphasis::Caution,
            UploadState::Refused => TextEmphasis::Bad,
        };
        ReportCell::words(item.state.name()).with_emphasis(emphasis)
    });
    columns.add_text(ReportColumn::words("url", "to"), |item| item.url.clone());
    columns.add_column(ReportColumn::figure("attempts", "attempts"), |item| {
        ReportCell::value(item.attempts)
    });
    columns.add_column(ReportColumn::words("sent_unix_ms", "sent (UTC)"), |item| {
        let shown = item.sent_unix_ms.map(format_moment).unwrap_or_default();
        ReportCell::value(item.sent_unix_ms).with_text(shown)
    });
    columns.add_text(ReportColumn::words("reason", "reason"), |item| {
        let is_over = ["complete", "imported"].contains(&item.ended.as_str());
        match (&item.reason, is_over || item.state == UploadState::Sent) {
            (Some(reason), _) => reason.clone(),
            (None, true) => String::new(),
            (None, false) => format!("{}: resume it first, or push it by its number", item.ended),
        }
    });
    document.push(ReportBlock::Table(columns.build_table("outbox", items)));
    document
}

/// Returns the outbox check of `doctor`, or `None` if everything was sent.
pub fn outbox_check(items: &[OutboxEntry]) -> Option<CheckLine> {
    let count = |state: UploadState| items.iter().filter(|item| item.state == state).count();
    let sentence = |count: usize, singular: &str, plural: &str| {
        let verb = if count == 1 { singular } else { plural };
        format!("{} {verb}", crate::format_count(count, "session", "sessions"))
    };
    let (waiting, refused) = (count(UploadState::Waiting), count(UploadState::Refused));
    let found = match (waiting, refused) {
        (0, 0) => return None,
        (waiting, 0) => sentence(waiting, "waits", "wait"),
        (0, refused) => sentence(refused, "is refused", "are refused"),
        (waiting, refused) => format!(
            "{}, {}",
            sentence(waiting, "waits", "wait"),
            sentence(refused, "is refused", "are refused")
        ),
    };
    Some(CheckLine {
        name: "outbox".to_owned(),
        state: "warning".to_owned(),
        found,
        remedy: match refused {
            0 => "speedwell push".to_owned(),
            _ => "speedwell push --list shows why".to_owned(),
        },
    })
}
