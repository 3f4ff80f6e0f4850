//! Builds the table with a row per load, and those of a load's details: outcomes and statuses,
//! percentiles, times. Also lists facts about a load, and returns loads as data.
//!
//! Each table has its own entry point: [`summary_table`], [`main_times`], [`outcome_blocks`],
//! [`percentiles_table`] and [`times_table`].

use crate::document::{Fact, ReportBlock, known_facts, new_fact};
use crate::figure::{
    Uncertainty, decimal_place, format_bounded_ns, format_count, format_duration, format_ns,
    format_ns_range, format_number, format_quantity, format_rate, format_reported_time,
    format_share, format_whole, join_texts, unless_empty,
};
use crate::table::{
    ColumnKind, ColumnSet, ReportCell, ReportColumn, ReportRow, ReportTable, TableFootnotes,
    column_set,
};
use serde_json::{Value, json};
use speedwell_analysis::load::{
    DriftMetric, LoadFindings, LoadRemark, PERCENTILES_PPM, QuantityFindings, ReportedTime,
    RequestGroup, RequestsInFlight, TimeRefusal, TimedQuantity,
};
use speedwell_model::load::latency::OpenVerdict;
use speedwell_model::load::measurement::{
    LoadFacts, LoadPart, LoadRun, PaceFacts, ProbeFacts, StageFacts,
};
use speedwell_model::load::outcomes::{ErrorClass, OutcomeCounts};

/// Says why a time is withheld.
pub fn refusal_reason(refusal: TimeRefusal) -> &'static str {
    match refusal {
        TimeRefusal::GeneratorLimited => {
            "the generator itself was late, possibly by more than half of the measured time"
        }
        TimeRefusal::RateMissed => {
            "fewer than 98% of the due requests were sent, and the times of the others are unknown"
        }
    }
}

/// Formats a count of requests.
pub fn format_requests(number: u64) -> String {
    format_count(number as usize, "request", "requests")
}

/// Says how many requests failed: `17 of 1,022 requests failed (1.7%)`.
pub fn format_failed(errors: u64, attempts: u64) -> String {
    format!(
        "{} of {} failed ({})",
        format_whole(errors),
        format_requests(attempts),
        format_share(errors as f64 / attempts.max(1) as f64)
    )
}

/// Formats the mean number of requests in flight, with the requested number if there is one:
/// `4.0 of 4`.
pub fn format_in_flight(in_flight: &RequestsInFlight) -> Option<String> {
    let effective = in_flight.effective?;
    let requested = in_flight.requested.map(|requested| format!(" of {requested}"));
    Some(format!("{effective:.1}{}", requested.unwrap_or_default()))
}

/// Says which fraction of the due requests was sent.
pub fn format_achieved(verdict: &OpenVerdict) -> String {
    format!("{} of the due requests sent", format_share(verdict.achieved))
}

/// Returns a load's label and round, which tell it apart from other loads.
pub fn load_name(load: &LoadFindings<'_>) -> String {
    match load.run.round {
        0 => load.run.label.clone(),
        round => format!("{} ({})", load.run.label, round + 1),
    }
}

/// Builds the tables of outcomes and statuses. They are collapsed if every request succeeded with
/// the same status, because people then learn nothing new.
pub fn outcome_blocks(load: &LoadFindings<'_>) -> Vec<ReportBlock> {
    let counts = &load.run.measured.totals.outcomes;
    let tables =
        [outcome_table(load, counts), status_table(load, counts)].map(ReportBlock::Table).into();
    let is_plain =
        counts.succeeded() == counts.attempts() && counts.codes.nonzero_counts().count() == 1;
    if is_plain { vec![ReportBlock::appendix("Outcomes and statuses", tables)] } else { tables }
}

fn outcome_table(load: &LoadFindings<'_>, counts: &OutcomeCounts) -> ReportTable {
    let total = counts.attempts();
    let occurred = counts.rows().filter(|row| row.count > 0);
    let mut rows: Vec<CountRow> = occurred
        .map(|row| CountRow::new(row.name, outcome_meaning(row.name), row.count, total))
        .collect();
    rows.push(CountRow::new("attempted", "all requests", total, total));
    count_columns(load, ["outcome", "requests", "meaning"], 1).build_table("outcomes", &rows)
}

fn status_table(load: &LoadFindings<'_>, counts: &OutcomeCounts) -> ReportTable {
    let (codes, interim) = (&counts.codes, &counts.interim_codes);
    let total = codes.total();
    let row = |(code, count): (u16, u64)| CountRow::new(code, "response", count, total);
    let interim_row =
        |(code, count): (u16, u64)| CountRow::new(code, "before the response", count, total);
    let interim_rows = interim.nonzero_counts().map(interim_row);
    let mut rows: Vec<CountRow> = codes.nonzero_counts().map(row).chain(interim_rows).collect();
    if codes.outside > 0 {
        rows.push(CountRow::new("other", "not of three digits", codes.outside, total));
    }
    count_columns(load, ["status", "responses", "kind"], 0).build_table("statuses", &rows)
}

/// A number of requests or responses.
struct CountRow {
    name: String,
    meaning: &'static str,
    count: u64,
    total: u64,
}

impl CountRow {
    fn new(name: impl ToString, meaning: &'static str, count: u64, total: u64) -> CountRow {
        CountRow { name: name.to_string(), meaning, count, total }
    }
}

/// Returns the columns of counts. `headings` name the columns of the name, the count and the meaning.
fn count_columns(
    load: &LoadFindings<'_>,
    headings: [&'static str; 3],
    expendable: u8,
) -> ColumnSet<CountRow> {
    let load = load_name(load);
    let [name, count, meaning] = headings;
    column_set! { row: CountRow;
        machine("load") => &load,
        identifier(name, name) => &row.name,
        figure("count", count) => row.count,
        figure("share", "share") =>
            ReportCell::share((row.total > 0).then(|| row.count as f64 / row.total as f64)),
        words(meaning, meaning).expendable(expendable) => row.meaning,
    }
}

fn outcome_meaning(name: &str) -> &'static str {
    match name {
        "ok" => "succeeded",
        "in-flight" => "sent, but not answered when the load ended",
        "cancelled" => "given up by the generator",
        "unsent" => "due, but not sent when the load ended",
        other => ErrorClass::from_name(other).map_or("", ErrorClass::description),
    }
}

/// The times of a load: quantity, group, machine-readable key of the percentiles, name.
const TIMES: [(TimedQuantity, RequestGroup, &str, &str); 7] = [
    (TimedQuantity::Response, RequestGroup::All, "response_all_ns", "response"),
    (TimedQuantity::Response, RequestGroup::Ok, "response_ok_ns", "response, ok"),
    (TimedQuantity::Service, RequestGroup::Ok, "service_ok_ns", "service"),
    (TimedQuantity::Service, RequestGroup::All, "service_all_ns", "service, all"),
    (TimedQuantity::FirstByte, RequestGroup::Ok, "first_byte_ns", "first byte"),
    (TimedQuantity::Lag, RequestGroup::All, "lag_ns", "lag"),
    (TimedQuantity::Connect, RequestGroup::All, "connect_ns", "connect"),
];

/// Quantities whose percentiles are for programs only. The first byte usually arrives together with
/// the last byte, so its line in a chart would hide the line of the last byte.
pub(crate) const HIDDEN_QUANTITIES: [TimedQuantity; 2] =
    [TimedQuantity::Connect, TimedQuantity::FirstByte];

/// Builds the table that shows within which time each percentage of the requests was served.
/// Returns `None` if nothing was timed.
pub fn percentiles_table(load: &LoadFindings<'_>) -> Option<ReportTable> {
    let columns = TIMES.map(|(quantity, group, _, _)| load.times_of((quantity, group)));
    columns.iter().flatten().next()?;
    let mut footnotes = TableFootnotes::default();
    let shown = PERCENTILES_PPM.into_iter().filter(|ppm| is_shown(*ppm, load));
    let rows = shown.map(|ppm| percentile_row(load, ppm, &columns, &mut footnotes)).collect();
    Some(ReportTable {
        caption: vec!["percentage of the requests served within:".to_owned()],
        columns: percentile_columns(),
        rows,
        footnotes: footnotes.into_texts(),
        ..ReportTable::new("percentiles")
    })
}

fn percentile_columns() -> Vec<ReportColumn> {
    let mut columns =
        vec![ReportColumn::machine("load"), ReportColumn::new("percent", "%", ColumnKind::Figure)];
    columns.extend(TIMES.map(|(quantity, _, key, name)| {
        let is_hidden = HIDDEN_QUANTITIES.contains(&quantity);
        if is_hidden { ReportColumn::machine(key) } else { ReportColumn::figure(key, name) }
    }));
    columns.extend(["response_all_low_ns", "lower_bounds", "refused"].map(ReportColumn::machine));
    columns
}

/// Whether a percentile is shown. A percentile above the 99th is shown if at least one request took
/// longer. The maximum is always shown.
fn is_shown(ppm: u32, load: &LoadFindings<'_>) -> bool {
    let largest_count = load.times.iter().map(|times| times.count).max();
    let slower_count = largest_count.unwrap_or(0) as f64 * f64::from(1_000_000 - ppm) / 1e6;
    ppm <= 990_000 || ppm == 1_000_000 || slower_count >= 1.0
}

fn percentile_row(
    load: &LoadFindings<'_>,
    ppm: u32,
    columns: &[Option<&QuantityFindings>],
    footnotes: &mut TableFootnotes,
) -> ReportRow {
    let percent = f64::from(ppm) / 1e4;
    let mut cells = vec![
        ReportCell::words(load_name(load)),
        ReportCell::figure(Some(percent))
            .with_text(format_number(percent, decimal_place(percent, Uncertainty::Exact))),
    ];
    let (mut lower_bounds, mut refused) = (Vec::new(), Vec::new());
    for ((_, _, key, _), times) in TIMES.iter().zip(columns) {
        let time = times.and_then(|times| times.percentile(ppm));
        let mut cell = ReportCell::reported_time(time);
        match time {
            Some(ReportedTime::Time(known)) if known.is_lower_bound => lower_bounds.push(*key),
            Some(ReportedTime::Refused(refusal)) => {
                refused.push(*key);
                cell.text.push_str(&footnotes.footnote_mark(refusal_reason(refusal)));
            }
            _ => {}
        }
        cells.push(cell);
    }
    let response = columns[0].and_then(|times| times.percentile(ppm));
    cells.push(response.and_then(ReportedTime::low_ns).map(ReportCell::value).into());
    cells.extend([lower_bounds, refused].map(ReportCell::value));
    ReportRow::Cells(cells)
}

/// Builds the table of connection and request times, one row per quantity and group of requests.
pub fn times_table(load: &LoadFindings<'_>) -> ReportTable {
    let name = load_name(load);
    let mut rows: Vec<&QuantityFindings> = load.times.iter().collect();
    let order = |time: TimedQuantity| TimedQuantity::ALL.iter().position(|other| *other == time);
    rows.sort_by_key(|times| order(times.quantity));
    let columns = column_set! { times: &QuantityFindings;
        machine("load") => &name,
        label("quantity", "") => {
            let time = TIMES.iter().find(|time| (time.0, time.1) == (times.quantity, times.group));
            ReportCell::words(times.quantity.name()).with_text(time.map_or("", |time| time.3))
        },
        machine("group") => times.group.name(),
        figure("count", "number") => times.count,
        machine("lower_bounds") => times.lower_bounds,
        figure("min_ns", "min") => spread_cell(times, Some(times.least_ns as f64), false),
        figure("mean_ns", "mean") => mean_cell(times),
        figure("deviation_ns", "sd") => spread_cell(times, times.deviation_ns, false),
        figure("median_ns", "median") => ReportCell::reported_time(times.percentile(500_000)),
        figure("max_ns", "max") => ReportCell::reported_time(times.percentile(1_000_000)),
    };
    ReportTable {
        caption: vec!["times of connections and requests:".to_owned()],
        ..columns.build_table("times", &rows)
    }
}

fn mean_cell(times: &QuantityFindings) -> ReportCell {
    let cell = spread_cell(times, Some(times.mean_ns), times.lower_bounds > 0);
    match (times.refusal, times.low_mean_ns) {
        (None, Some(low_ns)) => cell.with_text(format_ns_range(low_ns, times.mean_ns)),
        _ => cell,
    }
}

fn spread_cell(times: &QuantityFindings, ns: Option<f64>, is_lower_bound: bool) -> ReportCell {
    match (times.refusal, ns) {
        (Some(_), _) => ReportCell::figure(None).with_text("unknown"),
        (None, Some(ns)) => {
            ReportCell::figure(Some(ns)).with_text(format_bounded_ns(ns, is_lower_bound))
        }
        (None, None) => ReportCell::figure(None),
    }
}

/// Builds the table of the main times of a single load, for people: the other tables have the same
/// figures for programs. Returns `None` if nothing was timed.
pub fn main_times(load: &LoadFindings<'_>) -> Option<ReportTable> {
    let quantities = [
        (TimedQuantity::Response, RequestGroup::All, "response time"),
        (TimedQuantity::Service, RequestGroup::Ok, "service time"),
    ];
    let times = |(quantity, group, name)| Some((name, load.times_of((quantity, group))?));
    let rows: Vec<(&str, &QuantityFindings)> = quantities.into_iter().filter_map(times).collect();
    let columns = column_set! { row: (&str, &QuantityFindings);
        label("time", "").for_people() => row.0,
        figure("p50", "p50").for_people() => ReportCell::reported_time(row.1.percentile(500_000)),
        figure("p90", "p90").for_people().expendable(3) =>
            ReportCell::reported_time(row.1.percentile(900_000)),
        figure("p99", "p99").for_people() => ReportCell::reported_time(row.1.percentile(990_000)),
        figure("max", "max").for_people() => ReportCell::reported_time(row.1.percentile(1_000_000)),
    };
    (!rows.is_empty()).then(|| columns.build_table("main_times", &rows))
}

/// Lists the main times of a single load, and the outcomes of its requests.
pub fn key_figures(load: &LoadFindings<'_>) -> Vec<Fact> {
    let quantity = load.principal_quantity().0.name();
    let quantiles = [("p50", 500_000), ("p90", 900_000), ("p99", 990_000), ("max", 1_000_000)];
    let time = |(name, ppm): (&str, u32)| {
        let time = load.principal_quantile(ppm).map(format_reported_time);
        Some(new_fact(&format!("{name} {quantity}"), time?))
    };
    let mut facts: Vec<Fact> = quantiles.into_iter().filter_map(time).collect();
    facts.extend(request_counts(&[load]));
    facts
}

/// Counts the requests of all `loads` that were sent, answered, failed and not sent.
pub fn request_counts(loads: &[&LoadFindings<'_>]) -> Vec<Fact> {
    let sum = |count: fn(&OutcomeCounts) -> Option<u64>| -> Option<u64> {
        loads.iter().map(|load| count(&load.run.measured.totals.outcomes)).sum()
    };
    // Some tools do not report statuses.
    let answered = |counts: &OutcomeCounts| {
        Some(counts.codes.total()).filter(|total| *total >= counts.succeeded())
    };
    let sent =
        |counts: &OutcomeCounts| Some(counts.attempts().saturating_sub(counts.count_of("unsent")));
    let counts = [
        ("sent", sum(sent)),
        ("answered", sum(answered)),
        ("failed", sum(|counts| Some(counts.all_errors()))),
        ("not sent", sum(|counts| Some(counts.count_of("unsent")))),
    ];
    known_facts(counts.map(|(name, count)| (name, count.map(format_whole))))
}

/// Lists whether connections or the generator itself distort the times of a single load.
pub fn main_facts(load: &LoadFindings<'_>) -> Vec<Fact> {
    let connections = if closes_each(load) {
        let opened = load.run.measured.totals.outcomes.connections.opened;
        format!("{} opened: the server closes each one", format_whole(opened))
    } else {
        connections_text(load)
    };
    let busy = format_share(load.generator.busiest);
    known_facts([
        ("connections", Some(connections)),
        ("generator", Some(format!("{busy} of one CPU"))),
        ("machines", machines_text(load.run)),
        ("outcomes", load.balance.is_err().then(|| balance_text(load))),
    ])
}

/// Whether the server closed most connections after a response, although the client would have used
/// them again.
pub fn closes_each(load: &LoadFindings<'_>) -> bool {
    let responses = &load.run.measured.totals.responses;
    load.run.requested.keeps_alive && 2 * responses.closing() > responses.count
}

// Lists facts about a load: the request and the outcome.

/// Lists the facts of one load.
pub fn load_facts(load: &LoadFindings<'_>) -> Vec<Fact> {
    let run = load.run;
    let traffic = load.bytes_per_s.map(|(received, sent)| {
        let rate = |bytes| format_quantity(bytes, "B/s", Uncertainty::Unknown);
        format!("{} received, {} sent", rate(received), rate(sent))
    });
    known_facts([
        ("load", Some(load_line(&run.requested))),
        ("requests", Some(sent_text(run))),
        ("server", run.probe.as_ref().map(probe_text)),
        ("started with", process_text(run)),
        ("outcomes", Some(balance_text(load))),
        ("connections", Some(connections_text(load))),
        ("in flight", in_flight_text(load)),
        ("schedule", schedule_text(load)),
        ("traffic", traffic),
        ("generator", Some(generator_text(load))),
        ("machines", machines_text(run)),
        ("warm-up", warmup_text(run)),
    ])
}

fn format_length(ns: u64) -> String {
    format_duration(ns / 1_000_000)
}

fn load_line(requested: &LoadFacts) -> String {
    let pace = match &requested.pace {
        PaceFacts::Closed { concurrency, think_ns, thinks_at_random, .. } => {
            let clients = format_count(*concurrency as usize, "client", "clients");
            let average = if *thinks_at_random { " on average" } else { "" };
            let pause = unless_empty(*think_ns, |ns| {
                format!(" and pause for {}{average}", format_length(ns))
            });
            format!("{clients} that wait for their responses{pause}")
        }
        PaceFacts::Open { stages, is_poisson, .. } => {
            let stages = join_texts(", then ", stages.iter().map(stage_text));
            let spacing = if *is_poisson { "at random" } else { "evenly" };
            format!("{stages}, spaced {spacing}")
        }
    };
    let ends = [
        requested.requests.map(format_requests),
        requested.time_ns.map(|ns| format!("for {}", format_length(ns))),
    ];
    let ends = join_texts(", at most ", ends.into_iter().flatten());
    let drain = unless_empty(requested.drain_ns, |ns| {
        format!("; waits for responses up to {} after the end", format_length(ns))
    });
    join_texts("; ", [pace, ends]) + &drain
}

fn stage_text(stage: &StageFacts) -> String {
    let StageFacts { from_per_s, to_per_s, duration_ns } = stage;
    let length = duration_ns.map(|ns| format!(" for {}", format_length(ns))).unwrap_or_default();
    let [from, to] = [*from_per_s, *to_per_s].map(format_rate);
    if from_per_s == to_per_s { format!("{to}{length}") } else { format!("{from} to {to}{length}") }
}

fn sent_text(run: &LoadRun) -> String {
    let requested = &run.requested;
    let kinds = match &requested.kinds[..] {
        [kind] => format!("{} {}", kind.method, run.url),
        kinds => {
            let requests =
                kinds.iter().map(|kind| format!("{} {} {}", kind.weight, kind.method, kind.path));
            format!("{} ({})", run.url, join_texts(", ", requests))
        }
    };
    let streams = match requested.streams_per_connection {
        0 | 1 => String::new(),
        streams => format!(", up to {streams} in flight on a connection"),
    };
    let reuse = match (requested.keeps_alive, requested.max_requests_per_connection) {
        (false, _) => ", a connection for each request".to_owned(),
        (true, Some(requests)) => format!(", {} on a connection", format_requests(requests)),
        (true, None) => String::new(),
    };
    format!("{kinds}, {}{streams}{reuse}", requested.protocol)
}

fn probe_text(probe: &ProbeFacts) -> String {
    let name = probe.server.as_deref().unwrap_or("unnamed");
    let tls = probe.tls.as_ref().map_or(String::new(), |tls| {
        let group = tls.group.as_ref().map(|group| format!(", {group}"));
        format!(", {} {}{}", tls.version, tls.cipher, group.unwrap_or_default())
    });
    let bytes = format_count(probe.body_bytes as usize, "byte", "bytes");
    format!("{name} at {}{tls}; first response {} with {bytes}", probe.address, probe.status)
}

fn process_text(run: &LoadRun) -> Option<String> {
    let server = run.server.as_ref()?;
    let cpu = server.cpu_ns.map(|ns| {
        let busy = ns as f64 / run.measured.elapsed_ns.max(1) as f64;
        format!("; {} of a processor", format_share(busy))
    });
    let died = server.died.as_ref().map(|died| format!("; it {died}"));
    let [cpu, died] = [cpu, died].map(Option::unwrap_or_default);
    let (command, ready) = (&server.command, format_length(server.ready_ns));
    Some(format!("{command} (ready after {ready}{cpu}{died})"))
}

/// Accounts for every request, as in `100 attempted = 98 ok + 2 timeout.total: balanced`.
fn balance_text(load: &LoadFindings<'_>) -> String {
    let counts = &load.run.measured.totals.outcomes;
    let occurred = counts.rows().filter(|row| row.count > 0);
    let parts = occurred.map(|row| format!("{} {}", format_whole(row.count), row.name));
    let sum = parts.reduce(|sum, part| format!("{sum} + {part}")).unwrap_or("0".to_owned());
    let state = if load.balance.is_ok() { "balanced" } else { "NOT BALANCED" };
    format!("{} attempted = {sum}: {state}", format_whole(counts.attempts()))
}

fn connections_text(load: &LoadFindings<'_>) -> String {
    let connections = &load.run.measured.totals.outcomes.connections;
    let failed =
        unless_empty(connections.failed, |failed| format!(", {} failed", format_whole(failed)));
    let per_connection = load.per_connection.map(|(fewest, most)| {
        if fewest == most {
            format!("; {} on each", format_requests(most))
        } else {
            format!("; {} to {} on each", format_whole(fewest), format_requests(most))
        }
    });
    let warmup = &load.run.measured.warmup.outcomes.connections;
    let in_warmup = unless_empty(warmup.opened, |opened| {
        format!(" after {} in the warm-up", format_whole(opened))
    });
    format!(
        "{} opened{in_warmup}{failed}, at most {} at once; {} on reused connections{}",
        format_whole(connections.opened),
        format_whole(load.run.measured.max_connections),
        format_requests(connections.reused_sends),
        per_connection.unwrap_or_default()
    )
}

fn in_flight_text(load: &LoadFindings<'_>) -> Option<String> {
    let in_flight = format_in_flight(&load.concurrency)?;
    let requested = load.concurrency.requested.map_or("", |_| " requested");
    Some(format!("{in_flight}{requested} on average (rate times mean service time)"))
}

fn schedule_text(load: &LoadFindings<'_>) -> Option<String> {
    let verdict = load.open?;
    let [late, limit] =
        [verdict.own_lag_p99_ns, verdict.own_lag_limit_ns].map(|ns| format_ns(ns as f64));
    let lag = format!("the generator itself was late by {late} (p99; limit {limit})");
    Some(format!("{}; {lag}", format_achieved(&verdict)))
}

fn generator_text(load: &LoadFindings<'_>) -> String {
    let generator = &load.generator;
    let calls = generator
        .system_calls_per_request
        .map(|calls| format!("; {calls:.1} system calls per request"));
    let cpu = generator
        .cpu_ns_per_request
        .map(|ns| format!("; {} of processor time per request", format_ns(ns)));
    let [calls, cpu] = [calls, cpu].map(Option::unwrap_or_default);
    let late = unless_empty(generator.late_by_ns, |ns| {
        format!("; response timestamps may be late by up to {}", format_ns(ns as f64))
    });
    let threads = format_count(generator.threads, "thread", "threads");
    format!("{threads}, busy for {}{calls}{cpu}{late}", format_share(generator.busiest))
}

/// Names the machines that sent the load, with the number of requests that each machine attempted.
/// Returns `None` if no machines are recorded.
fn machines_text(run: &LoadRun) -> Option<String> {
    let part_text = |part: &LoadPart| {
        let began = match part.began_ns {
            Some(0) => ", began first".to_owned(),
            Some(ns) => format!(", began {} later", format_ns(ns as f64)),
            None => String::new(),
        };
        let connect_time = part.connect_ns.map(|ns| format_ns(ns as f64));
        let connect = connect_time.map(|time| format!(", connects in {time}")).unwrap_or_default();
        let lost = if part.lost.is_some() { ", lost" } else { "" };
        let requests = format_requests(part.attempted);
        format!("{} {requests}{lost}{connect}{began}", part.machine)
    };
    let machines = join_texts("; ", run.parts.iter().map(part_text));
    Some(machines).filter(|machines| !machines.is_empty())
}

fn warmup_text(run: &LoadRun) -> Option<String> {
    let counts = &run.measured.warmup.outcomes;
    let failed = unless_empty(counts.all_errors(), |errors| format!(", {errors} of them failed"));
    let requests = format_requests(counts.attempts());
    let length = format_length(run.requested.warmup_ns);
    let text = format!("{requests} in {length}{failed}; excluded from all other figures");
    (counts.attempts() > 0).then_some(text)
}

type LoadRef<'a> = &'a LoadFindings<'a>;

/// Builds the table with a row per load.
pub fn summary_table(loads: &[LoadFindings<'_>]) -> ReportTable {
    ReportTable {
        caption: quantity_caption(loads).into_iter().collect(),
        ..summary_columns(loads).build_table("load_summaries", loads.iter())
    }
}

/// The sort keys of the table of loads.
pub fn sort_keys() -> Vec<&'static str> {
    summary_columns(&[]).sort_keys()
}

/// Returns the caption, which names the quantity of the percentiles. Returns `None` if loads have
/// different quantities.
fn quantity_caption(loads: &[LoadFindings<'_>]) -> Option<String> {
    let quantity = loads.first()?.principal_quantity().0;
    let is_same = loads.iter().all(|load| load.principal_quantity().0 == quantity);
    let meaning = match quantity {
        TimedQuantity::Response => "response time of all requests, from when each was due",
        _ => "service time of successful requests",
    };
    is_same.then(|| format!("{meaning}:"))
}

fn summary_columns<'a>(loads: &[LoadFindings<'_>]) -> ColumnSet<LoadRef<'a>> {
    let is_mixed = quantity_caption(loads).is_none();
    column_set! { load: LoadRef<'a>;
        label("load", "load") => load_name(load),
        figure("throughput", "throughput") =>
            ReportCell::shown_figure(load.throughput_per_s, format_rate),
        words("quantity", "time") =>
            ReportCell::words(load.principal_quantity().0.name()).shown_if(is_mixed),
        figure("p50_ns", "p50") => ReportCell::reported_time(load.principal_quantile(500_000)),
        figure("p90_ns", "p90").expendable(3) => ReportCell::reported_time(load.principal_quantile(900_000)),
        figure("p99_ns", "p99") => ReportCell::reported_time(load.principal_quantile(990_000)),
        figure("max_ns", "max") => ReportCell::reported_time(load.principal_quantile(1_000_000)),
        figure("errors", "failed") => errors_cell(outcome_counts(load)),
        figure("effective_concurrency", "in flight").expendable(2) =>
            ReportCell::figure(load.concurrency.effective)
                .with_text(format_in_flight(&load.concurrency).unwrap_or_default()),
        machine("url") => load.run.url.as_str(),
        machine("round") => load.run.round,
        machine("protocol") => load.run.requested.protocol.as_str(),
        machine("model") => match load.run.requested.pace {
            PaceFacts::Closed { .. } => "closed",
            _ => "open",
        },
        machine("concurrency") => load.run.requested.concurrency(),
        machine("elapsed_ns") => load.run.measured.elapsed_ns,
        machine("attempted") => outcome_counts(load).attempts(),
        machine("ok") => outcome_counts(load).succeeded(),
        machine("mean_ns") => principal_mean_ns(load),
        machine("p50_low_ns") => load.principal_quantile(500_000).and_then(ReportedTime::low_ns),
        machine("p99_low_ns") => load.principal_quantile(990_000).and_then(ReportedTime::low_ns),
        machine("achieved_share") => load.open.map(|open| open.achieved),
        machine("lateness_p99_ns") => load.open.map(|open| open.own_lag_p99_ns),
        machine("received_per_s") => load.bytes_per_s.map(|(received, _)| received),
        machine("sent_per_s") => load.bytes_per_s.map(|(_, sent)| sent),
        machine("connections_opened") => outcome_counts(load).connections.opened,
        machine("generator_busy") => load.generator.busiest,
        machine("cpu_ns_per_request") => load.generator.cpu_ns_per_request,
        machine("is_balanced") => load.balance.is_ok(),
    }
}

fn errors_cell(counts: &OutcomeCounts) -> ReportCell {
    let errors = counts.all_errors();
    let share = format_share(errors as f64 / counts.attempts().max(1) as f64);
    let share = unless_empty(errors, |_| format!(" ({share})"));
    ReportCell::value(errors).with_text(format!("{errors}{share}"))
}

/// Returns the mean of the load's principal times, unless this mean is withheld.
fn principal_mean_ns(load: &LoadFindings<'_>) -> Option<f64> {
    let times = load.times_of(load.principal_quantity())?;
    times.refusal.is_none().then_some(times.mean_ns)
}

fn outcome_counts<'a>(load: &'a LoadFindings<'_>) -> &'a OutcomeCounts {
    &load.run.measured.totals.outcomes
}

/// Returns the options and the measurements of a load, without loss: `speedwell report FILE.json`
/// reads them back.
pub fn run_data(load: &LoadFindings<'_>) -> Value {
    // A load is plain data with string keys, which always converts to JSON. If the conversion
    // failed, the result would be null, and the reader of the JSON would report it.
    serde_json::to_value(load.run).unwrap_or(Value::Null)
}

/// Returns the findings as data.
pub fn findings_data(load: &LoadFindings<'_>) -> Value {
    let (quantity, group) = load.principal_quantity();
    json!({
        "load": load_name(load),
        "throughput": load.throughput_per_s,
        "principal": {"quantity": quantity.name(), "group": group.name()},
        "concurrency": load.concurrency,
        "open": load.open.map(|open| json!({
            "achieved": open.achieved,
            "lateness_p99_ns": open.own_lag_p99_ns,
            "lateness_limit_ns": open.own_lag_limit_ns,
            "is_generator_limited": open.is_generator_limited(),
            "is_rate_missed": open.is_rate_missed(),
        })),
        "generator": load.generator,
        "requests_per_connection": load.per_connection,
        "halves": load.halves.map(|halves| json!({
            "metric": match halves.course {
                DriftMetric::Throughput => "throughput",
                DriftMetric::Median => "p50_ns",
            },
            "first": halves.first,
            "second": halves.second,
        })),
        "is_balanced": load.balance.is_ok(),
        "notes": load.remarks.iter().map(LoadRemark::name).collect::<Vec<_>>(),
    })
}
