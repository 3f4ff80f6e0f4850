//! Books as they are written to files: only what happened, by name.

use super::{Books, Bytes, Class, Codes, Connections};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why stored books cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A class that this version does not know.
    #[error("there is no class of errors called '{0}'")]
    Class(String),
}

/// The stored form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    attempted: u64,
    ok: u64,
    errors: BTreeMap<String, u64>,
    in_flight: u64,
    cancelled: u64,
    unsent: u64,
    retries: u64,
    status: StatusRecord,
    interim: StatusRecord,
    h2_reset: BTreeMap<u32, u64>,
    h2_reset_unknown: u64,
    /// Absent from records of loads that were not HTTP/3.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    h3_reset: BTreeMap<u32, u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    h3_reset_unknown: u64,
    connections: Connections,
    bytes: Bytes,
}

/// Statuses by code, and those that have not three digits.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StatusRecord {
    codes: BTreeMap<u16, u64>,
    outside: u64,
}

impl From<&Codes> for StatusRecord {
    fn from(codes: &Codes) -> StatusRecord {
        StatusRecord {
            codes: codes.seen().collect(),
            outside: codes.outside(),
        }
    }
}

impl From<StatusRecord> for Codes {
    fn from(record: StatusRecord) -> Codes {
        let mut codes = Codes::default();
        for (code, count) in record.codes {
            codes.add(code, count);
        }
        codes.add_outside(record.outside);
        codes
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<Books> for Record {
    fn from(books: Books) -> Record {
        Record {
            attempted: books.attempted,
            ok: books.ok,
            errors: Class::all()
                .map(|class| (class.name().to_owned(), books.errors(class)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            in_flight: books.in_flight,
            cancelled: books.cancelled,
            unsent: books.unsent,
            retries: books.retries,
            status: (&books.codes).into(),
            interim: (&books.interim).into(),
            h2_reset: books.resets.seen().collect(),
            h2_reset_unknown: books.resets.unknown(),
            h3_reset: books.resets_of_http3.seen().collect(),
            h3_reset_unknown: books.resets_of_http3.unknown(),
            connections: books.connections,
            bytes: books.bytes,
        }
    }
}

impl TryFrom<Record> for Books {
    type Error = RecordError;

    fn try_from(record: Record) -> Result<Books, RecordError> {
        let mut books = Books {
            attempted: record.attempted,
            ok: record.ok,
            in_flight: record.in_flight,
            cancelled: record.cancelled,
            unsent: record.unsent,
            retries: record.retries,
            codes: record.status.into(),
            interim: record.interim.into(),
            connections: record.connections,
            bytes: record.bytes,
            ..Books::default()
        };
        for (name, count) in record.errors {
            let class = Class::named(&name).ok_or(RecordError::Class(name))?;
            books.errors.0[class.index()] = count;
        }
        for (code, count) in record.h2_reset {
            books.resets.add(code, count);
        }
        books.resets.add(u32::MAX, record.h2_reset_unknown);
        for (code, count) in record.h3_reset {
            books.resets_of_http3.add(code, count);
        }
        let unknown = record.h3_reset_unknown;
        books.resets_of_http3.add(u32::MAX, unknown);
        Ok(books)
    }
}
