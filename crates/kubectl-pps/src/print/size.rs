//! The size of the terminal.

/// The columns of the terminal, if the program has one and it tells them.
pub(super) fn columns() -> Option<usize> {
    reported().filter(|columns| *columns > 0).map(usize::from)
}

#[cfg(unix)]
fn reported() -> Option<u16> {
    use rustix::termios::{isatty, tcgetwinsize};
    fn of(stream: impl std::os::fd::AsFd) -> Option<u16> {
        Some(isatty(&stream).then(|| tcgetwinsize(&stream).ok()).flatten()?.ws_col)
    }
    of(std::io::stdout()).or_else(|| of(std::io::stderr())).or_else(|| of(std::io::stdin()))
}

#[cfg(not(unix))]
fn reported() -> Option<u16> {
    terminal_size::terminal_size().map(|(columns, _)| columns.0)
}
