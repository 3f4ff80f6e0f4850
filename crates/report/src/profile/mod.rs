//! Reports profiles. Two profiles become a document with the answer, the table of the extra cost,
//! and four flame graphs. The profiles of a session become a section per case.
//!
//! This module chooses the wording; `analysis::profile` computes the costs. Start at
//! [`report_profiles`].

use crate::OutputOptions;
use crate::case_labels::distinct;
use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::{Uncertainty, format_count, format_quantity, format_share, join_texts};
use crate::table::{
    ReportCell, ReportColumn, ReportRow, ReportTable, TextEmphasis, column_set, json_number,
};
use serde_json::{Value, json};
use speedwell_analysis::profile::{
    CallNode, CaseProfile, CostDirection, CostEntry, CostExplanation, CostRow, ExtraCost,
};
use speedwell_model::{ProfileTool, StackProfile, WeightUnit};
use speedwell_plot::{self as plot, FlameChart, FlameFrame, FrameColoring};

/// Minimum number of samples for reliable percentages. The smallest percentage shown is 3%. With
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
    document.push_warnings(&profile_warnings(sides));
    document.push_headline(profiles_headline(sides, &found.extra));
    let callee = |row: &CostRow| format!("{} ({})", row.frame, format_share(row.share));
    let below = found.extra.entry.iter().flat_map(|entry| &entry.below);
    let callees = join_texts(", ", below.map(callee));
    if !callees.is_empty() {
        document.push_paragraph(format!("Below it: {callees}."));
    }
    if found.extra.direction != CostDirection::Alike {
        document.push_table(cost_table(sides, &found.extra));
    }
    output.add_detail(&mut document, |output, document| {
        document.push_notes(profile_notes(sides, &found.extra));
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
    let [old, new] = [old.label, new.label];
    let (more_or_less, extra_cost, cheaper) = match extra.direction {
        CostDirection::Alike => {
            return format!("{new} costs the same as {old}, within 1% ({both_costs})");
        }
        CostDirection::Costlier => ("more", "extra cost", old),
        CostDirection::Cheaper => ("less", "saved cost", new),
    };
    let entry_clause = extra.entry.as_ref().map(|CostEntry { row, .. }| {
        let owner = format!("{cheaper} does not have");
        let owner = if row.is_new { owner.as_str() } else { "both sides have" };
        let share = format_share(row.share.min(1.0));
        format!("; {share} of the {extra_cost} is in '{}', which {owner}", row.frame)
    });
    let (change, entry_clause) = (format_share(change), entry_clause.unwrap_or_default());
    format!("{new} costs {change} {more_or_less} than {old} ({both_costs}){entry_clause}")
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
            let times = format_count(samples as usize, "time", "times");
            warnings.push(format!(
                "{} was sampled only {times}, so costs of a few percent are noise.",
                side.label
            ));
        }
    }
    warnings
}

fn profile_notes(sides: [ProfileSide<'_>; 2], extra: &ExtraCost) -> Vec<String> {
    let mut notes = Vec::new();
    if extra.direction != CostDirection::Alike {
        let word = if extra.direction == CostDirection::Cheaper { "GONE" } else { "NEW" };
        notes.push(format!(
            "The cost of a function includes the functions that it called, so percentages overlap. Both sides must have \
             done the same work, because absolute costs are compared, not percentages. {word}: the cheaper side spent less than 0.2% there."
        ));
    }
    for ProfileSide { profile, .. } in sides {
        notes.extend(profile.tool.blind_spot().map(str::to_owned));
        notes.extend(profile.notes.iter().cloned());
    }
    distinct(notes)
}

fn attach_data(document: &mut Document, [old, new]: [ProfileSide<'_>; 2], extra: &ExtraCost) {
    let side = |side: ProfileSide<'_>, total: u64| {
        json!({
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
        json!({
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
        let CaseProfile { baseline, candidate, .. } = case_profile;
        let case = case_profile.case.id();
        document.push_heading(3, format!("{case}: {candidate} against {baseline}"));
        let mut members = vec![("case", json!(case))];
        match &case_profile.sides {
            Err(reason) => {
                document.push_paragraph(reason.clone());
                members.extend([
                    ("baseline", json!({ "name": baseline })),
                    ("candidate", json!({ "name": candidate })),
                    ("missing", json!(reason)),
                ]);
            }
            Ok(sides) => {
                let [old, new] = &sides.profiles;
                let labelled = [(baseline, old), (candidate, new)]
                    .map(|(label, profile)| ProfileSide { label, profile });
                let single = report_profiles(labelled, &sides.explanation, output);
                add_section(case_profile, single.blocks, draws, &mut seen_notes, document);
                members.extend(single.data);
            }
        }
        data.push(members.into_iter().collect::<Value>());
    }
    document.attach_data("profiles", Value::Array(data));
}

/// Adds the report of the two profiles of a case to a larger document.
fn add_section(
    case_profile: &CaseProfile,
    blocks: Vec<ReportBlock>,
    draws: bool,
    seen_notes: &mut Vec<String>,
    document: &mut Document,
) {
    for block in blocks {
        match block {
            // A headline becomes a paragraph here: the headlines at the top of the report state the
            // result of the whole session.
            ReportBlock::Headline(sentence) => document.push_paragraph(format!("{sentence}.")),
            // A note that several sections share is given only once.
            ReportBlock::Note(sentence) if seen_notes.contains(&sentence) => {}
            ReportBlock::Note(sentence) => {
                seen_notes.push(sentence.clone());
                document.push_note(sentence);
            }
            ReportBlock::Table(table) => document.push_table(add_case_columns(table, case_profile)),
            ReportBlock::Chart(mut chart) if draws => {
                let title = format!("{}, {}", chart.title, case_profile.case.id());
                if let plot::AnyChart::Flame(picture) = &mut chart.picture {
                    picture.title.clone_from(&title);
                }
                chart.title = title;
                document.push(ReportBlock::Chart(chart));
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
    ReportCell::from(percent).with_text(format!("{percent:.digits$}%"))
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
    /// The index of the side whose functions are the boxes. Costs on this side are their widths.
    shape: usize,
    /// Whether colors show changes.
    is_difference: bool,
    root: &'a CallNode,
}

/// Draws the baseline, the candidate, the difference with the boxes of the candidate, and the
/// difference with the boxes of the baseline.
fn flame_graphs(sides: [ProfileSide<'_>; 2], found: &CostExplanation) -> [ReportChart; 4] {
    let [old, new] = sides.map(|side| side.label);
    let pictures = [
        (0, false, format!("Where the time goes: {old}")),
        (1, false, format!("Where the time goes: {new}")),
        (1, true, format!("{new} against {old}: what {new} does")),
        (0, true, format!("{new} against {old}: what {old} did")),
    ];
    pictures.map(|(shape, is_difference, title)| {
        FlamePicture { sides, shape, is_difference, root: &found.tree }.draw_chart(title)
    })
}

/// The costs of a function on both sides.
fn node_costs(node: &CallNode) -> [u64; 2] {
    [node.baseline, node.candidate]
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
        let side = self.sides[self.shape];
        let costs = format_weight(side.profile, self.node_cost(self.root));
        let (subtitle, kinds) = if self.is_difference {
            let widths = format!("Widths show the costs of {} ({costs})", side.label);
            let colours = "colours show how much of these costs the other side does not have";
            (format!("{widths}; {colours}"), Vec::new())
        } else {
            let order = "a function is below the one that called it, as wide as its cost";
            (format!("{costs}; {order}"), CODE_KINDS.map(str::to_owned).to_vec())
        };
        ReportChart::from_picture(plot::AnyChart::Flame(FlameChart {
            title,
            subtitle: Some(subtitle + tool_limits(side.profile.tool)),
            full: self.full_width(),
            kinds,
            frames: self.flame_frames(&self.root.children),
        }))
    }

    /// Returns the weight that takes the full width in every picture: the total of the costlier
    /// side.
    fn full_width(&self) -> f64 {
        self.root.baseline.max(self.root.candidate) as f64
    }

    fn node_cost(&self, node: &CallNode) -> u64 {
        node_costs(node)[self.shape]
    }

    fn flame_frames(&self, nodes: &[CallNode]) -> Vec<FlameFrame> {
        let frame = |node: &CallNode| FlameFrame {
            name: node.name.clone(),
            weight: self.node_cost(node) as f64,
            part: if self.is_difference {
                FrameColoring::Change(relative_change(node, self.full_width()))
            } else {
                FrameColoring::Kind(code_kind(&node.name))
            },
            tooltip: self.frame_tooltip(node),
            children: self.flame_frames(&node.children),
        };
        nodes.iter().filter(|node| self.node_cost(node) > 0).map(frame).collect()
    }

    fn frame_tooltip(&self, node: &CallNode) -> String {
        let cost_line = |shape: usize| {
            let (side, cost) = (self.sides[shape], node_costs(node)[shape]);
            let share = format_share(cost as f64 / node_costs(self.root)[shape].max(1) as f64);
            format!("{}: {} ({share})", side.label, format_weight(side.profile, cost))
        };
        if self.is_difference {
            format!("{}\n{}\n{}", node.name, cost_line(0), cost_line(1))
        } else {
            format!("{}\n{}", node.name, cost_line(self.shape))
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
