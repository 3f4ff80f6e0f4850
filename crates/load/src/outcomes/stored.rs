//! Outcome counts as they are written to files: only what happened, by name.

use super::{Bytes, Codes, Connections, ErrorClass, OutcomeCounts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why stored counts cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// A class that this version does not know.
    #[error("there is no class of errors called '{0}'")]
    ErrorClass(String),
}

/// The stored form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    attempted: u64,
    ok: u64,
    errors: BTreeMap<String, u64>,
    in_flight: u64,
    cancelled: u64,
    unsent: u64,
    retries: u64,
    status: StoredStatuses,
    interim: StoredStatuses,
    h2_reset: BTreeMap<u32, u64>,
    h2_reset_unknown: u64,
    /// Absent from files of loads that were not HTTP/3.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    h3_reset: BTreeMap<u32, u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    h3_reset_unknown: u64,
    connections: Connections,
    bytes: Bytes,
}

/// Statuses by code, and those that have not three digits.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredStatuses {
    codes: BTreeMap<u16, u64>,
    outside: u64,
}

impl From<&Codes> for StoredStatuses {
    fn from(codes: &Codes) -> StoredStatuses {
        StoredStatuses {
            codes: codes.nonzero().collect(),
            outside: codes.outside(),
        }
    }
}

impl From<StoredStatuses> for Codes {
    fn from(stored: StoredStatuses) -> Codes {
        let mut codes = Codes::default();
        for (code, count) in stored.codes {
            codes.add(code, count);
        }
        codes.add_outside(stored.outside);
        codes
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<OutcomeCounts> for Stored {
    fn from(outcomes: OutcomeCounts) -> Stored {
        Stored {
            attempted: outcomes.attempted,
            ok: outcomes.ok,
            errors: ErrorClass::every()
                .map(|class| (class.name().to_owned(), outcomes.errors(class)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            in_flight: outcomes.in_flight,
            cancelled: outcomes.cancelled,
            unsent: outcomes.unsent,
            retries: outcomes.retries,
            status: (&outcomes.codes).into(),
            interim: (&outcomes.interim).into(),
            h2_reset: outcomes.resets.nonzero().collect(),
            h2_reset_unknown: outcomes.resets.unknown(),
            h3_reset: outcomes.resets_of_http3.nonzero().collect(),
            h3_reset_unknown: outcomes.resets_of_http3.unknown(),
            connections: outcomes.connections,
            bytes: outcomes.bytes,
        }
    }
}

impl TryFrom<Stored> for OutcomeCounts {
    type Error = StoredError;

    fn try_from(stored: Stored) -> Result<OutcomeCounts, StoredError> {
        let mut outcomes = OutcomeCounts {
            attempted: stored.attempted,
            ok: stored.ok,
            in_flight: stored.in_flight,
            cancelled: stored.cancelled,
            unsent: stored.unsent,
            retries: stored.retries,
            codes: stored.status.into(),
            interim: stored.interim.into(),
            connections: stored.connections,
            bytes: stored.bytes,
            ..OutcomeCounts::default()
        };
        for (name, count) in stored.errors {
            let class = ErrorClass::from_name(&name).ok_or(StoredError::ErrorClass(name))?;
            outcomes.errors.0[class.index()] = count;
        }
        for (code, count) in stored.h2_reset {
            outcomes.resets.add(code, count);
        }
        outcomes.resets.add(u32::MAX, stored.h2_reset_unknown);
        for (code, count) in stored.h3_reset {
            outcomes.resets_of_http3.add(code, count);
        }
        let unknown = stored.h3_reset_unknown;
        outcomes.resets_of_http3.add(u32::MAX, unknown);
        Ok(outcomes)
    }
}
