//! The machine-readable keys of tables, which programs depend on. Each line of the golden file has
//! the form `REPORT TABLE: KEY KEY ...` or `sort SUBJECT: KEY KEY ...`.
//!
//! `SPEEDWELL_UPDATE_GOLDEN=1 cargo test -p speedwell-report` rewrites the file; review the
//! difference before committing it.

use crate::*;
use speedwell_analysis::validity::{ValidityCheck, ValidityFinding};
use speedwell_analysis::{
    AnalysisFindings, CalibratedCase, CalibrationFindings, FactChange, FactDifference,
};
use speedwell_model::stored::{AuditEntry, StoredBenchmark, StoredCalibration, StoredToken};
use speedwell_model::{Case, Metric, MetricDirection, NoiseCalibration, SeriesKey};
use std::path::Path;
use std::sync::Arc;

/// Documents with every table that needs no measurement.
fn documents() -> Vec<Document> {
    let output = OutputOptions::default();
    let page = SessionsPage { sessions: &[], number: 1, all: 0, is_chosen: false };
    [store_documents(), machine_documents(&output)]
        .into_iter()
        .flatten()
        .chain([
            list_sessions(&page),
            report_live(&LiveState::default()),
            list_planned_cases(&[], false, None),
            report_trial(&trial(), &output),
            report_validity(&[ValidityFinding::amber(
                ValidityCheck::Impossible,
                String::new(),
                "",
            )]),
            report_outbox(&[]),
        ])
        .collect()
}

fn store_documents() -> Vec<Document> {
    let benchmark = StoredBenchmark {
        name: "g/a".into(),
        cases: 1,
        sessions: Some(1),
        newest: 1,
        ended_unix_ms: 0,
    };
    let difference =
        FactDifference { name: "kernel".into(), before: "6.1".into(), after: "6.8".into() };
    let change = FactChange { session: 1, difference };
    let metric = Metric { name: "time".into(), unit: "ns".into(), better: MetricDirection::Lower };
    let key = SeriesKey { case: "g/a".into(), variant: "default".into(), metric };
    let noisy = NoisySeries { key, before: 0.01, after: 0.05 };
    let calibration =
        StoredCalibration { host: None, cpu: None, found: NoiseCalibration::default() };
    let project = ServedProject {
        name: "p".into(),
        is_public: true,
        sessions: 0,
        bytes: None,
        forge: Some("https://example.org/p".into()),
    };
    vec![
        list_projects(&[]),
        list_benchmarks(&[benchmark]),
        list_cases("g/a", &[]),
        list_machines(&[], &|_| None),
        list_environment_changes(&[change]),
        list_noisy_series(&[noisy]),
        list_calibrations(&[calibration]),
        list_served_projects(&[project]),
        list_tokens(&[token()], 0),
        list_audit(&[AuditEntry::default()]),
        list_pulls(&[]),
    ]
}

fn machine_documents(output: &OutputOptions) -> Vec<Document> {
    let facts = FleetFacts {
        id: String::new(),
        class: String::new(),
        offset_ns: (0, 0),
        speed_probe_ns: [0, 0],
    };
    let checked = FleetLine { known: Some(facts), ..FleetLine::default() };
    let tuned = TunedMachine {
        holder: String::new(),
        left_ms: None,
        knobs: Vec::new(),
        settings: Vec::new(),
    };
    let calibrated = CalibrationFindings {
        cases: vec![CalibratedCase {
            case: Arc::new(Case::new("g/a", Vec::new())),
            comparisons: 0,
            false_alarms: 0,
            variation: None,
            autocorrelation: None,
            is_dependent: false,
            detectable: None,
        }],
        ..CalibrationFindings::default()
    };
    vec![
        list_fleet_machines(&[checked]),
        list_fleet_shards(&[]),
        list_fleet_roles(&[]),
        list_fleet_cleaned(&[]),
        report_knobs(&[], false, output),
        report_tuned(Some(&tuned)),
        report_checks(&[]),
        report_calibration(&calibrated, output),
        report_tuned_calibration(&[], "", [&calibrated, &calibrated], output),
        report_confirmation(&AnalysisFindings::default(), &|_, _| None, output),
    ]
}

fn token() -> StoredToken {
    StoredToken {
        id: "ab12".into(),
        digest: Vec::new(),
        name: "ci".into(),
        scopes: Vec::new(),
        project: None,
        branches: None,
        machines: None,
        created_unix_ms: 0,
        expires_unix_ms: None,
        used_unix_ms: None,
        revoked_unix_ms: None,
    }
}

fn trial() -> TrialOutcome {
    TrialOutcome {
        files: 1,
        working_files: 1,
        cases: 1,
        is_experiment: false,
        failures: Vec::new(),
    }
}

/// Every subject of a report, for the tables that show measurements.
const SUBJECTS: [ReportSubject; 15] = [
    ReportSubject::Runs,
    ReportSubject::Comparison,
    ReportSubject::Study,
    ReportSubject::Snippets,
    ReportSubject::Iterations,
    ReportSubject::SnippetSearch,
    ReportSubject::Warmup,
    ReportSubject::Bisection,
    ReportSubject::Confirmation,
    ReportSubject::Trend,
    ReportSubject::Changes,
    ReportSubject::Loads,
    ReportSubject::LoadLevels,
    ReportSubject::LoadRates,
    ReportSubject::Backfill,
];

#[test]
fn the_keys_of_tables_are_as_before() {
    let mut lines = Vec::new();
    for document in documents() {
        for table in document.tables() {
            let columns = table.for_machines().into_iter();
            let keys: Vec<&str> = columns.map(|column| table.columns[column].key).collect();
            lines.push(format!("{} {}: {}\n", document.report, table.name, keys.join(" ")));
        }
    }
    lines.extend(
        SUBJECTS
            .iter()
            .map(|&subject| format!("sort {subject:?}: {}\n", sort_keys(subject).join(" "))),
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/table-keys.txt");
    if std::env::var_os("SPEEDWELL_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, lines.concat()).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let expected: Vec<&str> = expected.split_inclusive('\n').collect();
    assert_eq!(lines, expected, "SPEEDWELL_UPDATE_GOLDEN=1 rewrites {}", path.display());
}
