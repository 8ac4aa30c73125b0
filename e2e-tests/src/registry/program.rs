//! Images of programs that were not built for images.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::scratch::Scratch;

/// A program that an image is made of.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its name at the root of the image, and the image's entry point.
    pub name: &'a str,
    /// The authorities that the system trusts: without any, some programs do not start.
    pub authorities: &'a Path,
}

impl Program<'_> {
    /// Pushes an image with the program and its libraries to a registry without TLS. It runs as
    /// an unprivileged user.
    pub fn push(&self, reference: &str) -> Result<()> {
        let work = Scratch::folder("image")?;
        let root = work.path().join("root");
        copy(self.path, &root.join(self.name))?;
        copy(
            self.authorities,
            &root.join("etc/ssl/certs/ca-certificates.crt"),
        )?;
        for library in libraries(self.path)? {
            copy(&library, &root.join(library.strip_prefix("/")?))?;
        }
        let name = self.name;
        fs::write(
            work.path().join("Dockerfile"),
            format!("FROM scratch\nCOPY root/ /\nUSER 65533:65533\nENTRYPOINT [\"/{name}\"]\n"),
        )?;
        let context = work.argument();
        let target = format!("docker://{reference}");
        let build = [
            "build",
            "--quiet",
            "--isolation",
            "chroot",
            "--tag",
            "image",
            &context,
        ];
        let push = ["push", "--quiet", "--tls-verify=false", "image", &target];
        run(buildah(work.path()).args(build))?;
        run(buildah(work.path()).args(push))
    }
}

/// buildah that keeps everything in a folder.
fn buildah(folder: &Path) -> Command {
    let mut command = Command::new("buildah");
    command
        .args(["--storage-driver", "vfs"])
        .arg("--root")
        .arg(folder.join("storage"))
        .arg("--runroot")
        .arg(folder.join("run"))
        .env_remove("DOCKER_CONFIG")
        .env_remove("REGISTRY_AUTH_FILE");
    command
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("no folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// The libraries of a program; none if it is static.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut ldd = Command::new("ldd");
    let output = ldd.arg(program).output().context("cannot run ldd")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        !printed.contains("not found"),
        "{}: {printed}",
        program.display()
    );
    // `libc.so.6 => /lib/…/libc.so.6 (0x…)`, or `/lib64/ld-linux-x86-64.so.2 (0x…)`.
    let words = printed.split_whitespace();
    let paths = words.filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
