//! How TLS is spoken. Names are those of curl.

use clap::Args;
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
