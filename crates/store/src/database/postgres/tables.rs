//! Creates and migrates the tables on a server, and names the schemas of projects.

use super::PostgresConnection;
use crate::database::Error;
use crate::schema::{DatabaseOwner, SchemaStep, applied_steps, version_after};
use postgres::Client;

impl PostgresConnection {
    /// Determines the owner of the tables in the schema of the connection.
    ///
    /// # Errors
    /// Fails if the database does not use UTF-8, or on database errors.
    pub(in crate::database) fn database_owner(&self) -> Result<DatabaseOwner, Error> {
        self.with_client(read_owner)
    }

    /// Returns the name of the schema of a project: the name of the connection's schema (truncated,
    /// with special characters replaced), followed by the number of the project.
    pub(in crate::database) fn schema_name(&self, project: i64) -> Result<String, Error> {
        let sql = "SELECT left(current_schema()::text, 40)";
        let schema: String =
            self.with_client(|client| Ok(client.query_one(sql, &[])?.try_get(0)?))?;
        let characters = schema.chars().map(|character| {
            if character.is_ascii_lowercase() || character.is_ascii_digit() {
                character
            } else {
                '_'
            }
        });
        Ok(format!("{}_{project}", characters.collect::<String>()))
    }

    /// Creates the schema of a project unless it exists.
    pub(in crate::database) fn make_schema(&self, project: i64) -> Result<(), Error> {
        let schema = self.schema_name(project)?;
        // The name is safe to quote, because it consists of letters, digits and underscores only.
        let statement = format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"");
        self.with_client(|client| Ok(client.batch_execute(&statement)?))
    }

    /// Applies all missing steps in one transaction. If several programs start at once, only one
    /// applies them.
    pub(in crate::database) fn migrate(&self, steps: &[SchemaStep]) -> Result<(), Error> {
        self.with_client(|client| {
            let mut change = client.transaction()?;
            // A step may copy a table, which takes long.
            change.batch_execute("SET LOCAL statement_timeout = 0")?;
            change.batch_execute(super::LOCK_TABLES)?;
            change.batch_execute(
                "CREATE TABLE IF NOT EXISTS speedwell_schema (version BIGINT NOT NULL)",
            )?;
            let stored = change.query_opt("SELECT version FROM speedwell_schema", &[])?;
            let version = stored.map_or(0, |row| row.get(0));
            let missing = steps.iter().skip(applied_steps(version));
            if missing.len() > 0 {
                for step in missing {
                    change.batch_execute(step.postgres)?;
                }
                change.batch_execute("DELETE FROM speedwell_schema")?;
                change.execute(
                    "INSERT INTO speedwell_schema (version) VALUES ($1)",
                    &[&version_after(steps.len())],
                )?;
            }
            Ok(change.commit()?)
        })
    }
}

fn read_owner(client: &mut Client) -> Result<DatabaseOwner, Error> {
    let facts = client.query_one(
        "SELECT to_regclass('speedwell_schema') IS NOT NULL,
                EXISTS (SELECT 1 FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm')
                        AND relnamespace = to_regnamespace(current_schema()::text)),
                current_setting('server_encoding')",
        &[],
    )?;
    let (is_ours, has_tables): (bool, bool) = (facts.get(0), facts.get(1));
    if !is_ours && has_tables {
        return Ok(DatabaseOwner::Foreign);
    }
    let encoding: String = facts.get(2);
    if encoding != "UTF8" {
        return Err(Error::Encoding(encoding));
    }
    if !is_ours {
        return Ok(DatabaseOwner::Ours(0));
    }
    let stored = client.query_opt("SELECT version FROM speedwell_schema", &[])?;
    Ok(DatabaseOwner::of_version(stored.map_or(0, |row| row.get(0))))
}
