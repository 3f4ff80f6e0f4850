//! Shapes of points. Each has about the same area at the same radius, so that none looks heavier.

use super::svg::decimal;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Marker {
    Circle,
    Square,
    TriangleUp,
    Diamond,
    TriangleDown,
    Cross,
    Plus,
}

impl Marker {
    pub const ALL: [Self; 7] = [
        Self::Circle,
        Self::Square,
        Self::TriangleUp,
        Self::Diamond,
        Self::TriangleDown,
        Self::Cross,
        Self::Plus,
    ];

    /// SVG path data of the shape around (`x`, `y`), as large as a circle of `radius`.
    pub fn path(self, x: f64, y: f64, radius: f64) -> String {
        let corners: &[(f64, f64)] = match self {
            Self::Circle => return circle(x, y, radius),
            // Half the side of a square with the circle's area is sqrt(pi) / 2 of the radius.
            Self::Square => &[
                (-0.886, -0.886),
                (0.886, -0.886),
                (0.886, 0.886),
                (-0.886, 0.886),
            ],
            // An equilateral triangle of area pi has side 2.694 and reaches 1.555 from its centre.
            Self::TriangleUp => &[(0.0, -1.455), (1.347, 0.878), (-1.347, 0.878)],
            Self::TriangleDown => &[(0.0, 1.455), (-1.347, -0.878), (1.347, -0.878)],
            Self::Diamond => &[(0.0, -1.3), (1.2, 0.0), (0.0, 1.3), (-1.2, 0.0)],
            Self::Cross => &CROSS,
            Self::Plus => &PLUS,
        };
        let mut path = String::new();
        for (at, (dx, dy)) in corners.iter().enumerate() {
            path.push(if at == 0 { 'M' } else { 'L' });
            path.push_str(&decimal(x + dx * radius));
            path.push(' ');
            path.push_str(&decimal(y + dy * radius));
        }
        path.push('Z');
        path
    }
}

/// Arms 0.8 wide; the cross is the plus turned by 45 degrees.
const PLUS: [(f64, f64); 12] = [
    (-0.4, -1.25),
    (0.4, -1.25),
    (0.4, -0.4),
    (1.25, -0.4),
    (1.25, 0.4),
    (0.4, 0.4),
    (0.4, 1.25),
    (-0.4, 1.25),
    (-0.4, 0.4),
    (-1.25, 0.4),
    (-1.25, -0.4),
    (-0.4, -0.4),
];

const CROSS: [(f64, f64); 12] = [
    (-1.167, -0.601),
    (-0.601, -1.167),
    (0.0, -0.566),
    (0.601, -1.167),
    (1.167, -0.601),
    (0.566, 0.0),
    (1.167, 0.601),
    (0.601, 1.167),
    (0.0, 0.566),
    (-0.601, 1.167),
    (-1.167, 0.601),
    (-0.566, 0.0),
];

fn circle(x: f64, y: f64, radius: f64) -> String {
    let (left, right) = (decimal(x - radius), decimal(x + radius));
    let (y, radius) = (decimal(y), decimal(radius));
    format!("M{left} {y}A{radius} {radius} 0 1 1 {right} {y}A{radius} {radius} 0 1 1 {left} {y}Z")
}
