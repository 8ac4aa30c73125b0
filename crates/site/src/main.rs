//! Builds the documents as a static site. See `--help`.

use std::process::ExitCode;

use clap::Parser;
use pps_site::{Options, build};

fn main() -> ExitCode {
    match build(&Options::parse()) {
        Ok(report) => {
            println!(
                "{} pages, {} examples with a link to the playground",
                report.pages, report.examples
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
