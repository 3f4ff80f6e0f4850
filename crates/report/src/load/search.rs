//! Loads of several levels or rates, as a document: the answer, a row for each level, the law that throughput
//! follows, pictures, and every load behind them.
//!
//! Decides what is said where. What the figures mean is decided in `analysis`. Start at [`search`].

use super::{data, levels_chart, rates, summary};
use crate::digits::Uncertainty;
use crate::document::{Block, Chart, Document};
use crate::field::{Field, keys, table_of};
use crate::metric_words::count;
use crate::output::{Output, Verbosity};
use crate::quantity::{quantity, share};
use crate::scaling;
use crate::table::{Cell, Column, Kind, Table};
use serde_json::Value;
use speedwell_analysis::load::{Levels, LoadFindings, Pass, Rates};
use speedwell_analysis::scaling::Standing;

/// The report of loads at several levels of concurrency, or at several rates.
pub fn search(
    loads: &[LoadFindings<'_>],
    levels: &[Levels],
    tried: &[Rates],
    output: &Output,
) -> Document {
    let mut document = Document::new("load");
    for warning in levels.iter().flat_map(warnings) {
        document.push(Block::Warning(warning));
    }
    for one in levels {
        document.push(Block::Headline(headline(one)));
        document.push(Block::Table(table(one)));
        if output.verbosity != Verbosity::Quiet {
            let known = one.scaling.as_ref();
            document
                .blocks
                .extend(known.map(|known| Block::Note(scaling::law::sentence(known))));
            document.push(Block::Note(note(one)));
        }
    }
    for one in tried {
        rates::add(one, &mut document);
    }
    document.push(Block::Appendix {
        title: "Every load".into(),
        instead: None,
        blocks: vec![Block::Table(summary::table(loads))],
    });
    let charts = levels.iter().flat_map(levels_chart::charts);
    for chart in charts {
        document.push(Block::Chart(Box::new(chart)));
    }
    document.attach("scaling", levels.iter().map(for_machines).collect());
    document.attach("load_findings", loads.iter().map(data::findings).collect());
    document.attach("loads", loads.iter().map(data::run).collect());
    document
}

/// The answer in a sentence.
fn headline(levels: &Levels) -> String {
    let Some(scaling) = &levels.scaling else {
        return format!(
            "{}: no level of concurrency was answered well.",
            levels.label
        );
    };
    let spoilt = levels.passes.iter().find(|pass| pass.is_spoilt);
    scaling::headline(&levels.label, scaling, spoilt.map(|pass| pass.concurrency))
}

fn warnings(levels: &Levels) -> Vec<String> {
    let mut warnings = Vec::new();
    let known = levels.scaling.as_ref();
    warnings.extend(known.and_then(|known| scaling::noise_warning(&levels.label, known, "loads")));
    if let Some(spoilt) = levels.passes.iter().find(|pass| pass.is_spoilt) {
        let (failed, all) = spoilt.failed;
        warnings.push(format!(
            "{}: with {} requests in flight {} of {} failed ({}), so that level does not count and nothing \
             above it was looked at by a search.",
            levels.label,
            spoilt.concurrency,
            failed,
            count(all as usize, "request", "requests"),
            share(failed as f64 / all.max(1) as f64)
        ));
    }
    let bound: Vec<&Pass> = levels
        .passes
        .iter()
        .filter(|pass| pass.is_generator_bound)
        .collect();
    if let Some(first) = bound.first() {
        warnings.push(format!(
            "{}: from {} requests in flight on, the generator, not the server, was the limit (a thread of it was \
             busy for {} of the time): the server may be able to do more. More --threads help where there are \
             processors for them.",
            levels.label,
            first.concurrency,
            share(first.busiest)
        ));
    }
    warnings
}

fn note(levels: &Levels) -> String {
    let unit = if levels.is_windowed {
        "windows of one load for each level: how much loads differ from each other is not in it"
    } else {
        "the visits of all levels together"
    };
    format!(
        "The answer is the lowest concurrency whose throughput is statistically indistinguishable from the highest. ± and [ ] are 95 % \
         intervals from {unit}. p50 and p99 are medians over visits of the service time of good answers."
    )
}

/// A level and how it stands.
type Row<'a> = (&'a Pass, Option<&'a Standing>);

fn table(levels: &Levels) -> Table {
    let standings = levels.scaling.as_ref().map(|all| &all.answer.standings[..]);
    let row = |pass: &Pass| {
        let same = |one: &&Standing| one.concurrency == pass.concurrency;
        let standing = standings.unwrap_or_default().iter().find(same);
        (pass.clone(), standing.copied())
    };
    let rows: Vec<(Pass, Option<Standing>)> = levels.passes.iter().map(row).collect();
    let rows: Vec<Row<'_>> = rows
        .iter()
        .map(|(pass, standing)| (pass, standing.as_ref()))
        .collect();
    let knee = levels.scaling.as_ref().map(|all| *all.answer.at_knee());
    let label = levels.label.clone();
    let mut fields = vec![Field::machine("load", move |_: &Row<'_>| {
        Cell::words(label.clone())
    })];
    fields.extend(level_fields(knee.map(|knee| knee.concurrency)));
    fields.extend(time_fields());
    table_of("levels", fields, &rows)
}

/// What the tables of levels can be sorted by.
pub fn level_sort_keys() -> Vec<&'static str> {
    let mut all = vec!["load"];
    all.extend(keys(&level_fields(None)));
    all.extend(keys(&time_fields()));
    all
}

fn level_fields<'a>(knee: Option<u32>) -> Vec<Field<Row<'a>>> {
    vec![
        Field::new(
            Column::new("concurrency", "concurrency", Kind::Figure),
            |(pass, _): &Row<'a>| Cell::value(pass.concurrency).shown(pass.concurrency.to_string()),
        ),
        Field::new(
            Column::new("visits", "visits", Kind::Figure).expendable(4),
            |(pass, _): &Row<'a>| Cell::value(pass.visits).shown(pass.visits.to_string()),
        ),
        Field::new(
            Column::new("throughput", "throughput", Kind::Figure),
            |(pass, standing): &Row<'a>| {
                let words = standing.map(scaling::throughput_with_error);
                let plain = || quantity(pass.throughput_per_s, "1/s", Uncertainty::Unknown);
                Cell::figure(Some(pass.throughput_per_s)).shown(words.unwrap_or_else(plain))
            },
        ),
        Field::new(
            Column::new("change", "to the best before", Kind::Figure),
            |(_, standing): &Row<'a>| scaling::change_cell(*standing),
        ),
        Field::new(
            Column::new("standing", "", Kind::Words),
            move |(pass, standing): &Row<'a>| {
                scaling::standing_cell(*standing, knee == Some(pass.concurrency))
            },
        ),
    ]
}

fn time_fields<'a>() -> Vec<Field<Row<'a>>> {
    let time = |ns: Option<f64>| {
        let words = ns.map(|ns| quantity(ns, "ns", Uncertainty::Unknown));
        Cell::figure(ns).shown(words.unwrap_or_default())
    };
    vec![
        Field::new(
            Column::new("p50_ns", "p50", Kind::Figure).expendable(2),
            move |(pass, _): &Row<'a>| time(pass.p50_ns),
        ),
        Field::new(
            Column::new("p99_ns", "p99", Kind::Figure),
            move |(pass, _): &Row<'a>| time(pass.p99_ns),
        ),
        Field::new(
            Column::new("effective_concurrency", "in flight", Kind::Figure).expendable(3),
            |(pass, _): &Row<'a>| {
                let words = pass.effective.map(|effective| format!("{effective:.1}"));
                Cell::figure(pass.effective).shown(words.unwrap_or_default())
            },
        ),
        Field::new(
            Column::new("errors", "failed", Kind::Figure),
            |(pass, _): &Row<'a>| Cell::value(pass.failed.0).shown(pass.failed.0.to_string()),
        ),
        Field::new(
            Column::new("generator_busy", "generator", Kind::Figure).expendable(1),
            |(pass, _): &Row<'a>| {
                let mark = if pass.is_generator_bound { " !" } else { "" };
                let words = format!("{}{mark}", share(pass.busiest));
                Cell::figure(Some(pass.busiest)).shown(words)
            },
        ),
    ]
}

fn for_machines(levels: &Levels) -> Value {
    let mut known = scaling::for_machines("load", &levels.label, levels.scaling.as_ref());
    known["is_windowed"] = levels.is_windowed.into();
    known
}

/// A picture with its title.
pub(super) fn chart(title: String, picture: speedwell_plot::Chart) -> Chart {
    Chart {
        title,
        picture,
        shown_elsewhere: false,
    }
}
