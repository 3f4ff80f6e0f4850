//! Charts are accessible without being seen, and no data breaks the document.

use crate::charts::{boxes, one_of_each};
use roxmltree::Document;
use speedwell_plot::{AnyChart, ImageSize};

#[test]
fn every_chart_has_a_role_a_name_and_a_description() {
    for (kind, chart) in one_of_each() {
        let svg = chart.svg(ImageSize::default());
        let document = Document::parse(&svg).unwrap();
        let root = document.root_element();
        // A chart with individually accessible parts is not a single image.
        let role = if matches!(chart, AnyChart::Trend(_)) { "group" } else { "img" };
        assert_eq!(root.attribute("role"), Some(role));
        let children: Vec<_> = root.children().filter(roxmltree::Node::is_element).collect();
        let (title, desc) = (children[0], children[1]);
        assert_eq!((title.tag_name().name(), desc.tag_name().name()), ("title", "desc"));
        let (title, desc) = (title.text().unwrap(), desc.text().unwrap());
        assert_eq!(
            root.attribute("aria-label"),
            Some(format!("{title}. {desc}").as_str()),
            "{kind}"
        );
        assert!(desc.contains("old") || desc.contains("ascii"), "{kind}: {desc}");
    }
}

#[test]
fn names_with_markup_and_control_characters_are_escaped() {
    let label = "a<b> & \"c\" 'd' </svg>\u{0}\u{1b}[31m";
    let chart = AnyChart::Box(boxes(&[label], &["<script>", "]]>"], 3));
    let svg = chart.svg(ImageSize::default());
    let document = Document::parse(&svg).unwrap();
    let texts: String =
        document.descendants().filter_map(|node| node.text()).collect::<Vec<_>>().join("\n");
    assert!(texts.contains("<script>") && texts.contains("a<b> & \"c\" 'd' </svg>\u{fffd}"));
    assert!(!svg.contains("<script>"));
}

#[test]
fn characters_of_any_script_are_kept() {
    let chart = AnyChart::Box(boxes(&["Größe", "語", "Ελληνικά → ∞", "🚀"], &["x"], 3));
    let svg = chart.svg(ImageSize::default());
    for name in ["Größe", "語", "Ελληνικά → ∞", "🚀"] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name}");
    }
}
