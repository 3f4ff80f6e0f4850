//! Flame graphs: functions as boxes as wide as their cost, below the functions that called them. Coloured by
//! what kind of code they are, or by how much more or less they cost than on another side.
//!
//! Boxes are placed in `flame_rows.rs`; what of a name fits into its box is decided in `flame_label.rs`.

use crate::draw::{INK, MUTED, NEUTRAL, PAPER, Rect, Style, Svg, Text};
use crate::flame_label;
use crate::flame_rows::{Placed, Rows};
use crate::layout::{Header, Key, Swatch};
use crate::page::Figure;
use crate::summary::count;
use std::borrow::Cow;

/// Height of a box and the gap to the next one.
const ROW_PX: f64 = 17.0;
const TEXT_PX: f64 = 11.0;
/// The colours of more and of less cost: Okabe and Ito's vermillion and blue, which nobody confuses.
const MORE: usize = 1;
const LESS: usize = 0;
/// How much of a colour covers the paper: pale enough for letters, and never so pale that it is not seen.
const PALEST: f64 = 0.1;
const FULLEST: f64 = 0.75;
/// Kinds of code have the colours from here on, which no change has: orange, light blue, grey.
const FIRST_KIND: usize = 4;
/// The kind of code, which says less than a change does, is a tint.
const KIND_TINT: f64 = 0.3;

/// Where a program spends its time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameChart {
    /// What the chart shows, in large letters.
    pub title: String,
    /// A line of explanation.
    pub subtitle: Option<String>,
    /// The weight that is as wide as the sheet. Charts with the same one can be compared box by box.
    pub full: f64,
    /// Names of the kinds of code, for the legend; empty where colours show changes.
    pub kinds: Vec<String>,
    /// The outermost functions, from left to right.
    pub frames: Vec<FlameFrame>,
}

/// A function, called from one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameFrame {
    /// Its name.
    pub name: String,
    /// Its cost with all that it called, in the unit of [`FlameChart::full`].
    pub weight: f64,
    /// What its colour says.
    pub part: FlamePart,
    /// Words for those who point at it.
    pub tooltip: String,
    /// What it called, from left to right.
    pub children: Vec<FlameFrame>,
}

/// What the colour of a box says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlamePart {
    /// Which of [`FlameChart::kinds`] it is.
    Kind(usize),
    /// How much of its cost is more than on the other side, or less: 1 where only this side has it, -1 where it
    /// has vanished, 0 where both cost the same.
    Change(f64),
}

impl Default for FlamePart {
    fn default() -> Self {
        Self::Kind(0)
    }
}

impl FlameChart {
    fn rows(&self, width: f64) -> Rows<'_> {
        Rows::place(&self.frames, self.full, width)
    }

    /// A chart's width is known only when it is drawn, but how many boxes are too narrow must be told above it.
    fn told_width(&self) -> f64 {
        f64::from(crate::Size::default().width_px)
    }

    fn has_changes(&self) -> bool {
        let changes = |frame: &FlameFrame| matches!(frame.part, FlamePart::Change(_));
        self.frames.iter().any(changes)
    }
}

impl Figure for FlameChart {
    fn header(&self) -> Header<'_> {
        let key = |name: &str, colour| Key {
            name: name.to_owned(),
            swatch: Swatch::Tint(Style::of(colour)),
        };
        let kinds = self.kinds.iter().enumerate();
        let legend = match self.has_changes() {
            true => vec![
                key("costs more (all of it: outlined)", MORE),
                key("costs less", LESS),
            ],
            false => kinds.map(|(at, name)| key(name, FIRST_KIND + at)).collect(),
        };
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: self.rows(self.told_width()).left_out(),
            legend,
        }
    }

    fn summary(&self) -> String {
        let rows = self.rows(self.told_width());
        let widest = rows.boxes.iter().max_by(|a, b| a.width.total_cmp(&b.width));
        let widest = widest.map_or("", |placed| placed.frame.name.as_str());
        format!(
            "Flame graph of {} in {}; the widest is {widest}.",
            count(rows.boxes.len(), "box", "es"),
            count(rows.depth, "row", "s"),
        )
    }

    fn is_empty(&self) -> bool {
        self.rows(self.told_width()).boxes.is_empty()
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        for placed in self.rows(area.width()).boxes {
            draw_box(svg, &placed, area);
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        self.rows(width).depth as f64 * ROW_PX
    }
}

fn draw_box(svg: &mut Svg, placed: &Placed<'_>, area: Rect) {
    let frame = placed.frame;
    let (colour, cover) = look(frame.part);
    let (x, y) = (
        area.left + placed.left,
        area.top + placed.row as f64 * ROW_PX,
    );
    let label = flame_label::fitting(&frame.name, placed.width, TEXT_PX);
    svg.group("frame").containing(|svg| {
        svg.element("title").containing_text(&frame.tooltip);
        svg.element("rect")
            .num("x", x)
            .num("y", y)
            .num("width", placed.width)
            .num("height", ROW_PX - 1.0)
            .set("fill", &colour)
            .num("fill-opacity", cover)
            .set("stroke", &outline(frame.part, placed.width))
            .num("stroke-width", 0.5)
            .close();
        if let Some(label) = label {
            let text = Text::at(&label, x + flame_label::PADDING_PX, y + 12.0, TEXT_PX);
            svg.text(&text.coloured(ink(frame.part)));
        }
    });
}

/// The colour of a box and how much of it covers the paper.
fn look(part: FlamePart) -> (Cow<'static, str>, f64) {
    match part {
        FlamePart::Kind(kind) => (Style::of(FIRST_KIND + kind).colour(), KIND_TINT),
        FlamePart::Change(0.0) => (NEUTRAL.into(), PALEST),
        FlamePart::Change(change) => {
            let style = Style::of(if change > 0.0 { MORE } else { LESS });
            let strength = change.abs().min(1.0);
            (style.colour(), PALEST + strength * (FULLEST - PALEST))
        }
    }
}

/// Boxes that only one side has are outlined in their colour, so that they are seen without colour as well;
/// narrow ones would be nothing but outline.
fn outline(part: FlamePart, width: f64) -> Cow<'static, str> {
    match part {
        _ if width < 3.0 => "none".into(),
        FlamePart::Change(change) if change.abs() >= 1.0 => look(part).0,
        _ => PAPER.into(),
    }
}

/// What changed next to nothing steps back.
fn ink(part: FlamePart) -> &'static str {
    match part {
        FlamePart::Change(change) if change.abs() < 0.01 => MUTED,
        _ => INK,
    }
}
