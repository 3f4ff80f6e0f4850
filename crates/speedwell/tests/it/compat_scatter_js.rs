//! Drop-in for `scatter.js`: its rows, and the analysis without R.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::drop_in::{
    DropIn, DropInStep, SCRIPTS, benchmark_folder, case, golden, play_session, recorded, result,
};

#[test]
fn scatter_prints_what_the_original_prints() {
    let folder = benchmark_folder(SCRIPTS);
    for (name, script) in
        [("scatter.csv", "string_decoder/string-decoder.js"), ("quoting-scatter.csv", "zz/kill.js")]
    {
        let steps = recorded(name);
        let outcome = DropIn::new("scatter.js", &format!("--runs 5 {script}"))
            .directory(folder.path())
            .engine(move |_, follower| play_session(follower, &[], &steps))
            .run();
        assert_eq!(outcome.stdout, golden(name));
        assert_eq!((outcome.status, outcome.scripts()), (0, vec![script]));
        assert_eq!(outcome.request.unwrap().runs, 5);
    }
}

#[test]
fn rows_with_other_parameters_never_land_under_wrong_names() {
    let folder = benchmark_folder(SCRIPTS);
    let steps: Vec<DropInStep> = ["zz/kill.js n=1 len=2", "zz/kill.js len=3 n=4", "zz/kill.js n=5"]
        .into_iter()
        .map(|id| DropInStep::Result(result(&case(id), "default", 0, 1.0, 1)))
        .collect();
    let outcome = DropIn::new("scatter.js", "zz/kill.js")
        .directory(folder.path())
        .engine(move |_, follower| play_session(follower, &[], &steps))
        .run();
    assert_eq!(
        outcome.stdout,
        "\"filename\", \"n\", \"len\", \"rate\", \"time\"\n\
         \"zz/kill.js\", 1, 2, 1, 0.000000001\n\"zz/kill.js\", 4, 3, 1, 0.000000001\n"
    );
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr.contains("'zz/kill.js n=5' is left out"), "{}", outcome.stderr);
}

#[test]
fn scatter_analyzes_without_r() {
    let folder = benchmark_folder(SCRIPTS);
    let run = |arguments: &str| {
        let steps = recorded("scatter.csv");
        DropIn::new("scatter.js", &format!("{arguments} string_decoder/string-decoder.js"))
            .directory(folder.path())
            .engine(move |_, follower| play_session(follower, &[], &steps))
            .run()
    };
    let bare = run("--analyze --xaxis chunkLen --category encoding --no-chart");
    assert_eq!(bare.stdout, golden("scatter-analyze.txt"));
    let drawn = run("--analyze --xaxis chunkLen").stdout;
    assert!(
        drawn.contains("\naggregating variable: encoding (15.1 % of the variance within points)\n"),
        "{drawn}"
    );
    assert!(drawn.lines().any(|line| line.starts_with("1024 ") && line.contains('o')), "{drawn}");
    assert_eq!(run("--analyze").status, 1, "the x axis is missing");
    assert!(run("--analyze --xaxis size").stderr.contains("unknown column 'size'"));
}

#[test]
fn an_analysis_of_few_samples_says_that_no_step_can_be_significant() {
    let folder = benchmark_folder(SCRIPTS);
    let run = |runs: usize| {
        let steps: Vec<DropInStep> = ["zz/kill.js n=1", "zz/kill.js n=4"]
            .into_iter()
            .zip([1.0, 2.0])
            .flat_map(|(id, rate)| {
                (0..runs).map(move |run| {
                    let rate = rate + run as f64 / 100.0;
                    DropInStep::Result(result(&case(id), "default", run as u32, rate, 1))
                })
            })
            .collect();
        DropIn::new("scatter.js", "--analyze --xaxis n --no-chart zz/kill.js")
            .directory(folder.path())
            .engine(move |_, follower| play_session(follower, &[], &steps))
            .run()
            .stdout
    };
    let few = run(3);
    assert!(
        few.contains(
            "With 3 runs at one point and 3 at the next, no step can reach a p value below 0.10"
        ),
        "{few}"
    );
    let enough = run(8);
    assert!(!enough.contains("no step can reach"), "{enough}");
    assert!(enough.contains("1 -> 4 1.966     0.49 0.0002          1.00  large"), "{enough}");
}
