//! Writes a file whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Failure;

/// What is at a path now.
enum Target {
    /// Nothing.
    Nothing,
    /// A regular file, here: links are followed.
    File(PathBuf),
    /// A terminal or a pipe, such as `/dev/stdout`. It is never replaced by a file.
    Stream,
}

/// Whether bytes are written to it one after the other. A disk is none: that would destroy what is on it.
#[cfg(unix)]
fn is_stream(found: fs::FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.is_char_device() || found.is_fifo()
}

#[cfg(not(unix))]
fn is_stream(_: fs::FileType) -> bool {
    true
}

impl Target {
    fn at(file: &Path) -> io::Result<Self> {
        match fs::metadata(file) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if found.is_file() => Ok(Self::File(fs::canonicalize(file)?)),
            Ok(found) if is_stream(found.file_type()) => Ok(Self::Stream),
            Ok(_) => Err(io::Error::other("it is neither a file nor a stream")),
            Err(_) if fs::symlink_metadata(file).is_ok() => {
                Err(io::Error::new(io::ErrorKind::NotFound, "it is a link to a file that does not exist"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Nothing),
            Err(error) => Err(error),
        }
    }
}

/// Says so if there is a file already, or if nothing can be written there.
pub(super) fn check_absent(file: &Path) -> Result<(), Failure> {
    match Target::at(file) {
        Ok(Target::File(_)) => Err(Failure::Refused(format!(
            "{} exists: name another file, or add --overwrite; nothing was written",
            file.display()
        ))),
        Ok(Target::Nothing | Target::Stream) => Ok(()),
        Err(error) => Err(cannot_write(file, &error)),
    }
}

/// Writes a file that only its owner may read: recorded annotations may be internal. Whoever reads it meanwhile sees the
/// former content or all of the new one.
pub(super) fn write_file(file: &Path, text: &str, overwrite: bool) -> Result<(), Failure> {
    let failed = |error: io::Error| cannot_write(file, &error);
    let file = &match Target::at(file).map_err(failed)? {
        Target::Stream => return write_through(file, text).map_err(failed),
        Target::File(found) => found,
        Target::Nothing => file.to_owned(),
    };
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

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    Failure::Unreadable(format!("cannot write {}: {error}", file.display()))
}

fn write_through(stream: &Path, text: &str) -> io::Result<()> {
    let mut stream = OpenOptions::new().write(true).open(stream)?;
    stream.write_all(text.as_bytes())?;
    stream.flush()
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

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let folder = folder("link");
        let (real, link) = (folder.join("real.yaml"), folder.join("link.yaml"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(write_file(&link, "new", false).unwrap_err().to_string().contains("exists"));
        write_file(&link, "new", true).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::remove_file(&real).unwrap();
        let error = write_file(&link, "new", true).unwrap_err().to_string();
        assert!(error.ends_with("it is a link to a file that does not exist"), "{error}");
        assert!(check_absent(&link).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_to_and_never_replaced() {
        use std::os::unix::fs::FileTypeExt;
        for overwrite in [false, true] {
            let error = write_file(Path::new("/dev/full"), "x", overwrite).unwrap_err().to_string();
            assert!(error.starts_with("cannot write /dev/full: "), "{error}");
        }
        check_absent(Path::new("/dev/null")).unwrap();
        write_file(Path::new("/dev/null"), "x", true).unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_neither_a_file_nor_a_stream_is_refused() {
        let folder = folder("socket");
        let socket = folder.join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for overwrite in [false, true] {
            let error = write_file(&socket, "x", overwrite).unwrap_err().to_string();
            assert!(error.ends_with("it is neither a file nor a stream"), "{error}");
        }
        assert!(check_absent(&socket).is_err());
        let error = write_file(&folder, "x", true).unwrap_err().to_string();
        assert!(error.starts_with("cannot write "), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error_that_names_the_file() {
        let error = write_file(Path::new("/nonexistent/states.yaml"), "x", false).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /nonexistent/states.yaml: "), "{error}");
    }
}
