#![no_main]

use speedwell_analysis::profile::explain_difference;
use speedwell_formats::foreign::profile::{FrameNames, read_profile};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(profile)) = read_profile(bytes, &FrameNames::default()) {
        let explanation = explain_difference(&profile, &profile);
        assert_eq!(explanation.tree.baseline, profile.total(), "weight is kept");
    }
});
