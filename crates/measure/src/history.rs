//! Results over time: brings the store up to date with its sessions and the repository, and
//! searches every series for changes.
//!
//! Decides which branch is the line, what to ask git and what to cache. `analysis::trend` decides
//! where changes are. Start at [`history`].

use anyhow::{Context, Result, bail};
use regex::Regex;
use speedwell_analysis::history::{History, SeriesTrend};
use speedwell_analysis::trend::{Trend, TrendPoint, trend, trend_from};
use speedwell_analysis::{self as analysis, Facts, Settings};
use speedwell_environment::Git;
use speedwell_model::{Better, Change, Landmark, Revision, SeriesKey};
use speedwell_results::store::{
    LARGE_SESSION, LineFailures, PlacedRevision, Searched, Store, StoredPoint, StoredSeries,
};
use speedwell_suite::project::Project;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Total timeout for git, which reads the whole line once.
const LIMIT: Duration = Duration::from_secs(30);

/// Number of recently measured revisions by which a repository is recognized.
const NEWEST_MEASURED: u32 = 50;

/// Prefix of the names of lines without a repository, whose revisions are ordered by first
/// measurement. No branch name starts with it.
const AS_MEASURED: char = '/';

/// Options for a project's history.
#[derive(Debug, Clone, Default)]
pub struct HistoryRequest {
    /// The branch to use as the line.
    pub branch: Option<String>,
    /// Patterns on case IDs, one of which must match; all cases if empty.
    pub filters: Vec<Regex>,
    /// Parameter values that cases must have.
    pub sets: Vec<(String, String)>,
    /// Names of metrics; empty for the primary ones, `all` for all.
    pub metrics: Vec<String>,
    /// Uses the ratio to this variant of the same session as the value.
    pub relative: Option<String>,
    /// The smallest change that matters, as a fraction.
    pub threshold: f64,
    /// Number of sessions without points, if the caller has summarized sessions already; by
    /// default, missing points are computed first.
    pub missing: Option<usize>,
    /// Reads at most this many points of each series, the newest; by default all. Changes of a
    /// truncated series are found but not stored, because earlier ones are not visible.
    pub most_points: Option<usize>,
    /// Joins results across changes of the benchmark itself.
    pub same_work: bool,
    /// Adds everything else about the whole series: changes of the environment, names of revisions,
    /// failures, and the continuation of the branch that this one left.
    pub whole_course: bool,
}

/// Searches all requested series along their line. Changes are numbered and stored.
///
/// # Errors
/// Fails if the store fails, the project file cannot be read, or there is no such line.
pub fn history(store: &mut Store, request: &HistoryRequest) -> Result<History> {
    let left = request
        .missing
        .map_or_else(|| summarise(store, usize::MAX), Ok)?;
    let git = Git::at(Path::new("."), LIMIT);
    let mut history = History {
        threshold: request.threshold,
        ..History::default()
    };
    history.line = line(store, &git, request.branch.as_deref(), &mut history.notes)?;
    history.labels = labels(store, &git)?;
    if left > 0 {
        history.notes.push(format!(
            "The points of {left} sessions, the oldest ones, are not here yet: they are being made."
        ));
    }
    let mut reading = Reading::new(history.line.clone(), request);
    if request.whole_course {
        history.landmarks = store.landmarks(&history.line, history.labels.keys())?;
        reading.target = target(store, &git, &history.line, request)?;
        let target = reading.target.as_ref();
        history.target = target.map(|target| target.reading.line.clone());
    }
    for (key, members) in wanted(store, request)? {
        if let Some(series) = reading.series(store, key, &members)? {
            history.series.push(series);
        }
    }
    if let Some(variant) = &request.relative
        && history.series.is_empty()
    {
        bail!(
            "no session has '{variant}' beside another variant\nhint: speedwell history shows the variants of each session"
        );
    }
    store.keep_searched(&history.line, &reading.searched)?;
    history.gone = reading.gone;
    history.notes.extend(reading.cut_short());
    history.notes.extend(future_sessions(store)?);
    for point in history
        .series
        .iter()
        .flat_map(|series| &series.trend.points)
    {
        if let std::collections::btree_map::Entry::Vacant(place) =
            history.machines.entry(point.machine)
        {
            place.insert(store.machine(i64::from(point.machine))?);
        }
    }
    for (&number, machine) in &history.machines {
        if let Some(label) = &machine.label {
            (history.notes).extend(shared_label(store, number, label)?);
        }
    }
    Ok(history)
}

/// Checks that every metric of the request is known of some case that it selects.
///
/// # Errors
/// Names a metric that none has, and those that there are. The store fails.
pub fn check_metrics(store: &mut Store, request: &HistoryRequest) -> Result<()> {
    if request.metrics.is_empty() {
        return Ok(());
    }
    summarise(store, usize::MAX)?;
    let renames = store.renames()?;
    let series = store.series()?;
    let selected = series.iter().filter(|series| {
        let case = today(&series.key.case, &renames);
        has_case(&case, request)
    });
    let known: Vec<&str> = selected
        .map(|series| series.key.metric.name.as_str())
        .collect();
    if known.is_empty() {
        // That there are no such cases is what the report says.
        return Ok(());
    }
    let settings = Settings {
        metrics: request.metrics.clone(),
        ..Settings::default()
    };
    analysis::check_metrics(&settings, known).context("in --metric")
}

/// Sessions that are named as dated in the future.
const FUTURE_NAMED: usize = 3;

/// A warning about sessions whose machine had a wrong clock.
fn future_sessions(store: &Store) -> Result<Option<String>> {
    let found = store.sessions_in_future(FUTURE_NAMED as i64 + 1)?;
    let named = found.iter().take(FUTURE_NAMED);
    let mut named = named
        .map(|number| format!("@{number}"))
        .collect::<Vec<_>>()
        .join(", ");
    if found.len() > FUTURE_NAMED {
        named += " and more";
    }
    Ok((!found.is_empty()).then(|| {
        format!(
            "Dated in the future, by a wrong clock of the machine: {named}. Their points count as of when they came here."
        )
    }))
}

/// Warns if sessions under one machine name were measured with different processors.
fn shared_label(store: &Store, machine: u32, label: &str) -> Result<Option<String>> {
    let mut processors: BTreeSet<String> = BTreeSet::new();
    for facts in store.circumstances_on(i64::from(machine))? {
        let of = |wanted: &str| facts.iter().find(|(name, _)| name == wanted);
        if let (Some((_, model)), Some((_, count))) = (of("processor"), of("processors")) {
            processors.insert(format!("{count} x {model}"));
        }
    }
    Ok((processors.len() > 1).then(|| {
        let processors: Vec<String> = processors.into_iter().collect();
        format!(
            "'{label}' is the name of different machines ({}), whose points are compared as if they were of one: another \
             --machine for each keeps them apart.",
            processors.join(", ")
        )
    }))
}

/// The usual branch and the fork point, if the line is another branch that left it.
fn target<'a>(
    store: &mut Store,
    git: &Git,
    line: &str,
    request: &'a HistoryRequest,
) -> Result<Option<Target<'a>>> {
    let Some(name) = usual_branch(git)?.filter(|name| name != line) else {
        return Ok(None);
    };
    let (Some(own), Some(other)) = (tip(git, line), tip(git, &name)) else {
        return Ok(None);
    };
    let Some(fork) = git.merge_base(&own, &other) else {
        return Ok(None);
    };
    if !follow(store, git, &name, &other, &mut Vec::new())? {
        return Ok(None);
    }
    let places = [line, &name].map(|line| store.position(line, &fork));
    let [Some(here), Some(there)] =
        [places[0].as_ref(), places[1].as_ref()].map(|place| *place.ok()?)
    else {
        return Ok(None);
    };
    Ok(Some(Target {
        reading: Box::new(Reading::new(name, request)),
        here,
        there,
    }))
}

/// Computes points for sessions that have none yet, the newest first and at most `most` of them.
/// Returns how many are left.
///
/// # Errors
/// Fails if the store fails.
pub fn summarise(store: &mut Store, most: usize) -> Result<usize> {
    let missing = store.sessions_without_points()?;
    for number in missing.iter().take(most) {
        keep_points(store, *number)?;
    }
    Ok(missing.len().saturating_sub(most))
}

/// Computes and stores the points of a session. Reads the runs of a large session case by case.
///
/// # Errors
/// Fails if the store fails.
pub fn keep_points(store: &mut Store, number: i64) -> Result<()> {
    let points = if store.run_count(number)? > LARGE_SESSION {
        store.by_cases(number, |stored| {
            let mut points = analysis::PointsInTurn::default();
            stored.parts(&mut |part| points.add(part))?;
            Ok(points.of(stored.header()))
        })?
    } else {
        analysis::points(&store.session(number)?)
    };
    store.keep_points(number, &points)
}

/// Determines the line and brings the store up to date with it as far as possible.
fn line(
    store: &mut Store,
    git: &Git,
    wanted: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<String> {
    let named = match wanted {
        Some(name) => Some(name.to_owned()),
        None => usual_branch(git)?,
    };
    let Some(name) = named else {
        // Without a repository, use the stored line if there is just one.
        return match &store.lines()?[..] {
            [only] if !only.starts_with(AS_MEASURED) => Ok(only.clone()),
            _ => as_measured(store, None, notes),
        };
    };
    if let Some(tip) = tip(git, &name)
        && follow(store, git, &name, &tip, notes)?
    {
        return Ok(name);
    }
    if store.tip(&name)?.is_some() {
        return Ok(name);
    }
    if wanted.is_none() {
        return as_measured(store, None, notes);
    }
    let measured = as_measured(store, Some(&name), notes)?;
    if store.tip(&measured)?.is_some() {
        return Ok(measured);
    }
    let known = store.lines()?;
    let known: Vec<String> = known
        .iter()
        .filter(|line| !line.starts_with(AS_MEASURED))
        .map(|line| format!("'{line}'"))
        .collect();
    let known = match &known[..] {
        [] => "no line is remembered".to_owned(),
        names => format!("remembered are {}", names.join(", ")),
    };
    bail!("there is no branch '{name}' here\nhint: {known}; git fetch brings branches of others")
}

/// The branch in the project file, the default branch of the remote repository, or the checked-out
/// branch.
fn usual_branch(git: &Git) -> Result<Option<String>> {
    let project = Project::find(&std::env::current_dir()?)?;
    let of_project = project.and_then(|project| project.history.branch);
    let of_remote = || Some(git.target(None)?.rsplit_once("origin/")?.1.to_owned());
    let of_checkout = || git.ask(&["symbolic-ref", "--short", "-q", "HEAD"]);
    Ok(of_project.or_else(of_remote).or_else(of_checkout))
}

/// The newest commit of a branch, local or remote, whichever is further ahead.
pub(crate) fn tip(git: &Git, branch: &str) -> Option<String> {
    let places = ["refs/heads/", "refs/remotes/origin/"];
    let tips = places.map(|place| git.commit_id(&format!("{place}{branch}")));
    match tips {
        [Some(own), Some(remote)] if own != remote => {
            // If not behind, the local branch is ahead or has diverged.
            let is_behind = git.merge_base(&own, &remote).as_ref() == Some(&own);
            Some(if is_behind { remote } else { own })
        }
        [own, remote] => own.or(remote),
    }
}

/// Brings the stored line up to its newest commit, unless the repository belongs to something else.
fn follow(
    store: &mut Store,
    git: &Git,
    branch: &str,
    tip: &str,
    notes: &mut Vec<String>,
) -> Result<bool> {
    let known = store.tip(branch)?;
    if let Some((last, id)) = &known {
        if id == tip {
            return Ok(true);
        }
        let new = git.line(tip, Some(id)).unwrap_or_default();
        if new.first().and_then(|first| first.parents.first()) == Some(id) {
            store.keep_line(branch, last + 1, &new)?;
            return Ok(true);
        }
    }
    let all = git.line(tip, None).context("git cannot list the commits")?;
    if !is_of_what_was_measured(store, git, &all)? {
        notes.push(format!(
            "The repository here has none of the revisions that were measured last: it is taken for that of something else, \
             and its '{branch}' is not looked at."
        ));
        return Ok(false);
    }
    let from = match (&known, all.first()) {
        (Some((last, _)), Some(first)) if git.is_shallow() => {
            match store.position(branch, &first.id)? {
                Some(position) => position,
                None => {
                    notes.push(format!(
                    "The clone is shallow, and its commits do not reach back to those that are remembered of '{branch}'; \
                     'git fetch --unshallow' closes the gap."
                ));
                    last + 1
                }
            }
        }
        _ => 0,
    };
    store.keep_line(branch, from, &all)?;
    Ok(true)
}

/// Whether the repository has one of the revisions measured last, or its line one with the same
/// files. A shallow clone may lack them and is accepted.
fn is_of_what_was_measured(store: &Store, git: &Git, line: &[Revision]) -> Result<bool> {
    let measured = store.newest_revisions(NEWEST_MEASURED)?;
    let ids: Vec<&str> = measured.iter().map(|(id, _)| &**id).collect();
    let trees: HashSet<&str> = (measured.iter())
        .filter_map(|(_, tree)| tree.as_deref())
        .collect();
    let mut known = line.iter().filter_map(|revision| revision.tree.as_deref());
    Ok(measured.is_empty()
        || git.has_any(&ids)
        || known.any(|tree| trees.contains(tree))
        || git.is_shallow())
}

/// Orders all revisions, or the revisions of a branch, by first measurement or import.
fn as_measured(store: &mut Store, branch: Option<&str>, notes: &mut Vec<String>) -> Result<String> {
    let name = format!("{AS_MEASURED}{}", branch.unwrap_or_default());
    store.keep_line_as_measured(&name, branch)?;
    if store.tip(&name)?.is_some() {
        notes.push(
            "No repository tells the order of the revisions: they are in the order in which they were measured or \
             imported."
                .to_owned(),
        );
    }
    Ok(name)
}

/// Tags and annotations, by revision.
fn labels(store: &Store, git: &Git) -> Result<HashMap<String, Vec<String>>> {
    let mut labels: HashMap<String, Vec<String>> = HashMap::new();
    for (id, tag) in git.tags() {
        labels.entry(id).or_default().push(tag);
    }
    for (revision, text) in store.remarks()? {
        labels.entry(revision).or_default().push(text);
    }
    Ok(labels)
}

/// The requested series by their current names, in the order of their first session.
fn wanted(store: &Store, request: &HistoryRequest) -> Result<Vec<(SeriesKey, Vec<StoredSeries>)>> {
    let renames = store.renames()?;
    let mut all: Vec<(SeriesKey, Vec<StoredSeries>)> = Vec::new();
    let mut places: HashMap<(String, String, String, String, bool), usize> = HashMap::new();
    for series in store.series()? {
        let key = SeriesKey {
            case: today(&series.key.case, &renames),
            ..series.key.clone()
        };
        if !is_wanted(&key, &series, request) {
            continue;
        }
        let metric = &key.metric;
        let what = (
            key.case.clone(),
            key.variant.clone(),
            metric.name.clone(),
            metric.unit.clone(),
            metric.better == Better::Higher,
        );
        let place = *places.entry(what).or_insert_with(|| {
            all.push((key.clone(), Vec::new()));
            all.len() - 1
        });
        all[place].1.push(series);
    }
    Ok(all)
}

fn is_wanted(key: &SeriesKey, series: &StoredSeries, request: &HistoryRequest) -> bool {
    let is_metric = match &request.metrics[..] {
        [] => series.is_primary,
        names => names
            .iter()
            .any(|name| *name == key.metric.name || name == "all"),
    };
    is_metric && request.relative.as_ref() != Some(&key.variant) && has_case(&key.case, request)
}

/// Whether the request selects a case, by its id.
fn has_case(case: &str, request: &HistoryRequest) -> bool {
    let filters = &request.filters;
    let has = |(name, value): &(String, String)| {
        let words = format!(" {name}={value} ");
        format!("{case} ").contains(&words)
    };
    (filters.is_empty() || filters.iter().any(|filter| filter.is_match(case)))
        && request.sets.iter().all(has)
}

/// The current name of a case: the case or its benchmark may have been renamed.
pub(crate) fn today(case: &str, renames: &BTreeMap<String, String>) -> String {
    let mut name = case.to_owned();
    // There are no cycles, but this terminates even if another program has written one.
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

/// The values of `variant` in the same cases, by session.
fn references(store: &Store, members: &[StoredSeries], variant: &str) -> Result<HashMap<i64, f64>> {
    let mut values = HashMap::new();
    for series in store.series()? {
        let is_of = |member: &StoredSeries| {
            series.key.case == member.key.case && series.key.metric == member.key.metric
        };
        if series.key.variant == variant && members.iter().any(is_of) {
            let points = store.points(series.number)?.into_iter();
            values.extend(points.map(|stored| (stored.session, stored.point.value)));
        }
    }
    Ok(values)
}

/// Divides every point by the value of its session's reference; drops points without one.
fn relate(points: &mut Vec<TrendPoint>, references: &HashMap<i64, f64>) {
    points.retain_mut(|TrendPoint { session, point, .. }| {
        let Some(reference) = references.get(session) else {
            return false;
        };
        point.value /= reference;
        point.interval = point
            .interval
            .map(|(low, high)| (low / reference, high / reference));
        true
    });
}

/// Data that is read once and shared by all series.
struct Reading<'a> {
    line: String,
    request: &'a HistoryRequest,
    target: Option<Target<'a>>,
    /// Revisions by number, with their positions; `None` for those not on the line.
    revisions: HashMap<i64, Option<(u32, Arc<Revision>)>>,
    circumstances: HashMap<i64, Facts>,
    failures: Option<LineFailures>,
    gone: usize,
    /// Number of series with more points than were read.
    cut: usize,
    /// What the next search can skip.
    searched: Searched,
}

/// The branch that the line left.
struct Target<'a> {
    reading: Box<Reading<'a>>,
    /// Position of the fork point on the line.
    here: u32,
    /// Position of the same revision on the branch.
    there: u32,
}

impl Target<'_> {
    /// The points of a series on the branch from the fork on, at positions relative to the line.
    fn continuation(&mut self, store: &Store, members: &[StoredSeries]) -> Result<Vec<TrendPoint>> {
        let mut points = self.reading.points(store, members)?;
        points.retain(|point| point.is_searched() && point.position >= self.there);
        for point in &mut points {
            point.position = point.position - self.there + self.here;
        }
        Ok(points)
    }
}

impl<'a> Reading<'a> {
    fn new(line: String, request: &'a HistoryRequest) -> Reading<'a> {
        Reading {
            line,
            request,
            target: None,
            revisions: HashMap::new(),
            circumstances: HashMap::new(),
            failures: None,
            gone: 0,
            cut: 0,
            searched: Searched::default(),
        }
    }

    /// Reads and searches a series; `None` if none of its points is on the line.
    fn series(
        &mut self,
        store: &mut Store,
        key: SeriesKey,
        members: &[StoredSeries],
    ) -> Result<Option<SeriesTrend>> {
        let Some(number) = members.iter().map(|series| series.number).max() else {
            return Ok(None);
        };
        let mut key = key;
        let cut = self.cut;
        let mut points = self.points(store, members)?;
        let is_whole = self.cut == cut;
        if let Some(variant) = &self.request.relative {
            relate(&mut points, &references(store, members, variant)?);
            key.metric.unit = String::new();
        }
        if points.is_empty() {
            return Ok(None);
        }
        let trend = self.search(store, points, members, is_whole)?;
        let causes = trend.changes.iter();
        let causes = causes.map(|change| self.causes(store, &trend, change));
        let causes = causes.collect::<Result<_>>()?;
        let mut series = SeriesTrend {
            number,
            key,
            trend,
            causes,
            circumstances: BTreeMap::new(),
            failures: Vec::new(),
            continuation: Vec::new(),
        };
        if self.request.whole_course {
            let successions = series.trend.successions();
            series.circumstances = self.differences(store, &series.trend, successions)?;
            series.failures = self.failures(store, &series, members)?;
            if let Some(target) = self
                .target
                .as_mut()
                .filter(|_| self.request.relative.is_none())
            {
                series.continuation = target.continuation(store, members)?;
            }
        }
        Ok(Some(series))
    }

    /// Searches a series, continuing where the last search ended. Stores the changes if all points
    /// were read.
    fn search(
        &mut self,
        store: &mut Store,
        points: Vec<TrendPoint>,
        members: &[StoredSeries],
        is_whole: bool,
    ) -> Result<Trend> {
        let same_work = self.request.same_work;
        if self.request.relative.is_some() {
            return Ok(trend(points, &[], same_work));
        }
        let mut known: Vec<Change> = Vec::new();
        for series in members {
            known.extend(store.changes(series.number, &self.line)?);
        }
        let newest = members.iter().map(|series| series.number).max();
        let Some(number) = newest.filter(|_| is_whole) else {
            return Ok(trend(points, &known, same_work));
        };
        let before = store.walks(number, &self.line)?;
        let mut walks = before.clone();
        let mut trend = trend_from(points, &known, same_work, &mut walks);
        if walks != before {
            (self.searched).add_walks(number, trend.points.len(), walks);
        }
        if trend.changes != known {
            for series in members.iter().filter(|series| series.number != number) {
                store.keep_changes(series.number, &self.line, &[])?;
            }
            trend.changes = store.keep_changes(number, &self.line, &trend.changes)?;
        }
        Ok(trend)
    }

    /// What else changed near a change: environment facts of consecutive sessions, and how busy the
    /// machine was.
    fn causes(
        &mut self,
        store: &Store,
        trend: &Trend,
        change: &Change,
    ) -> Result<Vec<analysis::Difference>> {
        let mut found: Vec<analysis::Difference> = Vec::new();
        let near = self.differences(store, trend, trend.near(change))?;
        for difference in near.into_values().flatten() {
            if !found.contains(&difference) {
                found.push(difference);
            }
        }
        if let Some(sides) = trend.around(change) {
            let sessions = sides.iter().flat_map(|points| points.iter());
            self.learn(store, sessions.map(|point| point.session))?;
            let [before, after] = sides.map(|points| {
                let facts = points.iter().map(|point| self.facts(store, point.session));
                facts.collect::<Result<Vec<Facts>>>()
            });
            found.extend(analysis::shifts(&before?, &after?));
        }
        Ok(found)
    }

    /// Sessions of the line in which the case failed and that have no point of it.
    fn failures(
        &mut self,
        store: &Store,
        series: &SeriesTrend,
        members: &[StoredSeries],
    ) -> Result<Vec<Landmark>> {
        let all = match self.failures.take() {
            Some(known) => known,
            None => store.failures_on(&self.line)?,
        };
        let points = series.trend.points.iter();
        let measured: HashSet<i64> = points.map(|point| point.session).collect();
        let mut failures = Vec::new();
        for member in members {
            let SeriesKey { case, variant, .. } = &member.key;
            let own = all.of(case, variant).into_iter();
            failures.extend(own.filter(|failure| {
                failure
                    .session
                    .is_none_or(|session| !measured.contains(&session))
            }));
        }
        self.failures = Some(all);
        Ok(failures)
    }

    fn points(&mut self, store: &Store, members: &[StoredSeries]) -> Result<Vec<TrendPoint>> {
        let mut points = Vec::new();
        for series in members {
            let most = self.request.most_points.unwrap_or(usize::MAX);
            let stored = store.course(series.number, most)?;
            if stored.points.len() == most {
                self.cut += 1;
            } else {
                self.searched.add_points(&stored);
            }
            self.look_up(store, &stored.points)?;
            for stored in stored.points {
                let place = stored
                    .revision
                    .and_then(|number| self.revisions.get(&number));
                let Some((position, revision)) = place.cloned().flatten() else {
                    self.gone += 1;
                    continue;
                };
                points.push(TrendPoint {
                    session: stored.session,
                    at_unix_ms: stored.at_unix_ms,
                    revision,
                    position,
                    machine: u32::try_from(stored.machine)?,
                    point: stored.point,
                });
            }
        }
        Ok(points)
    }

    /// A note if not all points were read.
    fn cut_short(&self) -> Option<String> {
        let most = self.request.most_points.filter(|_| self.cut > 0)?;
        let series = match self.cut {
            1 => "one series".to_owned(),
            some => format!("{some} series"),
        };
        Some(format!(
            "Of {series} only the newest {most} points are looked at here; 'speedwell history trend' looks at all."
        ))
    }

    /// Looks up the revisions of points and their positions on the line.
    fn look_up(&mut self, store: &Store, points: &[StoredPoint]) -> Result<()> {
        let numbers = points.iter().filter_map(|stored| stored.revision);
        let unknown: BTreeSet<i64> = numbers
            .filter(|number| !self.revisions.contains_key(number))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown: Vec<i64> = unknown.into_iter().collect();
        let found = store.all_placed(&self.line, &unknown)?;
        self.revisions.extend(found.into_iter().map(
            |(number, PlacedRevision { revision, position })| {
                (number, position.map(|at| (at, Arc::new(revision))))
            },
        ));
        Ok(())
    }

    /// Differences between the sessions of consecutive points, by the index of the later one.
    fn differences(
        &mut self,
        store: &Store,
        trend: &Trend,
        successions: Vec<(usize, usize)>,
    ) -> Result<BTreeMap<usize, Vec<analysis::Difference>>> {
        let sessions = successions.iter().flat_map(|(one, other)| [*one, *other]);
        self.learn(store, sessions.map(|at| trend.points[at].session))?;
        let mut found = BTreeMap::new();
        for (one, other) in successions {
            let before = self.facts(store, trend.points[one].session)?;
            let after = self.facts(store, trend.points[other].session)?;
            if Arc::ptr_eq(&before, &after) {
                continue;
            }
            let differences = analysis::differences(&before, &after);
            if !differences.is_empty() {
                found.insert(other, differences);
            }
        }
        Ok(found)
    }

    /// Loads the facts of all sessions that are not loaded yet, in one query.
    fn learn(&mut self, store: &Store, sessions: impl Iterator<Item = i64>) -> Result<()> {
        let is_unknown = |session: &i64| !self.circumstances.contains_key(session);
        let unknown: BTreeSet<i64> = sessions.filter(is_unknown).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown: Vec<i64> = unknown.into_iter().collect();
        for (facts, sessions) in store.circumstances_of(&unknown)? {
            let facts = Arc::new(facts);
            let of_sessions = sessions.into_iter().map(|session| (session, facts.clone()));
            self.circumstances.extend(of_sessions);
        }
        Ok(())
    }

    fn facts(&mut self, store: &Store, session: i64) -> Result<Facts> {
        if let Some(known) = self.circumstances.get(&session) {
            return Ok(known.clone());
        }
        let facts = Arc::new(store.circumstances(session)?);
        self.circumstances.insert(session, facts.clone());
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::Story;
    use speedwell_model::{Machine, Metric, Point, PointKind, SessionPoint, SessionPoints, State};

    const LINE: &str = "line of a test";

    /// A session at this position of the line; values rise by 5 % at 90 and again at 170.
    fn measure(store: &mut Store, place: u32) -> i64 {
        let revision = |place: u32| Revision {
            id: format!("{place:040x}"),
            ..Revision::default()
        };
        store.keep_line(LINE, place, &[revision(place)]).unwrap();
        let mut session = Story::fixed(&["default"], 1).session();
        session.runs.clear();
        session.id = format!("session {place}");
        session.state = State::Imported;
        session.started_unix_ms = i64::from(place);
        let number = store.insert(&session).unwrap();
        let noise = f64::from(place.wrapping_mul(2_654_435_761) >> 16) / 65_536.0 - 0.5;
        let steps = u32::from(place >= 90) + u32::from(place >= 170);
        let point = SessionPoint {
            series: SeriesKey {
                case: "bench n=1".into(),
                variant: "default".into(),
                metric: Metric::new("time", "s", Better::Lower),
            },
            place: 0,
            revision: Some(revision(place)),
            point: Point {
                value: 1.05_f64.powi(steps as i32) * (1.0 + 0.03 * noise),
                interval: None,
                runs: 3,
                spread: Some(0.01),
                kind: PointKind::Measured,
                is_dirty: false,
                work: None,
            },
        };
        let machine = Machine {
            id: "lab".into(),
            name: None,
            label: None,
            class: None,
        };
        let points = SessionPoints {
            machine,
            circumstances: Vec::new(),
            points: vec![point],
        };
        store.keep_points(number, &points).unwrap();
        number
    }

    /// The result of a search: levels and changes, without the numbers assigned by earlier
    /// searches.
    fn look(store: &mut Store) -> String {
        let request = HistoryRequest {
            branch: Some(LINE.to_owned()),
            ..HistoryRequest::default()
        };
        let mut history = history(store, &request).unwrap();
        let trend = &mut history.series[0].trend;
        for change in &mut trend.changes {
            change.number = 0;
        }
        format!("{:?} {:?}", trend.levels, trend.changes)
    }

    #[test]
    fn a_look_that_goes_on_where_another_ended_says_what_a_first_one_would() {
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
            assert_eq!(store.walks(1, LINE).unwrap().len(), 1, "it is kept");
        }
        store.delete(numbers[20]).unwrap();
        places.remove(20);
        assert_eq!(look(&mut store), first_look(&places));
    }
}
