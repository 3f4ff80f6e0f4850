//! JSON of pytest-benchmark (`--benchmark-json`), with the time of every round.

use super::{Reported, seconds};
use crate::foreign::json::{self, Node};
use anyhow::{Result, ensure};

/// Reads the document of one process. A test is called what chooses it within its file.
///
/// # Errors
/// It is not JSON, or something is missing or of another type; the message names the place.
pub fn read(bytes: &[u8]) -> Result<Vec<Reported>> {
    let parsed = json::parse(bytes)?;
    Node::root(&parsed)
        .need("benchmarks")?
        .elements()?
        .iter()
        .map(benchmark)
        .collect()
}

fn benchmark(benchmark: &Node<'_>) -> Result<Reported> {
    let node = benchmark.need("fullname")?.text()?;
    let name = node.split_once("::").map_or(node, |(_, name)| name);
    let mut reported = Reported::new(Some(name.to_owned()));
    let stats = benchmark.need("stats")?;
    let iterations = stats.need("iterations")?;
    let count = iterations.number()?;
    ensure!(
        count >= 1.0,
        "'{}' is {count}, not a number of iterations",
        iterations.place()
    );
    for round in stats.need("data")?.elements()? {
        reported.add_node(&seconds(), &round, Some(count))?;
    }
    Ok(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_samples_and_tests_are_called_as_they_are_chosen() {
        let text = r#"{"benchmarks":[{"fullname":"tests/test_a.py::TestB::test_c[1-x]","stats":{"iterations":10,"data":[1e-6,2e-6]}}]}"#;
        let read = read(text.as_bytes()).unwrap().remove(0);
        assert_eq!(read.name.as_deref(), Some("TestB::test_c[1-x]"));
        let values: Vec<_> = (read.samples.iter())
            .map(|sample| (sample.value, sample.iterations, sample.elapsed_ns))
            .collect();
        assert_eq!(
            values,
            [
                (1000.0, Some(10.0), Some(10_000)),
                (2000.0, Some(10.0), Some(20_000))
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let told = |stats: &str| {
            let text = format!(r#"{{"benchmarks":[{{"fullname":"a::b","stats":{stats}}}]}}"#);
            read(text.as_bytes()).unwrap_err().to_string()
        };
        assert!(told(r#"{"iterations":1}"#).contains("data"));
        assert!(told(r#"{"iterations":0,"data":[]}"#).contains("not a number of iterations"));
        let nan = told(r#"{"iterations":1,"data":[NaN]}"#);
        assert_eq!(nan, "'benchmarks[0].stats.data[0]' is not a finite number");
        assert!(
            read(br#"{"benchmarks":["#)
                .unwrap_err()
                .to_string()
                .contains("cut short")
        );
        assert!(read(b"{} {}").is_err());
    }
}
