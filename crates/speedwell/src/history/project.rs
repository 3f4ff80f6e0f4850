//! Loads a project's results over time. Brings the store up to date with its sessions and the
//! repository, and searches every series for changes.
//!
//! A line is a sequence of revisions, usually the first-parent history of a branch; `line.rs` decides
//! which line to show. This module decides what to query from git and what to cache.
//! `analysis::trend` decides where changes are. Start at [`load_history`].

use super::line::{branch_tip, default_branch, resolve_line, update_line};
use anyhow::{Context, Result, bail};
use indexmap::IndexMap;
use regex::Regex;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::{SearchedTrend, TrendPoint, resume_trend, search_trend};
use speedwell_analysis::{self as analysis, AnalysisSettings, EnvironmentFacts};
use speedwell_machine::environment::GitRepository;
use speedwell_model::{MetricDirection, RecordedChange, Revision, RevisionMarker, SeriesKey};
use speedwell_store::{
    LARGE_SESSION, LineFailures, PlacedRevision, Store, StoredPoint, StoredSeries,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Number of series that are read from the store at once.
const SERIES_PER_QUERY: usize = 500;

/// Total timeout for git, which reads the whole line once.
const GIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The search of a shorter series starts over each time: that takes no longer than loading the
/// state of its detectors.
const MIN_RESUMED_POINTS: usize = 128;

/// Options for a project's history.
#[derive(Debug, Clone, Default)]
pub struct HistoryRequest {
    /// The branch to show. Its first-parent history is the line. The default is the branch in the
    /// project file, else the remote repository's default branch, else the checked-out branch, else
    /// the main one among the measured branches.
    pub branch: Option<String>,
    /// Patterns for case IDs. Selects cases that match any pattern, or all cases if there are no
    /// patterns.
    pub filters: Vec<Regex>,
    /// ID of the only case to show.
    pub case: Option<String>,
    /// Parameter values that cases must have.
    pub sets: Vec<(String, String)>,
    /// Names of metrics. `all` selects all metrics; an empty list selects the primary metrics.
    pub metrics: Vec<String>,
    /// If set, divides every value by this variant's value in the same session.
    pub relative: Option<String>,
    /// The smallest change that matters, as a fraction.
    pub threshold: f64,
    /// Number of sessions without points, if the caller computes the missing points itself. If
    /// `None`, missing points are computed first.
    pub sessions_without_points: Option<usize>,
    /// Reads only this many of the newest points of each series. Changes in a truncated series are
    /// not stored, because earlier changes are not visible.
    pub max_points: Option<usize>,
    /// Joins the results before and after a change to the benchmark itself.
    pub ignores_benchmark_changes: bool,
    /// Adds details of the whole series: environment changes, revision names, failures, and the
    /// points of the parent branch after the fork.
    pub includes_details: bool,
}

/// Searches all requested series along their line. If the values are absolute and the series is
/// complete, assigns numbers to the changes and stores them.
///
/// # Errors
/// Fails if the store or the project file cannot be accessed, or there is no such line.
pub fn load_history(store: &mut Store, request: &HistoryRequest) -> Result<ProjectHistory> {
    let missing = request
        .sessions_without_points
        .map_or_else(|| summarize_sessions(store, usize::MAX), Ok)?;
    let git = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT);
    let mut history = ProjectHistory { threshold: request.threshold, ..ProjectHistory::default() };
    history.line = resolve_line(store, &git, request.branch.as_deref(), &mut history.notes)?;
    history.labels = revision_labels(store, &git)?;
    if missing > 0 {
        history.notes.push(format!(
            "The points of the {missing} oldest sessions are missing: they are still being computed."
        ));
    }
    let mut reader = HistoryReader::new(history.line.clone(), request);
    if request.includes_details {
        history.landmarks = store.revision_markers(&history.line, history.labels.keys())?;
        reader.target = find_parent_branch(store, &git, &history.line, request)?;
        let target = reader.target.as_ref();
        history.target = target.map(|target| target.reader.line.clone());
    }
    for selected in select_series(store, request)?.chunks(SERIES_PER_QUERY) {
        let mut loaded = reader.load_series(store, selected)?;
        for (key, members) in selected {
            let series = reader.read_series(store, key.clone(), members, &mut loaded)?;
            history.series.extend(series);
        }
    }
    if let Some(variant) = &request.relative
        && history.series.is_empty()
    {
        bail!(
            "no session measured '{variant}' together with another variant in the selected cases on this \
             branch\nhint: 'speedwell history' shows the variants of each session"
        );
    }
    if request.includes_details {
        let points = history.series.iter().flat_map(|series| &series.trend.points);
        let sessions: BTreeSet<i64> = points.map(|point| point.session).collect();
        history.authors = store.revision_authors(&Vec::from_iter(sessions))?;
    }
    store.store_detector_states(&history.line, &reader.detector_states)?;
    history.unplaced_points = reader.unplaced_points;
    history.notes.extend(reader.truncation_note());
    history.notes.extend(future_sessions(store)?);
    let points = history.series.iter().flat_map(|series| &series.trend.points);
    for number in points.map(|point| point.machine).collect::<BTreeSet<u32>>() {
        let machine = store.find_machine(i64::from(number))?;
        if let Some(label) = &machine.label {
            history.notes.extend(shared_label_warning(store, number, label)?);
        }
        history.machines.insert(number, machine);
    }
    Ok(history)
}

/// Checks that every requested metric exists for some selected case.
///
/// # Errors
/// Fails if a metric does not exist, or the store cannot be accessed.
pub fn check_metrics(store: &mut Store, request: &HistoryRequest) -> Result<()> {
    if request.metrics.is_empty() {
        return Ok(());
    }
    summarize_sessions(store, usize::MAX)?;
    let renames = store.list_renames()?;
    let series = store.list_series()?;
    let selected =
        series.iter().filter(|series| has_case(&current_name(&series.key.case, &renames), request));
    let metric_names: Vec<&str> = selected.map(|series| series.key.metric.name.as_str()).collect();
    if metric_names.is_empty() {
        // The report says that no case matches.
        return Ok(());
    }
    let settings =
        AnalysisSettings { metrics: request.metrics.clone(), ..AnalysisSettings::default() };
    analysis::check_metrics(&settings, metric_names).context("in --metric")
}

/// Maximum number of sessions to name in the warning about dates in the future.
const FUTURE_NAMED: usize = 3;

/// Warns about sessions dated in the future by a wrong clock.
fn future_sessions(store: &Store) -> Result<Option<String>> {
    let sessions = store.sessions_in_future(FUTURE_NAMED as i64 + 1)?;
    let named = sessions.iter().take(FUTURE_NAMED).map(|number| format!("@{number}"));
    let names = named.collect::<Vec<_>>().join(", ");
    let more = if sessions.len() > FUTURE_NAMED { " and more" } else { "" };
    Ok((!sessions.is_empty()).then(|| {
        format!(
            "Sessions dated in the future because of a wrong clock: {names}{more}. Their points get the date \
             at which they arrived here."
        )
    }))
}

/// Warns if the sessions under one machine name have different processors.
fn shared_label_warning(store: &Store, machine: u32, label: &str) -> Result<Option<String>> {
    let mut processors: BTreeSet<String> = BTreeSet::new();
    for facts in store.machine_facts(i64::from(machine))? {
        let find_fact = |wanted: &str| facts.iter().find(|(name, _)| name == wanted);
        if let (Some((_, model)), Some((_, count))) =
            (find_fact("processor"), find_fact("processors"))
        {
            processors.insert(format!("{count} x {model}"));
        }
    }
    Ok((processors.len() > 1).then(|| {
        let processors: Vec<String> = processors.into_iter().collect();
        format!(
            "Different machines are named '{label}' ({}), so their points are compared as if a single \
             machine had measured them: give each machine a different name with --machine.",
            processors.join(", ")
        )
    }))
}

/// Returns the default branch and the fork point, if the line forked from the default branch.
fn find_parent_branch<'a>(
    store: &mut Store,
    git: &GitRepository,
    line: &str,
    request: &'a HistoryRequest,
) -> Result<Option<ParentBranch<'a>>> {
    let Some(name) = default_branch(git)?.filter(|name| name != line) else { return Ok(None) };
    let (Some(line_tip), Some(parent_tip)) = (branch_tip(git, line), branch_tip(git, &name)) else {
        return Ok(None);
    };
    let Some(fork) = git.merge_base(&line_tip, &parent_tip) else { return Ok(None) };
    if !update_line(store, git, &name, &parent_tip, &mut Vec::new())? {
        return Ok(None);
    }
    let positions = (store.line_position(line, &fork)?, store.line_position(&name, &fork)?);
    let (Some(position_on_line), Some(position_on_parent)) = positions else { return Ok(None) };
    Ok(Some(ParentBranch {
        reader: Box::new(HistoryReader::new(name, request)),
        fork_on_line: position_on_line,
        fork_on_branch: position_on_parent,
    }))
}

/// Computes points for at most `max_sessions` sessions without points, newest first. Returns the
/// number of sessions left without points.
///
/// # Errors
/// Fails if the store cannot be accessed.
pub fn summarize_sessions(store: &mut Store, max_sessions: usize) -> Result<usize> {
    let missing = store.find_sessions_without_points()?;
    for number in missing.iter().take(max_sessions) {
        store_points(store, *number)?;
    }
    Ok(missing.len().saturating_sub(max_sessions))
}

/// Computes and stores the points of a session. Reads the runs of a large session case by case.
///
/// # Errors
/// Fails if the store cannot be accessed.
pub fn store_points(store: &mut Store, number: i64) -> Result<()> {
    let points = if store.count_runs(number)? > LARGE_SESSION {
        store.with_session_by_cases(number, |stored| {
            let mut points = analysis::PointCollector::default();
            stored.for_each_part(&mut |part| points.add_part(part))?;
            Ok(points.into_points(stored.header()))
        })?
    } else {
        analysis::session_points(&store.load_session(number)?)
    };
    store.store_points(number, &points)
}

/// Returns the tags and notes of revisions, by revision ID.
fn revision_labels(store: &Store, git: &GitRepository) -> Result<HashMap<String, Vec<String>>> {
    let mut labels: HashMap<String, Vec<String>> = HashMap::new();
    for (revision, label) in git.tags_by_commit().into_iter().chain(store.list_notes()?) {
        labels.entry(revision).or_default().push(label);
    }
    Ok(labels)
}

/// Returns the requested series under their current names, in the order in which they were first
/// stored. Each comes with the stored series that belong to it.
fn select_series(
    store: &Store,
    request: &HistoryRequest,
) -> Result<Vec<(SeriesKey, Vec<StoredSeries>)>> {
    let renames = store.list_renames()?;
    let mut selected: IndexMap<_, (SeriesKey, Vec<StoredSeries>)> = IndexMap::new();
    let stored = match &request.case {
        Some(case) if renames.is_empty() => store.series_of_case(case)?,
        _ => store.list_series()?,
    };
    for series in stored {
        let key =
            SeriesKey { case: current_name(&series.key.case, &renames), ..series.key.clone() };
        if !matches_request(&key, &series, request) {
            continue;
        }
        let metric = &key.metric;
        let identity = (
            key.case.clone(),
            key.variant.clone(),
            metric.name.clone(),
            metric.unit.clone(),
            metric.better == MetricDirection::Higher,
        );
        selected.entry(identity).or_insert_with(|| (key, Vec::new())).1.push(series);
    }
    Ok(selected.into_values().collect())
}

fn matches_request(key: &SeriesKey, series: &StoredSeries, request: &HistoryRequest) -> bool {
    let is_metric = match &request.metrics[..] {
        [] => series.is_primary,
        names => names.iter().any(|name| *name == key.metric.name || name == "all"),
    };
    is_metric && request.relative.as_ref() != Some(&key.variant) && has_case(&key.case, request)
}

/// Whether the request selects the case with this ID.
fn has_case(case: &str, request: &HistoryRequest) -> bool {
    let filters = &request.filters;
    let has_value = |(name, value): &(String, String)| {
        format!("{case} ").contains(&format!(" {name}={value} "))
    };
    request.case.as_ref().is_none_or(|wanted| wanted == case)
        && (filters.is_empty() || filters.iter().any(|filter| filter.is_match(case)))
        && request.sets.iter().all(has_value)
}

/// Returns the current name of a case after renames of the case or its benchmark.
pub(crate) fn current_name(case: &str, renames: &BTreeMap<String, String>) -> String {
    let mut name = case.to_owned();
    // The loop ends even if another program has written a cycle of renames.
    for _ in 0..=renames.len() {
        let (benchmark, values) = name.split_at(name.find(' ').unwrap_or(name.len()));
        match (renames.get(&name), renames.get(benchmark)) {
            (Some(new), _) => name = new.clone(),
            (None, Some(new)) => name = format!("{new}{values}"),
            (None, None) => break,
        }
    }
    name
}

/// Returns the values of `variant` in the cases of `members`, by session.
fn reference_values(
    store: &Store,
    members: &[StoredSeries],
    variant: &str,
) -> Result<HashMap<i64, f64>> {
    let is_reference = |series: &StoredSeries| {
        let is_counterpart = |member: &StoredSeries| {
            series.key.case == member.key.case && series.key.metric == member.key.metric
        };
        series.key.variant == variant && members.iter().any(is_counterpart)
    };
    let references = store.list_series()?.into_iter().filter(is_reference);
    let numbers: Vec<i64> = references.map(|series| series.number).collect();
    let points = store.load_points(&numbers)?;
    Ok(points.into_iter().map(|stored| (stored.session, stored.point.value)).collect())
}

/// Divides every point by the reference value of its session. Drops points without a reference
/// value.
fn divide_by_reference(points: &mut Vec<TrendPoint>, references: &HashMap<i64, f64>) {
    points.retain_mut(|TrendPoint { session, point, .. }| {
        let Some(reference) = references.get(session) else { return false };
        point.value /= reference;
        point.interval = point.interval.map(|(low, high)| (low / reference, high / reference));
        true
    });
}

/// Data that is read once and shared by all series.
struct HistoryReader<'a> {
    line: String,
    request: &'a HistoryRequest,
    target: Option<ParentBranch<'a>>,
    /// Maps revision numbers to positions and revisions, or to `None` for revisions that are not on
    /// the line.
    revisions: HashMap<i64, Option<(u32, Arc<Revision>)>>,
    environment_facts: HashMap<i64, EnvironmentFacts>,
    failures: Option<LineFailures>,
    unplaced_points: usize,
    /// Number of stored series that may have more points than were read.
    truncated_series: usize,
    /// Detector states from which the next search continues, by number of the series.
    detector_states: Vec<(i64, Vec<Vec<u8>>)>,
}

/// The branch from which the line forked.
struct ParentBranch<'a> {
    reader: Box<HistoryReader<'a>>,
    /// Position of the fork point on the line.
    fork_on_line: u32,
    /// Position of the fork point on the parent branch.
    fork_on_branch: u32,
}

/// Stored points and changes of some series, by the number of the series.
struct LoadedSeries {
    points: HashMap<i64, Vec<StoredPoint>>,
    changes: HashMap<i64, Vec<RecordedChange>>,
}

impl ParentBranch<'_> {
    /// Returns the points of a series on the parent branch since the fork, with positions on the
    /// line.
    fn continuation(&mut self, store: &Store, stored: &[StoredPoint]) -> Result<Vec<TrendPoint>> {
        self.reader.look_up_revisions(store, stored)?;
        let mut points = self.reader.place_points(stored)?;
        points.retain(|point| point.is_searched() && point.position >= self.fork_on_branch);
        for point in &mut points {
            point.position = point.position - self.fork_on_branch + self.fork_on_line;
        }
        Ok(points)
    }
}

impl<'a> HistoryReader<'a> {
    fn new(line: String, request: &'a HistoryRequest) -> HistoryReader<'a> {
        HistoryReader {
            line,
            request,
            target: None,
            revisions: HashMap::new(),
            environment_facts: HashMap::new(),
            failures: None,
            unplaced_points: 0,
            truncated_series: 0,
            detector_states: Vec::new(),
        }
    }

    /// Loads points and changes of these series, and looks up the revisions of the points.
    fn load_series(
        &mut self,
        store: &Store,
        selected: &[(SeriesKey, Vec<StoredSeries>)],
    ) -> Result<LoadedSeries> {
        let members = selected.iter().flat_map(|(_, members)| members);
        let numbers: Vec<i64> = members.map(|series| series.number).collect();
        let mut loaded = LoadedSeries { points: HashMap::new(), changes: HashMap::new() };
        let points = store.load_points(&numbers)?;
        self.look_up_revisions(store, &points)?;
        for stored in points {
            loaded.points.entry(stored.series).or_default().push(stored);
        }
        for stored in store.list_changes(&numbers, &self.line)? {
            loaded.changes.entry(stored.series).or_default().push(stored.change);
        }
        Ok(loaded)
    }

    /// Searches a series. Returns `None` if none of its points is on the line.
    fn read_series(
        &mut self,
        store: &mut Store,
        mut key: SeriesKey,
        members: &[StoredSeries],
        loaded: &mut LoadedSeries,
    ) -> Result<Option<SeriesTrend>> {
        let number = members.iter().map(|series| series.number).max().unwrap_or_default();
        let truncated_before = self.truncated_series;
        let (mut stored, mut known_changes) = (Vec::new(), Vec::new());
        for member in members {
            stored.extend(self.newest_points(loaded.points.remove(&member.number)));
            known_changes.extend(loaded.changes.remove(&member.number).unwrap_or_default());
        }
        let is_complete = self.truncated_series == truncated_before;
        let mut points = self.place_points(&stored)?;
        if let Some(variant) = &self.request.relative {
            divide_by_reference(&mut points, &reference_values(store, members, variant)?);
            key.metric.unit = String::new();
        }
        if points.is_empty() {
            return Ok(None);
        }
        let recorded_as = is_complete.then_some(number);
        let trend = self.search_series(store, points, members, recorded_as, known_changes)?;
        let find_causes = |change: &RecordedChange| self.find_causes(store, &trend, change);
        let causes = trend.changes.iter().map(find_causes).collect::<Result<_>>()?;
        let mut series = SeriesTrend {
            number,
            key,
            trend,
            causes,
            environment_changes: BTreeMap::new(),
            failures: Vec::new(),
            continuation: Vec::new(),
        };
        if self.request.includes_details {
            let successions = series.trend.machine_successions();
            series.environment_changes =
                self.session_differences(store, &series.trend, successions)?;
            series.failures = self.find_failures(store, &series, members)?;
            if let Some(target) = self.target.as_mut().filter(|_| self.request.relative.is_none()) {
                series.continuation = target.continuation(store, &stored)?;
            }
        }
        Ok(Some(series))
    }

    /// Searches a series, continuing where the last search ended. Stores the changes under `number`
    /// if the values are absolute. An incomplete series has no number.
    fn search_series(
        &mut self,
        store: &mut Store,
        points: Vec<TrendPoint>,
        members: &[StoredSeries],
        number: Option<i64>,
        known_changes: Vec<RecordedChange>,
    ) -> Result<SearchedTrend> {
        let ignores_benchmark_changes = self.request.ignores_benchmark_changes;
        if self.request.relative.is_some() {
            return Ok(search_trend(points, &[], ignores_benchmark_changes));
        }
        let Some(number) = number else {
            return Ok(search_trend(points, &known_changes, ignores_benchmark_changes));
        };
        let is_resumed = points.len() >= MIN_RESUMED_POINTS;
        let old_states =
            if is_resumed { store.load_detector_states(number, &self.line)? } else { Vec::new() };
        let mut states = old_states.clone();
        let mut trend =
            resume_trend(points, &known_changes, ignores_benchmark_changes, &mut states);
        if is_resumed && states != old_states {
            self.detector_states.push((number, states));
        }
        if trend.changes != known_changes {
            for series in members.iter().filter(|series| series.number != number) {
                store.replace_changes(series.number, &self.line, &[])?;
            }
            trend.changes = store.replace_changes(number, &self.line, &trend.changes)?;
        }
        Ok(trend)
    }

    /// Finds possible causes near a change: environment changes between consecutive sessions, and
    /// large differences in the load of the machine.
    fn find_causes(
        &mut self,
        store: &Store,
        trend: &SearchedTrend,
        change: &RecordedChange,
    ) -> Result<Vec<analysis::FactDifference>> {
        let mut causes: Vec<analysis::FactDifference> = Vec::new();
        let nearby_differences =
            self.session_differences(store, trend, trend.successions_near(change))?;
        for difference in nearby_differences.into_values().flatten() {
            if !causes.contains(&difference) {
                causes.push(difference);
            }
        }
        if let Some(sides) = trend.points_around(change) {
            let sessions = sides.iter().flat_map(|points| points.iter());
            self.load_facts(store, sessions.map(|point| point.session))?;
            let [before, after] = sides.map(|points| -> Vec<EnvironmentFacts> {
                points.iter().map(|point| self.session_facts(point.session)).collect()
            });
            causes.extend(analysis::activity_shifts(&before, &after));
        }
        Ok(causes)
    }

    /// Finds sessions of the line in which the case failed and the series has no point.
    fn find_failures(
        &mut self,
        store: &Store,
        series: &SeriesTrend,
        members: &[StoredSeries],
    ) -> Result<Vec<RevisionMarker>> {
        let line_failures =
            self.failures.take().map_or_else(|| store.line_failures(&self.line), Ok)?;
        let points = series.trend.points.iter();
        let measured: HashSet<i64> = points.map(|point| point.session).collect();
        let mut failures = Vec::new();
        for member in members {
            let SeriesKey { case, variant, .. } = &member.key;
            let case_failures = line_failures.of_case(case, variant).into_iter();
            failures.extend(case_failures.filter(|failure| {
                failure.session.is_none_or(|session| !measured.contains(&session))
            }));
        }
        self.failures = Some(line_failures);
        Ok(failures)
    }

    /// Returns the newest of these points: all, unless the request limits their number.
    fn newest_points(&mut self, points: Option<Vec<StoredPoint>>) -> Vec<StoredPoint> {
        let mut points = points.unwrap_or_default();
        if let Some(excess) = self.request.max_points.and_then(|max| points.len().checked_sub(max))
        {
            self.truncated_series += 1;
            points.drain(..excess);
        }
        points
    }

    /// Returns the points on the line. Their revisions have been looked up.
    fn place_points(&mut self, stored_points: &[StoredPoint]) -> Result<Vec<TrendPoint>> {
        let mut points = Vec::new();
        for stored in stored_points {
            let placed = stored.revision.and_then(|number| self.revisions.get(&number));
            let Some((position, revision)) = placed.cloned().flatten() else {
                self.unplaced_points += 1;
                continue;
            };
            points.push(TrendPoint {
                session: stored.session,
                at_unix_ms: stored.at_unix_ms,
                revision,
                position,
                machine: u32::try_from(stored.machine)?,
                point: stored.point.clone(),
            });
        }
        Ok(points)
    }

    /// Returns a note if not all points were read.
    fn truncation_note(&self) -> Option<String> {
        let max_points = self.request.max_points.filter(|_| self.truncated_series > 0)?;
        let series = match self.truncated_series {
            1 => "one series".to_owned(),
            count => format!("{count} series"),
        };
        Some(format!(
            "Only the newest {max_points} points of {series} are used here; 'speedwell history trend' \
             uses all."
        ))
    }

    /// Looks up the revisions of points and their positions on the line.
    fn look_up_revisions(&mut self, store: &Store, points: &[StoredPoint]) -> Result<()> {
        let numbers = points.iter().filter_map(|stored| stored.revision);
        let missing: BTreeSet<i64> =
            numbers.filter(|number| !self.revisions.contains_key(number)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let placed = store.place_revisions(&self.line, &Vec::from_iter(missing))?;
        for (number, PlacedRevision { revision, position }) in placed {
            let placed = position.map(|position| (position, Arc::new(revision)));
            self.revisions.insert(number, placed);
        }
        Ok(())
    }

    /// Returns the differences between consecutive points' sessions, by the index of the later
    /// point.
    fn session_differences(
        &mut self,
        store: &Store,
        trend: &SearchedTrend,
        successions: Vec<(usize, usize)>,
    ) -> Result<BTreeMap<usize, Vec<analysis::FactDifference>>> {
        let sessions = successions.iter().flat_map(|(earlier, later)| [*earlier, *later]);
        self.load_facts(store, sessions.map(|index| trend.points[index].session))?;
        let mut by_later_index = BTreeMap::new();
        for (earlier, later) in successions {
            let before = self.session_facts(trend.points[earlier].session);
            let after = self.session_facts(trend.points[later].session);
            if Arc::ptr_eq(&before, &after) {
                continue;
            }
            let differences = analysis::fact_differences(&before, &after);
            if !differences.is_empty() {
                by_later_index.insert(later, differences);
            }
        }
        Ok(by_later_index)
    }

    /// Loads the missing facts of these sessions in one query.
    fn load_facts(&mut self, store: &Store, sessions: impl Iterator<Item = i64>) -> Result<()> {
        let is_missing = |session: &i64| !self.environment_facts.contains_key(session);
        let missing: BTreeSet<i64> = sessions.filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        for (facts, sessions) in store.facts_by_sessions(&Vec::from_iter(missing))? {
            let facts = Arc::new(facts);
            let facts_of_sessions = sessions.into_iter().map(|session| (session, facts.clone()));
            self.environment_facts.extend(facts_of_sessions);
        }
        Ok(())
    }

    /// Returns the loaded facts of a session; none if the session has no points.
    fn session_facts(&self, session: i64) -> EnvironmentFacts {
        self.environment_facts.get(&session).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{
        HistoryPoint, Machine, Metric, PointKind, SessionPoint, SessionPoints, SessionState,
    };

    const LINE: &str = "line of a test";

    /// Stores a session at this position of the line. Values rise by 5% at positions 90 and 170.
    fn measure(store: &mut Store, place: u32) -> i64 {
        let revision = |place: u32| Revision { id: format!("{place:040x}"), ..Revision::default() };
        store.store_line(LINE, place, &[revision(place)]).unwrap();
        let mut session = FakeSession::with_fixed_blocks(&["default"], 1).build();
        session.runs.clear();
        session.id = format!("session {place}");
        session.state = SessionState::Imported;
        session.started_unix_ms = i64::from(place);
        let number = store.insert_session(&session).unwrap();
        let noise = f64::from(place.wrapping_mul(2_654_435_761) >> 16) / 65_536.0 - 0.5;
        let steps = u32::from(place >= 90) + u32::from(place >= 170);
        let point = SessionPoint {
            series: SeriesKey {
                case: "bench n=1".into(),
                variant: "default".into(),
                metric: Metric::new("time", "s", MetricDirection::Lower),
            },
            metric_index: 0,
            revision: Some(revision(place)),
            point: HistoryPoint {
                value: 1.05_f64.powi(steps as i32) * (1.0 + 0.03 * noise),
                interval: None,
                runs: 3,
                spread: Some(0.01),
                kind: PointKind::Measured,
                is_dirty: false,
                benchmark_digest: None,
            },
        };
        let machine = Machine { id: "lab".into(), name: None, label: None, class: None };
        let points = SessionPoints { machine, environment_facts: Vec::new(), points: vec![point] };
        store.store_points(number, &points).unwrap();
        number
    }

    /// Searches the series and describes levels and changes, without the numbers of the changes.
    fn look(store: &mut Store) -> String {
        let request = HistoryRequest { branch: Some(LINE.to_owned()), ..HistoryRequest::default() };
        let mut history = load_history(store, &request).unwrap();
        let trend = &mut history.series[0].trend;
        for change in &mut trend.changes {
            change.number = 0;
        }
        format!("{:?} {:?}", trend.levels, trend.changes)
    }

    #[test]
    fn a_continued_search_finds_the_same_as_a_full_search() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| Store::open(&folder.path().join(name)).unwrap();
        let first_look = |places: &[u32]| {
            let mut store = open(&format!("{}.db", places.len()));
            places.iter().for_each(|place| {
                measure(&mut store, *place);
            });
            look(&mut store)
        };
        let mut store = open("results.db");
        let mut places: Vec<u32> = Vec::new();
        let mut numbers = Vec::new();
        for count in [140, 141, 150, 240] {
            while places.len() < count {
                places.push(places.len() as u32);
                numbers.push(measure(&mut store, places.len() as u32 - 1));
            }
            let seen = look(&mut store);
            assert_eq!(seen, first_look(&places), "{count} points");
            assert_eq!(look(&mut store), seen);
            assert_eq!(store.load_detector_states(1, LINE).unwrap().len(), 1, "state is kept");
        }
        store.delete_untracked(numbers[20]).unwrap();
        places.remove(20);
        assert_eq!(look(&mut store), first_look(&places));
    }
}
