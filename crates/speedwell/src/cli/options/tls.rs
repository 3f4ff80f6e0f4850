//! How TLS is spoken. Names are those of curl.

use clap::Args;
use speedwell_load::load::{Identity, TlsOptions, Trust};
use std::path::PathBuf;

/// TLS options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Accept any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Trust the authorities in this file (PEM), and no others
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub cacert: Option<PathBuf>,
    /// The certificate to show to the server (PEM)
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Its private key (PEM) [default: in the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// The name in the handshake, against which the certificate is checked [default: the host]
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
}

impl TlsArgs {
    /// What was asked for.
    pub fn options(&self) -> TlsOptions {
        TlsOptions {
            trust: match (self.insecure, &self.cacert) {
                (true, _) => Trust::Anyone,
                (false, Some(file)) => Trust::Authority(file.clone()),
                (false, None) => Trust::System,
            },
            identity: self.cert.as_ref().map(|cert| Identity {
                certificates: cert.clone(),
                key: self.key.as_ref().unwrap_or(cert).clone(),
            }),
            server_name: self.sni.clone(),
        }
    }

    /// Whether anything was asked for.
    pub fn is_any(&self) -> bool {
        self.options() != TlsOptions::default()
    }
}
