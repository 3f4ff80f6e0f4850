//! The projects of a server. Each has its own tables, in a file or schema beside those the server
//! was started with, so that no statement can access another project.
//!
//! The first project has no name and uses the tables the server was started with; a local file has
//! only this one.

use super::Store;
use super::database::{Row, given, sql};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};

/// A project of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Number of the project; 1 is the first project.
    pub number: i64,
    /// Name in URLs; empty for the first project.
    pub name: String,
    /// Whether it can be read without a token.
    pub is_public: bool,
}

/// Maximum length of a name.
const LONGEST: usize = 64;

/// Names that would clash with other paths.
const RESERVED: [&str; 7] = [
    "api", "static", "login", "logout", "settings", "health", "metrics",
];

/// Returns why `name` cannot be a project name; `None` if it can.
pub fn unfit_project(name: &str) -> Option<&'static str> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins_well = name.bytes().next().is_some_and(is_letter);
    if !begins_well || name.len() > LONGEST || !name.bytes().all(|b| is_letter(b) || b == b'-') {
        return Some("a name has up to 64 small letters, digits and hyphens, no hyphen first");
    }
    RESERVED
        .contains(&name)
        .then_some("that name has a meaning of its own in addresses")
}

impl Store {
    /// Returns all projects, the first project before the others, which are sorted by name.
    ///
    /// # Errors
    /// The database fails.
    pub fn projects(&self) -> anyhow::Result<Vec<Project>> {
        let sql = sql!(
            "SELECT number, name, is_public FROM project
             ORDER BY CASE WHEN number = 1 THEN 0 ELSE 1 END, name COLLATE {{binary}}"
        );
        self.rows(sql, given![], project_of)
    }

    /// Returns a project by its name.
    ///
    /// # Errors
    /// The database fails.
    pub fn project(&self, name: &str) -> anyhow::Result<Option<Project>> {
        let sql = sql!("SELECT number, name, is_public FROM project WHERE name = $1");
        self.first_row(sql, given![name], project_of)
    }

    /// Creates a project and its tables, unless it exists.
    ///
    /// # Errors
    /// The name is invalid, the tables cannot be created, or the database fails.
    pub fn add_project(&mut self, name: &str) -> anyhow::Result<Project> {
        if let Some(why) = unfit_project(name) {
            anyhow::bail!("'{name}' cannot be a project: {why}");
        }
        self.change(|file| {
            file.execute(
                sql!("INSERT INTO project (name) VALUES ($1) ON CONFLICT (name) DO NOTHING"),
                given![name],
            )?;
            Ok(())
        })?;
        let project = self.project(name)?.context("the project was removed")?;
        let made = self.database.make_schema(project.number);
        made.map_err(|error| self.explain(error))?;
        Store::open(&self.path_of(&project)?)?;
        Ok(project)
    }

    /// Makes a project readable for everyone, or only with a token.
    ///
    /// # Errors
    /// The project does not exist, or the database fails.
    pub fn publish(&mut self, name: &str, is_public: bool) -> anyhow::Result<()> {
        self.change(|file| {
            let sql = sql!("UPDATE project SET is_public = $1 WHERE name = $2");
            let changed = file.execute(sql, given![is_public, name])?;
            ensure!(changed == 1, "there is no project '{name}'");
            Ok(())
        })
    }

    /// Returns the folder of a file's other projects: `results.projects` beside `results.db`.
    pub fn projects_folder(path: &Path) -> PathBuf {
        path.with_extension("projects")
    }

    /// Returns the path or address of a project's tables, for [`Store::open`].
    ///
    /// # Errors
    /// The server cannot be asked for the schema of its address.
    pub fn path_of(&self, project: &Project) -> anyhow::Result<PathBuf> {
        if project.number == 1 {
            return Ok(self.path.clone());
        }
        let schema = self.database.schema(project.number);
        match (Store::server(&self.path), schema) {
            (Some(address), Ok(schema)) => Ok(PathBuf::from(led_to(address, &schema))),
            (Some(_), Err(error)) => Err(self.explain(error)),
            (None, _) => Ok(beside(&self.path, &project.name)),
        }
    }
}

fn project_of(row: Row<'_>) -> Result<Project, super::database::Error> {
    Ok(Project {
        number: row.get(0)?,
        name: row.get(1)?,
        is_public: row.get(2)?,
    })
}

/// Returns `results.projects/core.db` beside `results.db`.
fn beside(path: &Path, name: &str) -> PathBuf {
    Store::projects_folder(path).join(format!("{name}.db"))
}

/// Returns the address with a search path of `schema`. Of several such options, the last one
/// counts.
fn led_to(address: &str, schema: &str) -> String {
    let option = format!("-csearch_path%3D{schema}");
    let Some((place, options)) = address.split_once('?') else {
        return format!("{address}?options={option}");
    };
    let mut has_options = false;
    let parts = options.split('&').map(|part| {
        if part.starts_with("options=") {
            has_options = true;
            format!("{part}%20{option}")
        } else {
            part.to_owned()
        }
    });
    let mut parts: Vec<String> = parts.collect();
    if !has_options {
        parts.push(format!("options={option}"));
    }
    format!("{place}?{}", parts.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SessionFilter;
    use crate::store::back_end_tests::places;
    use speedwell_fixtures::Story;
    use speedwell_model::{Session, State};

    #[test]
    fn what_is_in_one_project_is_not_in_another() {
        for place in places() {
            let mut store = place.open();
            let core = store.add_project("core").unwrap();
            let other = store.add_project("other").unwrap();
            assert_eq!(store.add_project("core").unwrap(), core, "it was here");
            let open = |project: &Project| Store::open(&store.path_of(project).unwrap()).unwrap();
            let mut session = Story::fixed(&["a"], 1).session();
            session.state = State::Imported;
            assert_eq!(open(&core).insert(&session).unwrap(), 1);
            assert_eq!(open(&other).count(&SessionFilter::default()).unwrap(), 0);
            assert_eq!(store.count(&SessionFilter::default()).unwrap(), 0);
            // Inserting the same id does not reveal whether another project has it.
            let session = Session {
                started_unix_ms: 7,
                ..session
            };
            assert_eq!(open(&other).insert(&session).unwrap(), 1);
            let all = open(&core).selected(&SessionFilter::default(), 9).unwrap();
            assert_ne!(all[0].started_unix_ms, 7);
            store.publish("core", true).unwrap();
            let names: Vec<(String, bool)> = (store.projects().unwrap().into_iter())
                .map(|project| (project.name, project.is_public))
                .collect();
            let expected = [("", false), ("core", true), ("other", false)];
            assert_eq!(
                names,
                expected.map(|(name, public)| (name.to_owned(), public))
            );
        }
    }

    #[test]
    fn names_are_fit_for_addresses_and_for_files() {
        for name in ["core", "a", "4x", "a-b", &"a".repeat(64)] {
            assert_eq!(unfit_project(name), None, "{name}");
        }
        for name in [
            "",
            "-a",
            "A",
            "a_b",
            "a/b",
            "..",
            "api",
            "login",
            "é",
            &"a".repeat(65),
        ] {
            assert!(unfit_project(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_address_leads_to_one_schema_whatever_else_it_says() {
        for (address, led) in [
            (
                "postgres://h/d",
                "postgres://h/d?options=-csearch_path%3Ds_2",
            ),
            (
                "postgres://h/d?a=b",
                "postgres://h/d?a=b&options=-csearch_path%3Ds_2",
            ),
            (
                "postgres://h/d?options=-csearch_path%3Dt1&a=b",
                "postgres://h/d?options=-csearch_path%3Dt1%20-csearch_path%3Ds_2&a=b",
            ),
        ] {
            assert_eq!(led_to(address, "s_2"), led);
        }
    }
}
