//! `version`: which version this is.

use serde_json::json;

use crate::args::Version;
use crate::print::{Terminal, for_programs};
use crate::{Failure, Outcome};

pub(super) fn run(args: Version, terminal: &Terminal) -> Result<Outcome, Failure> {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let answer = json!({"clientVersion": {"gitVersion": version, "platform": platform}});
    let text = for_programs(args.output.output, "Version", &answer);
    terminal.print(&text.unwrap_or_else(|| format!("Client Version: {version}\n")))?;
    Ok(Outcome::Well)
}
