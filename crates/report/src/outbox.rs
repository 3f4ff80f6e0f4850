//! The upload queue and the state of its entries.

use crate::doctor::CheckLine;
use crate::document::{Block, Document};
use crate::figure::moment;
use crate::table::{Cell, Column, Columns, Emphasis};
use speedwell_results::store::{Item, Owed};

/// Lists the queue.
pub fn outbox(items: &[Item]) -> Document {
    let mut document = Document::new("outbox");
    if items.is_empty() {
        document.push(Block::Paragraph("nothing is in the outbox".to_owned()));
    }
    let mut columns = Columns::new();
    columns.add(Column::figure("number", "session"), |item: &Item| {
        Cell::value(item.session).shown(format!("@{}", item.session))
    });
    columns.add_value("id", |item| item.id.clone());
    columns.add(Column::words("state", "state"), |item| {
        let emphasis = match item.state {
            Owed::Sent => Emphasis::None,
            Owed::Waiting => Emphasis::Caution,
            Owed::Refused => Emphasis::Bad,
        };
        Cell::words(item.state.name()).emphasised(emphasis)
    });
    columns.add_text(Column::words("url", "to"), |item| item.url.clone());
    columns.add(Column::figure("attempts", "attempts"), |item| {
        Cell::value(item.attempts)
    });
    columns.add(Column::words("sent_unix_ms", "sent (UTC)"), |item| {
        let shown = item.sent_unix_ms.map(moment).unwrap_or_default();
        Cell::value(item.sent_unix_ms).shown(shown)
    });
    columns.add_text(Column::words("reason", "why not"), |item| {
        let is_over = ["complete", "imported"].contains(&item.ended.as_str());
        match (&item.reason, is_over || item.state == Owed::Sent) {
            (Some(reason), _) => reason.clone(),
            (None, true) => String::new(),
            (None, false) => format!("{}: resume it first, or push it by its number", item.ended),
        }
    });
    document.push(Block::Table(columns.table("outbox", items)));
    document
}

/// The outbox check of `doctor`; `None` if everything was sent.
pub fn outbox_check(items: &[Item]) -> Option<CheckLine> {
    let of = |state: Owed| items.iter().filter(|item| item.state == state).count();
    let said = |count: usize, one: &str, many: &str| {
        let verb = if count == 1 { one } else { many };
        format!("{} {verb}", crate::count(count, "session", "sessions"))
    };
    let (waiting, refused) = (of(Owed::Waiting), of(Owed::Refused));
    let found = match (waiting, refused) {
        (0, 0) => return None,
        (waiting, 0) => said(waiting, "waits", "wait"),
        (0, refused) => said(refused, "is refused", "are refused"),
        (waiting, refused) => format!(
            "{}, {}",
            said(waiting, "waits", "wait"),
            said(refused, "is refused", "are refused")
        ),
    };
    Some(CheckLine {
        name: "outbox".to_owned(),
        state: "warning".to_owned(),
        found,
        remedy: match refused {
            0 => "speedwell push".to_owned(),
            _ => "speedwell push --list says why".to_owned(),
        },
    })
}
