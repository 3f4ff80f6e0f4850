//! One request before the load: is this the server that is meant, and does it answer well?

use super::{LoadJob, build, facts};
use anyhow::{Context, bail, ensure};
use speedwell_load::generator::{self, Probe, ProbeError};
use speedwell_load::load::Part;
use speedwell_load::outcomes::ErrorClass;
use speedwell_model::load_spec::LoadSpec;
use speedwell_process as process;

/// Redirects that are followed one after the other, as many as browsers do at least
/// (Fetch standard, HTTP-redirect fetch: 20).
const MOST_REDIRECTS: usize = 20;

/// Header fields that are meant for one host only.
const SECRETS: [&str; 2] = ["authorization", "cookie"];

/// An answer, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The answer.
    pub probe: Probe,
    /// Addresses that redirected, in order.
    pub redirected_from: Vec<String>,
}

/// Sends the first request of a job once, and follows redirects if the load says so. Gives the job for the last
/// address, and the answer there.
///
/// # Errors
/// There is no whole answer, or it is no success.
pub fn verify(mut job: LoadJob) -> anyhow::Result<(LoadJob, Seen)> {
    let mut redirected_from = Vec::new();
    loop {
        let probe = generator::probe(&job.load, process::interrupt_flag());
        let probe = probe.map_err(|error| unanswered(&job, error))?;
        let is_redirect = (300..400).contains(&probe.status) && probe.location.is_some();
        let to = probe
            .location
            .clone()
            .filter(|_| job.spec.location && is_redirect);
        let Some(to) = to else {
            ensure!(probe.is_success, no_success(&job, &probe));
            return Ok((
                job,
                Seen {
                    probe,
                    redirected_from,
                },
            ));
        };
        redirected_from.push(job.url.to_string());
        ensure!(
            redirected_from.len() <= MOST_REDIRECTS,
            "'{}' redirects more than {MOST_REDIRECTS} times",
            redirected_from[0]
        );
        job = follow(&job, &to)?;
    }
}

fn follow(job: &LoadJob, to: &str) -> anyhow::Result<LoadJob> {
    let url = job
        .url
        .join(to)
        .with_context(|| format!("'{}' redirects to '{to}'", job.url))?;
    let leaves = url.host != job.url.host;
    let names = job
        .load
        .kinds
        .entries()
        .iter()
        .flat_map(|kind| &kind.headers);
    let secret = names
        .map(|(name, _)| name)
        .find(|name| SECRETS.contains(&name.to_ascii_lowercase().as_str()));
    if let (true, Some(name)) = (leaves, secret) {
        bail!(
            "'{}' redirects to another host, '{url}', for which '{name}' was not meant\n\
             hint: load '{url}' itself",
            job.url
        );
    }
    let spec = LoadSpec {
        url: url.in_full(),
        ..job.spec.clone()
    };
    build::job(&spec, job.seed, Part::WHOLE)
}

fn unanswered(job: &LoadJob, error: ProbeError) -> anyhow::Error {
    let place: Vec<String> = job
        .load
        .target
        .addresses
        .iter()
        .map(facts::address)
        .collect();
    let hint = match &error {
        ProbeError::Failed(ErrorClass::ConnectRefused) => {
            "\nhint: is the server running? --serve CMD starts it"
        }
        ProbeError::Failed(ErrorClass::TlsVerify) => {
            "\nhint: --cacert FILE names an authority to trust; --insecure accepts any certificate"
        }
        ProbeError::Failed(ErrorClass::TlsHandshake) => {
            "\nhint: does it speak TLS? http:// does without"
        }
        ProbeError::Failed(ErrorClass::EofFirst | ErrorClass::ResetBeforeFirstByte)
            if !job.url.is_tls =>
        {
            "\nhint: does it expect TLS? https://"
        }
        ProbeError::Failed(ErrorClass::ProtocolStatusLine) => {
            "\nhint: does it speak HTTP/1.1? --http2 for HTTP/2, https:// for TLS"
        }
        _ => "",
    };
    let context = format!("no answer from '{}' ({}){hint}", job.url, place.join(", "));
    anyhow::Error::new(error).context(context)
}

fn no_success(job: &LoadJob, probe: &Probe) -> String {
    let status = probe.status;
    if job.load.success.admits(status) {
        return format!(
            "'{}' answered {status} with {} bytes of body, which is not what is expected\n\
             hint: --no-verify loads it anyway, and counts such answers as failed",
            job.url, probe.body_bytes
        );
    }
    let redirect = match &probe.location {
        Some(to) => format!("it redirects to '{to}': -L follows; "),
        None => String::new(),
    };
    format!(
        "'{}' answered {status}, which is no success\nhint: {redirect}--expect-status {status} counts \
         it as success, --no-verify loads it anyway",
        job.url
    )
}
