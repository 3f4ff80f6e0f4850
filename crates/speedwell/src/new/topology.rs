//! `speedwell new topology`: which processes should answer, and which should calculate?

use super::template::fill;
use super::written::{PlaceArgs, Written};
use clap::Args;

const TEMPLATE: &str = include_str!("templates/topology.toml");
const SERVER: &str = include_str!("templates/server.js");

/// Write an experiment: six ways to divide an HTTP server of Node.js into processes
#[derive(Debug, Clone, Args)]
pub struct TopologyArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// The definition file, and `server.js` beside it.
pub fn files(args: &TopologyArgs) -> Written {
    let file = args.place.file("topology.toml");
    let name = shell_words::quote(&file.to_string_lossy()).into_owned();
    let server = args.place.folder("topology.toml").join("server.js");
    Written {
        files: vec![
            (file.clone(), fill(TEMPLATE, &[("FILE", &name)])),
            (server, SERVER.to_owned()),
        ],
        target: file,
        // Six variants of it twice are a look already.
        shortened: &["--set", "requests=500"],
    }
}
