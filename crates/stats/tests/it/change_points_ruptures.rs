//! Change points against ruptures (`golden/change-points.py`), an independent implementation of the
//! same model.

use crate::golden_file;
use serde_json::Value;
use speedwell_stats::changepoint::find_segments;

#[test]
fn change_points_are_those_of_ruptures() {
    let golden: Value = serde_json::from_str(&golden_file("change-points.json")).unwrap();
    let rows = golden["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 60);
    for (number, row) in rows.iter().enumerate() {
        let numbers = |key: &str| -> Vec<f64> {
            let all = row[key].as_array().unwrap().iter();
            all.map(|value| value.as_f64().unwrap()).collect()
        };
        let shortest = row["shortest"].as_u64().unwrap() as usize;
        let found = find_segments(&numbers("values"), row["penalty"].as_f64().unwrap(), shortest);
        let ends: Vec<f64> = found.iter().map(|segment| segment.end as f64).collect();
        assert_eq!(ends, numbers("ends"), "row {number}");
    }
}
