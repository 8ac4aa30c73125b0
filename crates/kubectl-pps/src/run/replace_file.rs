//! Writes a file whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Failure;

/// Says so if there is a file already.
pub(super) fn check_absent(file: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(file) {
        Ok(_) => Err(Failure::Refused(format!(
            "{} exists: name another file, or add --overwrite; nothing was written",
            file.display()
        ))),
        Err(_) => Ok(()),
    }
}

/// Writes a file that only its owner may read: recorded annotations may be internal. Whoever reads it meanwhile sees the
/// former content or all of the new one.
pub(super) fn write_file(file: &Path, text: &str, overwrite: bool) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Unreadable(format!("cannot write {}: {error}", file.display()));
    // In the same folder, since a file is renamed only within its file system.
    let mut name = file.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let written = create(&new, text).and_then(|()| publish(&new, file, overwrite));
    if written.is_err() {
        // What remains is of no use to anybody.
        let _ = fs::remove_file(&new);
    }
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !overwrite => check_absent(file),
        written => written.map_err(failed),
    }
}

fn create(new: &PathBuf, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn publish(new: &Path, file: &Path, overwrite: bool) -> io::Result<()> {
    if overwrite {
        return fs::rename(new, file);
    }
    // Unlike a rename, a link never replaces a file that somebody else has written meanwhile.
    match fs::hard_link(new, file) {
        Ok(()) => fs::remove_file(new),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // This file system has no links.
        Err(_) if fs::symlink_metadata(file).is_err() => fs::rename(new, file),
        Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kubectl-pps-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_is_replaced_only_if_wanted_and_nothing_else_remains() {
        let folder = folder("replace");
        let file = folder.join("states.yaml");
        write_file(&file, "one", false).unwrap();
        let refused = write_file(&file, "two", false).unwrap_err();
        assert!(refused.to_string().contains("exists: name another file"), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        write_file(&file, "three", true).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("mode");
        let file = folder.join("states.yaml");
        write_file(&file, "x", false).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error_that_names_the_file() {
        let error = write_file(Path::new("/nonexistent/states.yaml"), "x", false).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /nonexistent/states.yaml: "), "{error}");
    }
}
