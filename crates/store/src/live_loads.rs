//! Records the progress of running loads, so that viewers can show it. The session of a load is
//! stored only when the load ends.
//!
//! Each row belongs to a process. Rows of killed processes are ignored, and the next load deletes
//! them. Start at [`Store::begin_load`].

use super::Store;
use super::database::{SqlRow, sql, sql_params};
use super::read::parse_json;
use speedwell_machine::process::ProcessIdentity;
use speedwell_model::stored::{LiveLoad, LoadProgress};

impl Store {
    /// Registers a load of this process and returns its number. Deletes the rows of killed
    /// processes.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn begin_load(&mut self, progress: &LoadProgress, now_unix_ms: i64) -> anyhow::Result<i64> {
        let text = serde_json::to_string(progress)?;
        let ended_loads: Vec<i64> = self
            .all_loads()?
            .into_iter()
            .filter(|(_, is_gone)| *is_gone)
            .map(|(load, _)| load.number)
            .collect();
        let ended_loads = serde_json::to_string(&ended_loads)?;
        let process = ProcessIdentity::current_process();
        self.transact(|file| {
            file.execute(
                sql!("DELETE FROM live_load WHERE number IN {{numbers:1}}"),
                sql_params![&ended_loads],
            )?;
            Ok(file.query_value(
                sql!(
                    "INSERT INTO live_load (machine_id, boot_id, pid_namespace, pid, started_ticks,
                         begun_unix_ms, at_unix_ms, progress)
                     VALUES ($1, $2, $3, $4, $5, $6, $6, $7) RETURNING number"
                ),
                sql_params![
                    &process.machine_id,
                    &process.boot_id,
                    &process.pid_namespace,
                    process.pid,
                    process.started_ticks,
                    now_unix_ms,
                    &text,
                ],
            )?)
        })
    }

    /// Updates the progress of a load.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn update_load(
        &mut self,
        number: i64,
        progress: &LoadProgress,
        now_unix_ms: i64,
    ) -> anyhow::Result<()> {
        let text = serde_json::to_string(progress)?;
        self.transact(|file| {
            file.execute(
                sql!("UPDATE live_load SET at_unix_ms = $1, progress = $2 WHERE number = $3"),
                sql_params![now_unix_ms, &text, number],
            )?;
            Ok(())
        })
    }

    /// Removes a load that has ended.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn end_load(&mut self, number: i64) -> anyhow::Result<()> {
        self.transact(|file| {
            let sql = sql!("DELETE FROM live_load WHERE number = $1");
            file.execute(sql, sql_params![number])?;
            Ok(())
        })
    }

    /// Returns the running loads, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_live_loads(&self) -> anyhow::Result<Vec<LiveLoad>> {
        let loads = self.all_loads()?.into_iter();
        Ok(loads.filter(|(_, is_gone)| !is_gone).map(|(load, _)| load).collect())
    }

    /// Returns all rows. The flag of a row tells whether its process is gone.
    fn all_loads(&self) -> anyhow::Result<Vec<(LiveLoad, bool)>> {
        let sql = sql!(
            "SELECT machine_id, boot_id, pid_namespace, pid, started_ticks, number, begun_unix_ms,
                    at_unix_ms,
                    progress FROM live_load ORDER BY number DESC"
        );
        let read = |row: SqlRow<'_>| {
            let process = ProcessIdentity {
                machine_id: row.get(0)?,
                boot_id: row.get(1)?,
                pid_namespace: row.get(2)?,
                pid: row.get(3)?,
                started_ticks: row.get(4)?,
            };
            let times: [i64; 2] = [row.get(6)?, row.get(7)?];
            Ok((process, row.get(5)?, times, row.get(8)?))
        };
        let rows: Vec<(ProcessIdentity, i64, [i64; 2], String)> =
            self.query_rows(sql, sql_params![], read)?;
        rows.into_iter()
            .map(|(process, number, [begun_unix_ms, at_unix_ms], text)| {
                let load =
                    LiveLoad { number, begun_unix_ms, at_unix_ms, progress: parse_json(&text)? };
                Ok((load, process.has_ended() == Some(true)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::test_backends;

    #[test]
    fn a_load_is_listed_until_it_ends_or_its_process_dies() {
        for backend in test_backends() {
            let mut store = backend.open();
            let mut progress = LoadProgress {
                command: vec!["load".into(), "http://localhost/".into()],
                load: 1,
                planned_ms: Some(10_000),
                ..LoadProgress::default()
            };
            let number = store.begin_load(&progress, 5).unwrap();
            progress.elapsed_ms = 1_000;
            progress.rates.push(1234.5);
            store.update_load(number, &progress, 1_005).unwrap();
            let viewer = Store::open_to_view(&backend.path()).unwrap();
            let loads = viewer.list_live_loads().unwrap();
            assert_eq!(loads.len(), 1);
            assert_eq!((loads[0].begun_unix_ms, loads[0].at_unix_ms), (5, 1_005));
            assert_eq!(loads[0].progress, progress);
            // Simulate a row whose process was killed.
            store.database.batch("UPDATE live_load SET started_ticks = 1").unwrap();
            assert_eq!(viewer.list_live_loads().unwrap(), []);
            let second = store.begin_load(&progress, 9).unwrap();
            assert_eq!(
                store.all_loads().unwrap().len(),
                1,
                "the row of the killed process is deleted"
            );
            store.end_load(second).unwrap();
            assert_eq!(viewer.list_live_loads().unwrap(), []);
        }
    }
}
