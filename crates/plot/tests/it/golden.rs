//! Compares charts with stored drawings, byte by byte. Run with `SPEEDWELL_UPDATE_GOLDEN=1` to
//! accept a change, and inspect the new drawings before committing them.

use std::path::Path;

use crate::charts::one_of_each;
use speedwell_plot::ImageSize;

#[test]
fn charts_match_the_golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let update = std::env::var_os("SPEEDWELL_UPDATE_GOLDEN").is_some_and(|value| value == "1");
    for (kind, chart) in one_of_each() {
        let path = folder.join(kind).with_extension("svg");
        let drawn = chart.svg(ImageSize { width_px: 640, height_px: 420 });
        if update {
            std::fs::write(&path, &drawn).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        let differs = kept.lines().zip(drawn.lines()).find(|(kept, drawn)| kept != drawn);
        assert_eq!(differs, None, "{kind} is drawn differently");
        assert_eq!(kept.len(), drawn.len(), "{kind} has another length");
    }
}
