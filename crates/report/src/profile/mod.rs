//! Reports profiles. Two profiles become a document with the answer, the table of the extra cost,
//! and four flame graphs. The profiles of a session become a section per case.
//!
//! This module chooses the wording; `analysis::profile` computes the costs. Start at
//! [`report_profiles`].

use crate::OutputOptions;
use crate::columns::column_set;
use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::{Uncertainty, format_count, format_quantity, format_share};
use crate::table::{ReportCell, ReportColumn, ReportRow, ReportTable, TextEmphasis, json_number};
use serde_json::{Map, Value, json};
use speedwell_analysis::profile::{
    CallNode, CaseProfile, CostDirection, CostEntry, CostExplanation, CostRow, ExtraCost,
    ProfiledSides,
};
use speedwell_model::{ProfileTool, StackProfile, WeightUnit};
use speedwell_plot::{self as plot, FlameChart, FlameFrame, FrameColoring};

/// Minimum number of samples for reliable percentages. The smallest percentage shown is 3 %. With
/// fewer samples, its standard error, sqrt(p (1 - p) / n), is more than a third of it.
const MIN_SAMPLES: u64 = 300;

/// The hint in outputs without flame graphs.
const FLAMES_HINT: &str = "-o FILE.html draws flame graphs.";

/// Reports two profiles and their difference. The baseline comes first.
pub fn report_profiles(
    sides: [ProfileSide<'_>; 2],
    found: &CostExplanation,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("profiles");
    document.extend(profile_warnings(sides).into_iter().map(ReportBlock::Warning));
    document.push_headline(profiles_headline(sides, &found.extra));
    if let Some(entry) = &found.extra.entry
        && let Some(sentence) = callees_text(entry)
    {
        document.push(ReportBlock::Paragraph(sentence));
    }
    if found.extra.direction != CostDirection::Alike {
        document.push_table(cost_table(sides, &found.extra));
    }
    output.add_detail(&mut document, |output, document| {
        let notes = profile_notes(sides, &found.extra);
        document.extend(notes.into_iter().map(ReportBlock::Note));
        if output.files.is_empty() && output.format.is_none() {
            document.push_note(FLAMES_HINT);
        }
    });
    document.push_charts(flame_graphs(sides, found));
    attach_data(&mut document, sides, &found.extra);
    document
}

fn profiles_headline([old, new]: [ProfileSide<'_>; 2], extra: &ExtraCost) -> String {
    let costs = |side: ProfileSide<'_>| format_weight(side.profile, side.profile.total());
    let both_costs = format!("{} → {}", costs(old), costs(new));
    let change =
        (extra.candidate as f64 - extra.baseline as f64).abs() / extra.baseline.max(1) as f64;
    let (more_or_less, extra_cost) = match extra.direction {
        CostDirection::Alike => {
            return format!(
                "{} costs the same as {}, within 1 % ({both_costs})",
                new.label, old.label
            );
        }
        CostDirection::Costlier => ("more", "extra cost"),
        CostDirection::Cheaper => ("less", "saved cost"),
    };
    let entry_clause = match &extra.entry {
        Some(CostEntry { row, .. }) if row.is_new => {
            let side = if more_or_less == "more" { old.label } else { new.label };
            let share = format_share(row.share.min(1.0));
            format!(
                "; {share} of the {extra_cost} is in '{}', which {side} does not have",
                row.frame
            )
        }
        Some(CostEntry { row, .. }) => {
            let share = format_share(row.share.min(1.0));
            format!("; {share} of the {extra_cost} is in '{}', which both sides have", row.frame)
        }
        None => String::new(),
    };
    format!(
        "{} costs {} {more_or_less} than {} ({both_costs}){entry_clause}",
        new.label,
        format_share(change),
        old.label
    )
}

/// Names the functions called below the entry, with their shares of the difference. Returns `None`
/// if there are none.
fn callees_text(entry: &CostEntry) -> Option<String> {
    let callees = entry.below.iter();
    let callees: Vec<String> =
        callees.map(|row| format!("{} ({})", row.frame, format_share(row.share))).collect();
    if callees.is_empty() { None } else { Some(format!("Below it: {}.", callees.join(", "))) }
}

fn profile_warnings([old, new]: [ProfileSide<'_>; 2]) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.profile.tool != new.profile.tool {
        warnings.push(
            "The sides were recorded by different tools, which see different functions; functions \
             that only one of them sees look new."
                .to_owned(),
        );
    }
    for side in [old, new] {
        if let Some(samples) = side.profile.samples
            && samples < MIN_SAMPLES
        {
            warnings.push(format!(
                "{} was sampled only {}, so costs of a few percent are noise.",
                side.label,
                format_times(samples)
            ));
        }
    }
    warnings
}

fn format_times(number: u64) -> String {
    format_count(usize::try_from(number).unwrap_or(usize::MAX), "time", "times")
}

fn profile_notes(sides: [ProfileSide<'_>; 2], extra: &ExtraCost) -> Vec<String> {
    let mut notes = Vec::new();
    if extra.direction != CostDirection::Alike {
        let word = match extra.direction {
            CostDirection::Cheaper => "GONE",
            _ => "NEW",
        };
        notes.push(format!(
            "The cost of a function includes the functions that it called, so percentages overlap. Both sides must have \
             done the same work, because absolute costs are compared, not percentages. {word}: the cheaper side spent less than 0.2 % there."
        ));
    }
    for side in sides {
        let blind = side.profile.tool.blind_spot().map(str::to_owned);
        for note in blind.iter().chain(&side.profile.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
    }
    notes
}

fn attach_data(document: &mut Document, [old, new]: [ProfileSide<'_>; 2], extra: &ExtraCost) {
    let side = |side: ProfileSide<'_>, total: u64| {
        serde_json::json!({
            "name": side.label,
            "tool": side.profile.tool,
            "unit": side.profile.unit,
            "samples": side.profile.samples,
            "weight": total,
        })
    };
    document.attach_data("baseline", side(old, extra.baseline));
    document.attach_data("candidate", side(new, extra.candidate));
    let entry = extra.entry.as_ref().map(|entry| {
        serde_json::json!({
            "frame": entry.row.frame,
            "new": entry.row.is_new,
            "share": json_number(entry.row.share),
        })
    });
    document.attach_data("entry", entry.unwrap_or_default());
}

/// The note before the first section.
const PROFILES_NOTE: &str = "Profiles come from separate runs that are not timed, because \
    recording slows a program down. Two recordings cannot show whether a difference is real; \
    the comparison above can.";

/// Builds a section per case and pair of variants, with flame graphs if `draws` is set.
pub fn profile_sections(profiles: &[CaseProfile], draws: bool, output: &OutputOptions) -> Document {
    let mut document = Document::new("profiles");
    if !profiles.is_empty() {
        output.add_detail(&mut document, |output, document| {
            add_sections(profiles, draws, output, document);
        });
    }
    document
}

fn add_sections(
    profiles: &[CaseProfile],
    draws: bool,
    output: &OutputOptions,
    document: &mut Document,
) {
    document.push_heading(2, "Where the time goes");
    document.push_note(PROFILES_NOTE);
    let mut seen_notes = Vec::new();
    let mut data = Vec::new();
    for case_profile in profiles {
        document.push_heading(
            3,
            format!(
                "{}: {} against {}",
                case_profile.case.id(),
                case_profile.candidate,
                case_profile.baseline
            ),
        );
        match &case_profile.sides {
            Err(reason) => document.push(ReportBlock::Paragraph(reason.clone())),
            Ok(sides) => add_section(case_profile, sides, draws, output, &mut seen_notes, document),
        }
        data.push(profile_data(case_profile, output));
    }
    document.attach_data("profiles", Value::Array(data));
}

/// Reports the two profiles of a case as a document that becomes part of a larger one.
fn single_profile(
    case_profile: &CaseProfile,
    sides: &ProfiledSides,
    output: &OutputOptions,
) -> Document {
    let [old, new] = &sides.profiles;
    let labelled_sides = [(&case_profile.baseline, old), (&case_profile.candidate, new)]
        .map(|(label, profile)| ProfileSide { label, profile });
    report_profiles(labelled_sides, &sides.explanation, output)
}

fn add_section(
    case_profile: &CaseProfile,
    sides: &ProfiledSides,
    draws: bool,
    output: &OutputOptions,
    seen_notes: &mut Vec<String>,
    document: &mut Document,
) {
    for block in single_profile(case_profile, sides, output).blocks {
        match block {
            // A headline becomes a paragraph here: the headlines at the top of the report state the
            // result of the whole session.
            ReportBlock::Headline(sentence) => {
                document.push(ReportBlock::Paragraph(format!("{sentence}.")))
            }
            // A note that several sections share is given only once.
            ReportBlock::Note(sentence) if seen_notes.contains(&sentence) => {}
            ReportBlock::Note(sentence) => {
                seen_notes.push(sentence.clone());
                document.push_note(sentence);
            }
            ReportBlock::Table(table) => document.push_table(add_case_columns(table, case_profile)),
            ReportBlock::Chart(chart) if draws => {
                document.push(ReportBlock::Chart(title_chart(*chart, case_profile)))
            }
            ReportBlock::Chart(_) => {}
            other => document.push(other),
        }
    }
}

/// Adds the case and its variants to every row. These columns are for programs, which get the
/// tables of all sections as one list.
fn add_case_columns(mut table: ReportTable, case_profile: &CaseProfile) -> ReportTable {
    let names = [
        ("case", case_profile.case.id()),
        ("baseline", case_profile.baseline.clone()),
        ("candidate", case_profile.candidate.clone()),
    ];
    for (key, name) in names {
        table.columns.push(ReportColumn::machine(key));
        for row in &mut table.rows {
            if let ReportRow::Cells(cells) = row {
                cells.push(ReportCell::value(name.clone()));
            }
        }
    }
    table
}

fn title_chart(mut chart: ReportChart, case_profile: &CaseProfile) -> Box<ReportChart> {
    chart.title = format!("{}, {}", chart.title, case_profile.case.id());
    if let speedwell_plot::AnyChart::Flame(picture) = &mut chart.picture {
        picture.title.clone_from(&chart.title);
    }
    Box::new(chart)
}

fn profile_data(case_profile: &CaseProfile, output: &OutputOptions) -> Value {
    let mut object = Map::new();
    object.insert("case".into(), case_profile.case.id().into());
    match &case_profile.sides {
        Err(reason) => {
            object.insert("baseline".into(), json!({ "name": case_profile.baseline }));
            object.insert("candidate".into(), json!({ "name": case_profile.candidate }));
            object.insert("missing".into(), reason.clone().into());
        }
        Ok(sides) => {
            let data = single_profile(case_profile, sides, output).data;
            object.extend(data.into_iter().map(|(name, value)| (name.to_owned(), value)));
        }
    }
    Value::Object(object)
}

/// Builds the table of functions that contribute to the difference.
fn cost_table([old, new]: [ProfileSide<'_>; 2], extra: &ExtraCost) -> ReportTable {
    let (title, share, new_word) = match extra.direction {
        CostDirection::Cheaper => ("Where the saved cost sat", "of the saved", "GONE"),
        _ => ("Where the extra cost sits", "of the extra", "NEW"),
    };
    let entry = extra.entry.as_ref().map(|entry| entry.row.frame.clone());
    let columns = column_set! { row: CostRow;
        figure("share_of_extra_percent", share) => percent_cell(row.share, 1),
        figure("baseline_percent", format!("of {}", old.label)) => percent_cell(row.baseline, 2),
        figure("candidate_percent", format!("of {}", new.label)) => percent_cell(row.candidate, 2),
        words("new", "") => ReportCell::from(row.is_new).with_text(new_word).shown_if(row.is_new),
        label("frame", "function") =>
            ReportCell::words(&row.frame).with_emphasis(if entry.as_ref() == Some(&row.frame) {
                TextEmphasis::Strong
            } else {
                TextEmphasis::None
            }),
    };
    ReportTable { caption: vec![title.to_owned()], ..columns.build_table("functions", &extra.rows) }
}

fn percent_cell(share: f64, digits: usize) -> ReportCell {
    let percent = share * 100.0;
    ReportCell::from(percent).with_text(format!("{percent:.digits$} %"))
}

// Draws four flame graphs of two profiles: one of each side, and two of the difference between the
// sides. One difference has the boxes of the baseline, the other the boxes of the candidate.
//
// All four share one scale: a box twice as wide stands for twice the cost. Of the two differences,
// only the one with the boxes of the baseline shows functions that only the baseline has.

/// Kinds of code, in the order of their colors.
const CODE_KINDS: [&str; 2] = ["script", "native code"];

/// A change of at least this fraction of the total cost has its full color. Smaller changes are
/// paler.
const MIN_FULL_COLOR_SHARE: f64 = 0.005;

/// The side whose functions are the boxes of a picture. Costs on this side are the widths of the
/// boxes.
#[derive(Clone, Copy)]
enum FlameShape {
    Baseline,
    Candidate,
}

impl FlameShape {
    fn node_cost(self, node: &CallNode) -> u64 {
        match self {
            FlameShape::Baseline => node.baseline,
            FlameShape::Candidate => node.candidate,
        }
    }
}

/// Explains what may be missing from a picture because of the tool's limits.
fn tool_limits(tool: ProfileTool) -> &'static str {
    match tool {
        ProfileTool::Perf => " (perf: without frame pointers callers are missing)",
        ProfileTool::V8 => " (V8's profiler: JavaScript only)",
        ProfileTool::Folded => "",
    }
}

/// The properties that all boxes of a picture share.
struct FlamePicture<'a> {
    sides: [ProfileSide<'a>; 2],
    shape: FlameShape,
    /// Whether colors show changes.
    is_difference: bool,
    root: &'a CallNode,
}

/// Draws the baseline, the candidate, the difference with the boxes of the candidate, and the
/// difference with the boxes of the baseline.
fn flame_graphs(sides: [ProfileSide<'_>; 2], found: &CostExplanation) -> Vec<ReportChart> {
    let [old, new] = sides;
    let root = &found.tree;
    let picture = |shape, is_difference| FlamePicture { sides, shape, is_difference, root };
    let pair = format!("{} against {}", new.label, old.label);
    vec![
        picture(FlameShape::Baseline, false)
            .draw_chart(format!("Where the time goes: {}", old.label)),
        picture(FlameShape::Candidate, false)
            .draw_chart(format!("Where the time goes: {}", new.label)),
        picture(FlameShape::Candidate, true).draw_chart(format!("{pair}: what {} does", new.label)),
        picture(FlameShape::Baseline, true).draw_chart(format!("{pair}: what {} did", old.label)),
    ]
}

/// Returns the relative change of a function's cost, which determines the color of the function's
/// box. A change below [`MIN_FULL_COLOR_SHARE`] of the total is reduced, because chance alone can
/// produce it. Otherwise, the smallest boxes would be the brightest.
fn relative_change(node: &CallNode, full: f64) -> f64 {
    let larger = node.baseline.max(node.candidate).max(1) as f64;
    let certainty = (node.extra_cost().abs() / (MIN_FULL_COLOR_SHARE * full)).min(1.0);
    node.extra_cost() / larger * certainty
}

impl FlamePicture<'_> {
    fn draw_chart(&self, title: String) -> ReportChart {
        let frames = self.flame_frames(&self.root.children);
        let full = self.full_width();
        let subtitle = if self.is_difference {
            format!(
                "Widths show the costs of {} ({}); colours show how much of these costs the other side does not have{}",
                self.shape_side().label,
                self.costs_text(),
                tool_limits(self.shape_side().profile.tool)
            )
        } else {
            format!(
                "{}; a function is below the one that called it, as wide as its cost{}",
                self.costs_text(),
                tool_limits(self.shape_side().profile.tool)
            )
        };
        let kinds =
            if self.is_difference { Vec::new() } else { CODE_KINDS.map(str::to_owned).to_vec() };
        ReportChart::new(
            title.clone(),
            plot::AnyChart::Flame(FlameChart {
                title,
                subtitle: Some(subtitle),
                full,
                kinds,
                frames,
            }),
        )
    }

    /// Returns the weight that takes the full width in every picture: the total of the costlier
    /// side.
    fn full_width(&self) -> f64 {
        self.root.baseline.max(self.root.candidate) as f64
    }

    fn shape_side(&self) -> ProfileSide<'_> {
        match self.shape {
            FlameShape::Baseline => self.sides[0],
            FlameShape::Candidate => self.sides[1],
        }
    }

    fn costs_text(&self) -> String {
        format_weight(self.shape_side().profile, self.shape.node_cost(self.root))
    }

    fn flame_frames(&self, nodes: &[CallNode]) -> Vec<FlameFrame> {
        let shown = nodes.iter().filter(|node| self.shape.node_cost(node) > 0);
        shown.map(|node| self.flame_frame(node)).collect()
    }

    fn flame_frame(&self, node: &CallNode) -> FlameFrame {
        FlameFrame {
            name: node.name.clone(),
            weight: self.shape.node_cost(node) as f64,
            part: if self.is_difference {
                FrameColoring::Change(relative_change(node, self.full_width()))
            } else {
                FrameColoring::Kind(code_kind(&node.name))
            },
            tooltip: self.frame_tooltip(node),
            children: self.flame_frames(&node.children),
        }
    }

    fn frame_tooltip(&self, node: &CallNode) -> String {
        let cost_line = |side: ProfileSide<'_>, cost: u64, total: u64| {
            let share = format_share(cost as f64 / total.max(1) as f64);
            format!("{}: {} ({share})", side.label, format_weight(side.profile, cost))
        };
        let [old, new] = self.sides;
        let old = cost_line(old, node.baseline, self.root.baseline);
        let new = cost_line(new, node.candidate, self.root.candidate);
        match (self.is_difference, self.shape) {
            (true, _) => format!("{}\n{old}\n{new}", node.name),
            (false, FlameShape::Baseline) => format!("{}\n{old}", node.name),
            (false, FlameShape::Candidate) => format!("{}\n{new}", node.name),
        }
    }
}

/// Returns the kind of a function, as an index of [`CODE_KINDS`]. Only names of script functions
/// include a location: `name file:line` or, in Erlang, `module:name/arguments`.
fn code_kind(name: &str) -> usize {
    let ends_in_number = |separator: char| {
        name.rsplit_once(separator).is_some_and(|(_, end)| {
            !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let is_erlang = ends_in_number('/') && name.contains(':');
    usize::from(!(ends_in_number(':') || is_erlang))
}

/// One side of a comparison of profiles.
#[derive(Debug, Clone, Copy)]
pub struct ProfileSide<'a> {
    /// The side's name.
    pub label: &'a str,
    /// The side's profile, which shows where its time went.
    pub profile: &'a StackProfile,
}

/// Formats a weight with its unit.
fn format_weight(profile: &StackProfile, weight: u64) -> String {
    let weight = weight as f64;
    // Small counts are shown as whole numbers.
    if matches!(profile.unit, WeightUnit::Events | WeightUnit::Unknown) && weight < 1000.0 {
        return format!("{weight}");
    }
    let (figure, unit) = match profile.unit {
        WeightUnit::Nanoseconds => (weight, "ns"),
        WeightUnit::Microseconds => (weight * 1e3, "ns"),
        WeightUnit::Events | WeightUnit::Unknown => (weight, "1"),
    };
    format_quantity(figure, unit, Uncertainty::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_distinguished_from_native_code_by_their_names() {
        for script in ["JS:fib lib/w.js:1:13", "log node:console:377", "lists:map/2"] {
            assert_eq!(CODE_KINDS[code_kind(script)], "script", "{script}");
        }
        for native in ["node::Start", "a::b<c::d>", "(program)", "main", "operator/"] {
            assert_eq!(CODE_KINDS[code_kind(native)], "native code", "{native}");
        }
    }
}
