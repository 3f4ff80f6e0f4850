//! Lays out the labels of categories. Chooses line breaks and font size, and omits labels that do
//! not fit.

use crate::color::{INK, MUTED};
use crate::svg::{SvgWriter, TextAnchor, TextLine};
use crate::text::{CAP_HEIGHT, WrappedLabel, reserved_width, truncate_end, wrap_text};

/// Font size of labels with enough room, in pixels.
pub(crate) const LABEL_PX: f64 = 12.5;
/// Minimum readable font size.
const MIN_LABEL_PX: f64 = 8.5;
/// Distance between baselines, as a fraction of the font size.
const LINE_SPACING: f64 = 1.25;

/// Labels of all categories, wrapped into lines.
#[derive(Clone, Debug)]
pub(crate) struct CategoryLabels {
    blocks: Vec<WrappedLabel>,
    size_px: f64,
    /// Every `stride`th label is drawn.
    stride: usize,
    is_slanted: bool,
}

impl CategoryLabels {
    /// Lays out labels in a column left of bands of height `band_px`. Chooses the largest font size
    /// at which all labels are complete in a column of at most `max_width`. Then chooses the
    /// narrowest column for this font size.
    pub fn beside_bands(labels: &[&str], band_px: f64, max_width: f64) -> Self {
        let largest = (band_px / LINE_SPACING).clamp(MIN_LABEL_PX, LABEL_PX);
        let smaller = [11.0, 10.0, 9.0, MIN_LABEL_PX].into_iter().filter(|size| *size < largest);
        let complete = std::iter::once(largest).chain(smaller).find_map(|size_px| {
            let blocks = complete_column(labels, band_px, max_width, size_px)?;
            Some((size_px, blocks))
        });
        let (size_px, blocks) = complete.unwrap_or_else(|| {
            let size_px = largest.min(10.0);
            let truncate =
                |label: &&str| wrap_text(label, max_width, size_px, max_lines(band_px, size_px));
            (size_px, labels.iter().map(truncate).collect())
        });
        let stride = (size_px * LINE_SPACING * 0.96 / band_px).ceil().max(1.0) as usize;
        Self { blocks, size_px, stride, is_slanted: false }
    }

    /// Lays out labels centered below positions `slot_px` apart; `None` if a label does not fit.
    pub fn below_slots(labels: &[&str], slot_px: f64) -> Option<Self> {
        let width = slot_px - 10.0;
        let blocks: Vec<WrappedLabel> =
            labels.iter().map(|label| wrap_text(label, width, LABEL_PX, 3)).collect();
        let are_complete = blocks.iter().all(|block| block.is_complete);
        are_complete.then_some(Self { blocks, size_px: LABEL_PX, stride: 1, is_slanted: false })
    }

    /// Distance in pixels by which slanted labels would extend to the left of the first slot.
    pub fn slanted_reach(labels: &[&str], slot_px: f64, max_height: f64) -> f64 {
        let reach = |(index, label): (usize, &&str)| {
            let height = reserved_width(label, LABEL_PX) / std::f64::consts::SQRT_2;
            height.min(max_height) + 4.0 - (index as f64 + 0.5) * slot_px
        };
        labels.iter().enumerate().map(reach).fold(0.0, f64::max)
    }

    /// Lays out slanted labels below positions `slot_px` apart. Each label rises to the right,
    /// towards its position, and is at most `max_height` high. Labels may extend to the left of the
    /// first slot by up to `reach_px`.
    pub fn slanted_below(labels: &[&str], slot_px: f64, max_height: f64, reach_px: f64) -> Self {
        let stride = (LABEL_PX * 1.5 / slot_px).ceil().max(1.0) as usize;
        let max_length = (max_height - LABEL_PX) * std::f64::consts::SQRT_2;
        let block = |(index, label): (usize, &&str)| {
            let room = (reach_px + (index as f64 + 0.5) * slot_px) * std::f64::consts::SQRT_2;
            let one_line = label.split_whitespace().collect::<Vec<_>>().join(" ");
            let text = truncate_end(&one_line, max_length.min(room), LABEL_PX);
            wrap_text(&text, f64::INFINITY, LABEL_PX, 1)
        };
        let blocks = labels.iter().enumerate().map(block).collect();
        Self { blocks, size_px: LABEL_PX, stride, is_slanted: true }
    }

    /// Width in pixels of the widest label.
    pub fn widest_px(&self) -> f64 {
        self.blocks.iter().map(|block| block.widest_line(self.size_px)).fold(0.0, f64::max)
    }

    /// Height in pixels of the tallest label.
    pub fn tallest_px(&self) -> f64 {
        if self.is_slanted {
            return self.widest_px() / std::f64::consts::SQRT_2 + self.size_px;
        }
        let lines = self.blocks.iter().map(|block| block.lines.len()).max().unwrap_or(0);
        lines as f64 * self.size_px * LINE_SPACING
    }

    /// Draws the labels right-aligned at `right`, each centered on its position.
    pub fn draw_beside(&self, svg: &mut SvgWriter, right: f64, position_of: impl Fn(usize) -> f64) {
        svg.start_group("labels").end_with(|svg| {
            for (index, block) in self.blocks.iter().enumerate().step_by(self.stride) {
                let height = block.lines.len() as f64 * self.size_px * LINE_SPACING;
                self.draw_block(
                    svg,
                    block,
                    right,
                    position_of(index) - height / 2.0,
                    TextAnchor::End,
                );
            }
        });
    }

    /// Draws the labels below `top`, each at its position.
    pub fn draw_below(&self, svg: &mut SvgWriter, top: f64, position_of: impl Fn(usize) -> f64) {
        svg.start_group("labels").end_with(|svg| {
            for (index, block) in self.blocks.iter().enumerate().step_by(self.stride) {
                if self.is_slanted {
                    self.draw_slanted(svg, block, position_of(index), top)
                } else {
                    self.draw_block(svg, block, position_of(index), top, TextAnchor::Middle)
                }
            }
        });
    }

    fn draw_block(
        &self,
        svg: &mut SvgWriter,
        block: &WrappedLabel,
        x: f64,
        top: f64,
        anchor: TextAnchor,
    ) {
        for (row, line) in block.lines.iter().enumerate() {
            let middle = top + (row as f64 + 0.5) * self.size_px * LINE_SPACING;
            let baseline = middle + self.size_px * CAP_HEIGHT / 2.0;
            // The first line of a label is the name. The other lines describe it.
            let colour = if line.source == 0 { INK } else { MUTED };
            let text = TextLine::at(&line.text, x, baseline, self.size_px);
            svg.write_text(&text.with_anchor(anchor).with_color(colour));
        }
    }

    fn draw_slanted(&self, svg: &mut SvgWriter, block: &WrappedLabel, x: f64, top: f64) {
        for line in &block.lines {
            let text = TextLine::at(&line.text, x + 4.0, top + self.size_px * 0.7, self.size_px);
            svg.write_text(&TextLine {
                rotation_degrees: -45.0,
                ..text.with_anchor(TextAnchor::End)
            });
        }
    }
}

/// Number of text lines that fit into a band.
fn max_lines(band_px: f64, size_px: f64) -> usize {
    ((band_px - 6.0) / (size_px * LINE_SPACING)).floor().clamp(1.0, 4.0) as usize
}

/// Lays out all labels completely in one column; `None` if `max_width` is too small. If possible,
/// every label is on one line, in a column of up to two thirds of `max_width`. Otherwise, labels
/// are wrapped into the narrowest column in which all are complete.
fn complete_column(
    labels: &[&str],
    band_px: f64,
    max_width: f64,
    size_px: f64,
) -> Option<Vec<WrappedLabel>> {
    let wrap = |share: &f64| -> Vec<WrappedLabel> {
        let fill = |label: &&str| {
            wrap_text(label, share * max_width, size_px, max_lines(band_px, size_px))
        };
        labels.iter().map(fill).collect()
    };
    let are_unbroken = |blocks: &Vec<WrappedLabel>| blocks.iter().all(WrappedLabel::is_unbroken);
    let are_complete = |blocks: &Vec<WrappedLabel>| blocks.iter().all(|block| block.is_complete);
    let shares = [0.45, 0.66, 0.8, 1.0];
    let narrow = shares[..2].iter().map(wrap).find(are_unbroken);
    narrow.or_else(|| shares.iter().map(wrap).find(are_complete))
}

/// Preferred height in pixels of a category label at the side of its band.
pub(crate) fn wanted_height(label: &str, max_width: f64) -> f64 {
    let lines = wrap_text(label, max_width, LABEL_PX, 4).lines.len();
    lines as f64 * LABEL_PX * LINE_SPACING + 9.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_labels_take_little_room_and_long_ones_are_broken() {
        let short = CategoryLabels::beside_bands(&["a", "b"], 30.0, 300.0);
        assert!(short.widest_px() < 20.0);
        let label = "string_decoder/string-decoder.js n=25000 len=1024 encoding=base64-utf8";
        let long = CategoryLabels::beside_bands(&[label], 60.0, 200.0);
        assert!(
            long.blocks[0].lines.len() > 1
                && long.blocks[0].is_complete
                && long.widest_px() <= 200.0
        );
    }

    #[test]
    fn crowded_labels_shrink_and_then_thin_out() {
        let labels = vec!["x"; 200];
        let crowded = CategoryLabels::beside_bands(&labels, 3.0, 300.0);
        assert_eq!(crowded.size_px, MIN_LABEL_PX);
        assert!(crowded.stride as f64 * 3.0 >= MIN_LABEL_PX);
        assert_eq!(CategoryLabels::beside_bands(&labels, 12.0, 300.0).stride, 1);
    }

    #[test]
    fn labels_are_placed_below_only_if_they_fit_whole() {
        assert!(CategoryLabels::below_slots(&["node 18", "node 20"], 80.0).is_some());
        assert!(CategoryLabels::below_slots(&["incomprehensibilities"], 80.0).is_none());
    }

    #[test]
    fn slanted_labels_stay_on_the_sheet() {
        let label = "a very long name of a place on the axis that cannot be shown whole";
        let slanted = CategoryLabels::slanted_below(&[label, label], 40.0, 100.0, 30.0);
        assert!(slanted.tallest_px() <= 100.5);
        let first = reserved_width(&slanted.blocks[0].lines[0].text, LABEL_PX);
        assert!(first / std::f64::consts::SQRT_2 <= 50.5);
    }
}
