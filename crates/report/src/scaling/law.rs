//! The Universal Scalability Law in words: its parameters, its peak, or why it is refused.

use crate::digits::{Uncertainty, place, spell};
use crate::quantity::{quantity, share};
use serde_json::{Value, json};
use speedwell_analysis::scaling::{
    FEWEST_LEVELS, LEAST_R_SQUARED, Parameter, Scaling, Standing, Usl, UslError,
};

/// What the law says of the levels.
pub fn sentence(scaling: &Scaling) -> String {
    let usl = match &scaling.curve {
        Err(why) => return format!("No Universal Scalability Law: {}.", refusal(why)),
        Ok(usl) => usl,
    };
    let error = usl.lambda.error;
    let lambda = quantity(usl.lambda.value, "1/s", half(error));
    let peak = match scaling.peak {
        Some(peak) => format!(
            "its greatest throughput is at {peak:.0}{}",
            beyond(scaling, peak)
        ),
        None if usl.kappa.error.is_none() => "it has no peak (kappa is 0)".to_owned(),
        None => "its peak is unknown: kappa is indistinguishable from 0".to_owned(),
    };
    format!(
        "Universal Scalability Law: one worker alone {lambda} (lambda), sigma {}, kappa {}, R² {}; {peak}{}.",
        parameter(&usl.sigma),
        parameter(&usl.kappa),
        spell(usl.r_squared, 3),
        misfit(scaling)
    )
}

/// A curve that leaves the intervals of many levels describes them only roughly, whatever it explains: of all
/// intervals of 95 % one in twenty may be missed.
fn misfit(scaling: &Scaling) -> String {
    let standings = &scaling.answer.standings;
    let is_missed = |standing: &&Standing| {
        let at = |usl: &Usl| usl.at(f64::from(standing.concurrency));
        let curve = scaling.curve.as_ref().ok().map(at);
        standing
            .interval
            .zip(curve)
            .is_some_and(|(interval, at)| !interval.contains(at))
    };
    match standings.iter().filter(is_missed).count() {
        missed if 4 * missed > standings.len() => format!(
            "; the curve leaves the intervals of {missed} of {} levels, so it is a rough description",
            standings.len()
        ),
        _ => String::new(),
    }
}

/// A curve says little of what lies outside of its data.
fn beyond(scaling: &Scaling, peak: f64) -> &'static str {
    let highest = scaling.answer.standings.last();
    let is_beyond = highest.is_some_and(|highest| peak > f64::from(highest.concurrency));
    if is_beyond {
        ", beyond what was measured"
    } else {
        ""
    }
}

fn refusal(why: &UslError) -> String {
    match why {
        UslError::TooFewLevels { levels } => format!(
            "{levels} levels are too few for its three parameters (it needs {FEWEST_LEVELS})"
        ),
        UslError::NotPositive => "at a level nothing was answered".to_owned(),
        UslError::NoFit => "no curve of this form comes near the levels".to_owned(),
        UslError::Poor { r_squared } if r_squared.is_nan() || *r_squared <= 0.0 => {
            "throughput hardly depends on the concurrency, so there is nothing to explain"
                .to_owned()
        }
        UslError::Poor { r_squared } => format!(
            "its best curve explains {} of the differences between levels, less than {}; something else \
             than contention and coherency decides here",
            share(*r_squared),
            share(LEAST_R_SQUARED)
        ),
    }
}

fn half(error: Option<f64>) -> Uncertainty {
    error.map_or(Uncertainty::Unknown, Uncertainty::Half)
}

/// `0.0268 ± 0.0033`, the standard error behind the sign; a parameter at its bound is 0.
fn parameter(parameter: &Parameter) -> String {
    match parameter.error {
        None => "0".to_owned(),
        Some(error) => {
            let place = place(parameter.value, half(parameter.error)).min(7);
            format!(
                "{} ± {}",
                spell(parameter.value, place),
                spell(error, place)
            )
        }
    }
}

/// The same with every digit.
pub fn for_machines(scaling: &Scaling) -> Value {
    let known = |parameter: &Parameter| json!({"value": parameter.value, "error": parameter.error});
    match &scaling.curve {
        Ok(usl) => json!({
            "lambda": known(&usl.lambda),
            "sigma": known(&usl.sigma),
            "kappa": known(&usl.kappa),
            "r_squared": usl.r_squared,
            "peak": scaling.peak,
        }),
        Err(why) => json!({"refused": refusal(why)}),
    }
}
