//! The search for changes as properties, and a small version of `cargo bench --bench trend`.

#[path = "../../benches/trend/noise.rs"]
#[allow(dead_code, reason = "the benchmark program uses all of it")]
pub mod noise;

use noise::{Noise, Random, course, with_step};
use speedwell_stats::trend::{Series, Walk, search};

#[test]
fn appending_points_ends_where_walking_all_of_them_does() {
    let kinds = [
        Noise::Student2,
        Noise::Dependent(0.7),
        Noise::ThreeMachines,
        Noise::Sticky,
    ];
    for (seed, kind) in (0..).zip(kinds) {
        let points = with_step(course(kind, 180, 0.02, &mut Random::new(seed)), 90, 0.04);
        let mut appended = Walk::default();
        for count in 0..=points.len() {
            let series = Series::new(&points[..count]).unwrap();
            appended = Walk::from_bytes(&appended.to_bytes(), &series).unwrap();
            appended.go_on(&series);
            let mut once = Walk::default();
            once.go_on(&series);
            assert_eq!(appended, once, "{kind:?}, {count} points");
        }
        assert!(
            appended.raised() > 0,
            "{kind:?}: nothing was ever suspected"
        );
        let series = Series::new(&points).unwrap();
        assert_eq!(appended.changes(&series), search(&points).unwrap());
    }
}
