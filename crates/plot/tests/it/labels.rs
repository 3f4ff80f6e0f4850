//! No text leaves the sheet or overlaps another, for any labels and sizes.

use crate::charts::{awkward, one_of_each};
use crate::drawing::{Label, labels};
use roxmltree::Document;
use speedwell_plot::{AnyChart, ImageSize};

fn check(name: &str, chart: &AnyChart, size: ImageSize) -> Vec<Label> {
    let svg = chart.svg(size);
    let document = Document::parse(&svg).unwrap();
    let labels = labels(&document);
    assert!(!labels.is_empty(), "{name} has no text");
    let (width, height) = (f64::from(size.width_px), f64::from(size.height_px));
    for label in &labels {
        let inside = label.left >= -0.5
            && label.top >= -0.5
            && label.right <= width + 0.5
            && label.bottom <= height + 0.5;
        assert!(inside, "{name} at {size:?}: {label:?} leaves the sheet");
        assert!(label.size_px >= 9.0, "{name} at {size:?}: {label:?} is too small to be read");
    }
    for (at, one) in labels.iter().enumerate() {
        for other in &labels[at + 1..] {
            // The bounding boxes of slanted texts overlap although the texts are parallel.
            let apart = (one.slanted && other.slanted) || !one.overlaps(other);
            assert!(apart, "{name} at {size:?}: {one:?} lies on {other:?}");
        }
    }
    labels
}

#[test]
fn at_its_natural_size_every_chart_is_legible_and_no_label_is_cut() {
    for (name, chart) in awkward() {
        let labels = check(&name, &chart, chart.natural_size());
        if matches!(chart, AnyChart::Box(_) | AnyChart::Bar(_) | AnyChart::Forest(_)) {
            let cut = labels.iter().find(|label| label.text.contains('…'));
            assert!(cut.is_none(), "{name}: {cut:?}");
        }
    }
}

#[test]
fn at_usual_sizes_every_chart_is_legible_and_nothing_overlaps() {
    for (width_px, height_px) in [(960, 640), (480, 600)] {
        for (name, chart) in awkward() {
            check(&name, &chart, ImageSize { width_px, height_px });
        }
    }
}

#[test]
fn short_labels_are_drawn_below_and_long_ones_at_the_left() {
    let find = |labels: &[Label], start: &str| {
        labels.iter().find(|label| label.text.starts_with(start)).cloned().unwrap()
    };
    let (_, chart) = &one_of_each()[0];
    let svg = chart.svg(ImageSize::default());
    let drawn = labels(&Document::parse(&svg).unwrap());
    assert!(find(&drawn, "ascii").top > 560.0, "short labels stand below");

    let names = ["a benchmark with a long name and parameters"; 9];
    let chart = AnyChart::Box(crate::charts::boxes(&names, &["old", "new"], 5));
    let svg = chart.svg(ImageSize::default());
    let drawn = labels(&Document::parse(&svg).unwrap());
    let label = find(&drawn, "a benchmark with");
    assert!(label.right < 480.0 && label.top < 200.0, "long labels stand at the left");
}
