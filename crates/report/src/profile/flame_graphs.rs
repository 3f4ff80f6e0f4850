//! Draws four flame graphs of two profiles: one of each side, and two of the difference between the
//! sides. One difference has the boxes of the baseline, the other the boxes of the candidate.
//!
//! All four share one scale: a box twice as wide stands for twice the cost. Only the difference
//! with the boxes of the baseline shows what disappeared from the baseline.

use crate::document::ReportChart;
use crate::figure::{Uncertainty, format_quantity, format_share};
use speedwell_analysis::profile::{CallNode, CostExplanation};
use speedwell_model::{ProfileTool, StackProfile, WeightUnit};
use speedwell_plot as plot;
use speedwell_plot::{FlameChart, FlameFrame, FrameColoring};

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
pub fn flame_graphs(sides: [ProfileSide<'_>; 2], found: &CostExplanation) -> Vec<ReportChart> {
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
    /// Where the side's time went.
    pub profile: &'a StackProfile,
}

/// Formats a weight with its unit.
pub fn format_weight(profile: &StackProfile, weight: u64) -> String {
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
