//! What a file does not say of its cases, said by the user.

use speedwell_model::{Case, Session, Value};
use std::sync::Arc;

/// Gives these parameters to every case of a session; a parameter that a case has already gets the
/// new value.
pub fn set(session: &mut Session, values: &[(String, Value)]) {
    if values.is_empty() {
        return;
    }
    for run in &mut session.runs {
        run.case = Arc::new(with(&run.case, values));
    }
    for failure in &mut session.failures {
        // An id that cannot be read was made by no case, so nothing is known of its parameters.
        let case = failure.case.as_deref().map(Case::parse);
        if let Some(Ok(case)) = case {
            failure.case = Some(with(&case, values).id());
        }
    }
}

fn with(case: &Case, values: &[(String, Value)]) -> Case {
    let mut case = case.clone();
    for (name, value) in values {
        case.values.retain(|(known, _)| known != name);
        case.values.push((name.clone(), value.clone()));
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_added_or_replaced() {
        let case = Case::parse("a n=1 len=2").unwrap();
        let case = with(
            &case,
            &[
                ("n".into(), Value::Number(5.0)),
                ("m".into(), Value::Number(6.0)),
            ],
        );
        assert_eq!(case.id(), "a len=2 m=6 n=5");
    }
}
