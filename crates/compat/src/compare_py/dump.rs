//! The comparison as JSON (`-d`), byte by byte as Python writes it.
//!
//! Decides names and order of members. A number that is not finite, or a change that is not
//! defined, is null: the original writes bare `NaN`, which is no JSON. Start at [`write`].

use super::python_number::shortest;
use super::table::GEOMEAN;
use crate::u_test_table::{Pair, Row, UTest, UTestTable};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io::{self, Write};

/// One element of the array.
#[derive(Serialize)]
struct Element<'e> {
    name: &'e str,
    label: &'e str,
    measurements: Vec<Measurement>,
    time_unit: &'e str,
    run_type: &'e str,
    aggregate_name: &'e str,
    utest: Test,
}

#[derive(Serialize)]
struct Measurement {
    real_time: f64,
    cpu_time: f64,
    real_time_other: f64,
    cpu_time_other: f64,
    time: Option<f64>,
    cpu: Option<f64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Test {
    None {},
    Done {
        have_optimal_repetitions: bool,
        cpu_pvalue: f64,
        time_pvalue: f64,
        nr_of_repetitions: usize,
        nr_of_repetitions_other: usize,
    },
}

impl From<&Pair> for Measurement {
    fn from(pair: &Pair) -> Measurement {
        Measurement {
            real_time: pair.baseline.real,
            cpu_time: pair.baseline.cpu,
            real_time_other: pair.candidate.real,
            cpu_time_other: pair.candidate.cpu,
            time: pair.change.real,
            cpu: pair.change.cpu,
        }
    }
}

impl From<Option<&UTest>> for Test {
    fn from(test: Option<&UTest>) -> Test {
        test.map_or(Test::None {}, |test| Test::Done {
            have_optimal_repetitions: test.is_reliable(),
            cpu_pvalue: test.p.cpu,
            time_pvalue: test.p.real,
            nr_of_repetitions: test.baseline_count,
            nr_of_repetitions_other: test.candidate_count,
        })
    }
}

fn element<'e>(row: &'e Row<'_>) -> Element<'e> {
    let first = row.first;
    let aggregate = first.aggregate_name.as_deref();
    Element {
        name: &first.name,
        label: first.label.as_deref().unwrap_or_default(),
        measurements: row.pairs.iter().map(Measurement::from).collect(),
        time_unit: row.unit,
        run_type: first.run_type.as_deref().unwrap_or_default(),
        aggregate_name: aggregate
            .filter(|_| first.is_aggregate())
            .unwrap_or_default(),
        utest: row.u_test.as_ref().into(),
    }
}

fn geomean<'e>(pair: &'e Pair) -> Element<'e> {
    Element {
        name: GEOMEAN,
        label: "",
        measurements: vec![pair.into()],
        time_unit: "s",
        run_type: "aggregate",
        aggregate_name: "geomean",
        utest: Test::None {},
    }
}

/// Writes all rows and the geometric means.
///
/// # Errors
/// The file cannot be written.
pub fn write(table: &UTestTable<'_>, out: &mut dyn Write) -> io::Result<()> {
    let elements = table.rows.iter().map(element);
    let elements = elements.chain(table.geomean.iter().map(geomean));
    let mut serializer = Serializer::with_formatter(&mut *out, Python::default());
    serde::Serializer::collect_seq(&mut serializer, elements)?;
    out.flush()
}

/// Layout and spelling of Python's `json.dump(..., indent=1)`.
struct Python(PrettyFormatter<'static>);

impl Default for Python {
    fn default() -> Python {
        Python(PrettyFormatter::with_indent(b" "))
    }
}

impl Formatter for Python {
    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, number: f64) -> io::Result<()> {
        out.write_all(shortest(number).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        for letter in text.chars() {
            match letter {
                ' '..='~' => out.write_all(&[letter as u8])?,
                _ => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}
