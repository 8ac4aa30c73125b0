//! `pps-web bindgen` makes JavaScript for a WebAssembly module; `pps-web serve` shows a folder in
//! the browser.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use pps_web::{Server, bindgen};

/// Builds and shows the playground.
#[derive(Parser)]
enum Command {
    /// Writes a module, and the JavaScript and the types that go with it.
    Bindgen {
        /// The module, as the compiler wrote it.
        module: PathBuf,
        /// The folder to write to.
        folder: PathBuf,
    },
    /// Serves a folder to browsers on this machine until Ctrl-C.
    Serve {
        /// The folder.
        folder: PathBuf,
        /// The port.
        #[arg(long, default_value_t = 8080)]
        port: u16,
    },
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Bindgen { module, folder } => bindgen(&module, &folder),
        Command::Serve { folder, port } => {
            let server = Server::start(
                &folder,
                SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                |_| (),
            )?;
            #[expect(clippy::print_stdout, reason = "a program for people")]
            {
                println!(
                    "Open http://{}/ in a browser. Ctrl-C ends this.",
                    server.address()
                );
            }
            server.wait();
            Ok(())
        }
    }
}
