//! How often a machine took a thing for different from itself.
//!
//! Decides which machine a calibration speaks of: host name, processor model and number of processors
//! together. It must not know what counts as calibrated.

use super::Store;
use rusqlite::{OptionalExtension, params};
use speedwell_model::{Calibration, Environment};

impl Store {
    /// Keeps what a session showed of the machine it was measured on. A second result for the same
    /// session takes the place of the first.
    ///
    /// # Errors
    /// No such session, or the file fails.
    pub fn keep_calibration(
        &mut self,
        machine: &Environment,
        found: &Calibration,
    ) -> anyhow::Result<()> {
        self.change(|file| {
            file.execute(
                "INSERT OR REPLACE INTO calibration (session, host, cpu, cpus, started_unix_ms,
                     comparisons, false_alarms, expected_low, expected_high)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    found.session,
                    machine.host,
                    machine.cpu,
                    machine.cpus,
                    found.started_unix_ms,
                    found.comparisons,
                    found.false_alarms,
                    found.expected_low,
                    found.expected_high,
                ],
            )?;
            Ok(())
        })
    }

    /// The newest calibration of the machine; `None` if there is none, or the machine has no name.
    ///
    /// # Errors
    /// The file fails.
    pub fn calibration_of(&self, machine: &Environment) -> anyhow::Result<Option<Calibration>> {
        if machine.host.is_none() {
            return Ok(None);
        }
        let read = || {
            self.connection
                .prepare_cached(
                    "SELECT session, started_unix_ms, comparisons, false_alarms, expected_low,
                            expected_high
                     FROM calibration WHERE host = ?1 AND cpu IS ?2 AND cpus IS ?3
                     ORDER BY session DESC LIMIT 1",
                )?
                .query_row(params![machine.host, machine.cpu, machine.cpus], |row| {
                    Ok(Calibration {
                        session: row.get(0)?,
                        started_unix_ms: row.get(1)?,
                        comparisons: row.get(2)?,
                        false_alarms: row.get(3)?,
                        expected_low: row.get(4)?,
                        expected_high: row.get(5)?,
                    })
                })
                .optional()
        };
        read().map_err(|error| self.explain(error))
    }
}
