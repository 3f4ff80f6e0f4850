//! What changed along a line of revisions: the report of `history changes`.
//!
//! Decides on columns; what is said of a change is in `changes/words.rs`. Start at [`changes`].

pub(crate) mod words;

use self::words::{Line, Shown, of_series};
use crate::charts::CourseAxis;
use crate::comparison::{emphasis, symbol};
use crate::document::{Block, Document};
use crate::figure::{count, setting, share, spell_signed};
use crate::format::Format;
use crate::gallery::Courses;
use crate::output::Output;
use crate::table::{Cell, Column, Columns, Kind, Table, number};
use serde_json::{Value, json};
use speedwell_analysis::history::{CommonChange, History, SeriesTrend};
use speedwell_analysis::trend::Search;
use speedwell_model::{Better, Change, ChangeState, Metric, Verdict, quote, short_revision};

/// The name of the tables, for machines.
const TABLE: &str = "changes";

/// So many changes are shown in Markdown without folding them away.
const UNFOLDED: usize = 20;

/// The changes of a history that `is_shown` lets pass, those that are established first, each kind in the order of the line.
pub fn changes(
    history: &History,
    is_shown: &dyn Fn(&SeriesTrend, &Change) -> bool,
    output: &Output,
) -> Document {
    let mut document = Document::new("changes");
    let lines = lines(history, is_shown);
    let (suspected, known): (Vec<Line<'_>>, Vec<Line<'_>>) =
        (lines.into_iter()).partition(|line| line.change.state == ChangeState::Suspected);
    let open = OpenChanges::among(known.iter().chain(&suspected));
    document.push(Block::Headline(open.sentence(history)));
    // Programs find the table even where it is empty.
    if !known.is_empty() || suspected.is_empty() {
        document.push(listed(&known, output));
    }
    if !suspected.is_empty() {
        document.push_heading(2, "Suspected: worth measuring again");
        document.push(listed(&suspected, output));
    }
    let is_among = |series: &SeriesTrend| {
        series
            .trend
            .changes
            .iter()
            .any(|change| is_shown(series, change))
    };
    let courses = Courses {
        history,
        axis: CourseAxis::Revision,
        output,
    };
    document.extend(courses.blocks(&is_among, is_shown));
    document.extend(history.notes.iter().cloned().map(Block::Note));
    output.add_detail(&mut document, |_, document| {
        document.extend(notes(history).into_iter().map(Block::Note));
    });
    document.attach("line", json!(history.branch()));
    document
}

/// What the tables can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    columns().sort_keys()
}

/// The changes of one series, for the report of its course.
pub(crate) fn table(series: &SeriesTrend, history: &History) -> Option<Table> {
    let lines = of_series(series, history);
    (!lines.is_empty()).then(|| columns().table(TABLE, &owned(&lines)))
}

/// How many changes nobody has judged and nothing has refuted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenChanges {
    /// Those that are established.
    pub known: usize,
    /// Those of them that are worse.
    pub worse: usize,
    /// Those of them that are better.
    pub better: usize,
    /// Those that are only suspected.
    pub suspected: usize,
}

impl OpenChanges {
    /// Those of a history.
    pub fn of(history: &History) -> OpenChanges {
        OpenChanges::among(&lines(history, &|_, _| true))
    }

    fn among<'a, 'b: 'a>(lines: impl IntoIterator<Item = &'a Line<'b>>) -> OpenChanges {
        let mut open = OpenChanges::default();
        for line in lines.into_iter().filter(|line| line.change.is_open()) {
            if line.change.state == ChangeState::Suspected {
                open.suspected += 1;
                continue;
            }
            open.known += 1;
            open.worse += usize::from(line.verdict == Verdict::Worse);
            open.better += usize::from(line.verdict == Verdict::Better);
        }
        open
    }

    /// The answer of a history: how many changes are open, and where none is, which would have been seen.
    pub fn sentence(&self, history: &History) -> String {
        let searched = history
            .series
            .iter()
            .filter(|series| series.trend.is_searched());
        let searched = searched.count();
        if history.series.is_empty() {
            return "no series has a point on this line".into();
        }
        if searched == 0 {
            return "no series is long enough to be searched".into();
        }
        let on = match history.branch() {
            "" => String::new(),
            line => format!(" on '{line}'"),
        };
        let among = count(searched, "series", "series");
        let suspicions = match self.suspected {
            0 => String::new(),
            some => format!(", {some} suspected"),
        };
        match self.known {
            0 => {
                let visible = visible(history).unwrap_or_default();
                format!("no open change in {among}{on}{suspicions}{visible}")
            }
            all => format!(
                "{} in {among}{on}: {} worse, {} better{suspicions}",
                count(all, "open change", "open changes"),
                self.worse,
                self.better
            ),
        }
    }
}

fn lines<'a>(
    history: &'a History,
    is_shown: &dyn Fn(&SeriesTrend, &Change) -> bool,
) -> Vec<Line<'a>> {
    let all = history.series.iter();
    let mut lines: Vec<Line<'_>> = all.flat_map(|series| of_series(series, history)).collect();
    lines.retain(|line| is_shown(line.series, line.change));
    lines.sort_by_key(|line| line.series.trend.position(&line.change.after));
    lines
}

/// The table of these changes. Markdown is shown among other things, in comments and summaries, so a long one is folded there.
fn listed(lines: &[Line<'_>], output: &Output) -> Block {
    let table = Block::Table(columns().table(TABLE, &owned(lines)));
    let is_markdown = output.format == Some(Format::Markdown);
    if !is_markdown || lines.len() <= UNFOLDED {
        return table;
    }
    Block::Appendix {
        title: count(lines.len(), "change", "changes"),
        instead: None,
        blocks: vec![table],
    }
}

fn owned(lines: &[Line<'_>]) -> Vec<Shown> {
    lines.iter().map(Line::shown).collect()
}

fn columns() -> Columns<Shown> {
    let mut columns = Columns::new();
    columns.add(Column::figure("number", "no."), |line: &Shown| {
        let shown = if line.number > 0 {
            line.number.to_string()
        } else {
            String::new()
        };
        Cell::value(line.number).shown(shown)
    });
    columns.add(Column::words("verdict", "verdict").facet(), |line| {
        Cell::words(line.verdict.to_string())
            .shown(format!("{} {}", symbol(line.verdict), line.verdict))
            .emphasised(emphasis(line.verdict))
    });
    columns.add(Column::figure("change", "change"), |line| {
        Cell::figure(Some(line.change.value)).shown(line.size(true))
    });
    columns.add_figure("change_low", |line| Some(line.change.low));
    columns.add_figure("change_high", |line| Some(line.change.high));
    columns.add(Column::new("case", "case", Kind::Label), |line| {
        Cell::words(&line.case)
    });
    columns.add(Column::words("metric", "metric").expendable(1), |line| {
        Cell::words(&line.metric)
    });
    columns.add_value("before", |line| line.between[0].clone());
    columns.add_value("after", |line| line.between[1].clone());
    columns.add_text(
        Column::words("between", "between").for_people(),
        Shown::between,
    );
    add_state(&mut columns);
    columns.add(
        Column::words("causes", "changed there, too").expendable(2),
        |line| Cell::words(&line.causes),
    );
    columns
}

/// How far a change is established, and what people said.
fn add_state(columns: &mut Columns<Shown>) {
    columns.add_known("revisions", |line| line.revisions.map(Value::from));
    columns.add(Column::words("subject", "subject").expendable(3), |line| {
        Cell::words(&line.subject)
    });
    columns.add_known("evidence", |line| number(line.evidence));
    columns.add(Column::words("state", "state"), |line| {
        Cell::words(line.state.to_string()).shown(line.state())
    });
    columns.add_value("drift", |line| line.is_drift);
    columns.add(Column::words("judged", "judged"), |line| {
        Cell::words(line.judgement.to_string()).shown(line.judged())
    });
    columns.add_value("note", |line| line.note.clone());
}

/// Which changes the search would have shown: without it, "no change" would say more than is known.
fn visible(history: &History) -> Option<String> {
    let searched = history.series.iter().map(|series| &series.trend);
    let searched = searched.filter(|trend| trend.is_searched());
    let ratios: Vec<f64> = searched
        .filter_map(|trend| trend.smallest_visible)
        .collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    let [least, most] = [least, most].map(|ratio| share(ratio - 1.0));
    let size = if least == most {
        format!("{least} or more")
    } else {
        format!("{least} to {most}, depending on the series,")
    };
    Some(format!("; one of {size} would show some 20 points later"))
}

/// What a size that follows from a search is worth.
const ABOUT: &str = "'~': about, for a border that was searched for shows its change too large; measuring both sides again tells its \
                     size.";

fn notes(history: &History) -> Vec<String> {
    let mut notes = Vec::new();
    let missing = history
        .series
        .iter()
        .filter_map(|series| match series.trend.search {
            Search::TooShort(missing) => Some(missing),
            _ => None,
        });
    let missing: Vec<usize> = missing.collect();
    if let Some(fewest) = missing.iter().min() {
        notes.push(format!(
            "{} too short to be searched: the longest lacks {}; 'speedwell compare --old rev:OLD --new rev:NEW' answers at \
             once.",
            count(missing.len(), "series is", "series are"),
            count(*fewest, "point", "points")
        ));
    }
    for series in &history.series {
        if let Search::Impossible(reason) = series.trend.search {
            notes.push(format!(
                "'{}' cannot be searched: {reason}.",
                series.key.case
            ));
        }
        if let Some(at) = series.trend.machine_swap {
            let revision = &series.trend.points[at].revision.id;
            notes.push(format!(
                "'{}': the machine changed with the code at {}, so neither shows by itself; measuring an older revision \
                 on this machine helps.",
                series.key.case,
                short_revision(revision)
            ));
        }
    }
    notes.extend(history.common_changes().iter().map(common_change));
    notes.extend(two_courses(history));
    if history.gone > 0 {
        notes.push(format!(
            "{} of no revision on this line {} left out.",
            count(history.gone, "point", "points"),
            if history.gone == 1 { "is" } else { "are" }
        ));
    }
    if history.threshold > 0.0 {
        notes.push(format!(
            "A change is worse or better if its whole interval is beyond {}.",
            setting(history.threshold)
        ));
    }
    notes.push(ABOUT.to_owned());
    notes
}

/// Courses that may be one: the metric is measured in another way now, or the case has another name.
fn two_courses(history: &History) -> Vec<String> {
    let mut notes = Vec::new();
    for [old, new] in history.changed_metrics() {
        notes.push(format!(
            "'{}' has two courses: '{}' was measured {} first and is measured {} now.",
            old.case,
            old.metric.name,
            measured_in(&old.metric),
            measured_in(&new.metric)
        ));
    }
    for (old, new) in history.possible_renames() {
        notes.push(format!(
            "Did '{old}' become '{new}'? speedwell history rename {} {}",
            quote(old),
            quote(new)
        ));
    }
    notes
}

/// `in 'ns', where less is better`.
fn measured_in(metric: &Metric) -> String {
    let better = match metric.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
        Better::Unknown => "the good direction is unknown",
    };
    match &*metric.unit {
        "" => format!("without a unit, where {better}"),
        unit => format!("in '{unit}', where {better}"),
    }
}

/// What nearly all cases have in common, and what to do.
fn common_change(common: &CommonChange<'_>) -> String {
    let [least, most] = common.ratios.map(|ratio| match ratio {
        f64::INFINITY => "from 0".to_owned(),
        _ => format!("{} %", spell_signed((ratio - 1.0) * 100.0, 1)),
    });
    format!(
        "{} of {} cases changed together near {} ({}, {least} to {most}): what they share is suspected, such as the machine \
         or a runtime, rather than the code of one; 'speedwell confirm' measures both sides on one machine{}.",
        common.changed,
        common.searched,
        short_revision(common.after),
        common.metric,
        if common.metric == Metric::CPU_TIME {
            ""
        } else {
            ", and '--metric cpu_time' leaves out waiting for other programs where it was measured"
        },
    )
}
