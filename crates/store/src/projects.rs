//! Manages the projects of a server. Each project has its own tables, in a separate file or schema,
//! so that no statement can access another project.
//!
//! The first project has no name and uses the tables that the server was started with. A local file
//! has only this project.

use super::Store;
use super::database::{SqlRow, sql, sql_params};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// A project of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredProject {
    /// Number of the project; 1 is the first project.
    pub number: i64,
    /// Name in URLs; empty for the first project.
    pub name: String,
    /// Whether it can be read without a token.
    pub is_public: bool,
}

const MAX_NAME_LENGTH: usize = 64;

/// Names that would clash with other paths of the server.
const RESERVED_NAMES: [&str; 7] =
    ["api", "static", "login", "logout", "settings", "health", "metrics"];

/// Returns why `name` cannot be a project name; `None` if it can.
pub fn project_name_problem(name: &str) -> Option<&'static str> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins_with_letter = name.bytes().next().is_some_and(is_letter);
    if !begins_with_letter
        || name.len() > MAX_NAME_LENGTH
        || !name.bytes().all(|b| is_letter(b) || b == b'-')
    {
        return Some(
            "a name may have up to 64 lowercase letters, digits and hyphens, and must not begin with a hyphen",
        );
    }
    let is_reserved = RESERVED_NAMES.contains(&name);
    is_reserved.then_some("the name is reserved for the URLs of the server itself")
}

impl Store {
    /// Returns the first project, followed by all others in the order of their names.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_projects(&self) -> Result<Vec<StoredProject>> {
        let sql = sql!(
            "SELECT number, name, is_public FROM project
             ORDER BY CASE WHEN number = 1 THEN 0 ELSE 1 END, name COLLATE {{binary}}"
        );
        self.query_rows(sql, sql_params![], read_project)
    }

    /// Returns a project by its name.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn find_project(&self, name: &str) -> Result<Option<StoredProject>> {
        let sql = sql!("SELECT number, name, is_public FROM project WHERE name = $1");
        self.query_first(sql, sql_params![name], read_project)
    }

    /// Creates a project and its tables, unless it exists.
    ///
    /// # Errors
    /// Fails if the name is invalid, the tables cannot be created, or on database errors.
    pub fn add_project(&mut self, name: &str) -> Result<StoredProject> {
        if let Some(problem) = project_name_problem(name) {
            bail!("invalid project name '{name}': {problem}");
        }
        let insert = sql!("INSERT INTO project (name) VALUES ($1) ON CONFLICT (name) DO NOTHING");
        self.execute(insert, sql_params![name])?;
        let project = self.find_project(name)?.context("the project was removed")?;
        self.explain(self.database.make_schema(project.number))?;
        Store::open(&self.project_path(&project)?)?;
        Ok(project)
    }

    /// Makes a project readable by everyone, or only with a token.
    ///
    /// # Errors
    /// Fails if the project does not exist, or on database errors.
    pub fn set_project_visibility(&mut self, name: &str, is_public: bool) -> Result<()> {
        self.transact(|file| {
            let update = sql!("UPDATE project SET is_public = $1 WHERE name = $2");
            let changed = file.count_changes(update, sql_params![is_public, name])?;
            ensure!(changed == 1, "project '{name}' does not exist");
            Ok(())
        })
    }

    /// Returns the folder that holds all projects of a file except the first one:
    /// `results.projects` next to `results.db`.
    pub fn projects_folder(path: &Path) -> PathBuf {
        path.with_extension("projects")
    }

    /// Returns the path or address of a project's tables, for [`Store::open`]: a path such as
    /// `results.projects/core.db` for `results.db`.
    ///
    /// # Errors
    /// Fails if the schema of the server's address cannot be queried.
    pub fn project_path(&self, project: &StoredProject) -> Result<PathBuf> {
        if project.number == 1 {
            return Ok(self.path.clone());
        }
        let Some(address) = Store::server_address(&self.path) else {
            return Ok(Store::projects_folder(&self.path).join(format!("{}.db", project.name)));
        };
        let schema = self.explain(self.database.schema_name(project.number))?;
        Ok(address_of_schema(address, &schema).into())
    }
}

fn read_project(row: SqlRow<'_>) -> Result<StoredProject, super::database::Error> {
    Ok(StoredProject { number: row.get(0)?, name: row.get(1)?, is_public: row.get(2)? })
}

/// Returns the address with an option that makes `schema` the search path. The option comes after
/// all others, because the server uses the last search path that is given.
fn address_of_schema(address: &str, schema: &str) -> String {
    let option = format!("-csearch_path%3D{schema}");
    let Some(start) = address.rfind("?options=").max(address.rfind("&options=")) else {
        let separator = if address.contains('?') { '&' } else { '?' };
        return format!("{address}{separator}options={option}");
    };
    let end = address[start + 1..].find('&').map_or(address.len(), |length| start + 1 + length);
    format!("{}%20{option}{}", &address[..end], &address[end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionFilter;
    use crate::back_end_tests::test_backends;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{Session, SessionState};

    #[test]
    fn projects_do_not_share_sessions() {
        for backend in test_backends() {
            let mut store = backend.open();
            let core = store.add_project("core").unwrap();
            let other = store.add_project("other").unwrap();
            assert_eq!(store.add_project("core").unwrap(), core, "it exists");
            let open = |project: &StoredProject| {
                Store::open(&store.project_path(project).unwrap()).unwrap()
            };
            let mut session = FakeSession::with_fixed_blocks(&["a"], 1).build();
            session.state = SessionState::Imported;
            assert_eq!(open(&core).insert_session(&session).unwrap(), 1);
            assert_eq!(open(&other).count_sessions(&SessionFilter::default()).unwrap(), 0);
            assert_eq!(store.count_sessions(&SessionFilter::default()).unwrap(), 0);
            // Inserting the same id does not reveal whether another project has it.
            let session = Session { started_unix_ms: 7, ..session };
            assert_eq!(open(&other).insert_session(&session).unwrap(), 1);
            let all = open(&core).select_sessions(&SessionFilter::default(), 9).unwrap();
            assert_ne!(all[0].started_unix_ms, 7);
            store.set_project_visibility("core", true).unwrap();
            let names: Vec<(String, bool)> = (store.list_projects().unwrap().into_iter())
                .map(|project| (project.name, project.is_public))
                .collect();
            let expected = [("", false), ("core", true), ("other", false)];
            assert_eq!(names, expected.map(|(name, public)| (name.to_owned(), public)));
        }
    }

    #[test]
    fn names_are_fit_for_addresses_and_for_files() {
        for name in ["core", "a", "4x", "a-b", &"a".repeat(64)] {
            assert_eq!(project_name_problem(name), None, "{name}");
        }
        for name in ["", "-a", "A", "a_b", "a/b", "..", "api", "login", "é", &"a".repeat(65)] {
            assert!(project_name_problem(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_address_is_restricted_to_one_schema_whatever_its_options() {
        for (address, led) in [
            ("postgres://h/d", "postgres://h/d?options=-csearch_path%3Ds_2"),
            ("postgres://h/d?a=b", "postgres://h/d?a=b&options=-csearch_path%3Ds_2"),
            (
                "postgres://h/d?options=-csearch_path%3Dt1&a=b",
                "postgres://h/d?options=-csearch_path%3Dt1%20-csearch_path%3Ds_2&a=b",
            ),
        ] {
            assert_eq!(address_of_schema(address, "s_2"), led);
        }
    }
}
