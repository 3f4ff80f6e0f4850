//! The figures of Node.js core's scatter table: mean and interval by two parameters.
//!
//! Decides which rows are pooled and the arithmetic of a point; it must not know order or text.
//! Rows of different cases that fall on one point are pooled as if they were repetitions of one
//! thing, so the interval mixes effects with noise; the study in `analysis` proper does not.
//! Start at [`scatter_table`].

use indexmap::IndexMap;
use speedwell_analysis::Aggregated;
use speedwell_results::formats::node_csv::Frame;
use speedwell_results::formats::node_csv::frame::Column;
use speedwell_stats::describe::mean;
use speedwell_stats::effect::eta_squared;
use speedwell_stats::interval::mean_t;

/// Confidence of the intervals.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Codes of x value and category.
type Place = (usize, usize);

/// The table, points in order of first appearance.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterTable {
    /// Parameters with several values that are pooled.
    pub aggregated: Vec<Aggregated>,
    /// The different texts of the x axis; points refer to them by index.
    pub x_texts: Vec<String>,
    /// The different texts of the category; a single empty one without a category.
    pub category_texts: Vec<String>,
    /// The points.
    pub points: Vec<ScatterPoint>,
}

/// All rows with the same x value and category.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterPoint {
    /// Index into the texts of the x axis.
    pub x: usize,
    /// Index into the texts of the category.
    pub category: usize,
    /// The rates of its rows.
    pub rates: Vec<f64>,
    /// Mean rate in operations per second.
    pub mean: f64,
    /// Half width of Student's 95 % interval of the mean; `None` for one row.
    pub half_width: Option<f64>,
}

/// A column that the file does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no column '{wanted}'; the file has {}", present.join(", "))]
pub struct NoSuchColumn {
    /// The name asked for.
    pub wanted: String,
    /// The names that exist.
    pub present: Vec<String>,
}

/// Pools the rows of `frame` by the columns `x` and `category`.
///
/// # Errors
/// One of the columns does not exist.
pub fn scatter_table(
    frame: &Frame,
    x: &str,
    category: Option<&str>,
) -> Result<ScatterTable, NoSuchColumn> {
    let x = find(frame, x)?;
    let category = category.map(|name| find(frame, name)).transpose()?;
    let places: Vec<Place> = (0..frame.rates.len())
        .map(|row| (x.codes[row], category.map_or(0, |column| column.codes[row])))
        .collect();
    let mut rates: IndexMap<Place, Vec<f64>> = IndexMap::new();
    for (&place, &rate) in places.iter().zip(&frame.rates) {
        rates.entry(place).or_default().push(rate);
    }
    let used = |column: &Column| {
        std::ptr::eq(column, x) || category.is_some_and(|category| std::ptr::eq(column, category))
    };
    let pooled = frame
        .columns
        .iter()
        .filter(|column| column.texts.len() > 1 && !used(column));
    let texts = |column: &Column| column.texts.iter().cloned().collect();
    Ok(ScatterTable {
        aggregated: pooled
            .map(|column| Aggregated {
                name: column.name.clone(),
                explained: explained(&places, column, &frame.rates),
            })
            .collect(),
        x_texts: texts(x),
        category_texts: category.map_or_else(|| vec![String::new()], texts),
        points: rates
            .into_iter()
            .map(|(place, rates)| point(place, rates))
            .collect(),
    })
}

fn find<'a>(frame: &'a Frame, wanted: &str) -> Result<&'a Column, NoSuchColumn> {
    frame.column(wanted).ok_or_else(|| NoSuchColumn {
        wanted: wanted.to_owned(),
        present: frame
            .columns
            .iter()
            .map(|column| column.name.clone())
            .collect(),
    })
}

fn point((x, category): Place, rates: Vec<f64>) -> ScatterPoint {
    ScatterPoint {
        x,
        category,
        mean: mean(&rates),
        half_width: mean_t(&rates, CONFIDENCE).map(|interval| interval.half_width()),
        rates,
    }
}

/// Eta squared of `column` within points.
fn explained(places: &[Place], column: &Column, rates: &[f64]) -> Option<f64> {
    let mut points: IndexMap<Place, IndexMap<usize, Vec<f64>>> = IndexMap::new();
    for ((&place, &code), &rate) in places.iter().zip(&column.codes).zip(rates) {
        let groups = points.entry(place).or_default();
        groups.entry(code).or_default().push(rate);
    }
    let groups = points.into_values().map(|g| g.into_values().collect());
    eta_squared(&groups.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let mut frame = Frame {
            columns: ["n", "len", "kind"].map(Column::new).into(),
            ..Frame::default()
        };
        for (row, rate) in [
            (["5", "1", "a"], 1.0),
            (["5", "2", "a"], 3.0),
            (["5", "1", "b"], 7.0),
        ] {
            frame.push("g/a.js", row, rate);
        }
        frame
    }

    #[test]
    fn rows_of_one_point_are_pooled_and_named() {
        let table = scatter_table(&frame(), "n", Some("kind")).unwrap();
        assert_eq!(table.aggregated[0].name, "len");
        assert_eq!(table.aggregated[0].explained, Some(1.0));
        let means: Vec<_> = table
            .points
            .iter()
            .map(|point| (point.rates.len(), point.mean))
            .collect();
        assert_eq!(means, [(2, 2.0), (1, 7.0)]);
        assert_eq!(table.points[1].half_width, None);
    }

    #[test]
    fn without_a_category_there_is_one_line() {
        let table = scatter_table(&frame(), "len", None).unwrap();
        assert_eq!(table.aggregated[0].name, "kind");
        // 1 and 7 are one of each kind, 3 is alone at its point: all lies between the kinds.
        assert_eq!(table.aggregated[0].explained, Some(1.0));
        assert_eq!(table.category_texts, [""]);
        assert_eq!(table.points.len(), 2);
    }

    #[test]
    fn an_unknown_column_is_answered_with_the_known_ones() {
        let error = scatter_table(&frame(), "size", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no column 'size'; the file has n, len, kind"
        );
    }
}
