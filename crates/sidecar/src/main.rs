//! The program. All of it is in the library, which hack/link-test-sidecar.sh links statically as
//! well.

fn main() -> std::process::ExitCode {
    pps_sidecar::run::main()
}
