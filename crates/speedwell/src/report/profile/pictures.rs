//! The flame graphs of two profiles: each side by itself, and the difference in the shape of either side.
//!
//! All four have one scale, so a box that is twice as wide cost twice as much. A difference in the candidate's
//! shape cannot show what vanished; the one in the baseline's shape does.

use super::{ProfileSide, weight};
use crate::analysis::profile::{CallNode, Explanation};
use crate::report::document::Chart;
use crate::report::quantity::share;
use speedwell_plot::{self as plot, FlameChart, FlameFrame, FlamePart};

/// Kinds of code, in the order of their colours.
const KINDS: [&str; 2] = ["script", "native code"];

/// Which side's costs are the widths.
#[derive(Clone, Copy)]
enum Shape {
    Baseline,
    Candidate,
}

impl Shape {
    fn of(self, node: &CallNode) -> u64 {
        match self {
            Shape::Baseline => node.baseline,
            Shape::Candidate => node.candidate,
        }
    }
}

/// What all boxes of a picture have in common.
struct Picture<'a> {
    sides: [ProfileSide<'a>; 2],
    shape: Shape,
    /// The largest change of any box, where colours show changes.
    largest_change: Option<f64>,
    root: &'a CallNode,
}

/// The pictures: baseline, candidate, difference in the candidate's shape and in the baseline's.
pub fn of(sides: [ProfileSide<'_>; 2], found: &Explanation) -> Vec<Chart> {
    let [old, new] = sides;
    let root = &found.tree;
    let largest = Some(largest_change(root));
    let picture = |shape, largest_change| Picture {
        sides,
        shape,
        largest_change,
        root,
    };
    let both = format!("{} against {}", new.label, old.label);
    vec![
        picture(Shape::Baseline, None).chart(format!("Where the time goes: {}", old.label)),
        picture(Shape::Candidate, None).chart(format!("Where the time goes: {}", new.label)),
        picture(Shape::Candidate, largest).chart(format!("{both}: what {} does", new.label)),
        picture(Shape::Baseline, largest).chart(format!("{both}: what {} did", old.label)),
    ]
}

fn largest_change(node: &CallNode) -> f64 {
    let below = node.children.iter().map(largest_change);
    below.fold(node.change().abs(), f64::max)
}

impl Picture<'_> {
    fn chart(&self, title: String) -> Chart {
        let frames = self.frames(&self.root.children);
        let subtitle = match self.largest_change {
            None => format!(
                "{}; a function is below the one that called it, as wide as its cost",
                self.costs()
            ),
            Some(_) => format!(
                "Widths are {}'s costs ({}), colours the change of a function with all that it called",
                self.side().label,
                self.costs()
            ),
        };
        let kinds = match self.largest_change {
            None => KINDS.map(str::to_owned).to_vec(),
            Some(_) => Vec::new(),
        };
        Chart {
            title: title.clone(),
            picture: plot::Chart::Flame(FlameChart {
                title,
                subtitle: Some(subtitle),
                full: self.root.baseline.max(self.root.candidate) as f64,
                kinds,
                frames,
            }),
            shown_elsewhere: false,
        }
    }

    fn side(&self) -> ProfileSide<'_> {
        match self.shape {
            Shape::Baseline => self.sides[0],
            Shape::Candidate => self.sides[1],
        }
    }

    fn costs(&self) -> String {
        weight(self.side().profile, self.shape.of(self.root))
    }

    fn frames(&self, nodes: &[CallNode]) -> Vec<FlameFrame> {
        let shown = nodes.iter().filter(|node| self.shape.of(node) > 0);
        shown.map(|node| self.frame(node)).collect()
    }

    fn frame(&self, node: &CallNode) -> FlameFrame {
        FlameFrame {
            name: node.name.clone(),
            weight: self.shape.of(node) as f64,
            part: match self.largest_change {
                None => FlamePart::Kind(kind(&node.name)),
                // A side that costs exactly the same everywhere has nothing to colour.
                Some(largest) => FlamePart::Change(node.change() / largest.max(1.0)),
            },
            tooltip: self.tooltip(node),
            children: self.frames(&node.children),
        }
    }

    fn tooltip(&self, node: &CallNode) -> String {
        let part = |side: ProfileSide<'_>, cost: u64, whole: u64| {
            let of_all = share(cost as f64 / whole.max(1) as f64);
            format!("{}: {} ({of_all})", side.label, weight(side.profile, cost))
        };
        let [old, new] = self.sides;
        let old = part(old, node.baseline, self.root.baseline);
        let new = part(new, node.candidate, self.root.candidate);
        match (self.largest_change, self.shape) {
            (Some(_), _) => format!("{}\n{old}\n{new}", node.name),
            (None, Shape::Baseline) => format!("{}\n{old}", node.name),
            (None, Shape::Candidate) => format!("{}\n{new}", node.name),
        }
    }
}

/// Code of a script says where it stands: `name file:line` or, in Erlang, `module:name/arguments`.
fn kind(name: &str) -> usize {
    let ends_in_number = |after: char| {
        name.rsplit_once(after).is_some_and(|(_, end)| {
            !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let erlang = ends_in_number('/') && name.contains(':');
    usize::from(!(ends_in_number(':') || erlang))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_told_from_native_code_by_their_names() {
        for script in [
            "JS:fib lib/w.js:1:13",
            "log node:console:377",
            "lists:map/2",
        ] {
            assert_eq!(KINDS[kind(script)], "script", "{script}");
        }
        for native in [
            "node::Start",
            "a::b<c::d>",
            "(program)",
            "main",
            "operator/",
        ] {
            assert_eq!(KINDS[kind(native)], "native code", "{native}");
        }
    }
}
