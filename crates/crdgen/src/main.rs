//! Prints the `CustomResourceDefinition` of PersistentPodState as YAML.

use std::process::ExitCode;

fn main() -> ExitCode {
    match pps_crdgen::yaml() {
        Ok(yaml) => {
            print!("{yaml}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pps-crdgen: {error}");
            ExitCode::FAILURE
        }
    }
}
