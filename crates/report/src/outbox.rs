//! Reports the outbox, which is the queue of sessions to upload, and the state of its entries.

use crate::columns::column_set;
use crate::doctor::CheckLine;
use crate::document::{Document, ReportBlock};
use crate::table::{ReportCell, TextEmphasis};
use speedwell_model::stored::{OutboxEntry, UploadState};

/// Lists the entries of the outbox.
pub fn report_outbox(items: &[OutboxEntry]) -> Document {
    let mut document = Document::new("outbox");
    if items.is_empty() {
        document.push(ReportBlock::Paragraph("the outbox is empty".to_owned()));
    }
    let columns = column_set! { item: OutboxEntry;
        figure("number", "session") => ReportCell::session(item.session),
        machine("id") => &item.id,
        words("state", "state") => state_cell(item.state),
        words("url", "to").for_people() => ReportCell::text(&item.url),
        figure("attempts", "attempts") => ReportCell::value(item.attempts),
        words("sent_unix_ms", "sent (UTC)") => item.sent_unix_ms.map(ReportCell::moment),
        words("reason", "reason").for_people() => ReportCell::text(reason_text(item)),
    };
    document.push(ReportBlock::Table(columns.build_table("outbox", items)));
    document
}

fn state_cell(state: UploadState) -> ReportCell {
    let emphasis = match state {
        UploadState::Sent => TextEmphasis::None,
        UploadState::Waiting => TextEmphasis::Caution,
        UploadState::Refused => TextEmphasis::Bad,
    };
    ReportCell::words(state.name()).with_emphasis(emphasis)
}

/// Says why the last attempt failed, or why a session is not sent.
fn reason_text(item: &OutboxEntry) -> String {
    let is_over = ["complete", "imported"].contains(&item.ended.as_str());
    match (&item.reason, is_over || item.state == UploadState::Sent) {
        (Some(reason), _) => reason.clone(),
        (None, true) => String::new(),
        (None, false) => format!("{}: resume it first, or push it by its number", item.ended),
    }
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
