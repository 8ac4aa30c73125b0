//! Builds the documents as a static site. See `--help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pps_site::{Options, build};

/// Builds the documents as a static site.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The repository
    #[arg(long, default_value = ".")]
    source: PathBuf,
    /// The folder to write; its content is replaced
    #[arg(long, default_value = "target/site")]
    output: PathBuf,
    /// The folder with the finished playground
    #[arg(long)]
    playground: Option<PathBuf>,
    /// The repository on the Git host: links to files that the site does not have lead there
    #[arg(long, default_value = env!("CARGO_PKG_REPOSITORY"))]
    repository: String,
    /// The branch, tag or commit that these links name
    #[arg(long, default_value = "HEAD")]
    revision: String,
}

fn main() -> ExitCode {
    let Args { source, output, playground, repository, revision } = Args::parse();
    match build(&Options { source, output, playground, repository, revision }) {
        Ok(report) => {
            println!("{} pages, {} examples with a link to the playground", report.pages, report.examples);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
