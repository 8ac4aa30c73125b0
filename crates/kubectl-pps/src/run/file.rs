//! Reads the files of a command line.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use pps_manifest::text::{MAX_BYTES, decode};

use crate::Failure;

/// The text of a file; `-` is standard input.
///
/// # Errors
///
/// If it cannot be read, is too large, or is no text.
pub fn read(path: &Path) -> Result<String, Failure> {
    read_up_to(path, MAX_BYTES)
}

/// The text of a file of at most so many bytes; `-` is standard input.
///
/// # Errors
///
/// If it cannot be read, is too large, or is no text.
pub fn read_up_to(path: &Path, max_bytes: usize) -> Result<String, Failure> {
    let name = name(path);
    let failure = |why: String| Failure::Unreadable(format!("{name}: {why}"));
    let mut bytes = Vec::new();
    let limit = (max_bytes as u64).saturating_add(1);
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else if path.is_dir() {
        return Err(failure("this is a directory: name the files in it".into()));
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
pub fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_and_a_missing_file_are_named() {
        let folder = std::env::temp_dir();
        let error = read(&folder).unwrap_err().to_string();
        assert!(error.ends_with("this is a directory: name the files in it"), "{error}");
        let error = read(&folder.join("no such file")).unwrap_err().to_string();
        assert!(error.contains("no such file: "), "{error}");
    }
}
