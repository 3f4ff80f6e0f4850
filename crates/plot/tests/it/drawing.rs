//! Parses a rendered chart: its elements, texts and positions.

use roxmltree::{Document, Node};
use speedwell_plot::text_width;

/// Elements with this tag and class.
pub fn marks<'a>(document: &'a Document<'a>, tag: &str, class: &str) -> Vec<Node<'a, 'a>> {
    document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", tag)))
        .filter(|node| node.attribute("class") == Some(class))
        .collect()
}

/// Returns a numeric attribute.
pub fn number(node: Node<'_, '_>, name: &str) -> f64 {
    let text = node.attribute(name).unwrap_or_else(|| panic!("no {name} on {node:?}"));
    text.parse().unwrap()
}

/// Returns the tooltip of a mark.
pub fn tooltip(node: Node<'_, '_>) -> String {
    let title = node.children().find(|child| child.tag_name().name() == "title");
    title.and_then(|title| title.text()).unwrap_or_default().to_owned()
}

/// Center of a marker, from the extremes of its path.
pub fn middle(node: Node<'_, '_>) -> (f64, f64) {
    let data = node.attribute("d").unwrap();
    let start = data[1..].split(['A', 'L', 'Z']).next().unwrap();
    let (left, y) = start.split_once(' ').unwrap();
    let right = data.split("1 1 ").nth(1).expect("a circle").split(' ').next().unwrap();
    ((left.parse::<f64>().unwrap() + right.parse::<f64>().unwrap()) / 2.0, y.parse().unwrap())
}

/// A line of text and its bounding box.
#[derive(Clone, Debug)]
pub struct Label {
    pub text: String,
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
    pub size_px: f64,
    pub slanted: bool,
}

impl Label {
    /// Whether two texts overlap by more than a pixel.
    pub fn overlaps(&self, other: &Self) -> bool {
        let apart = |one: f64, other: f64| one + 1.0 >= other;
        !(apart(self.left, other.right)
            || apart(other.left, self.right)
            || apart(self.top, other.bottom)
            || apart(other.top, self.bottom))
    }
}

/// A viewer without the layout font shows wider letters: DejaVu Sans is wider by this factor for
/// most labels.
const WIDEST_FACE: f64 = 1.06;

/// All texts, measured in the widest font that a viewer may use.
pub fn labels(document: &Document<'_>) -> Vec<Label> {
    let text = |node: &Node<'_, '_>| node.has_tag_name(("http://www.w3.org/2000/svg", "text"));
    document.descendants().filter(text).map(label).collect()
}

fn label(node: Node<'_, '_>) -> Label {
    let text = node.text().unwrap_or_default().to_owned();
    let (x, y, size_px) = (number(node, "x"), number(node, "y"), number(node, "font-size"));
    let width = text_width(&text, size_px) * WIDEST_FACE;
    let share = match node.attribute("text-anchor") {
        Some("end") => 1.0,
        Some("middle") => 0.5,
        _ => 0.0,
    };
    let (left, right) = (x - share * width, x + (1.0 - share) * width);
    // From the top of capitals to the bottom of descenders.
    let (top, bottom) = (y - 0.75 * size_px, y + 0.22 * size_px);
    let slanted = node.attribute("transform").is_some();
    if !slanted {
        return Label { text, left, top, right, bottom, size_px, slanted };
    }
    // Anchored at its end and rotated by 45 degrees: a square box to the lower left.
    let reach = width / std::f64::consts::SQRT_2;
    Label { text, left: x - reach, top, right: x, bottom: y + reach, size_px, slanted }
}
