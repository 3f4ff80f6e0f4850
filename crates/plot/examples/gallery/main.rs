//! Draws every kind of chart, and difficult cases, into a folder as SVG and PNG: `cargo run
//! --release --example gallery -- FOLDER`.

use std::error::Error;
use std::path::Path;

mod boxes;
mod estimates;
mod histograms;
mod noise;
mod points;
mod trends;

const LONG: [&str; 6] = [
    "string_decoder/string-decoder.js\nn=25000 len=1024 encoding=base64-utf8 inLen=32",
    "buffers/buffer-compare.js\nn=1000000 size=16",
    "url/whatwg-url-properties.js\nprop=searchParams withBase=true type=percent",
    "http/simple.js\nduration=5 connections=500 chunkedEnc=1 chunks=4 len=102400 type=buffer",
    "util/inspect.js\noption=colors method=TypedArray_extra len=100",
    "fs/readfile.js\nlen=16777216 concurrent=10 encoding=''",
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: gallery FOLDER")?;
    std::fs::create_dir_all(&folder)?;
    let charts = [
        ("box", boxes::boxes()),
        ("box-long-labels", boxes::boxes_with_long_labels()),
        ("box-2000-points", boxes::boxes_with_many_points()),
        ("box-200-categories", boxes::boxes_of_many_categories()),
        ("line", points::lines()),
        ("line-named-places", points::lines_over_names()),
        ("scatter", points::scatter()),
        ("bar", estimates::bars()),
        ("bar-long-labels", estimates::bars_with_long_labels()),
        ("forest", estimates::forest()),
        ("histogram", histograms::histogram()),
        ("histogram-rows", histograms::histogram_rows()),
        ("trend", trends::trend()),
        ("no-data", points::no_data()),
        ("hostile", boxes::hostile()),
    ];
    for (name, chart) in charts {
        let size = chart.natural_size();
        let path = Path::new(&folder).join(name);
        std::fs::write(path.with_extension("svg"), chart.svg(size))?;
        std::fs::write(path.with_extension("png"), chart.png_zoomed(size, 1)?)?;
        println!("{}.svg .png  {} x {}", path.display(), size.width_px, size.height_px);
    }
    Ok(())
}
