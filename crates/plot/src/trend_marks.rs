//! Draws the events of a trend. A change of the level is drawn as a labeled mark above the plot,
//! and the mark is reachable by keyboard. A note is drawn as a thin line. Marks and labels do not
//! overlap.

use crate::axes::PlotArea;
use crate::axis::AxisMapping;
use crate::sheet::draw_failure;
use crate::style::VerdictMark;
use crate::svg::{AXIS, INK, MUTED, NEUTRAL, PAPER, PixelRect, SvgWriter, TextAnchor};
use crate::text::{reserved_width, truncate_end};

/// Font size and lane height of the labels, for changes and for notes.
const CHANGE_PX: f64 = 12.0;
pub(crate) const CHANGE_LANE_PX: f64 = 18.0;
const NOTE_PX: f64 = 11.0;
const NOTE_LANE_PX: f64 = 15.0;
/// Height of the crosses of failures above the axis.
const FAILURE_ABOVE_AXIS_PX: f64 = 6.0;
/// Radius of a change mark, and the space that the mark with its ring may need on each side of its
/// center.
const MARK_RADIUS_PX: f64 = 5.0;
const MARK_HALF_PX: f64 = 10.0;
/// Gap in pixels between a mark and its label, and at both ends of labels.
const GAP_PX: f64 = 4.0;
/// Maximum width of a note label, and maximum number of lanes for notes. Wider labels are
/// truncated.
const MAX_NOTE_PX: f64 = 190.0;
const MAX_NOTE_LANES: usize = 2;
/// Maximum number of lanes for change labels in each form: complete, without the verdict, and
/// without verdict and size. A form that needs more lanes is replaced by the next shorter form.
const MAX_CHANGE_LANES: [usize; 3] = [3, 9, usize::MAX];

/// Certainty of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrendState {
    /// The evidence is strong enough to justify another measurement. The mark is hollow.
    #[default]
    Suspected,
    /// The evidence is as strong as possible without another measurement. The mark is filled.
    Found,
    /// Confirmed by another measurement. The mark is filled and has a ring.
    Confirmed,
    /// Refuted by another measurement. The mark is hollow, gray and crossed out.
    Refuted,
    /// Withdrawn, because later points do not support the change. The mark is the same as for a
    /// refuted change.
    Withdrawn,
}

impl TrendState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Found => "found",
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Whether the suspicion of a change turned out to be wrong.
    fn is_invalidated(self) -> bool {
        matches!(self, Self::Refuted | Self::Withdrawn)
    }
}

/// A change of the level of a trend.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendChange {
    /// Name, such as its number; may be empty.
    pub name: String,
    /// Position of the last point before the change.
    pub before: f64,
    /// Position of the first point after the change.
    pub after: f64,
    /// Certainty.
    pub state: TrendState,
    /// Whether the metric drifts instead of stepping. The mark of a drift is hollow and dashed, and
    /// a dashed line connects the two levels.
    pub is_drift: bool,
    /// Whether the change is good or bad.
    pub mark: VerdictMark,
    /// Size in a few characters: `+4.8%`.
    pub size: String,
    /// Full description, as a sentence.
    pub description: String,
}

impl TrendChange {
    /// Position of the mark: halfway between the two points.
    pub(crate) fn border_position(&self) -> f64 {
        self.before / 2.0 + self.after / 2.0
    }

    pub(crate) fn colour(&self) -> &'static str {
        if self.state.is_invalidated() { NEUTRAL } else { self.mark.color() }
    }

    /// Returns the label. Form 0 is complete, form 1 lacks the verdict, and form 2 lacks the
    /// verdict and the size.
    fn change_label(&self, form: usize) -> String {
        let verdict = if form == 0 { self.mark.word() } else { "" };
        let size = if form < 2 { self.size.trim() } else { "" };
        let drift = if self.is_drift { "drift " } else { "" };
        let state = format!("{drift}{}", self.state.word());
        let verdict_and_size = [verdict, size].join(" ");
        let label = match verdict_and_size.trim() {
            "" => state,
            verdict_and_size => format!("{verdict_and_size}, {state}"),
        };
        match self.name.trim() {
            "" => label,
            name => format!("{name}: {label}"),
        }
    }

    /// Draws the mark at (`x`, `y`). The shape, like the label, repeats what the color shows.
    pub(crate) fn draw_mark(&self, svg: &mut SvgWriter, x: f64, y: f64, radius: f64) {
        let colour = self.colour();
        let shape = self.mark.marker();
        let is_sure = matches!(self.state, TrendState::Found | TrendState::Confirmed);
        let is_filled = is_sure && !self.is_drift;
        let dash = if self.is_drift { "2.2 1.8" } else { "" };
        svg.start_path(self.state.word(), &shape.path(x, y, radius))
            .set_text("fill", if is_filled { colour } else { PAPER })
            .set_stroke(colour, 1.7)
            .set_nonempty("stroke-dasharray", dash)
            .end_empty();
        if self.state == TrendState::Confirmed {
            svg.start_path("ring", &shape.path(x, y, radius * 1.6))
                .set_text("fill", "none")
                .set_stroke(colour, 1.2)
                .end_empty();
        }
        if self.state.is_invalidated() {
            let half_px = radius + 1.0;
            svg.start_line("", (x - half_px, y + half_px), (x + half_px, y - half_px))
                .set_stroke(colour, 1.5)
                .end_empty();
        }
    }
}

/// Subject of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrendNoteKind {
    /// The name of a version, written below the axis.
    Tag,
    /// A change of the machine that can affect the metric.
    Environment,
    /// The measured work has changed, so no level extends across the note.
    Work,
    /// A session whose case failed. It is drawn as a cross on the axis.
    Failure,
}

/// A note at a position of the trend.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendNote {
    /// Position, which lies between two points if the event happened between them.
    pub x: f64,
    /// Subject of the note.
    pub kind: TrendNoteKind,
    /// Short label; empty if another note already shows it.
    pub label: String,
    /// Full description for a tooltip; may be empty.
    pub description: String,
}

impl TrendNote {
    fn is_line(&self) -> bool {
        !matches!(self.kind, TrendNoteKind::Tag | TrendNoteKind::Failure)
    }

    fn tooltip(&self) -> &str {
        match self.description.trim() {
            "" => &self.label,
            description => description,
        }
    }
}

/// A label with its placement: the position that the label describes, its lane above the plot, and
/// its left end. Lane 0 is next to the plot.
#[derive(Clone, Debug)]
struct PlacedText {
    x: f64,
    lane: usize,
    left: f64,
    text: String,
    is_cut: bool,
}

/// Places each text in the lowest free lane, to the right of its position or, at the end of the
/// sheet, to the left.
fn place_in_lanes(
    texts: Vec<(f64, String)>,
    size_px: f64,
    half_width: f64,
    (start, end): (f64, f64),
) -> Vec<PlacedText> {
    let mut lanes: Vec<Vec<(f64, f64)>> = Vec::new();
    let placed_text = |(x, full_text): (f64, String)| {
        let gap = half_width + GAP_PX;
        let max_width = (end - x).max(x - start) - gap - GAP_PX;
        let text = truncate_end(&full_text, max_width.max(24.0), size_px);
        let width = reserved_width(&text, size_px);
        let is_right = x + gap + width <= end || end - x >= x - start;
        let left = if is_right { x + gap } else { x - gap - width };
        let (low, high) =
            (left.min(x - half_width) - GAP_PX, (left + width).max(x + half_width) + GAP_PX);
        let is_free =
            |lane: &Vec<(f64, f64)>| lane.iter().all(|(start, end)| high <= *start || low >= *end);
        let lane = lanes.iter().position(is_free).unwrap_or(lanes.len());
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        lanes[lane].push((low, high));
        PlacedText { x, lane, left, is_cut: text != full_text, text }
    };
    texts.into_iter().map(placed_text).collect()
}

fn count_lanes<'t>(placed: impl IntoIterator<Item = &'t PlacedText>) -> usize {
    placed.into_iter().map(|text| text.lane + 1).max().unwrap_or(0)
}

/// Changes and notes, with the placement of their labels, from left to right.
pub(crate) struct TrendMarks<'a> {
    changes: Vec<(&'a TrendChange, PlacedText)>,
    notes: Vec<(&'a TrendNote, Option<PlacedText>)>,
    failures: Vec<&'a TrendNote>,
    lanes: usize,
    note_lanes: usize,
}

impl<'a> TrendMarks<'a> {
    /// Places labels between the left and right ends given by `ends`, in pixels. Changes have at
    /// most `max_lanes` lanes. A change without a lane for its label is shown by its mark only.
    pub fn lay_out(
        (changes, notes): (&'a [TrendChange], &'a [TrendNote]),
        x: &AxisMapping,
        ends: (f64, f64),
        max_lanes: usize,
    ) -> Self {
        let mut changes: Vec<&TrendChange> =
            changes.iter().filter(|change| x.contains_value(change.border_position())).collect();
        changes.sort_by(|one, other| one.border_position().total_cmp(&other.border_position()));
        let placed_labels = |form: usize| {
            let label_at = |change: &&TrendChange| {
                (x.pixel_at(change.border_position()), change.change_label(form))
            };
            let texts = changes.iter().map(label_at).collect();
            place_in_lanes(texts, CHANGE_PX, MARK_HALF_PX, ends)
        };
        let fits = |(form, limit): (usize, usize)| {
            let placed = placed_labels(form);
            let is_complete = placed.iter().all(|label| !label.is_cut);
            (is_complete && count_lanes(&placed) <= limit.min(max_lanes)).then_some(placed)
        };
        let fitting = MAX_CHANGE_LANES.into_iter().enumerate().find_map(fits);
        let placed = fitting.unwrap_or_else(|| placed_labels(MAX_CHANGE_LANES.len() - 1));
        let mut lines: Vec<&TrendNote> =
            notes.iter().filter(|note| note.is_line() && x.contains_value(note.x)).collect();
        lines.sort_by(|one, other| one.x.total_cmp(&other.x));
        let is_labelled = |note: &&&TrendNote| !note.label.trim().is_empty();
        let label = |note: &&TrendNote| {
            let label = truncate_end(&note.label, MAX_NOTE_PX, NOTE_PX);
            (x.pixel_at(note.x), label)
        };
        let texts = lines.iter().filter(is_labelled).map(label).collect();
        let mut labels = place_in_lanes(texts, NOTE_PX, 0.0, ends).into_iter();
        let mut take_label = |note: &TrendNote| {
            let label = is_labelled(&&note).then(|| labels.next()).flatten();
            label.filter(|label| label.lane < MAX_NOTE_LANES)
        };
        let labels: Vec<Option<PlacedText>> = lines.iter().map(|note| take_label(note)).collect();
        let failed =
            |note: &&TrendNote| note.kind == TrendNoteKind::Failure && x.contains_value(note.x);
        Self {
            lanes: count_lanes(&placed).min(max_lanes),
            note_lanes: count_lanes(labels.iter().flatten()),
            changes: changes.into_iter().zip(placed).collect(),
            notes: lines.into_iter().zip(labels).collect(),
            failures: notes.iter().filter(failed).collect(),
        }
    }

    /// Height in pixels of the labels above the plot.
    pub fn height(&self) -> f64 {
        self.lanes as f64 * CHANGE_LANE_PX + self.note_lanes as f64 * NOTE_LANE_PX + GAP_PX
    }

    /// Draws the marks behind the data: the range of each change, and the lines of notes.
    pub fn draw_behind(&self, svg: &mut SvgWriter, area: &PlotArea) {
        svg.start_group("borders").end_with(|svg| {
            for (change, _) in &self.changes {
                let [left, to] = [change.before, change.after].map(|end| area.x.pixel_at(end));
                svg.start_rect("", PixelRect { left, right: to.max(left), ..area.rect })
                    .set_text("fill", change.colour())
                    .set_number("fill-opacity", 0.12)
                    .end_empty();
            }
        });
        svg.start_group("notes").end_with(|svg| {
            for (note, label) in &self.notes {
                let x = area.x.pixel_at(note.x);
                let label_px = label.as_ref().map_or(0.0, |label| self.label_distance(label));
                let (dash, width) = match note.kind {
                    TrendNoteKind::Work => ("", 1.4),
                    _ => ("5 3", 0.9),
                };
                svg.start_line("note", (x, area.rect.top - label_px), (x, area.rect.bottom))
                    .set_stroke(AXIS, width)
                    .set_nonempty("stroke-dasharray", dash)
                    .end_with_tooltip(note.tooltip());
            }
        });
    }

    /// Distance from the plot to the top of a note's label.
    fn label_distance(&self, label: &PlacedText) -> f64 {
        GAP_PX + label.lane as f64 * NOTE_LANE_PX + NOTE_LANE_PX
    }

    /// Draws the marks in front of the data: borders, marks and labels.
    pub fn draw(&self, svg: &mut SvgWriter, area: &PlotArea) {
        let PixelRect { top, bottom, .. } = area.rect;
        svg.start_group("borders").end_with(|svg| {
            for (change, label) in &self.changes {
                let dash = match change.state {
                    _ if change.is_drift => "7 4",
                    TrendState::Found | TrendState::Confirmed => "",
                    _ => "3 3",
                };
                let x = area.x.pixel_at(change.border_position());
                svg.start_line("border", (x, self.mark_y(label, top)), (x, bottom))
                    .set_stroke(change.colour(), 1.2)
                    .set_nonempty("stroke-dasharray", dash)
                    .end_empty();
            }
        });
        svg.start_group("note-labels").end_with(|svg| {
            for label in self.notes.iter().filter_map(|(_, label)| label.as_ref()) {
                let middle = top - self.label_distance(label) + NOTE_LANE_PX / 2.0;
                draw_label(svg, label, (middle, NOTE_PX), MUTED);
            }
        });
        for (change, label) in &self.changes {
            self.draw_change(svg, change, label, top);
        }
        svg.start_group("failures").end_with(|svg| {
            for failure in &self.failures {
                draw_failure(svg, area.x.pixel_at(failure.x), bottom - FAILURE_ABOVE_AXIS_PX)
                    .set_text("class", "failure")
                    .end_with_tooltip(failure.tooltip());
            }
        });
    }

    /// Vertical position of a change's mark, in pixels. A mark without a lane is at the upper edge
    /// of the plot.
    fn mark_y(&self, label: &PlacedText, plot_top: f64) -> f64 {
        if label.lane >= self.lanes {
            return plot_top + MARK_RADIUS_PX;
        }
        let lanes_px = self.note_lanes as f64 * NOTE_LANE_PX + label.lane as f64 * CHANGE_LANE_PX;
        plot_top - GAP_PX - lanes_px - CHANGE_LANE_PX / 2.0
    }

    /// Draws the mark and label of a change, reachable by keyboard and readable by screen readers.
    fn draw_change(&self, svg: &mut SvgWriter, change: &TrendChange, label: &PlacedText, top: f64) {
        let y = self.mark_y(label, top);
        svg.start_group("change")
            .set_text("tabindex", "0")
            .set_text("role", "img")
            .set_text("aria-label", &change.description)
            .set_text("data-state", change.state.word())
            .set_text("data-verdict", change.mark.word())
            .set_nonempty("data-change", &change.name)
            .end_with(|svg| {
                svg.start_element("title").end_with_text(&change.description);
                if label.lane < self.lanes {
                    draw_label(svg, label, (y, CHANGE_PX), INK);
                }
                change.draw_mark(svg, label.x, y, MARK_RADIUS_PX);
            });
    }
}

/// Draws a label on a background that hides the lines behind it.
fn draw_label(
    svg: &mut SvgWriter,
    label: &PlacedText,
    (middle, size_px): (f64, f64),
    colour: &str,
) {
    let rect = PixelRect {
        left: label.left - 1.0,
        top: middle - size_px * 0.6,
        right: label.left + reserved_width(&label.text, size_px) + 1.0,
        bottom: middle + size_px * 0.6,
    };
    svg.start_rect("", rect).set_text("fill", PAPER).end_empty();
    let at = (label.left, middle + size_px * 0.36);
    svg.write_text(&label.text, at, size_px, TextAnchor::Start, colour);
}
