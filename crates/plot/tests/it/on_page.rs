//! Charts in a page: IDs do not clash, and the page can change every color.

use crate::charts::{bars, boxes, one_of_each};
use roxmltree::Document;
use speedwell_plot::{AnyChart, page_colors};

fn ids(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let ids = document.descendants().filter_map(|node| node.attribute("id"));
    ids.map(str::to_owned).collect()
}

#[test]
fn charts_with_different_ids_share_no_element_ids() {
    let mut seen = std::collections::HashSet::new();
    let mut number = 0;
    for (_, chart) in one_of_each() {
        for id in ["a", "b"] {
            for found in ids(&chart.svg_on_page(400, id)) {
                number += 1;
                assert!(seen.insert(found.clone()), "{found} twice");
            }
        }
        seen.clear();
    }
    assert!(number >= 8, "hatchings and run marks have ids");
}

#[test]
fn references_lead_only_to_elements_of_the_same_chart() {
    for (kind, chart) in one_of_each() {
        let svg = chart.svg_on_page(400, "c");
        let ids = ids(&svg);
        for mark in ["url(#", "href=\"#"] {
            for rest in svg.split(mark).skip(1) {
                let id = rest.split([')', '"']).next().unwrap();
                assert!(ids.contains(&id.to_owned()), "{kind}: #{id}");
            }
        }
    }
}

#[test]
fn charts_on_a_page_use_no_fixed_colours() {
    let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut charts = one_of_each();
    charts.push(("boxes", AnyChart::Box(boxes(&["x"], &many, 5))));
    charts.push(("bars", AnyChart::Bar(bars(&["x"], &many))));
    for (kind, chart) in charts {
        let svg = chart.svg_on_page(700, "c");
        let document = Document::parse(&svg).unwrap();
        for node in document.descendants() {
            for name in ["fill", "stroke"] {
                let colour = node.attribute(name).unwrap_or_default();
                assert!(!colour.starts_with('#'), "{kind}: {name} is {colour}");
            }
        }
        for used in svg.split("var(").skip(1) {
            let name = used.split(')').next().unwrap();
            let known = page_colors().iter().any(|(known, _)| known == name);
            assert!(known, "{kind}: {name}");
        }
    }
}

#[test]
fn charts_on_a_page_have_a_role_and_a_descriptive_label() {
    for (kind, chart) in one_of_each() {
        let svg = chart.svg_on_page(400, "c");
        let document = Document::parse(&svg).unwrap();
        let root = document.root_element();
        // A chart with individually accessible parts is not a single image.
        let role = if matches!(chart, AnyChart::Trend(_)) { "group" } else { "img" };
        assert_eq!(root.attribute("role"), Some(role));
        let label = root.attribute("aria-label").unwrap();
        assert!(label.contains("old") || label.contains("ascii"), "{kind}: {label}");
    }
}

#[test]
fn a_standalone_chart_uses_no_page_variables() {
    for (kind, chart) in one_of_each() {
        let svg = chart.svg(chart.natural_size());
        assert!(!svg.contains("var("), "{kind}");
    }
}
