//! The sidecar for the processor that this machine does not have: amd64 or arm64.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

/// The architecture of this machine, as images name it.
pub const NATIVE: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};
/// The other architecture.
pub const FOREIGN: &str = if cfg!(target_arch = "aarch64") {
    "amd64"
} else {
    "arm64"
};

/// The sidecar that `hack/build-release.sh` has built, if `PPS_FOREIGN_SIDECAR` names it.
pub fn sidecar_path() -> Option<PathBuf> {
    named("PPS_FOREIGN_SIDECAR")
}

/// The program that runs it on this machine, if `PPS_EMULATOR` names it.
pub fn emulator() -> Option<PathBuf> {
    named("PPS_EMULATOR")
}

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The foreign sidecar, or else a program that does nothing: enough for tests that only push and
/// read it.
pub fn sidecar_or_stand_in(folder: &Path) -> Result<PathBuf> {
    sidecar_path().map_or_else(|| stand_in(folder, FOREIGN), Ok)
}

/// A small static program for that processor. It does nothing: to compress the sidecar takes
/// seconds.
pub fn stand_in(folder: &Path, architecture: &str) -> Result<PathBuf> {
    let path = folder.join(format!("stand-in-{architecture}"));
    fs::write(&path, program(architecture)).with_context(|| path.display().to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// A static executable that ends at once, with exit code 0.
fn program(architecture: &str) -> Vec<u8> {
    const ADDRESS: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let (machine, code): (u16, &[u8]) = if architecture == "arm64" {
        // mov x0, #0; mov x8, #93; svc #0
        (
            183,
            &[
                0x00, 0x00, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4,
            ],
        )
    } else {
        // mov eax, 60; xor edi, edi; syscall
        (62, &[0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05])
    };
    let size = HEADERS + code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // An executable, with one segment and no sections.
    file.extend(2_u16.to_le_bytes());
    file.extend(machine.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend([ADDRESS + HEADERS, 64, 0].map(u64::to_le_bytes).concat());
    file.extend(0_u32.to_le_bytes());
    file.extend([64_u16, 56, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    // The segment holds the whole file, and can be read and executed.
    file.extend([1_u32, 5].map(u32::to_le_bytes).concat());
    file.extend(
        [0, ADDRESS, ADDRESS, size, size, 0x1000]
            .map(u64::to_le_bytes)
            .concat(),
    );
    file.extend(code);
    file
}

/// The architecture of a 64-bit Linux executable, by the number in its header.
pub fn architecture_of(executable: &[u8]) -> Result<&'static str> {
    ensure!(
        executable.starts_with(b"\x7fELF\x02\x01"),
        "not a 64-bit executable of Linux"
    );
    match executable.get(18..20) {
        Some([62, 0]) => Ok("amd64"),
        Some([183, 0]) => Ok("arm64"),
        other => anyhow::bail!("unknown machine {other:?}"),
    }
}
