//! Divides the cases of the targets into variants, so that values of a parameter or benchmarks of a
//! file are compared with each other in one session. Start at [`divide_cases`].

use super::programs::{JobsByCase, pair_single_cases, unmatched_warning};
use super::{BenchmarkPart, DiscoveredBenchmarks, shared_word, suggest_parameter};
use crate::BenchmarkJob;
use crate::job::{DeclaredParameter, StartMode};
use anyhow::{bail, ensure};
use speedwell_model::{Case, ParameterValue};

/// Source of the variants of a session.
#[derive(Debug, Clone)]
pub enum CaseDivision {
    /// The values of a parameter, the baseline first; without values, all values of the cases.
    Parameter {
        /// Name of the parameter.
        name: String,
        /// The values as text.
        values: Vec<String>,
    },
    /// Benchmarks, each with the name of its variant, the baseline first.
    Parts(Vec<(String, BenchmarkPart)>),
}

/// Keeps only the cases that all variants have: each variant performs its own job
/// ([`BenchmarkJob::sides`]). Returns the names of the variants.
///
/// # Errors
/// Fails if a variant has no case, or the variants have no case in common.
pub fn divide_cases(
    suite: &mut DiscoveredBenchmarks,
    division: &CaseDivision,
) -> anyhow::Result<Vec<String>> {
    if let Some(job) = suite.jobs.iter().find(|job| job.route == StartMode::Parent) {
        bail!(
            "'{}' starts its cases itself, so they cannot be measured as variants",
            job.source.name
        );
    }
    let jobs: Vec<(Case, BenchmarkJob)> = std::mem::take(&mut suite.jobs)
        .into_iter()
        .map(|job| (job.described_case(), job))
        .collect();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let sides = match division {
        CaseDivision::Parameter { name, values } => sides_by_value(&jobs, name, values)?,
        CaseDivision::Parts(parts) => sides_by_part(&jobs, parts)?,
    };
    let (names, indexed): (Vec<String>, Vec<JobsByCase>) = sides.into_iter().unzip();
    for (id, (case, job)) in indexed.iter().take(1).flatten() {
        let own_job = |(name, side): (&String, &JobsByCase)| {
            side.get(id).map(|(_, job)| (name.clone(), job.clone()))
        };
        let all_jobs = names.iter().zip(&indexed).map(own_job);
        let Some(sides) = all_jobs.collect::<Option<Vec<_>>>() else { continue };
        suite.jobs.push(BenchmarkJob {
            label: id.clone(),
            case: Some(case.clone()),
            sides,
            measured: None,
            ..job.clone()
        });
    }
    let side_names: Vec<&str> = names.iter().map(String::as_str).collect();
    let warning = unmatched_warning(&side_names, &indexed);
    ensure!(!suite.jobs.is_empty(), "nothing to compare: {}", warning.unwrap_or_default());
    suite.warnings.extend(warning);
    Ok(names)
}

/// The jobs of each variant with their common cases.
type NamedSides = Vec<(String, JobsByCase)>;

fn sides_by_value(
    jobs: &[(Case, BenchmarkJob)],
    name: &str,
    values: &[String],
) -> anyhow::Result<NamedSides> {
    let all_values = jobs.iter().flat_map(|(case, _)| case.values.iter().cloned());
    let declared = DeclaredParameter::collect(all_values);
    let Some(parameter) = declared.iter().find(|parameter| parameter.name == name) else {
        let known: Vec<&DeclaredParameter> = declared.iter().collect();
        bail!("no benchmark has a parameter '{name}'{}", suggest_parameter(name, &known));
    };
    let mut chosen: Vec<String> = values.to_vec();
    if chosen.is_empty() {
        chosen.extend(parameter.values.iter().map(ParameterValue::plain));
    }
    if let [only] = &chosen[..] {
        bail!(
            "the value '{only}' of '{name}' alone cannot be compared\n\
             hint: name two values: --by {name}={only},OTHER"
        );
    }
    let side_of = |value: String| {
        let mut side = JobsByCase::new();
        for (case, job) in jobs {
            if case.value(name).is_some_and(|own| own.plain() == value) {
                let mut common = case.clone();
                common.values.retain(|(parameter, _)| parameter != name);
                side.insert(common.id(), (common, job.clone()));
            }
        }
        ensure!(!side.is_empty(), "no case has the value '{value}' of '{name}'");
        Ok((value, side))
    };
    chosen.into_iter().map(side_of).collect()
}

fn sides_by_part(
    jobs: &[(Case, BenchmarkJob)],
    parts: &[(String, BenchmarkPart)],
) -> anyhow::Result<NamedSides> {
    let cases = || jobs.iter().map(|(case, _)| case);
    let all_parts: Vec<Option<&BenchmarkPart>> = parts.iter().map(|(_, part)| Some(part)).collect();
    let word = shared_word(&all_parts).unwrap_or_default();
    let side_of = |(_, part): &(String, BenchmarkPart)| {
        let narrowed = part.narrowed_to(cases());
        let selected = jobs.iter().filter(|(case, _)| narrowed.contains(case));
        let mut side = JobsByCase::new();
        for (case, job) in selected {
            let common = narrowed.common_case(case, &word);
            let earlier = side.insert(common.id(), (common, job.clone()));
            if let Some((_, earlier)) = earlier {
                bail!(
                    "'::{}' matches '{}' and '{}', which would be one case\nhint: name one of them",
                    part.pattern(),
                    earlier.label,
                    job.label
                );
            }
        }
        ensure!(!side.is_empty(), part.explain_no_match(cases()));
        Ok(side)
    };
    let mut sides = parts.iter().map(side_of).collect::<anyhow::Result<Vec<JobsByCase>>>()?;
    pair_single_cases(&mut sides, &word);
    Ok(parts.iter().map(|(name, _)| name.clone()).zip(sides).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BenchmarkSource, SourceKind};
    use std::path::Path;

    /// Returns the names of the variants, then for each case its id and the labels of its jobs.
    fn divide(ids: &[&str], division: &CaseDivision) -> Result<Vec<String>, String> {
        let source = BenchmarkSource::new(
            SourceKind::Fake,
            Path::new("/s.fake"),
            Path::new("/"),
            Path::new("/"),
        );
        let job = |id: &&str| BenchmarkJob {
            case: Some(Case::parse(id).unwrap()),
            ..BenchmarkJob::new(source.clone(), id)
        };
        let mut suite = DiscoveredBenchmarks {
            jobs: ids.iter().map(job).collect(),
            ..DiscoveredBenchmarks::default()
        };
        let names = divide_cases(&mut suite, division).map_err(|error| error.to_string())?;
        let rows = suite.jobs.iter().map(|job| {
            let own = job.sides.iter().map(|(name, _)| job.for_variant(name).label.as_str());
            format!("{}: {}", job.label, own.collect::<Vec<_>>().join(", "))
        });
        Ok(std::iter::once(names.join(" ")).chain(rows).collect())
    }

    fn by(name: &str, values: &[&str]) -> CaseDivision {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        CaseDivision::Parameter { name: name.to_owned(), values }
    }

    fn parts(texts: &[&str]) -> CaseDivision {
        let part = |text: &&str| ((*text).to_owned(), BenchmarkPart::parse(text).unwrap());
        CaseDivision::Parts(texts.iter().map(part).collect())
    }

    #[test]
    fn values_and_benchmarks_become_variants() {
        let values = ["s impl=a n=1", "s impl=b n=1", "s impl=a n=2", "s impl=b n=2"];
        let both = ["s n=1: s impl=a n=1, s impl=b n=1", "s n=2: s impl=a n=2, s impl=b n=2"];
        let all = [&["a b"][..], &both[..]].concat();
        assert_eq!(divide(&values, &by("impl", &[])).unwrap(), all);
        assert_eq!(divide(&values, &parts(&["a", "b"])).unwrap(), all);
        assert_eq!(
            divide(&values, &by("n", &["2", "1"])).unwrap(),
            ["2 1", "s impl=a: s impl=a n=2, s impl=a n=1", "s impl=b: s impl=b n=2, s impl=b n=1"]
        );
        let names = ["f/loop n=1", "f/regex n=1", "f/regex n=2"];
        assert_eq!(
            divide(&names, &parts(&["regex", "loop"])).unwrap(),
            ["regex loop", "f n=1: f/regex n=1, f/loop n=1"]
        );
        assert_eq!(
            divide(&["f/small-sum", "f/total-of-large n=3"], &parts(&["small", "large"])).unwrap(),
            ["small large", "[small|large]: f/small-sum, f/total-of-large n=3"]
        );
    }

    #[test]
    fn a_division_that_leaves_nothing_to_compare_is_explained() {
        let values = ["s impl=a n=1", "s impl=b n=2"];
        for (division, text) in [
            (by("imp", &[]), "did you mean 'impl'?"),
            (by("impl", &["a"]), "the value 'a' of 'impl' alone cannot be compared"),
            (by("impl", &["a", "c"]), "no case has the value 'c' of 'impl'"),
            (by("impl", &[]), "nothing to compare: these benchmarks are not measured"),
            (parts(&["a", "x"]), "'::x' matches nothing; cases: impl=a n=1, impl=b n=2"),
        ] {
            let message = divide(&values, &division).unwrap_err();
            assert!(message.contains(text), "{message}");
        }
        let message = divide(&["f/a1", "f/a2", "f/b"], &parts(&["f/a.", "b"])).unwrap_err();
        assert!(message.contains("'::f/a.' matches 'f/a1' and 'f/a2'"), "{message}");
    }
}
