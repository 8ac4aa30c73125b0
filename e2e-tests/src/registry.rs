//! An OCI registry: the server, the scripts that push to it, and an independent reader.

pub mod foreign;
pub mod program;
pub mod publish;
mod reader;
mod server;

pub use publish::Publisher;
pub use reader::{Descriptor, ImageConfig, Manifest, Platform, Reader, digest, media_type};
pub use server::{Content, Registry, RegistryOptions};
