//! Section "Conformance" of docs/reference/protocol.md, the rows about code: one suite, run
//! unchanged for every language whose harness measures code.
//!
//! The code itself is in `code_snippets`, the same pieces in every language. Times that a busy
//! machine can only increase are compared with generous limits; others are retried a few times,
//! since a faulty harness fails every time. To start fewer processes, the checks of a language are
//! one test: [`check_all`]. Those that compare costs are in module `measures`.

mod ends;
mod figures;
mod lives;

use super::code_driver::CodeHarness;
use super::harness_driver::HarnessEvent;

/// The time per iteration of each window of a worker, in ns.
fn windows_ns(worker: &HarnessEvent) -> Vec<f64> {
    let (times, counts) = (worker.numbers("t_ns"), worker.numbers("count"));
    let ends = times.windows(2).zip(counts.windows(2));
    ends.map(|(time, count)| (time[1] - time[0]) / (count[1] - count[0])).collect()
}

fn minimum_of(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

type Check = fn(&CodeHarness);

/// Carries out checks one after the other; each uses a process that an earlier one left, which for
/// a compiled language must hold the same snippet. Carries out all of them, and names those that
/// fail.
fn check_all(language: &'static str, checks: &[(&str, Check)]) {
    let Some(harness) = CodeHarness::of(language) else { return };
    let mut failed = Vec::new();
    for (name, check) in checks {
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&harness)));
        if checked.is_err() {
            eprintln!("check '{name}' of {language} failed");
            failed.push(*name);
        }
    }
    harness.quit_idle();
    assert!(failed.is_empty(), "failed checks of {language}: {}", failed.join(" "));
}

/// One test for the checks of each language.
macro_rules! checks_in_turn {
    ($test:ident [$($language:ident)*] $names:tt) => {
        $(checks_in_turn!(@of $language $test $names);)*
    };
    (@of $language:ident $test:ident { $($module:ident: $($name:ident)*;)* }) => {
        mod $language {
            #[test]
            fn $test() {
                super::check_all(
                    stringify!($language),
                    &[$($((stringify!($name), super::$module::$name as super::Check),)*)*],
                );
            }
        }
    };
}

// The first check compares processes without a history. From the one that kills its process, each
// ends the process that it uses. Checks of one snippet are neighbors.
checks_in_turn! {
    keeps_the_protocol
    [c cpp elixir erlang go java node python rust]
    {
        figures: keeps_what_a_pure_runner_computes;
        lives: says_what_it_offers;
        figures:
            tells_the_processor_time_of_its_process
            tells_the_processor_time_of_windows_where_it_is_wanted
            has_windows_as_long_as_they_are
            records_a_series_with_its_reference_loop
            times_a_sleep_by_passes
            tells_processor_time_from_waiting
            adds_up_its_workers;
        ends: stops_with_what_it_has;
        figures: times_a_sleep_longer_than_its_windows awaits_each_iteration;
        lives:
            keeps_the_workers_of_two_jobs_in_turn
            measures_two_jobs_at_the_same_time
            carries_every_text_unchanged
            finds_modules_where_it_is_told;
        ends: tells_where_code_is_wrong keeps_its_figures_when_undoing_fails;
        lives:
            shows_gauges_while_it_measures
            shows_samples_while_it_measures
            initialises_new_workers_only;
        ends: is_seen_to_be_killed;
        lives: hands_values_from_hook_to_hook undoes_what_is_unloaded;
        ends:
            goes_on_after_a_job_that_fails
            gives_up_a_runner_that_never_ends
            undoes_when_the_commands_end
            leaves_a_runner_that_never_ends_when_the_commands_end
            takes_no_print_for_a_message;
    }
}

// Differences of Bun and Deno from Node.js; everything else is the same code. Deno does not report
// the line of a syntax error, and exits on the signal that interrupts an endless runner.
checks_in_turn! {
    keeps_the_protocol
    [bun]
    {
        figures: keeps_what_a_pure_runner_computes awaits_each_iteration;
        lives:
            says_what_it_offers
            initialises_new_workers_only
            finds_modules_where_it_is_told
            shows_gauges_while_it_measures;
        ends: tells_where_code_is_wrong stops_with_what_it_has;
        lives: hands_values_from_hook_to_hook;
        ends: gives_up_a_runner_that_never_ends undoes_when_the_commands_end;
    }
}

checks_in_turn! {
    keeps_the_protocol
    [deno]
    {
        figures: keeps_what_a_pure_runner_computes awaits_each_iteration;
        lives:
            says_what_it_offers
            initialises_new_workers_only
            finds_modules_where_it_is_told
            shows_gauges_while_it_measures;
        ends: stops_with_what_it_has;
        lives: hands_values_from_hook_to_hook;
        ends: undoes_when_the_commands_end;
    }
}

/// Other load on the machine would change the results.
mod measures {
    use super::*;

    checks_in_turn! {
        compares_costs
        [c cpp elixir erlang go java node python rust]
        { figures: costs_the_same_in_both_modes is_not_moved_by_load_beside_it; }
    }
}
