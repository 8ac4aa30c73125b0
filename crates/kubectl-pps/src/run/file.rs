//! Files of the command line: reads objects, and writes a file whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pps_manifest::text::decode;
use pps_manifest::yaml::parse_up_to;
use serde_json::Value;

use crate::Failure;

/// The objects of a file of at most so many bytes, those of lists among them; `-` is standard input.
pub(super) fn objects(path: &Path, max_bytes: usize) -> Result<Vec<Value>, Failure> {
    let text = read(path, max_bytes)?;
    // JSON is YAML too. Unlike a JSON reader, this one refuses a key that is there twice.
    let documents = parse_up_to(&text, max_bytes).map_err(|error| {
        let (line, column) = (error.place.line, error.place.column);
        Failure::Usage(format!("{}:{line}:{column}: {}", name(path), error.message))
    })?;
    let mut objects = Vec::new();
    for mut document in documents.into_iter().map(|document| document.value) {
        match document.get_mut("items") {
            Some(Value::Array(items)) => objects.append(items),
            _ => objects.push(document),
        }
    }
    Ok(objects)
}

fn read(path: &Path, max_bytes: usize) -> Result<String, Failure> {
    let failure = |why: String| Failure::Unreadable(format!("{}: {why}", name(path)));
    let mut bytes = Vec::new();
    let limit = (max_bytes as u64).saturating_add(1);
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| failure(error.to_string()))?;
    if bytes.len() > max_bytes {
        return Err(failure(format!("it has more than {max_bytes} bytes: split it into several files")));
    }
    decode(&bytes).map_err(failure)
}

/// What a file is called in messages.
pub(super) fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

/// Where a file is written: links are followed. Fails if that is no regular file, or exists and may not be
/// replaced.
pub(super) fn target(file: &Path, overwrite: bool) -> Result<PathBuf, Failure> {
    match fs::metadata(file) {
        Ok(found) if !found.is_file() => {
            let text = format!("{} is no regular file: for standard output, leave out -f", file.display());
            Err(Failure::Refused(text))
        }
        Ok(_) if !overwrite => Err(exists(file)),
        Ok(_) => fs::canonicalize(file).map_err(|error| cannot_write(file, &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(file).is_err() => {
            Ok(file.to_owned())
        }
        Err(error) => Err(cannot_write(file, &error)),
    }
}

/// Writes a file that only its owner may read: recorded annotations may be internal. Readers see the former
/// content or all of the new one.
pub(super) fn write(file: &Path, text: &str, overwrite: bool) -> Result<(), Failure> {
    let file = &target(file, overwrite)?;
    // In the same folder, since a file is renamed only within its file system.
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let written = create(&new, text).and_then(|()| publish(&new, file, overwrite));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(file),
        _ => cannot_write(file, &error),
    })
}

fn exists(file: &Path) -> Failure {
    let text =
        format!("{} exists: name another file, or add --overwrite; nothing was written", file.display());
    Failure::Refused(text)
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    Failure::Unreadable(format!("cannot write {}: {error}", file.display()))
}

fn create(new: &Path, text: &str) -> io::Result<()> {
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
    // Unlike a rename, a link never replaces a file that another program has written meanwhile.
    match fs::hard_link(new, file) {
        Ok(()) => fs::remove_file(new),
        // This file system has no links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && fs::symlink_metadata(file).is_err() => {
            fs::rename(new, file)
        }
        Err(error) => Err(error),
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
    fn objects_of_lists_and_documents_are_read() {
        let folder = folder("objects");
        let file = folder.join("objects.yaml");
        for text in ["{\"items\": [{\"a\": 1}, {\"a\": 2}]}", "a: 1\n---\n---\nitems:\n- a: 2\n"] {
            fs::write(&file, text).unwrap();
            assert_eq!(objects(&file, 100).unwrap().len(), 2, "{text}");
        }
        fs::write(&file, "{\n\t\"items\": {\"a\": 1}, \"u\": \"\\ud83d\\ude00\\/\"\n}").unwrap();
        let whole = serde_json::json!({"items": {"a": 1}, "u": "\u{1f600}/"});
        assert_eq!(objects(&file, 100).unwrap(), [whole], "JSON with tabs, and items that are no list");
        for text in ["text", "7", "- 1", "a: 1"] {
            fs::write(&file, text).unwrap();
            let objects = objects(&file, 100).unwrap();
            assert!(objects.len() == 1 && objects[0].get("items").is_none(), "{text}");
        }
        fs::write(&file, "{\"a\": 1, \"a\": 2}").unwrap();
        assert!(objects(&file, 100).is_err(), "a key that is there twice");
        fs::write(&file, "a: 1\nb: 2\n").unwrap();
        assert!(objects(&file, 9).unwrap_err().to_string().contains("more than 9 bytes"));
        fs::write(&file, "a: 1\na: 2\n").unwrap();
        assert!(objects(&file, 100).unwrap_err().to_string().contains("objects.yaml:2:1: "));
        assert!(objects(&folder, 100).is_err() && objects(&folder.join("none"), 100).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_is_replaced_only_if_wanted_and_nothing_else_remains() {
        let folder = folder("replace");
        let file = folder.join("states.yaml");
        write(&file, "one", false).unwrap();
        let refused = write(&file, "two", false).unwrap_err();
        assert!(refused.to_string().contains("exists: name another file"), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        write(&file, "three", true).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(write(&folder.join("none/states.yaml"), "x", false).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_file_is_replaced_and_only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("link");
        let (real, link) = (folder.join("real.yaml"), folder.join("link.yaml"));
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(write(&link, "new", true).is_err(), "its file does not exist");
        fs::write(&real, "old").unwrap();
        assert!(write(&link, "new", false).is_err());
        write(&link, "new", true).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_device_or_a_folder_is_never_replaced() {
        for path in ["/dev/null", "/tmp"] {
            for overwrite in [false, true] {
                assert!(matches!(write(Path::new(path), "x", overwrite), Err(Failure::Refused(_))), "{path}");
            }
        }
    }
}
