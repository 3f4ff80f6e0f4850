//! PNG files: the right size, and not blank.

#![cfg(feature = "png")]

use crate::charts::{boxes, one_of_each};
use speedwell_plot::{AnyChart, ImageSize};

struct Picture {
    width: u32,
    height: u32,
    /// Four bytes per pixel: red, green, blue, alpha.
    bytes: Vec<u8>,
}

fn read(png: &[u8]) -> Picture {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgba, png::BitDepth::Eight));
    Picture { width: info.width, height: info.height, bytes }
}

impl Picture {
    fn count(&self, wanted: impl Fn([u8; 3]) -> bool) -> usize {
        self.bytes.chunks(4).filter(|pixel| wanted([pixel[0], pixel[1], pixel[2]])).count()
    }

    fn row_is_white(&self, row: u32) -> bool {
        let length = self.width as usize * 4;
        let start = row as usize * length;
        self.bytes[start..start + length].iter().all(|byte| *byte == 255)
    }
}

#[test]
fn a_picture_has_the_size_asked_for_and_is_not_blank() {
    let size = ImageSize { width_px: 500, height_px: 380 };
    for (kind, chart) in one_of_each() {
        let picture = read(&chart.png_zoomed(size, 1).unwrap());
        assert_eq!((picture.width, picture.height), (500, 380));
        let pixels = 500 * 380;
        let white = picture.count(|pixel| pixel == [255; 3]);
        assert!(white > pixels / 2 && white < pixels * 99 / 100, "{kind}: {white} of {pixels}");
        let coloured = picture.count(|[r, g, b]| r.abs_diff(g) > 60 || g.abs_diff(b) > 60);
        assert!(coloured > 100, "{kind} has {coloured} coloured pixels");
        assert!((0..15).all(|row| picture.row_is_white(row)), "{kind} has a margin");
    }
}

#[test]
fn letters_are_painted_without_any_font_of_the_system() {
    let dark = |title: &str| {
        let mut chart = boxes(&["a"], &["s"], 3);
        chart.title = title.into();
        let png = AnyChart::Box(chart).png_zoomed(ImageSize::default(), 1).unwrap();
        read(&png).count(|[r, g, b]| r < 90 && g < 90 && b < 90)
    };
    // A title of 14 letters at 18 pixels adds some hundred dark pixels.
    assert!(dark("A visible line") > dark("") + 200);
}

#[test]
fn zoom_multiplies_the_pixels() {
    let chart = AnyChart::Box(boxes(&["a"], &["s"], 3));
    let picture = read(&chart.png_zoomed(ImageSize { width_px: 300, height_px: 200 }, 2).unwrap());
    assert_eq!((picture.width, picture.height), (600, 400));
}

#[test]
fn impossible_sizes_are_errors() {
    let chart = AnyChart::Box(boxes(&["a"], &["s"], 3));
    let error = |width_px: u32, height_px: u32| {
        chart.png_zoomed(ImageSize { width_px, height_px }, 1).unwrap_err().to_string()
    };
    assert_eq!(
        error(0, 100),
        "cannot rasterize a picture of 0 x 100 pixels: expected 1 to 200,000,000 pixels"
    );
    let vast = error(u32::MAX, u32::MAX);
    assert!(vast.contains("cannot rasterize"), "{vast}");
}
