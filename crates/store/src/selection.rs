//! Selects sessions by filters, and lists them; resolves references to stored sessions.
//!
//! A page shows about fifty sessions out of perhaps a hundred thousand. Therefore the search starts
//! from the filter that is usually most selective. The index of this filter is scanned from the
//! newest session, and only its matches are checked against the other filters. Start at
//! [`Store::select_sessions`].

use super::Store;
use super::database::{SqlParam, SqlRow, SqlStatement, sql, sql_params};
use super::read::{parse_json, parse_state};
use anyhow::{Result, anyhow, bail, ensure};
use speedwell_model::stored::SessionOverview;
use speedwell_model::{SessionReference, SessionState, Variant};
use std::collections::HashMap;

/// Conditions that every listed session meets. A field that is `None` imposes no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// The session has a number below this number.
    pub before: Option<i64>,
    /// The session measured this branch.
    pub branch: Option<String>,
    /// The session measured a revision whose id begins with this text.
    pub revision: Option<String>,
    /// The session is in the state with this stored name.
    pub state: Option<String>,
    /// The session has this tag.
    pub tag: Option<String>,
    /// The machine with this number measured the session.
    pub machine: Option<i64>,
    /// The session has runs of this benchmark.
    pub benchmark: Option<String>,
    /// The session has this variant.
    pub variant: Option<String>,
    /// The session started at this time or later, in milliseconds since the Unix epoch.
    pub since_unix_ms: Option<i64>,
    /// The number of the session is one of these numbers.
    pub numbers: Option<Vec<i64>>,
    /// The session measured the pull request with this number.
    pub pull: Option<String>,
}

/// Initial number of matches of the leading filter that are checked in one batch. The number
/// doubles from batch to batch, up to [`MAX_BATCH`].
const INITIAL_BATCH: usize = 256;
const MAX_BATCH: usize = 4096;

impl Store {
    /// Returns the numbers of up to `max_count` matching sessions, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn selected_numbers(&self, filter: &SessionFilter, max_count: usize) -> Result<Vec<i64>> {
        let before = filter.before.unwrap_or(i64::MAX);
        if let Some(numbers) = &filter.numbers {
            let mut candidates: Vec<i64> =
                numbers.iter().copied().filter(|n| *n < before).collect();
            candidates.sort_unstable_by(|first, second| second.cmp(first));
            let mut found = self.apply_filter(&candidates, filter)?;
            found.truncate(max_count);
            return Ok(found);
        }
        let indexed = indexed_filters(filter);
        let mut conditions = indexed.iter().filter(|(value, _)| *value != SqlParam::Null);
        let Some(&(value, leading)) = conditions.next() else {
            let sql =
                sql!("SELECT number FROM session WHERE number < $1 ORDER BY number DESC LIMIT $2");
            return self.query_rows(sql, sql_params![before, max_count], |row| row.get(0));
        };
        // Returns the newest sessions that match the leading filter and have a number below
        // `before`.
        let leading_matches = |before: i64, limit: usize| -> Result<Vec<i64>> {
            self.query_rows(leading, &[value, before.into(), limit.into()], |row| row.get(0))
        };
        if conditions.next().is_none() {
            return leading_matches(before, max_count);
        }
        let (mut found, mut before, mut size) = (Vec::new(), before, INITIAL_BATCH);
        loop {
            let numbers = leading_matches(before, size)?;
            found.extend(self.apply_filter(&numbers, filter)?);
            match numbers.last() {
                Some(last) if numbers.len() == size && found.len() < max_count => before = *last,
                _ => break,
            }
            size = (2 * size).min(MAX_BATCH);
        }
        found.truncate(max_count);
        Ok(found)
    }

    /// Returns the given sessions that match the filter, newest first.
    fn apply_filter(&self, numbers: &[i64], filter: &SessionFilter) -> Result<Vec<i64>> {
        let sql = sql!(
            "SELECT number FROM session WHERE (CAST($1 AS TEXT) IS NULL OR EXISTS (
                  SELECT 1 FROM origin WHERE session = number AND branch = $1))
             AND (CAST($2 AS TEXT) IS NULL OR EXISTS (
                  SELECT 1 FROM origin WHERE session = number
                  AND substr(revision, 1, length(CAST($2 AS TEXT))) = $2))
             AND (CAST($3 AS TEXT) IS NULL OR state = $3)
             AND (CAST($4 AS TEXT) IS NULL OR EXISTS (
                  SELECT 1 FROM tag WHERE session = number AND name = $4))
             AND (CAST($5 AS BIGINT) IS NULL OR EXISTS (
                  SELECT 1 FROM session_machine WHERE session = number AND machine = $5))
             AND (CAST($6 AS TEXT) IS NULL OR EXISTS (
                  SELECT 1 FROM benchmark_session WHERE session = number AND benchmark = $6))
             AND (CAST($7 AS TEXT) IS NULL OR EXISTS (
                  SELECT 1 FROM variant_session WHERE session = number AND variant = $7))
             AND (CAST($8 AS BIGINT) IS NULL OR started_unix_ms >= $8)
             AND (CAST($9 AS TEXT) IS NULL OR EXISTS (
                  SELECT 1 FROM origin WHERE session = number AND pull = $9))
             AND number IN {{numbers:10}} ORDER BY number DESC"
        );
        let numbers = serde_json::to_string(numbers)?;
        let params = sql_params![
            &filter.branch,
            &filter.revision,
            &filter.state,
            &filter.tag,
            filter.machine,
            &filter.benchmark,
            &filter.variant,
            filter.since_unix_ms,
            &filter.pull,
            &numbers,
        ];
        self.query_rows(sql, params, |row| row.get(0))
    }
}

/// Returns the filters that have an index, the usually most selective first. Each comes with its
/// value, which is null if the filter imposes no condition, and with the statement that scans its
/// index. The statement's parameters are the value, the exclusive upper bound of the numbers, and
/// the maximum number of rows.
fn indexed_filters(filter: &SessionFilter) -> [(SqlParam<'_>, &'static SqlStatement); 9] {
    let pull = sql!(
        "SELECT session FROM origin WHERE pull = $1 AND session < $2
         ORDER BY session DESC LIMIT $3"
    );
    let revision = revision_statement(filter.revision.as_deref().unwrap_or_default());
    let tag = sql!(
        "SELECT DISTINCT session FROM tag WHERE name = $1 AND session < $2
         ORDER BY session DESC LIMIT $3"
    );
    let branch = sql!(
        "SELECT session FROM origin WHERE branch = $1 AND session < $2
         ORDER BY session DESC LIMIT $3"
    );
    let benchmark = sql!(
        "SELECT session FROM benchmark_session WHERE benchmark = $1 AND session < $2
         ORDER BY session DESC LIMIT $3"
    );
    let variant = sql!(
        "SELECT session FROM variant_session WHERE variant = $1 AND session < $2
         ORDER BY session DESC LIMIT $3"
    );
    let machine = sql!(
        "SELECT session FROM session_machine WHERE machine = $1 AND session < $2
         ORDER BY session DESC LIMIT $3"
    );
    let state = sql!(
        "SELECT number FROM session WHERE state = $1 AND number < $2
         ORDER BY number DESC LIMIT $3"
    );
    // Without the unary `+`, the database might scan all sessions by number to avoid sorting.
    let since = sql!(
        "SELECT number FROM session WHERE started_unix_ms >= $1 AND +number < $2
         ORDER BY +number DESC LIMIT $3"
    );
    [
        ((&filter.pull).into(), pull),
        ((&filter.revision).into(), revision),
        ((&filter.tag).into(), tag),
        ((&filter.branch).into(), branch),
        ((&filter.benchmark).into(), benchmark),
        ((&filter.variant).into(), variant),
        (filter.machine.into(), machine),
        ((&filter.state).into(), state),
        (filter.since_unix_ms.into(), since),
    ]
}

fn revision_statement(beginning: &str) -> &'static SqlStatement {
    if is_commit_prefix(beginning) {
        // The letter `g` sorts after all hexadecimal digits. Without the unary `+`, the database
        // might scan all sessions by number to avoid sorting.
        return sql!(
            "SELECT session FROM origin
             WHERE revision >= $1 AND revision < CAST($1 AS TEXT) || 'g'
             AND substr(revision, 1, length(CAST($1 AS TEXT))) = $1 AND +session < $2
             ORDER BY +session DESC LIMIT $3"
        );
    }
    sql!(
        "SELECT session FROM origin
         WHERE substr(revision, 1, length(CAST($1 AS TEXT))) = $1 AND session < $2
         ORDER BY session DESC LIMIT $3"
    )
}

/// Returns whether the prefix is hexadecimal, like the beginning of a commit id. The ids with such
/// a prefix form a range of the index in every collation. Other names of revisions are so few that
/// an index does not matter for them.
pub(super) fn is_commit_prefix(beginning: &str) -> bool {
    !beginning.is_empty() && beginning.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Store {
    /// Returns up to `max_count` sessions that match the filter, newest first.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn select_sessions(
        &self,
        filter: &SessionFilter,
        max_count: usize,
    ) -> Result<Vec<SessionOverview>> {
        let mut found = self.overviews(&self.selected_numbers(filter, max_count)?)?;
        found.reverse();
        Ok(found)
    }

    /// Returns up to `max_count` sessions that are being measured or whose process was killed,
    /// newest first.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn running_sessions(&self, max_count: usize) -> Result<Vec<SessionOverview>> {
        let state = Some(SessionState::Running.name().to_owned());
        self.select_sessions(&SessionFilter { state, ..SessionFilter::default() }, max_count)
    }

    /// Returns all sessions that match the filter, oldest first.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn list_sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionOverview>> {
        self.overviews(&self.selected_numbers(filter, usize::MAX)?)
    }

    /// Returns a page of the matching sessions, oldest first. Page 0 contains the `size` newest
    /// sessions.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn session_page(
        &self,
        filter: &SessionFilter,
        size: u32,
        page: u32,
    ) -> Result<Vec<SessionOverview>> {
        let [size, page] = [size, page].map(|count| count as usize);
        let offset = size.saturating_mul(page);
        let numbers = self.selected_numbers(filter, offset.saturating_add(size))?;
        self.overviews(numbers.get(offset..).unwrap_or_default())
    }

    /// Returns the number of matching sessions.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn count_sessions(&self, filter: &SessionFilter) -> Result<usize> {
        self.count_sessions_up_to(filter, usize::MAX)
    }

    /// Returns the number of matching sessions, or `max_count` if there are more.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn count_sessions_up_to(&self, filter: &SessionFilter, max_count: usize) -> Result<usize> {
        if *filter != SessionFilter::default() {
            return Ok(self.selected_numbers(filter, max_count)?.len());
        }
        // Reads an index: the rows of sessions are large.
        let sql = sql!("SELECT count(*) FROM (SELECT 1 FROM session LIMIT $1) AS counted");
        let count = self.query_first(sql, sql_params![max_count], |row| row.get(0))?;
        Ok(count.unwrap_or_default())
    }

    /// Returns the overview of a session, if it exists.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn find_overview(&self, number: i64) -> Result<Option<SessionOverview>> {
        Ok(self.overviews(&[number])?.pop())
    }

    /// Returns the sessions with these numbers, in ascending order of number.
    ///
    /// # Errors
    /// Fails on database errors, or if the database holds data that this version cannot read.
    pub fn overviews(&self, numbers: &[i64]) -> Result<Vec<SessionOverview>> {
        let numbers = serde_json::to_string(numbers)?;
        // The query sums the counts in `session_case` instead of counting runs, which would take
        // longer.
        let sql = sql!(
            "SELECT number, session.id, started_unix_ms, state, command, variants,
                    (SELECT count(DISTINCT benchmark) FROM session_case
                     JOIN benchmark_case AS known ON known.number = benchmark_case
                     WHERE session = session.number),
                    (SELECT count(DISTINCT id) FROM session_case
                     JOIN benchmark_case AS known ON known.number = benchmark_case
                     WHERE session = session.number),
                    (SELECT CAST(coalesce(sum(runs), 0) AS BIGINT) FROM session_case
                     WHERE session = session.number),
                    (SELECT count(*) FROM failure WHERE session = number AND skipped = 0),
                    (SELECT count(*) FROM failure WHERE session = number AND skipped <> 0),
                    coalesce((SELECT max(ended_unix_ms) FROM session_case
                              WHERE session = session.number), started_unix_ms) - started_unix_ms,
                    (SELECT detail FROM origin WHERE session = number),
                    (SELECT {{texts:name ORDER BY seq}} FROM tag WHERE session = number),
                    (SELECT {{texts:benchmark ORDER BY first}} FROM (
                         SELECT benchmark, min(known.number) AS first FROM session_case
                         JOIN benchmark_case AS known ON known.number = benchmark_case
                         WHERE session = session.number
                         AND EXISTS (SELECT 1 FROM load WHERE load.session = session.number)
                         GROUP BY benchmark) AS met)
             FROM session WHERE number IN {{numbers:1}} ORDER BY number"
        );
        self.query_rows(sql, sql_params![&numbers], |row| Ok(self.read_overview(row)?))
    }

    fn read_overview(&self, row: SqlRow<'_>) -> Result<SessionOverview> {
        let count = |column| row.get::<i64>(column).map(|count| count.max(0) as usize);
        let number = row.get(0)?;
        let state = parse_state(row.get(3)?)?;
        let variants: Vec<Variant> = parse_json(row.get(5)?)?;
        Ok(SessionOverview {
            origin: row.get::<Option<&str>>(12)?.map(parse_json).transpose()?,
            number,
            id: row.get(1)?,
            started_unix_ms: row.get(2)?,
            elapsed_ms: count(11)? as u64,
            state,
            is_killed: state == SessionState::Running
                && self.recorder_has_ended(number)? == Some(true),
            command: parse_json(row.get(4)?)?,
            variants: variants.into_iter().map(|variant| variant.name).collect(),
            tags: parse_json(row.get(13)?)?,
            loads: parse_json(row.get(14)?)?,
            benchmarks: count(6)?,
            cases: count(7)?,
            runs: count(8)?,
            failures: count(9)?,
            skipped: count(10)?,
        })
    }
}

const MIN_ID_PREFIX: usize = 4;

impl Store {
    /// Resolves a reference to the number of a session.
    ///
    /// # Errors
    /// Fails if there is no such session; the message lists alternatives: the range of numbers, or
    /// similar tags.
    pub fn resolve_reference(&self, reference: &SessionReference) -> Result<i64> {
        let found = match reference {
            SessionReference::Latest => self.nth_latest(0),
            SessionReference::Previous => self.nth_latest(1),
            SessionReference::Number(number) => self.query_number(
                sql!("SELECT number FROM session WHERE number = $1"),
                sql_params![*number],
            ),
            SessionReference::Tag(name) => self.query_number(
                sql!("SELECT max(session) FROM tag WHERE name = $1 HAVING count(*) > 0"),
                sql_params![name],
            ),
            SessionReference::Revision(revision) => self.latest_of_revision(revision),
            SessionReference::Branch(name) => self.query_number(
                sql!(
                    "SELECT max(session) FROM origin WHERE branch = $1 AND dirty = 0
                     HAVING count(*) > 0"
                ),
                sql_params![name],
            ),
            SessionReference::Base(_) => bail!("cannot resolve '{reference}' without a repository"),
        };
        match found? {
            Some(number) => Ok(number),
            None => Err(self.not_found_error(reference)?),
        }
    }

    /// Returns the last session of a revision. `revision` may be the beginning of an id, if only
    /// one measured id begins with it.
    fn latest_of_revision(&self, revision: &str) -> Result<Option<i64>> {
        let sql = sql!(
            "SELECT max(session) FROM origin WHERE revision = $1 AND dirty = 0
             HAVING count(*) > 0"
        );
        let exact = self.query_number(sql, sql_params![revision])?;
        let is_beginning = revision.len() >= MIN_ID_PREFIX && is_commit_prefix(revision);
        if exact.is_some() || !is_beginning {
            return Ok(exact);
        }
        let sql = sql!(
            "SELECT revision, max(session) FROM origin
             WHERE lower(revision) LIKE $1 || '%' AND dirty = 0 GROUP BY revision"
        );
        let read = |row: SqlRow<'_>| Ok((row.get(0)?, row.get(1)?));
        let mut found: Vec<(String, i64)> =
            self.query_rows(sql, sql_params![&revision.to_lowercase()], read)?;
        found.sort();
        ensure!(
            found.len() < 2,
            "'@rev:{revision}' is ambiguous: {}",
            found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(" or ")
        );
        Ok(found.first().map(|(_, number)| *number))
    }

    /// Returns the last session of each measured revision, ignoring sessions with uncommitted
    /// changes.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn measured_revisions(&self) -> Result<HashMap<String, i64>> {
        let sql =
            sql!("SELECT revision, max(session) FROM origin WHERE dirty = 0 GROUP BY revision");
        self.query_rows(sql, sql_params![], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the revisions of the last `max_count` sessions with a known origin, each with its
    /// tree if known.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn newest_revisions(&self, max_count: u32) -> Result<Vec<(String, Option<String>)>> {
        let sql = sql!("SELECT revision, tree FROM origin ORDER BY session DESC LIMIT $1");
        self.query_rows(sql, sql_params![max_count], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn nth_latest(&self, nth: i64) -> Result<Option<i64>> {
        let sql = sql!("SELECT number FROM session ORDER BY number DESC LIMIT 1 OFFSET $1");
        self.query_number(sql, sql_params![nth])
    }

    fn query_number(
        &self,
        statement: &'static SqlStatement,
        params: &[SqlParam<'_>],
    ) -> Result<Option<i64>> {
        self.query_first(statement, params, |row| row.get(0))
    }

    fn not_found_error(&self, reference: &SessionReference) -> Result<anyhow::Error> {
        let sql = sql!("SELECT min(number), max(number) FROM session HAVING count(*) > 0");
        let range = self
            .query_first(sql, sql_params![], |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
        let Some((first, last)) = range else {
            return Ok(anyhow!(
                "session '{reference}' does not exist: '{}' contains no sessions yet\n\
                 hint: measure something with speedwell run, or choose the right file with --db FILE",
                self.path.display()
            ));
        };
        let hint = match reference {
            SessionReference::Tag(name) => match self.similar_tags(name)? {
                tags if tags.is_empty() => "no session is tagged; see speedwell history".to_owned(),
                tags => format!("existing tags: {}", tags.join(", ")),
            },
            SessionReference::Revision(_) | SessionReference::Branch(_) => {
                "speedwell history shows which revisions and branches were measured; sessions with uncommitted \
                 changes do not count"
                    .to_owned()
            }
            _ if first == last => format!("the only session is @{first}"),
            _ => format!("sessions range from @{first} to @{last}; see speedwell history"),
        };
        Ok(anyhow!("session '{reference}' does not exist\nhint: {hint}"))
    }

    /// Returns up to five existing tags, most similar first.
    fn similar_tags(&self, name: &str) -> Result<Vec<String>> {
        let sql = sql!("SELECT DISTINCT name FROM tag");
        let mut tags: Vec<String> = self.query_rows(sql, sql_params![], |row| row.get(0))?;
        tags.sort_by_cached_key(|tag| (strsim::osa_distance(tag, name), tag.clone()));
        tags.truncate(5);
        Ok(tags.into_iter().map(|tag| format!("@{tag}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::{imported_session, test_backends};
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{CodeOrigin, Machine, Session, SessionPoints, SessionState, Variant};

    /// A session that measured a case of one benchmark.
    fn measured(id: &str, benchmark: &str) -> Session {
        Session {
            runs: FakeSession::with_fixed_blocks(&["a"], 1)
                .add_case(benchmark, |_, _| 1.0)
                .build()
                .runs,
            ..imported_session(id)
        }
    }

    #[test]
    fn sessions_are_filtered_and_listed_in_pages_newest_first() {
        for backend in test_backends() {
            let mut store = backend.open();
            for id in ["a", "b", "c", "d", "e"] {
                let mut session = measured(id, "g/a");
                if id == "c" {
                    session.variants = vec![Variant::plain("it's")];
                }
                store.insert_session(&session).unwrap();
            }
            store.tag_session(2, "kept").unwrap();
            let numbers =
                |filter: &SessionFilter, most| store.selected_numbers(filter, most).unwrap();
            let mut filter = SessionFilter::default();
            assert_eq!(numbers(&filter, 2), [5, 4]);
            filter.before = Some(4);
            assert_eq!(numbers(&filter, 2), [3, 2]);
            filter.tag = Some("kept".into());
            assert_eq!(numbers(&filter, 9), [2]);
            filter.branch = Some("main".into());
            assert_eq!(numbers(&filter, 9), [] as [i64; 0]);
            let variant = |name: &str| SessionFilter {
                variant: Some(name.into()),
                ..SessionFilter::default()
            };
            assert_eq!(numbers(&variant("it's"), 9), [3]);
            assert_eq!(numbers(&variant("it"), 9), [] as [i64; 0]);
            let shown = store.select_sessions(&SessionFilter::default(), 2).unwrap();
            let ids: Vec<&str> = shown.iter().map(|session| session.id.as_str()).collect();
            assert_eq!(ids, ["e", "d"]);
        }
    }

    #[test]
    fn the_neighbors_of_a_session_have_a_case_in_common_with_it() {
        for backend in test_backends() {
            let mut store = backend.open();
            for (id, cases, branch) in [
                ("1", &["g/x n=1"][..], None),
                ("2", &["g/y n=1"], None),
                ("3", &["g/x n=1", "g/x n=2"], None),
                ("4", &["g/x n=2", "g/y n=1"], None),
                ("5", &["g/x n=1"], Some("main")),
                ("6", &["g/y n=1"], Some("main")),
                ("7", &["g/x n=1"], Some("main")),
            ] {
                let empty = FakeSession::with_fixed_blocks(&["a"], 1);
                let add = |fake: FakeSession, case: &&str| fake.add_case(case, |_, _| 1.0);
                let origin = branch.map(|branch: &str| CodeOrigin {
                    revision: format!("{id:0>40}"),
                    branch: Some(branch.to_owned()),
                    ..CodeOrigin::default()
                });
                let session = Session {
                    id: id.to_owned(),
                    state: SessionState::Complete,
                    origin,
                    ..cases.iter().fold(empty, add).build()
                };
                store.insert_session(&session).unwrap();
            }
            let neighbors = |number| store.neighbor_sessions(number).unwrap();
            assert_eq!(neighbors(1), [None, Some(3)]);
            assert_eq!(neighbors(2), [None, Some(4)]);
            assert_eq!(neighbors(3), [Some(1), Some(4)]);
            assert_eq!(neighbors(5), [None, Some(7)]);
            assert_eq!(neighbors(6), [None, None]);
            let has_common = |one, other| store.have_common_case(one, other).unwrap();
            assert!(has_common(1, 7) && !has_common(1, 2) && has_common(4, 3));
        }
    }

    /// Random combinations of filters find exactly the matching sessions among three hundred.
    #[test]
    fn combined_filters_match_exactly_the_sessions_that_pass_each_filter() {
        for backend in test_backends() {
            let mut store = backend.open();
            let all: Vec<Session> = (0..300).map(session_at).collect();
            for (at, session) in all.iter().enumerate() {
                let number = store.insert_session(session).unwrap();
                assert_eq!(number, at as i64 + 1);
                let of = SessionPoints {
                    machine: Machine {
                        id: format!("m{}", at % 3),
                        name: None,
                        label: None,
                        class: None,
                    },
                    environment_facts: Vec::new(),
                    points: Vec::new(),
                };
                store.store_points(number, &of).unwrap();
            }
            let mut drawn = 7_u64;
            for _ in 0..200 {
                drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                check_filter(&store, &all, drawn >> 20);
            }
        }
    }

    /// Returns a session whose properties are derived from its index.
    fn session_at(at: usize) -> Session {
        let mut session = imported_session(&format!("id{at}"));
        session.started_unix_ms = at as i64 * 1000;
        session.tags = at.is_multiple_of(7).then(|| "seventh".to_owned()).into_iter().collect();
        session.state = [SessionState::Imported, SessionState::Complete][at % 2];
        if at % 6 == 2 {
            session.variants.push(Variant::plain("a \"rare\" one"));
        }
        if !at.is_multiple_of(4) {
            session.origin = Some(CodeOrigin {
                revision: format!("{:08x}", at * 2_654_435_761 % 4_294_967_296),
                branch: Some(["main", "rare"][usize::from(at % 50 == 1)].to_owned()),
                pull: at.is_multiple_of(5).then(|| "12".to_owned()),
                ..CodeOrigin::default()
            });
        }
        session
    }

    /// Applies the filters that `bits` selects, and compares the result with a check of every
    /// session.
    fn check_filter(store: &Store, all: &[Session], bits: u64) {
        let chosen = |bit: u64| bits >> bit & 1 == 1;
        let filter = SessionFilter {
            before: chosen(0).then_some(200),
            branch: chosen(1).then(|| ["main", "rare"][(bits >> 30 & 1) as usize].to_owned()),
            revision: (bits & 12 == 12).then(|| "3".to_owned()),
            state: chosen(4).then(|| "complete".to_owned()),
            tag: (bits >> 5 & 3 == 3).then(|| "seventh".to_owned()),
            machine: chosen(7).then_some(2),
            pull: (bits >> 8 & 3 == 3).then(|| "12".to_owned()),
            since_unix_ms: chosen(10).then_some(40_000),
            variant: (bits >> 13 & 3 == 3).then(|| "a \"rare\" one".to_owned()),
            numbers: (bits >> 11 & 3 == 3).then(|| (1..=300).filter(|n| n % 3 != 0).collect()),
            ..SessionFilter::default()
        };
        let origin = |session: &Session| session.origin.clone().unwrap_or_default();
        let passes = |number: i64, session: &Session| {
            let state = serde_json::to_value(session.state).unwrap();
            let state = state.as_str().unwrap().to_owned();
            let is = |wanted: &Option<String>, found: Option<String>| {
                wanted.is_none() || *wanted == found
            };
            filter.before.is_none_or(|before| number < before)
                && is(&filter.branch, origin(session).branch)
                && is(&filter.pull, origin(session).pull)
                && is(&filter.state, Some(state.clone()))
                && is(&filter.tag, session.tags.first().cloned())
                && (filter.revision.as_ref())
                    .is_none_or(|id| origin(session).revision.starts_with(id))
                && filter.machine.is_none_or(|machine| (number - 1) % 3 + 1 == machine)
                && (filter.since_unix_ms).is_none_or(|since| session.started_unix_ms >= since)
                && (filter.variant.as_ref())
                    .is_none_or(|name| session.variants.iter().any(|own| own.name == *name))
                && (filter.numbers.as_ref()).is_none_or(|numbers| numbers.contains(&number))
        };
        let numbered = (1..).zip(all).filter(|(number, session)| passes(*number, session));
        let mut expected: Vec<i64> = numbered.map(|(number, _)| number).collect();
        expected.reverse();
        assert_eq!(store.selected_numbers(&filter, usize::MAX).unwrap(), expected, "{filter:?}");
        expected.truncate(4);
        assert_eq!(store.selected_numbers(&filter, 4).unwrap(), expected, "{filter:?}");
    }
}
