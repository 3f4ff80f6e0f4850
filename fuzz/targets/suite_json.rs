#![no_main]

use speedwell_formats::foreign::suites::configured::ResultPaths;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let paths = ResultPaths {
        results: "results[*]",
        name: Some("name"),
        samples: "times",
        unit: "us",
        better: None,
    };
    speedwell_fuzz::check_suite(paths.read(bytes))
});
