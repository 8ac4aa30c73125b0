//! Lines on the terminal. The test runner captures what `println!` prints, but not what is written
//! here.

use std::io::{self, Write};

/// Prints a line at once.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "  {text}");
}

/// Reports that a test, or a named part of one, does not run here. `remedy` says what makes it run,
/// such as ``set KWCTL=… to run it``.
pub fn skipped(test: &str, remedy: &str) {
    let _ = writeln!(io::stderr(), "skipped: {test}: {remedy}");
}
