//! Whether an executable runs in an image that holds nothing else.

use anyhow::{Context, Result, bail, ensure};
use object::{
    Endianness,
    elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PT_INTERP},
    read::elf::{Dyn, FileHeader, ProgramHeader},
};

/// The processors that there are images for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// As images call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust calls it.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }
}

/// For which processor it is, if it is a static executable.
pub(crate) fn check(binary: &[u8]) -> Result<Architecture> {
    ensure!(binary.starts_with(b"\x7fELF"), "this is no executable of Linux (ELF)");
    let broken = "this is no whole executable of Linux (ELF, 64 bits)";
    let header = FileHeader64::<Endianness>::parse(binary).context(broken)?;
    let endian = header.endian().context(broken)?;
    let architecture = match header.e_machine(endian) {
        EM_X86_64 => Architecture::Amd64,
        EM_AARCH64 => Architecture::Arm64,
        other => bail!("it is for a processor (ELF machine {other}) that is neither amd64 nor arm64"),
    };
    ensure!(matches!(header.e_type(endian), ET_EXEC | ET_DYN), "this is no executable, but a part of one");
    let way_out = "build it with hack/build-sidecar.sh";
    let segments = header.program_headers(endian, binary).context(broken)?;
    ensure!(!segments.is_empty(), broken);
    for segment in segments {
        ensure!(segment.p_type(endian) != PT_INTERP, "it is not static, it asks for a loader: {way_out}");
        let dynamic = segment.dynamic(endian, binary).context(broken)?.unwrap_or_default();
        let needs = dynamic.iter().any(|entry| entry.tag(endian) == DT_NEEDED);
        ensure!(!needs, "it is not static, it asks for shared libraries: {way_out}");
    }
    Ok(architecture)
}
