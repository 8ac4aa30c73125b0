//! Checks that an executable can run in an image without any other file.

use anyhow::{Context, Result, bail, ensure};
use object::{
    Endianness,
    elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PT_INTERP},
    read::elf::{Dyn, FileHeader, ProgramHeader},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }
}

/// Returns the architecture of a static executable; fails for anything else.
pub(crate) fn check(binary: &[u8]) -> Result<Architecture> {
    ensure!(
        binary.starts_with(b"\x7fELF"),
        "not a Linux executable (ELF)"
    );
    let broken = "not a complete 64-bit Linux executable (ELF)";
    let header = FileHeader64::<Endianness>::parse(binary).context(broken)?;
    let endian = header.endian().context(broken)?;
    let architecture = match header.e_machine(endian) {
        EM_X86_64 => Architecture::Amd64,
        EM_AARCH64 => Architecture::Arm64,
        other => bail!("only amd64 and arm64 are supported, not ELF machine {other}"),
    };
    ensure!(
        matches!(header.e_type(endian), ET_EXEC | ET_DYN),
        "not an executable, but an object file"
    );
    let advice = "build it with hack/build-release.sh";
    let segments = header.program_headers(endian, binary).context(broken)?;
    ensure!(!segments.is_empty(), broken);
    for segment in segments {
        ensure!(
            segment.p_type(endian) != PT_INTERP,
            "not a static executable: {advice} (it requires a loader)"
        );
        let dynamic = segment
            .dynamic(endian, binary)
            .context(broken)?
            .unwrap_or_default();
        let needs = dynamic.iter().any(|entry| entry.tag(endian) == DT_NEEDED);
        ensure!(
            !needs,
            "not a static executable: {advice} (it requires shared libraries)"
        );
    }
    Ok(architecture)
}
